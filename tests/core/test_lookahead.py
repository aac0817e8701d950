"""The gain of a batch of traces against brute force over every outcome."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, betaln

from pets.core.lookahead import BATCHES, MAX_VOTES, batch_gains

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
