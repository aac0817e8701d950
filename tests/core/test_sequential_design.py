"""The design of waves against plain recursion over every sequence of votes, and its limits: one wave, and many."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc, gammaln

from pets.core.sequential_design import Mixture, SequentialDesign

MIXTURES = [
    Mixture(2, (1.0,), (1.0,)),
    Mixture(2, (0.05, 0.8), (0.7, 0.3)),
    Mixture(3, (0.1, 1.0), (0.5, 0.5)),
]
PRICES = np.array([0.1, 0.02, 0.004])


class Plain:
    """The same by recursion over counts in a fixed order of the answers, nothing sorted, nothing shared."""

    def __init__(self, mixture, T):
        self.mixture, self.T = mixture, T

    def chances(self, counts):
        M, t = self.mixture.M, sum(counts)
        a, n = np.array(self.mixture.strengths), np.array(counts)[:, None]
        log = (gammaln(n + a) - gammaln(a)).sum(axis=0) + gammaln(M * a) - gammaln(M * a + t)
        weights = np.exp(log) * self.mixture.shares
        weights /= weights.sum()
        return ((n + a) / (t + M * a) * weights).sum(axis=1), weights

    @lru_cache  # noqa: B019 (as short-lived as its test)
    def doubts(self, counts):
        """P(answer m is not the vote in the end) for every m."""
        chances, weights = self.chances(counts)
        if sum(counts) == self.T:
            a = np.array(self.mixture.strengths)
            wins = [[betainc(k + a, n + a, 0.5) for k in counts] for n in counts]  # P(m beats k)
            sure = [np.prod([wins[m][k] for k in range(len(counts)) if k != m], axis=0) for m in range(len(counts))]
            return np.array([((1 - s) * weights).sum() for s in sure])
        return sum(p * self.doubts(self.after(counts, j)) for j, p in enumerate(chances))

    @staticmethod
    def after(counts, j):
        return (*counts[:j], counts[j] + 1, *counts[j + 1 :])

    def batch(self, counts, k, value):
        """E value after k votes."""
        if k == 0:
            return value(counts)
        chances, _ = self.chances(counts)
        return sum(p * self.batch(self.after(counts, j), k - 1, value) for j, p in enumerate(chances))

    def cost(self, counts, waves, price):
        """D_w."""
        if waves == 0:
            return self.doubts(counts)[int(np.argmax(counts))]
        room = self.T - sum(counts)
        return min(price * k + self.batch(counts, k, lambda n: self.cost(n, waves - 1, price)) for k in range(room + 1))

    def sequential(self, counts, price):
        """The best rule that looks after every vote."""
        stop = self.doubts(counts)[int(np.argmax(counts))]
        if sum(counts) == self.T:
            return stop
        return min(stop, price + self.batch(counts, 1, lambda n: self.sequential(n, price)))


def look(design, counts, prices, waves, ends):
    seen = tuple(n for n in sorted(counts, reverse=True) if n)
    return design.looks({sum(counts): design.rows([seen])}, prices, waves, ends)[sum(counts)]


@pytest.mark.parametrize("mixture", MIXTURES)
def test_doubts_are_those_of_every_continuation(mixture):
    design, plain = SequentialDesign(mixture, 6), Plain(mixture, 6)
    for counts in [(0, 0), (1, 0), (2, 1), (1, 1), (3, 1), (3, 3), (2, 0)]:
        padded = counts + (0,) * (mixture.M - 2)
        assert design.doubt([n for n in counts if n]) == pytest.approx(plain.doubts(padded)[0], rel=1e-9)


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("waves", [1, 2, 3])
def test_the_cost_of_waves_is_that_of_plain_recursion(mixture, waves):
    T = 5
    design, plain = SequentialDesign(mixture, T), Plain(mixture, T)
    for counts in [(0, 0), (1, 0), (1, 1), (2, 1)]:
        padded = counts + (0,) * (mixture.M - 2)
        best = look(design, counts, PRICES, waves, range(1, T + 1)).cost[0].min(axis=0)
        expected = [plain.cost(padded, waves, price) for price in PRICES]
        assert best == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mixture", MIXTURES)
def test_with_a_wave_for_every_vote_it_is_the_sequential_optimum(mixture):
    T = 6
    best = look(SequentialDesign(mixture, T), (0, 0), PRICES, T, range(1, T + 1)).cost[0].min(axis=0)
    plain = Plain(mixture, T)
    assert best == pytest.approx([plain.sequential((0,) * mixture.M, price) for price in PRICES], rel=1e-9)


def test_one_wave_is_the_best_batch_without_feedback():
    mixture = MIXTURES[1]
    here, plain = look(SequentialDesign(mixture, 6), (1, 0), PRICES, 1, range(1, 7)), Plain(mixture, 6)
    doubts = [plain.batch((1, 0), k, lambda n: plain.doubts(n)[int(np.argmax(n))]) for k in range(6)]
    assert here.ends.tolist() == [1, 2, 3, 4, 5, 6]
    assert here.cost[0] == pytest.approx(np.array(doubts)[:, None] + np.arange(6)[:, None] * PRICES)
    assert here.votes[0] == pytest.approx(np.repeat(np.arange(6.0)[:, None], 3, axis=1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=0, max_size=3), st.floats(0.05, 2.0))
def test_more_waves_cost_no_more_and_the_spend_falls_with_the_price(counts, strength):
    design = SequentialDesign(Mixture(3, (strength,), (1.0,)), 32)
    prices = np.geomspace(0.3, 1e-4, 6)
    best = [look(design, counts, prices, waves, (4, 8, 16, 32)) for waves in (1, 2, 4)]
    costs = [here.cost[0].min(axis=0) for here in best]
    assert (np.diff(costs, axis=0) <= 1e-12).all()
    for here in best:
        spends = np.take_along_axis(here.votes[0], here.cost[0].argmin(axis=0)[None], axis=0)[0]
        assert (np.diff(spends) >= -1e-9).all()


def test_a_doubt_is_a_martingale_while_the_leader_stays():
    design = SequentialDesign(Mixture(3, (0.05, 0.5), (0.6, 0.4)), 24)
    here = look(design, (9, 2), np.zeros(1), 1, range(1, 25))
    held = here.ends - 11 < 7  # the rival cannot pass within so many votes
    assert here.cost[0, held, 0] == pytest.approx(np.full(held.sum(), design.doubt((9, 2))), rel=1e-9)
    assert here.cost[0, -1, 0] < design.doubt((9, 2))


def test_a_zone_leaves_less_doubt_and_two_answers_are_exact():
    mixture = Mixture(2, (1.0,), (1.0,))
    plain, zoned = SequentialDesign(mixture, 8), SequentialDesign(mixture, 8, zone=0.2)
    for counts in ((1,), (3, 2), (4, 4)):
        n = (*counts, 0)
        assert plain.doubt(counts) == pytest.approx(betainc(n[0] + 1, n[1] + 1, 0.5))
        assert zoned.doubt(counts) == pytest.approx(betainc(n[0] + 1, n[1] + 1, 0.4))
        assert zoned.doubt(counts) < plain.doubt(counts)


def test_more_answers_than_the_lattice_has_become_fewer_that_agree_as_often():
    wide = Mixture(8, (0.02, 0.2), (0.5, 0.5))
    narrow = wide.of_at_most(3)
    assert narrow.M == 3 and narrow.shares == wide.shares
    for a, b in zip(wide.strengths, narrow.strengths, strict=True):
        assert (1 + a) / (1 + 8 * a) == pytest.approx((1 + b) / (1 + 3 * b))
    assert wide.of_at_most(8) is wide
