"""The limit against every sequence of votes and every stopping rule of tiny pools, and against asc followed exactly."""

from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from benchmarks._wave_limit import frontier_in_waves, optimum_in_waves
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.policy import View
from pets.core.tally import Tally, majority
from pets.errors import InputError
from pets.lab import mean_curve, read_answers, replay
from pets.lab.limit import MAX_DESCENDING_STATES, MAX_STATES, Lattice, optimal_frontier, states_of, votes_alone
from pets.policies.asc import ASC
from pets.pools import Pool, PooledQuestion

POOL = [(9, 0), (9, 0), (8, 1), (6, 3), (5, 4)]
THREE = [(12,), (11, 1), (8, 4), (7, 3, 2), (5, 4, 3), (6, 6)]


def sequences(counts, size):
    """P(the votes come in this order), labels named in the order in which they appear."""
    chances = defaultdict(Fraction)
    for row in counts:
        labels = [m for m, c in enumerate(row) for _ in range(c)]
        orders = list(permutations(labels, size))
        for order in orders:
            names = {label: name for name, label in enumerate(dict.fromkeys(order))}
            chances[tuple(names[label] for label in order)] += Fraction(1, len(orders) * len(counts))
    return {order: float(chance) for order, chance in chances.items()}


def targets(order, zone):
    """The vote of all, or all answers that none leads by more than the zone."""
    votes = Counter(order)
    if not zone:
        return [int(majority([str(vote) for vote in order]))]
    return [answer for answer, n in votes.items() if max(votes.values()) - n <= zone * len(order) + 1e-9]


def prefixes(chances, size, zone=0.0):
    """Each prefix's chance, and its chance together with each target that it has seen."""
    weight, joint = Counter(), defaultdict(Counter)
    for order, chance in chances.items():
        for t in range(size + 1):
            weight[order[:t]] += chance
            for target in targets(order, zone):
                joint[order[:t]][target] += chance if target in order[:t] else 0.0
    return weight, joint


def brute_value(counts, size, price, zone=0.0):
    """The best expected agreement minus price x traces over rules that remember the whole sequence."""
    weight, joint = prefixes(sequences(counts, size), size, zone)

    @cache
    def value(prefix):
        here = max(joint[prefix].values()) if prefix else 0.0
        if len(prefix) == size:
            return here
        after = [(*prefix, m) for m in range(len(set(prefix)) + 1)]
        return max(here, -price * weight[prefix] + sum(value(longer) for longer in after if longer in weight))

    return value(())


FULL_COUNTS = st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(lambda counts: 3 <= sum(counts) <= 6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(FULL_COUNTS, min_size=1, max_size=4),
    st.integers(1, 5),
    st.floats(0.001, 0.4),
    st.sampled_from([0.0, 0.25, 0.5]),
)
def test_optimum_is_that_of_rules_that_remember_the_whole_sequence(counts, size, price, zone):
    size = min(size, *map(sum, counts))
    traces, consistency = Lattice.of(counts, size, zone).optimum([price])
    best = brute_value(counts, size, price, zone)
    assert consistency[0] - price * traces[0] == pytest.approx(best, abs=1e-9)


def brute_value_in_waves(counts, size, price, waves):
    """The same where traces are bought in so many batches at most."""
    weight, joint = prefixes(sequences(counts, size), size)

    @cache
    def value(prefix, left):
        here = max(joint[prefix].values()) if prefix else 0.0
        if left == 0:
            return here
        longer = ([p for p in weight if len(p) == end and p[: len(prefix)] == prefix] for end in range(size + 1))
        paid = [price * weight[prefix] * (end - len(prefix)) for end in range(size + 1)]
        batches = [sum(value(p, left - 1) for p in after) - cost for after, cost in zip(longer, paid, strict=True)]
        return max(here, *batches[len(prefix) + 1 :], here)

    return value((), waves)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(FULL_COUNTS, min_size=1, max_size=3), st.integers(1, 4), st.floats(0.001, 0.3), st.sampled_from([1, 2, 3])
)
def test_the_optimum_in_waves_is_that_of_plans_that_remember_the_whole_sequence(counts, size, price, waves):
    size = min(size, *map(sum, counts))
    traces, consistency = optimum_in_waves(Lattice.of(counts, size), [price], waves)
    best = brute_value_in_waves(counts, size, price, waves)
    assert consistency[0] - price * traces[0] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("counts", "size"), [(POOL, 9), (THREE, 7)])
