"""The gain and the length of a race against a walk over every path of its votes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc

from pets.core.first_passage import race_gains
from pets.core.lookahead import BATCHES, batch_gains
from pets.core.prior import STRENGTHS, LearnedPrior
from pets.core.tally import Tally

strengths = st.sampled_from([0.02, 0.3, 1.0, 2.5])


def walked(n1, n2, a, k, bar):
    """Gain and expected votes of one race of a pair, path by path: {(leader's, rival's votes): chance}."""

    def doubt(x, y):
        return float(betainc(max(x, y) + a, min(x, y) + a, bar))

    paths, gain, length = {(n1, n2): 1.0}, doubt(n1, n2), 0.0
    for t in range(1, k + 1):
        after: dict[tuple[int, int], float] = {}
        for (x, y), chance in paths.items():
            p = (x + a) / (x + y + 2 * a)
            for state, part in (((x + 1, y), p), ((x, y + 1), 1 - p)):
                after[state] = after.get(state, 0.0) + chance * part
        paths = {}
        for (x, y), chance in after.items():
            if (x - n1) - (y - n2) == 1 or t == k:
                gain -= chance * doubt(x, y)
                length += chance * t
            else:
                paths[(x, y)] = chance
    return gain, length


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), strengths, st.sampled_from([0.0, 0.05, 0.1, 0.3]))
def test_two_options_are_exact(n1, n2, a, zone):
    n1, n2 = max(n1, n2), min(n1, n2)
    counts = tuple(n for n in (n1, n2) if n)
    gains, traces = race_gains(counts, 2, (a,), zone)
    for race, k in enumerate(BATCHES.tolist()):
        gain, length = walked(n1, n2, a, k, (1 - zone) / 2)
        assert gains[0, race] == pytest.approx(gain, rel=1e-6, abs=1e-13)
        assert traces[0, race] == pytest.approx(length, rel=1e-9)


@given(st.lists(st.integers(1, 15), max_size=5), st.integers(0, 4), strengths, st.sampled_from([0.0, 0.1]))
def test_a_race_takes_at_least_a_trace_and_never_loses(counts, unseen, a, zone):
    counts = tuple(sorted(counts, reverse=True))
    gains, traces = race_gains(counts, max(2, len(counts) + unseen), (a,), zone)
    assert (gains >= 0).all() and (traces >= 1 - 1e-12).all()


def test_where_a_vote_can_end_it_a_race_gains_more_per_trace_than_any_batch():
    for counts in ((6, 1), (4, 1, 1), (9, 3)):
        batches, _ = batch_gains(counts, 4, (0.2,), 0.1)
        gains, traces = race_gains(counts, 4, (0.2,), 0.1)
        assert (gains / traces).max() > 2 * (batches[0] / BATCHES).max()


def test_a_question_of_one_option_has_nothing_to_race_for():
    gains, _ = race_gains((3,), 1, STRENGTHS, 0.1)
    assert not gains.any()


def fewest_traces(prior, level, index=None):
    """Mean traces for that share of good verdicts when going on while the index is over a price; ``None``: optimally.

    Two options, questions of the prior's own mix, 40 traces at most: exactly, backwards over all counts.
    """
    cap, a, log_prices = 40, np.array(STRENGTHS), np.linspace(-12, -2, 81)
    good, traces = {}, {}
    for t in range(cap, -1, -1):
        for x in range((t + 1) // 2, t + 1):
            tally = Tally(tuple(n for n in (x, t - x) if n), options=2)
            weights = prior.posterior(tally)
            verdict = float(weights @ (1 - betainc(x + a, t - x + a, 0.45)))
            if t == cap:
                good[x, t], traces[x, t] = np.full(log_prices.size, verdict), np.zeros(log_prices.size)
                continue
            p = float(weights @ ((x + a) / (t + 2 * a)))
            behind = max(x, t - x + 1)
            later, more = (p * table[x + 1, t + 1] + (1 - p) * table[behind, t + 1] for table in (good, traces))
            if index is None:
                stops = verdict >= later - np.exp(log_prices) * (1.0 + more) - 1e-12
            else:
                stops = index(tally) <= log_prices
            stops &= t > 0
            good[x, t], traces[x, t] = np.where(stops, verdict, later), np.where(stops, 0.0, 1.0 + more)
    order = np.argsort(traces[0, 0])
    return float(np.interp(level, np.maximum.accumulate(good[0, 0][order]), traces[0, 0][order]))


@pytest.mark.parametrize("level", [0.97, 0.98])
def test_the_zone_s_index_stops_almost_as_the_optimal_rule_does(level):
    """On a mix as GPQA has it."""
    prior = LearnedPrior(((0.1, 0.1, 0.1, 0.4, 0.25, 0.05),))
    least = fewest_traces(prior, level)
    assert fewest_traces(prior, level, lambda tally: prior.log_gain(tally, 0.1)) < 1.01 * least
