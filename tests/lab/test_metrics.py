"""Metrics by hand, on curves and sweeps of two questions; the isotonic reading of levels against brute force.

Question by question: tables add up to the curves, and resamples are shared.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.lab import mean_curve, replay
from pets.lab.metrics import (
    RisingCurve,
    area,
    at_spend,
    question_table,
    reached,
    resampled_levels,
    resampled_weights,
    spaced_points,
    traces_at_mean,
)
from pets.lab.results import Result


def curve(*agree, questions=2, **changes):
    """An offline result: agreeing questions after 0, 1, 2, ... traces, one list a repetition."""
    counts = np.array(agree, dtype=np.uint8)
    fields = {
        "pool": "p", "policy": "okg", "setting": "offline", "option": None, "values": (), "questions": questions,
        "size": 2, "spent": None, "agree": counts, "good": counts, "correct": counts,
        "tokens": 10 * np.arange(counts.shape[1])
        + np.zeros_like(counts, dtype=np.uint16), "judged": np.full(len(agree), questions, dtype=float),
        "ceiling": np.ones(len(agree)), "good_ceiling": np.ones(len(agree)), "relative": False,
    }  # fmt: skip
    return Result(**{**fields, **changes})


def sweep(spent, agree, **changes):
    values = tuple(float(v) for v in range(len(spent[0])))
    return curve(*agree, setting="stopping", option="t", values=values, spent=np.array(spent), tokens=None, **changes)


def test_first_and_settled_differ_when_a_curve_falls_back():
    at = reached(curve([0, 1, 2, 1, 2], [0, 0, 0, 1, 1]), 1.0)
    assert at.first[0] == 1.0 and at.settled[0] == 2.0 and np.isnan(at.first[1]) and np.isnan(at.settled[1])
    assert at.first_tokens[0] == 10.0 and at.settled_tokens[0] == 20.0


def test_a_curve_that_is_always_there_settles_at_nothing():
    at = reached(curve([2, 2, 2]), 1.0)
    assert (at.first[0], at.settled[0]) == (0.0, 0.0)


def test_a_level_is_a_share_of_questions_whatever_floats_say():
    at = reached(curve([0, 94, 95], questions=100), 0.95)
    assert at.first[0] == 0.02


def test_with_disjoint_halves_a_level_is_a_share_of_the_ceiling():
    at = reached(curve([0, 1, 2], questions=4, ceiling=np.array([0.5]), relative=True), 1.0)
    assert at.first[0] == 0.5


def test_a_sweeps_points_are_taken_in_order_of_their_spend():
    at = reached(sweep([[8, 2, 4]], [[2, 1, 2]]), 1.0)
    assert at.first[0] == 2.0 and at.settled[0] == 2.0


def test_the_value_at_a_spend():
    offline, swept = curve([0, 1, 2, 1, 2]), sweep([[8, 2, 4]], [[2, 0, 1]])
    assert at_spend(offline, offline.consistency, np.array([1.5]))[0] == 0.5
    assert at_spend(swept, swept.consistency, np.array([1.5]))[0] == 0.25
    assert at_spend(swept, swept.consistency, np.array([9.0]))[0] == 1.0
    assert np.isnan(at_spend(swept, swept.consistency, np.array([0.5]))[0])
    assert np.isnan(at_spend(swept, swept.consistency, np.array([np.nan]))[0])


def test_area_is_the_mean_height():
    assert area(curve([0, 0, 2, 2, 2]))[0] == pytest.approx((0 + 0 + 0.5 + 1 + 0.5) / 4 + 0.125)
    assert area(sweep([[2]], [[2]]))[0] == pytest.approx(0.75)  # up to 1 trace per question, level to 2


def test_traces_at_mean_reads_the_rising_curve():
    assert traces_at_mean(curve([0, 1, 2, 2], [0, 0, 1, 2]), 0.75) == pytest.approx(1.0)
    assert traces_at_mean(curve([0, 2, 1, 2], questions=2), 0.75) == pytest.approx(0.75)  # luck at 0.5 is taken back
    assert np.isnan(traces_at_mean(curve([0, 1, 1]), 1.0))


def test_traces_at_mean_of_a_sweep_joins_its_points():
    swept = sweep([[2, 6, 8], [2, 6, 8]], [[0, 2, 2], [0, 2, 2]])
    assert traces_at_mean(swept, 0.5) == pytest.approx(2.0) and traces_at_mean(swept, 1.0) == pytest.approx(3.0)
    assert traces_at_mean(swept, 1.0, slice(0, None, 2)) == pytest.approx(3.0)


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


def test_a_lucky_point_is_pooled_with_those_that_take_it_back():
    curve = RisingCurve.through(np.arange(6.0), np.array([0.0, 0.5, 0.9, 0.7, 0.8, 1.0]))
    assert curve.traces_at(0.8) == pytest.approx(3.0)  # the first passage is at 1.75


def test_a_curve_that_has_arrived_counts_from_its_first_point():
    curve = RisingCurve.through(np.arange(5.0), np.array([0.0, 0.5, 1.0, 1.0, 1.0]))
    assert curve.traces_at(1.0) == pytest.approx(2.0) and curve.traces_at(0.75) == pytest.approx(1.5)
    assert np.isnan(RisingCurve.through(np.arange(2.0), np.array([0.0, 0.9])).traces_at(0.95))


POLICIES = ["okg", "asc", "price"]


@pytest.fixture(scope="module")
def pool_result(build):
    (result,) = replay([build("set.one", questions=15)], POLICIES, repetitions=4, size=12, train=4)
    return result


@pytest.mark.parametrize("policy", POLICIES)
def test_a_table_under_equal_weights_is_the_mean_curve(pool_result, policy):
    result = pool_result.result(policy)
    half, points = slice(1, None, 2), np.arange(result.agree.shape[1])
    table = question_table(result, points, half)
    curves = table.curves(np.ones((1, 15)))
    for values, mean in zip(curves, mean_curve(result, half), strict=True):
        assert values[0] == pytest.approx(mean)
    assert table.ceilings(np.ones((1, 15)))[0] == pytest.approx(result.ceiling[half].mean())


def test_by_zone_the_table_counts_good_verdicts(pool_result):
    result = pool_result.by_zone().result("okg")
    table = question_table(result, spaced_points(result))
    good = pool_result.result("okg").zone_consistency.mean(axis=0)
    assert table.curves(np.ones((1, 15)))[1][0] == pytest.approx(good)


def test_a_question_weighs_the_same_in_every_pool_of_its_data_set(build):
    one, two, other = replay(
        [build("set.one"), build("set.two", seed=1), build("else.one")], ["uniform"], repetitions=1, size=4
    )
    assert np.array_equal(resampled_weights(one), resampled_weights(two))
    assert not np.array_equal(resampled_weights(one), resampled_weights(other))
    assert resampled_weights(one).mean() == pytest.approx(1.0, abs=0.1)


def test_resampled_levels_lie_around_the_level(pool_result):
    result = pool_result.result("okg")
    levels = resampled_levels(pool_result, result, (0.8,))[:, 0]
    low, high = np.nanpercentile(levels, [2.5, 97.5])
    assert low <= traces_at_mean(result, 0.8) <= high


def test_a_long_curve_is_thinned_to_its_ends_and_points_between(build):
    (pool_result,) = replay([build(questions=40)], ["okg"], repetitions=1, size=24)
    points = spaced_points(pool_result.result("okg"))
    assert points[0] == 0 and points[-1] == 40 * 24 and 200 < points.size <= 600
