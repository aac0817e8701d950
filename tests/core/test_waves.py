r"""Plans of waves: within the budget, the best for one wave, a price for more; equal shares for policies without one.

The design of waves against plain recursion over every sequence of votes, and its limits: one wave, and many.
"""

import math
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc, gammaln

from pets.core.tally import Tally
from pets.core.waves import Mixture, SequentialDesign, Wave, dealt_shares, fill_up, plan_wave

FLAT = Mixture(2, (1.0,), (1.0,))
LEARNED = Mixture(4, (0.02, 0.2, 1.0), (0.5, 0.3, 0.2))


def of(mixture):
    return lambda tally: mixture


def total(plan):
    return sum(map(sum, plan.values()))


@pytest.mark.parametrize("budget", [1, 3, 5, 8, 12])
def test_the_last_wave_is_as_good_as_any_allocation_of_the_budget(budget):
    """Exhaustive search over three questions; a step of an envelope may be left half-way, but no further."""
    tallies = [Tally((1,), options=2), Tally((2, 1), options=2), Tally((2, 2), options=2)]
    plan = plan_wave(of(FLAT), dict.fromkeys(tallies, 1), Wave(budget, 1, cap=12))
    design = SequentialDesign(FLAT, 12)

    def doubt(tally, k):
        t = tally.votes
        look = design.looks({t: design.rows([tally.counts])}, np.zeros(1), 1, range(1, 13))[t]
        return look.cost[0, look.ends.tolist().index(t + k), 0]

    table = {tally: [doubt(tally, k) for k in range(min(budget, 12 - tally.votes) + 1)] for tally in tallies}
    sizes = product(*(range(len(table[tally])) for tally in tallies))
    best = min(sum(table[q][k] for q, k in zip(tallies, ks, strict=True)) for ks in sizes if sum(ks) <= budget)
    reached = sum(table[tally][plan[tally][0]] for tally in tallies)
    assert total(plan) == budget and reached <= best + 0.02


def test_one_wave_without_data_gives_every_question_the_same():
    plan = plan_wave(of(LEARNED), {Tally(options=4): 10}, Wave(90, 1, cap=64))
    assert total(plan) == 90 and {min(sizes := plan[Tally(options=4)]), max(sizes)} <= {7, 8, 9, 10, 11}


def test_with_waves_to_come_the_first_leaves_something_for_them():
    first = [total(plan_wave(of(LEARNED), {Tally(options=4): 100}, Wave(900, left, 64))) for left in (1, 2, 4, 8)]
    assert first[0] == 900 > first[1] > first[2] > 0 and first[3] < 400


def test_clear_questions_get_nothing_and_equal_ones_the_same_or_nearly():
    close, clear, fresh = Tally((3, 3), options=4), Tally((9,), options=4), Tally(options=4)
    plan = plan_wave(of(LEARNED), {close: 5, clear: 5, fresh: 5}, Wave(80, 3, 64))
    assert plan[clear] == [0] * 5 and min(plan[close]) > 0 and min(plan[fresh]) > 0


def test_expected_spend_meets_the_budget():
    """Play the plan on questions drawn from the prior: what is left for the last wave is what the plan expected."""
    rng, spends = np.random.default_rng(0), []
    for _ in range(10):
        thetas = [rng.dirichlet([LEARNED.strengths[rng.choice(3, p=LEARNED.shares)]] * 4) for _ in range(60)]
        counts = [np.zeros(4, dtype=int) for _ in thetas]
        left = 480
        for waves in (4, 3, 2, 1):
            states = {}
            for n in counts:
                tally = Tally(tuple(sorted((int(v) for v in n if v), reverse=True)), options=4)
                states.setdefault(tally, []).append(n)
            plan = plan_wave(of(LEARNED), {tally: len(rows) for tally, rows in states.items()}, Wave(left, waves, 64))
            if waves == 1:
                spends.append(left)
            left -= total(plan)
            place = {id(n): theta for n, theta in zip(counts, thetas, strict=True)}
            for tally, rows in states.items():
                for n, size in zip(rows, plan[tally], strict=True):
                    n += rng.multinomial(size, place[id(n)])
        assert left == 0
    assert 20 < np.mean(spends) < 140  # neither starved nor flooded


STATES = st.dictionaries(
    st.builds(
        lambda counts, nulls, pending, options: Tally(tuple(sorted(counts, reverse=True)), nulls, pending, options),
        st.lists(st.one_of(st.integers(1, 9), st.integers(1, 300)), max_size=6),
        st.integers(0, 5),
        st.integers(0, 9),
        st.sampled_from([None, 2, 3, 4, 10]),
    ),
    st.integers(1, 20),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(STATES, st.integers(0, 600), st.integers(1, 12), st.sampled_from([None, 1, 7, 64, 400]))
def test_any_states_are_planned_within_budget_and_cap(states, budget, left, cap):
    def prior(tally):
        return Mixture(tally.options or 8, (0.02, 0.3, 1.6), (0.5, 0.3, 0.2))

    plan = plan_wave(prior, states, Wave(budget, left, cap))
    assert {tally: len(sizes) for tally, sizes in plan.items()} == states
    room = sum(many * max(0, (1 << 30 if cap is None else cap) - tally.launched) for tally, many in states.items())
    assert min(min(sizes) for sizes in plan.values()) >= 0 and total(plan) <= min(budget, room)
    for tally, sizes in plan.items():
        assert cap is None or max(sizes) <= max(0, cap - tally.launched)
    if left == 1:
        assert total(plan) == min(budget, room)


def test_what_is_in_flight_is_not_bought_again():
    idle, waiting = (Tally((2, 2), pending=p, options=4) for p in (0, 6))
    plan = plan_wave(of(LEARNED), {idle: 4, waiting: 4}, Wave(60, 2, 64))
    assert sum(plan[waiting]) < sum(plan[idle])


def test_questions_whose_traces_seldom_vote_get_fewer_votes_than_their_doubt_asks_for():
    votes, silent = Tally((1, 1), options=4), Tally((1, 1), nulls=12, options=4)
    plan = plan_wave(of(LEARNED), {votes: 4, silent: 4}, Wave(24, 2, 64))
    assert sum(plan[silent]) * 3 / 15 < sum(plan[votes])  # a fifth of them is expected to vote


def test_equal_shares_go_where_the_index_with_what_was_dealt_pending_is_highest():
    states = {Tally((3, 2)): 2, Tally((9,)): 1, Tally(): 1}
    plan = dealt_shares(lambda tally: -tally.launched, states, Wave(budget=30, left=3))
    assert plan == {Tally((3, 2)): [2, 2], Tally((9,)): [0], Tally(): [6]}


def test_equal_shares_keep_to_the_cap_and_leave_out_what_is_never_served():
    states = {Tally((3,)): 1, Tally((1, 1)): 1}
    plan = dealt_shares(lambda tally: -math.inf if tally.counts == (3,) else 1.0, states, Wave(99, 1, cap=6))
    assert plan == {Tally((3,)): [0], Tally((1, 1)): [4]}


def test_what_nobody_asks_for_goes_to_those_with_the_fewest_traces():
    many, few = Tally((10,), options=2), Tally((2,), options=2)
    assert fill_up({many: [0], few: [0, 0]}, 1, None) == {many: [0], few: [1, 0]}
    assert fill_up({many: [0], few: [0, 0]}, 18, 11) == {many: [1], few: [9, 8]}


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
