"""Question by question: tables add up to the curves, and resamples are shared."""

import numpy as np
import pytest

from pets.lab import mean_curve, replay, traces_at_mean
from pets.lab.resampling import question_table, resampled_levels, resampled_weights, spaced_points

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
