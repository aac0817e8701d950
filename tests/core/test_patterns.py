"""Warm-up patterns against enumeration of every draw."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.patterns import K0, PATTERNS, bin_of, bins, pattern, soft_assignment

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
