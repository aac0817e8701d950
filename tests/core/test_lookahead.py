"""The gain of a batch of traces against brute force over every outcome."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, betaln

from pets.core.lookahead import BATCHES, MAX_VOTES, batch_gains

strengths = st.sampled_from([0.02, 0.3, 1.0, 2.5])


def brute(n1, n2, a, k):
    """The doubt in the leader now, less its mean after k votes of Beta-binomial outcome."""

    def doubt(x, y):
        return float(betainc(max(x, y), min(x, y), 0.5))

    x, y = n1 + a, n2 + a
    chance = [math.comb(k, i) * math.exp(betaln(x + i, y + k - i) - betaln(x, y)) for i in range(k + 1)]
    return doubt(x, y) - math.fsum(p * doubt(x + i, y + k - i) for i, p in enumerate(chance))


@given(st.integers(0, 20), st.integers(0, 20), strengths)
def test_two_options_are_exact(n1, n2, a):
    counts = tuple(sorted((n for n in (n1, n2) if n), reverse=True))
    gains = batch_gains(counts, 2, (a,))[0]
    for k, gain in zip(BATCHES.tolist(), gains, strict=True):
        assert gain == pytest.approx(brute(max(n1, n2), min(n1, n2), a, k), rel=1e-6, abs=1e-13)


@given(st.lists(st.integers(1, 15), max_size=5), st.integers(0, 4), strengths)
def test_gains_grow_with_the_batch_and_are_never_negative(counts, unseen, a):
    counts = tuple(sorted(counts, reverse=True))
    gains = batch_gains(counts, max(2, len(counts) + unseen), (a,))[0]
    assert (gains >= 0).all() and (np.diff(gains) >= -1e-15).all()


def test_rivals_add_up_and_share_the_traces():
    """Three options, the third all but out: the pair gets nearly every trace, so that the gain is nearly the pair's."""
    pair = batch_gains((6, 5), 2, (0.001,))[0]
    three = batch_gains((6, 5), 3, (0.001,))[0]
    np.testing.assert_allclose(three, pair, rtol=0.01, atol=1e-12)
    halved = batch_gains((6, 5, 5), 3, (0.5,))[0]
    assert (halved[3:] > batch_gains((6, 5), 2, (0.5,))[0][3:] * 0.9).all()


def test_a_tiny_doubt_keeps_its_relative_accuracy():
    gains = batch_gains((60,), 2, (1.0,))[0]
    assert 0 < gains[-1] < 1e-17
    assert gains[-1] == pytest.approx(brute(60, 0, 1.0, 48), rel=1e-6)


def test_large_counts_go_on_falling():
    best = [
        float((batch_gains((n, n), 2, (1.0,))[0] / BATCHES).max()) for n in (MAX_VOTES, 2 * MAX_VOTES, 4 * MAX_VOTES)
    ]
    assert best[0] > 1.5 * best[1] > 2.25 * best[2]
