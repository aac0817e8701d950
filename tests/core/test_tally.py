"""Votes: the tie rule, weights, the filter, missing confidences, the tally."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.tally import (
    K0,
    PATTERNS,
    Tally,
    add_vote,
    bin_of,
    bins,
    confidence_weights,
    count_votes,
    majority,
    pattern,
    soft_assignment,
    top_p,
    weighted_majority,
    weighted_votes,
    weights_by_answer,
)
from pets.errors import InputError

answers = st.lists(st.sampled_from(["A", "B", "C", None]), max_size=12)


@given(answers)
def test_majority_is_the_most_common_answer_and_the_first_launched_of_the_tied(path):
    counts = Counter(answer for answer in path if answer is not None)
    best = max(counts.values(), default=0)
    tied = {answer for answer, count in counts.items() if count == best}
    assert majority(path) == next((answer for answer in path if answer in tied), None)


@given(answers)
def test_weights_of_one_are_the_majority(path):
    assert weighted_majority(path, [1.0] * len(path)) == majority(path)


def test_nobody_voted_means_no_winner():
    assert majority([]) is None
    assert majority([None, None]) is None
    assert weighted_majority(["A", "B"], [0.0, 0.0]) is None


@given(st.lists(st.tuples(st.sampled_from("AB"), st.floats(0, 10)), min_size=1, max_size=20), st.floats(0.05, 1.0))
def test_top_p_keeps_the_heaviest_floor_p_n_and_at_least_one(traces, p):
    path, weights = zip(*traces, strict=True)
    filtered = top_p(path, weights, p)
    keep = max(1, int(p * len(path) + 1e-9))
    assert sorted(weights, reverse=True)[:keep] == sorted(filtered, reverse=True)[:keep]
    assert sum(weight > 0 for weight in filtered) <= keep


def test_top_p_breaks_ties_by_launch_and_ignores_traces_without_an_answer():
    assert top_p(["A", "B", "C", "D"], [1.0, 1.0, 1.0, 1.0], 0.5) == [1.0, 1.0, 0.0, 0.0]
    assert top_p([None, "B", "C"], [9.0, 1.0, 2.0], 0.5) == [0.0, 0.0, 2.0]


def test_seven_of_ten_survive_the_papers_filter():
    assert sum(weight > 0 for weight in top_p(["A"] * 10, [float(i) for i in range(1, 11)], 0.7)) == 7


def test_missing_confidence_is_a_declared_choice():
    with pytest.raises(InputError, match="trace 1 has no confidence"):
        confidence_weights([1.0, None])
    assert confidence_weights([2.0, None], "ignore") == [2.0, 0.0]
    assert confidence_weights([2.0, None], "unweighted") == [1.0, 1.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_confidences_that_are_no_numbers_are_refused(bad):
    with pytest.raises(InputError, match="finite and not negative"):
        confidence_weights([1.0, bad])
    with pytest.raises(InputError, match="finite and not negative"):
        weighted_votes(["A", "B"], [1.0, bad])


def test_lengths_must_agree():
    with pytest.raises(InputError, match="2 answers but 1 weights"):
        weighted_votes(["A", "B"], [1.0])


@given(answers, st.integers(0, 5))
def test_a_tally_adds_up(path, pending):
    tally = Tally.of(path, pending=pending)
    assert list(tally.counts) == sorted(Counter(a for a in path if a is not None).values(), reverse=True)
    assert tally.votes + tally.nulls == tally.returned == len(path)
    assert tally.launched == len(path) + pending


@pytest.mark.parametrize("counts", [(1, 2), (0,), (2, -1)])
def test_counts_that_do_not_descend_or_are_not_positive_are_refused(counts):
    with pytest.raises(InputError):
        Tally(counts)


@pytest.mark.parametrize("p", [0.0, 1.5, -1.0])
def test_a_filter_keeps_a_share(p):
    with pytest.raises(InputError, match="0 < p <= 1"):
        top_p(["A"], [1.0], p)


@given(st.lists(st.sampled_from("ABCDE"), max_size=60))
def test_counts_stay_sorted_under_any_votes(labels):
    votes, counts = Counter(), ()
    for label in labels:
        counts = add_vote(counts, votes[label])
        votes[label] += 1
        assert counts == tuple(sorted(votes.values(), reverse=True))


@given(st.lists(st.sampled_from(["A", "B", "C", None]), max_size=30))
def test_votes_and_no_answers_are_counted_apart(answers):
    counts, nulls = count_votes(answers)
    votes = Counter(answer for answer in answers if answer is not None)
    assert (list(counts), nulls) == (sorted(votes.values(), reverse=True), answers.count(None))


small_pools = st.tuples(st.lists(st.integers(0, 6), max_size=5).map(tuple), st.integers(0, 4)).filter(
    lambda pool: K0 <= sum(pool[0]) + pool[1] <= 16
)


@given(small_pools)
def test_soft_assignment_is_the_enumeration_of_all_draws(pool):
    counts, nulls = pool
    answers = [a for a, c in enumerate(counts) for _ in range(c)] + [f"null {i}" for i in range(nulls)]
    seen = Counter()
    for four in combinations(answers, K0):
        seen[PATTERNS.index(tuple(sorted(Counter(four).values(), reverse=True)))] += 1
    exact = [float(Fraction(seen[i], comb(len(answers), K0))) for i in range(5)]
    assert soft_assignment(counts, nulls).tolist() == exact


def test_soft_assignment_of_a_large_pool_is_the_multinomial_limit():
    theta = np.array([0.5, 0.3, 0.2])
    soft = soft_assignment((theta * 10**7).astype(int).tolist())
    assert soft.sum() == pytest.approx(1, abs=1e-15)
    assert soft[0] == pytest.approx(np.sum(theta**4), abs=1e-6)
    assert soft[1] == pytest.approx(4 * np.sum(theta**3 * (1 - theta)), abs=1e-6)
    assert soft[3] == pytest.approx(12 * np.prod(theta) * theta.sum(), abs=1e-6)
    assert soft[4] == 0


@pytest.mark.parametrize(
    ("counts", "nulls", "expected"),
    [((4,), 0, 0), ((0, 4), 0, 0), ((1, 3), 0, 1), ((3,), 1, 1), ((2, 2), 0, 2), ((2,), 2, 3),
     ((1, 2, 1), 0, 3), ((1, 1, 1, 1), 0, 4), ((1,), 3, 4), ((), 4, 4)],
)  # fmt: skip
def test_pattern_counts_each_null_as_a_singleton(counts, nulls, expected):
    assert pattern(counts, nulls) == expected


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_bins_follow_the_number_of_distinct_answers(K):
    grids = [bin_of(i, K) for i in range(5)]
    assert set(grids) == set(range(K)) and grids == sorted(grids)
    distinct = [len(p) for p in PATTERNS]
    for i, j in combinations(range(5), 2):
        assert (grids[i] == grids[j]) == (K < 5 and min(distinct[i], K) == min(distinct[j], K))
    assert (np.arange(5) @ bins(5)).tolist() == list(range(5))
    np.testing.assert_allclose((soft_assignment((5, 3, 2), 1) @ bins(K)).sum(), 1)


def test_the_weights_of_votes_stand_by_answer_in_the_order_of_first_launch():
    assert weights_by_answer(["B", "A", None, "B"], [1.0, 2.0, 9.0, 0.5]) == (("B", (1.0, 0.5)), ("A", (2.0,)))


def test_one_heavy_vote_outweighs_two_light_ones():
    assert weighted_majority(["A", "B", "B"], [5.0, 2.0, 2.0]) == "A"
