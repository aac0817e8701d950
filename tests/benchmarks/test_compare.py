"""Chosen on even repetitions, scored on odd ones."""

import math

import numpy as np
import pytest
from benchmarks._compare import Comparison, against_itself, average_ratio, compare, holm, shares_at
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lab.conftest import make_pool

from pets.errors import InputError
from pets.lab import replay
from pets.lab.config import ReplayConfig
from pets.lab.metrics import RisingCurve
from pets.lab.results import PoolResult, Result

N = 100


def result(policy, spent, agree, values=()):
    """A result of four repetitions; ``spent`` and ``agree`` are one list a point, each an (even, odd) pair."""
    pair = [0, 1, 0, 1]
    counts = np.array([[point[r] for point in agree] for r in pair])
    spends = None if spent is None else np.array([[point[r] for point in spent] for r in pair])
    swept = ("stopping", "t", values) if values else ("offline", None, ())
    return Result(
        "p", policy, *swept, N, 64, spends, counts, counts, counts, None, np.full(4, N), np.ones(4), np.ones(4),
        relative=False,
    )  # fmt: skip


def pool(*results):
    nothing = np.zeros(4)
    return PoolResult("p", N, 64, "raw", None, ReplayConfig(4), None, None, nothing, nothing, results)


OURS = result("okg", None, [(min(t, 100), min(t, 100)) for t in range(200)])


def test_a_swept_rival_is_a_mixture_of_two_values():
    rival = result("asc", [(100, 110), (300, 330)], [(90, 91), (100, 97)], values=(0.9, 0.99))
    (comparison,) = compare([pool(OURS, rival)], "okg", ["asc"], level=0.95)
    assert (comparison.rival, comparison.values) == ("asc", (0.9, 0.99))
    assert comparison.spend == pytest.approx(0.95) and comparison.consistency == pytest.approx(0.95)
    assert comparison.rival_spend == pytest.approx(2.2) and comparison.rival_consistency == pytest.approx(0.94)
    assert comparison.ratio == pytest.approx(0.95 / 2.2)
    assert comparison.advantage == pytest.approx(0.06) and comparison.p_draws == 0.0  # no spread at all


def test_the_best_rival_is_chosen_where_it_is_not_scored():
    lucky = result("asc", [(100, 400)], [(96, 96)], values=(0.9,))
    steady = result("esc", [(200, 200)], [(96, 96)], values=(5,))
    (comparison,) = compare([pool(OURS, lucky, steady)], "okg", ["asc", "esc"], level=0.95)
    assert comparison.rival == "asc" and comparison.rival_spend == 4.0
    (swapped,) = compare([pool(OURS, lucky, steady)], "okg", ["asc", "esc"], level=0.95, parity=1)
    assert swapped.rival == "esc" and average_ratio([swapped]).mean == pytest.approx(0.95 / 2.0)


def test_a_rival_that_is_a_curve_is_given_a_spend():
    slow = result("uniform", None, [(min(t // 2, 100), min(t // 2, 100)) for t in range(210)])
    (comparison,) = compare([pool(OURS, slow)], "okg", ["uniform"], level=0.95)
    assert comparison.ratio == pytest.approx(0.5, abs=0.002) and comparison.values == ()


def test_nobody_who_never_arrives_is_compared():
    never = result("asc", [(100, 100)], [(50, 99)], values=(0.9,))
    (comparison,) = compare([pool(OURS, never)], "okg", ["asc"], level=0.95)
    assert (
        comparison.rival is None
        and comparison.ratio is None
        and comparison.spend == pytest.approx(0.95)
        and not comparison.significant
    )
    assert math.isnan(average_ratio([comparison]).mean)
    (comparison,) = compare([pool(never, OURS)], "asc", ["okg"], level=0.95)
    assert comparison.spend is None and comparison.rival == "okg" and comparison.ratio is None


def test_two_repetitions_are_too_few():
    few = PoolResult("p", N, 64, "raw", None, ReplayConfig(2), None, None, np.zeros(2), np.zeros(2), (OURS,))
    with pytest.raises(InputError, match="4 or more"):
        compare([few], "okg", [])


def test_holm_steps_down_and_never_falls():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.9]) == [1.0, 1.0] and holm([None]) == [None]


def test_data_sets_weigh_equally_and_ratios_average_geometrically():
    halves = [Comparison(f"aime.{k}", "aime", 0.99, "okg", ratio=0.5) for k in range(11)]
    double = Comparison("gpqa.x", "gpqa", 0.99, "okg", ratio=2.0)
    assert average_ratio([*halves, double]).mean == pytest.approx(1.0)


@pytest.fixture(scope="module")
def replayed():
    return replay([make_pool("set.toy", questions=40, nulls=0.0)], ["okg", "asc", "uniform"], repetitions=12, size=24)


def test_a_policy_against_itself_is_one(replayed):
    for comparison in compare(replayed, "okg", ["okg"], level=0.9):
        assert comparison.ratio == pytest.approx(1.0) and (comparison.low, comparison.high) == pytest.approx((1.0, 1.0))
        assert abs(comparison.advantage) < 0.005 and comparison.p_questions > 0.05
    null = average_ratio(against_itself(replayed, "okg", level=0.9))
    assert null.mean == pytest.approx(1.0, abs=0.05) and null.low < 1.0 < null.high


def test_intervals_and_tests_over_questions(replayed):
    (uniform,) = compare(replayed, "okg", ["uniform"], level=0.95)
    assert uniform.low <= uniform.ratio <= uniform.high < 1.0
    assert uniform.advantage > 0 and uniform.significant
    pooled = average_ratio([uniform])
    assert (pooled.low, pooled.high) == pytest.approx((uniform.low, uniform.high))


def test_zone_consistency_is_compared_in_the_same_way(replayed):
    (by_zone,) = compare([result.by_zone() for result in replayed], "okg", ["asc"], level=0.95)
    (plain,) = compare(replayed, "okg", ["asc"], level=0.95)
    assert by_zone.spend < plain.spend and by_zone.rival_spend < plain.rival_spend


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=2, max_size=9), st.floats(0.01, 1.0))
def test_shares_cost_what_the_curve_says(counts, level):
    rng = np.random.default_rng(len(counts))
    traces, values = rng.permutation(len(counts)) * 1.0, np.array(counts) / 20
    curve = RisingCurve.through(traces, values)
    shares = shares_at(curve, level)
    if shares is None:
        assert np.isnan(curve.traces_at(level)) and level > curve.consistency[-1]
    else:
        assert shares.min() >= 0 and shares.sum() == pytest.approx(1.0)
        assert traces @ shares == pytest.approx(curve.traces_at(level), abs=1e-6)