def test_more_waves_come_nearer_to_a_look_after_every_trace(counts, size):
    frontiers = [frontier_in_waves(counts, size, waves) for waves in (1, 2, 4, size, 0)]
    for level in (0.8, 0.9, 0.97):
        traces = [frontier.traces_at(level) for frontier in frontiers]
        assert traces == sorted(traces, reverse=True) and traces[-2] == pytest.approx(traces[-1], abs=1e-6)


def test_a_frontier_near_some_levels_is_the_whole_one_there():
    whole, near = (frontier_in_waves(THREE, 7, 2, levels=levels) for levels in (None, (0.9, 0.97)))
    assert near.traces.size < whole.traces.size
    for level in (0.9, 0.97):
        assert near.traces_at(level) == pytest.approx(whole.traces_at(level), rel=1e-3)


def test_every_stopping_rule_of_a_tiny_pool_is_under_the_frontier_and_its_corners_are_rules():
    counts, size = [(6, 0), (5, 1), (3, 3)], 4
    weight, joint = prefixes(sequences(counts, size), size)
    inner = [prefix for prefix in weight if len(prefix) < size]
    points = []
    for stops in product([False, True], repeat=len(inner)):
        stop = dict(zip(inner, stops, strict=True))

        def follow(prefix, stop=stop):
            if stop.get(prefix, True):
                return len(prefix) * weight[prefix], max(joint[prefix].values()) if prefix else 0.0
            after = [follow(longer) for m in range(2) if (longer := (*prefix, m)) in weight]
            return sum(traces for traces, _ in after), sum(agree for _, agree in after)

        points.append(follow(()))
    frontier = optimal_frontier(counts, size, tolerance=1e-10)
    assert all(agree <= consistency_at(frontier, traces) + 1e-9 for traces, agree in points)
    for corner in zip(frontier.traces, frontier.consistency, strict=True):
        assert min(abs(corner[0] - t) + abs(corner[1] - c) for t, c in points) < 1e-9


@pytest.mark.parametrize(("counts", "size"), [(POOL, 9), (POOL, 6), (THREE, 12), (THREE, 7)])
def test_frontier_rises_is_concave_and_ends_at_one(counts, size):
    frontier = optimal_frontier(counts, size)
    x, y = frontier.traces, frontier.consistency
    slopes = np.diff(y) / np.diff(x)
    assert (x[0], y[0]) == (0.0, 0.0) and (slopes > 0).all() and (np.diff(slopes) < 0).all()
    assert y[-1] == pytest.approx(1.0, abs=1e-12) and x[-1] <= size
    assert frontier.traces_at(1.0) == x[-1] and consistency_at(frontier, size) == y[-1]
    assert Lattice.of(counts, size).follow(lambda counts: False) == pytest.approx((size, 1.0))


@pytest.mark.parametrize(("counts", "size"), [(POOL, 9), (THREE, 12)])
def test_between_the_corners_no_price_finds_more_than_the_tolerance(counts, size):
    frontier, prices = optimal_frontier(counts, size, tolerance=1e-4), np.geomspace(1e-4, 1.0, 200)
    for traces, consistency in zip(*Lattice.of(counts, size).optimum(prices), strict=True):
        assert consistency <= consistency_at(frontier, traces) + 1e-4 + 1e-9


def consistency_at(frontier, traces):
    """The highest self-consistency for these mean traces per question."""
    return float(np.interp(traces, frontier.traces, frontier.consistency))


def asc(threshold, size):
    rule = ASC(threshold=threshold, cap=size)
    return lambda counts: rule.quota(Tally(counts), View()) == sum(counts)


