r"""The gain of a batch of traces against brute force over every outcome.

The gain and the length of a race against a walk over every path of its votes.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc, betaln

from pets.core.dirichlet import BATCHES, MAX_VOTES, batch_gains, race_gains
from pets.core.prior import STRENGTHS, LearnedPrior
from pets.core.tally import Tally

strengths = st.sampled_from([0.02, 0.3, 1.0, 2.5])


def gains_of(counts, K, a, zone=0.0):
    gains, log_scale = batch_gains(counts, K, (a,), zone)
    return gains[0] * math.exp(log_scale)


def brute(n1, n2, a, k, bar=0.5):
    """The doubt in the leader now, less its mean after k votes of Beta-binomial outcome."""

    def doubt(x, y):
        return float(betainc(max(x, y), min(x, y), bar))

    x, y = n1 + a, n2 + a
    chance = [math.comb(k, i) * math.exp(betaln(x + i, y + k - i) - betaln(x, y)) for i in range(k + 1)]
    return doubt(x, y) - math.fsum(p * doubt(x + i, y + k - i) for i, p in enumerate(chance))


@given(st.integers(0, 20), st.integers(0, 20), strengths)
def test_two_options_are_exact(n1, n2, a):
    counts = tuple(sorted((n for n in (n1, n2) if n), reverse=True))
    gains = gains_of(counts, 2, a)
    for k, gain in zip(BATCHES.tolist(), gains, strict=True):
        assert gain == pytest.approx(brute(max(n1, n2), min(n1, n2), a, k), rel=1e-6, abs=1e-13)


@given(st.integers(0, 20), st.integers(0, 20), strengths, st.sampled_from([0.05, 0.1, 0.3]))
def test_two_options_are_exact_with_a_zone(n1, n2, a, zone):
    counts = tuple(sorted((n for n in (n1, n2) if n), reverse=True))
    for k, gain in zip(BATCHES.tolist(), gains_of(counts, 2, a, zone), strict=True):
        assert gain == pytest.approx(brute(max(n1, n2), min(n1, n2), a, k, (1 - zone) / 2), rel=1e-6, abs=1e-13)


def test_a_rival_that_cannot_be_ahead_by_the_zone_is_no_doubt():
    """Twenty scattered singletons: none of them has a tenth of the votes."""
    scattered = (8, *[1] * 20)
    assert gains_of(scattered, 41, 0.01, 0.25).max() < 0.01 * gains_of(scattered, 41, 0.01).max()


@given(st.lists(st.integers(1, 15), max_size=5), st.integers(0, 4), strengths)
def test_gains_grow_with_the_batch_and_are_never_negative(counts, unseen, a):
    counts = tuple(sorted(counts, reverse=True))
    gains = gains_of(counts, max(2, len(counts) + unseen), a)
    assert (gains >= 0).all() and (np.diff(gains) >= -1e-12).all()


def test_rivals_add_up_and_share_the_traces():
    """Three options, the third all but out: the pair gets nearly every trace, so that the gain is nearly the pair's."""
    pair = gains_of((6, 5), 2, 0.001)
    three = gains_of((6, 5), 3, 0.001)
    np.testing.assert_allclose(three, pair, rtol=0.01, atol=1e-12)
    halved = gains_of((6, 5, 5), 3, 0.5)
    assert (halved[3:] > gains_of((6, 5), 2, 0.5)[3:] * 0.9).all()


def test_a_tiny_doubt_keeps_its_relative_accuracy():
    gains = gains_of((60,), 2, 1.0)
    assert 0 < gains[-1] < 1e-17
    assert gains[-1] == pytest.approx(brute(60, 0, 1.0, 48), rel=1e-6)


@pytest.mark.parametrize("counts", [(1000, 500), (3000, 300), (60, 2)])
def test_a_lead_that_no_batch_turns_falls_with_the_evidence(counts):
    """The paper's Delta over the square of the votes, far under any double too."""
    gains, log_scale = batch_gains(counts, 2, (1.0,))
    x, y = counts[0] + 1.0, counts[1] + 1.0
    step = -(x + y) * math.log(2.0) - math.log(x) - betaln(x, y)
    assert math.log(gains[0, 0]) + log_scale == pytest.approx(step - 2 * math.log(x + y), abs=1e-9)


@pytest.mark.parametrize("zone", [0.0, 0.1])
def test_beyond_the_tables_gains_are_summed_anew(zone):
    bar = (1 - zone) / 2
    for counts in [(140, 139), (300, 280), (129, 129)]:
        gains = gains_of(counts, 2, 1.0, zone)
        for k, gain in zip(BATCHES.tolist(), gains, strict=True):
            assert gain == pytest.approx(brute(*counts, 1.0, k, bar), rel=1e-5, abs=1e-7)


def test_large_counts_go_on_falling():
    best = [float((gains_of((n, n), 2, 1.0) / BATCHES).max()) for n in (MAX_VOTES, 2 * MAX_VOTES, 4 * MAX_VOTES)]
    assert best[0] > 1.4 * best[1] > 1.96 * best[2]  # as the square root of the votes


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
def test_races_of_two_options_are_exact(n1, n2, a, zone):
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


def test_a_zone_leaves_less_to_gain():
    assert (gains_of((5, 5), 2, 1.0, zone=0.1) < gains_of((5, 5), 2, 1.0)).all()
