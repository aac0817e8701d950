"""The isotonic reading of levels, against brute force and by hand."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.lab.levels import RisingCurve


def best_rising_fit(values):
    """Least squares over every cut of the points into blocks whose means rise."""
    n, best = len(values), None
    for cuts in (cut for k in range(n) for cut in combinations(range(1, n), k)):
        blocks = np.split(np.array(values), cuts)
        means = [block.mean() for block in blocks]
        if all(low <= high for low, high in pairwise(means)):
            fit = np.concatenate([np.full(block.size, mean) for block, mean in zip(blocks, means, strict=True)])
            loss = ((fit - values) ** 2).sum()
            if best is None or loss < best[0]:
                best = loss, fit
    return best[1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=7))
def test_blocks_are_the_least_squares_rising_fit(counts):
    values = np.array(counts) / 20
    curve = RisingCurve.through(np.arange(len(values), dtype=float), values)
    sizes = np.diff(np.append(curve.starts, len(values)))
    assert np.repeat(curve.consistency, sizes) == pytest.approx(best_rising_fit(values))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=9), st.floats(0.01, 1.0))
def test_shares_cost_what_the_curve_says(counts, level):
    rng = np.random.default_rng(len(counts))
    traces, values = rng.permutation(len(counts)) * 1.0, np.array(counts) / 20
    curve = RisingCurve.through(traces, values)
    shares = curve.shares_at(level)
    if shares is None:
        assert np.isnan(curve.traces_at(level)) and level > curve.consistency[-1]
    else:
        assert shares.min() >= 0 and shares.sum() == pytest.approx(1.0)
        assert traces @ shares == pytest.approx(curve.traces_at(level), abs=1e-6)


def test_a_lucky_point_is_pooled_with_those_that_take_it_back():
    curve = RisingCurve.through(np.arange(6.0), np.array([0.0, 0.5, 0.9, 0.7, 0.8, 1.0]))
    assert curve.traces_at(0.8) == pytest.approx(3.0)  # the first passage is at 1.75


def test_a_curve_that_has_arrived_counts_from_its_first_point():
    curve = RisingCurve.through(np.arange(5.0), np.array([0.0, 0.5, 1.0, 1.0, 1.0]))
    assert curve.traces_at(1.0) == pytest.approx(2.0) and curve.traces_at(0.75) == pytest.approx(1.5)
    assert np.isnan(RisingCurve.through(np.arange(2.0), np.array([0.0, 0.9])).traces_at(0.95))