@pytest.mark.parametrize(("counts", "size"), [(POOL, 9), (THREE, 12)])
@pytest.mark.parametrize("threshold", [0.6, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_asc_never_beats_it(counts, size, threshold):
    traces, consistency = Lattice.of(counts, size).follow(asc(threshold, size))
    assert consistency <= consistency_at(optimal_frontier(counts, size), traces) + 1e-6


def test_a_replay_agrees_with_a_rule_followed_exactly(build):
    """The lattice is the lab's config: the same draws, target and ties."""
    pool = build(questions=15, traces=10, nulls=0.0, seed=3)
    lattice = Lattice.of(votes_alone(read_answers(pool), 8)[0], 8)
    (pool_result,) = replay([pool], ["asc"], repetitions=400, size=8)
    result = pool_result.result("asc")
    exact = np.array([lattice.follow(asc(value, 8)) for value in result.values]).T
    error = np.array([result.traces.std(axis=0), result.consistency.std(axis=0)]) / np.sqrt(400)
    assert (np.abs(mean_curve(result) - exact) <= 4 * error + 1e-9).all()


def test_labels_their_order_and_unused_options_do_not_matter():
    first, second = Lattice.of([(5, 1), (4, 2)], 5), Lattice.of([(1, 5, 0), (0, 2, 4)], 5)
    np.testing.assert_allclose(first.optimum([0.01, 0.1]), second.optimum([0.01, 0.1]), rtol=1e-12)


def test_questions_may_have_different_numbers_of_traces():
    best = brute_value([(4, 0), (3, 3)], 4, 0.02)
    traces, consistency = Lattice.of([(4,), (3, 3)], 4).optimum([0.02])
    assert consistency[0] - 0.02 * traces[0] == pytest.approx(best, abs=1e-12)


def test_the_likeliest_answer_need_not_be_the_vote():
    """Of a sure 2:2 the answer launched first is the target, whoever leads after three."""
    third = Lattice.of([(2, 2)], 4).layers[3]
    behind = third.votes.tolist().index([1, 2])
    assert third.best[behind] == 1.0 and third.chances[behind].tolist() == [1.0, 0.0]


def test_traces_without_an_answer_are_left_out_and_counted():
    questions = (PooledQuestion("q", ("A", "A", "B", None)), PooledQuestion("r", ("A",) * 4))
    counts, traces_per_vote = votes_alone(read_answers(Pool("p", questions)), 4)
    assert counts == [(3, 1), (4,)] and traces_per_vote == pytest.approx((4 / 3 + 1) / 2)


def test_four_answers_and_64_traces_are_within_reach():
    frontier = optimal_frontier([(60, 4), (40, 20, 4), (30, 20, 10, 4)], 12, zone=0.1)
    assert frontier.traces_at(0.9) < optimal_frontier([(60, 4), (40, 20, 4), (30, 20, 10, 4)], 12).traces_at(0.9)
    assert states_of(4, 64) < MAX_STATES < states_of(5, 64)


def test_with_a_zone_five_answers_and_60_traces_are_within_reach():
    """Exams have five options: counts in descending order are a sixtieth of those in the order of first launch."""
    assert states_of(5, 60, ordered=False) < MAX_DESCENDING_STATES < states_of(5, 60) / 30


@given(st.integers(1, 4), st.integers(0, 7))
def test_descending_states_are_the_sorted_ones(answers, size):
    ordered = [c for t in range(size + 1) for c in product(range(size + 1), repeat=answers) if sum(c) == t]
    assert states_of(answers, size, ordered=False) == len({tuple(sorted(c)) for c in ordered})


def test_refusals():
    with pytest.raises(InputError, match="Ask for fewer traces"):
        optimal_frontier([(100, 10, 5, 5)], 100)
    with pytest.raises(InputError, match="add up to at least"):
        optimal_frontier([(5, 1), (3,)], 6)
    with pytest.raises(InputError, match="needs a question"):
        optimal_frontier([], 6)
    with pytest.raises(InputError, match="between 0 and 1"):
        optimal_frontier([(5, 1)], 6).traces_at(1.5)
