"""Charts of a replayed pool: who is drawn, the sizes that the replay spent, the bins that are not empty."""

import numpy as np
import pytest

from pets.lab import ReplayConfig, read_answers, replay, traces_at_mean
from pets.lab.calibration import Certified, calibrate
from pets.lab.labelled import leader_share
from pets.report.charts import draw_clock, draw_curves, draw_difficulty, draw_reliability, series, spreads
from pets.report.style import drawn_svg


def policies(panel):
    return list(dict.fromkeys(row["label"] for row in panel["data"]["values"]))


def names(panel):
    """The names of the bounds in a panel."""
    layers = [layer for layer in panel["layer"] if layer["mark"]["type"] == "text"]
    return {layer["data"]["values"][0]["name"] for layer in layers}


def test_streams_have_a_row_of_their_own(pool_result):
    chart = draw_curves(pool_result)
    rows = chart["vconcat"]
    assert [policies(row["hconcat"][0]) for row in rows] == [
        ["uniform", "okg:prior=1", "asc", "dsc"],
        ["online_grid", "uniform"],
    ]
    assert chart["title"]["text"] == "How often the vote is the answer of all traces drawn"
    assert chart["title"]["subtitle"][0] == "toy: 14 questions, 16 traces each, 2 draws."
    assert "uniform" in drawn_svg(chart)


def test_a_stopping_rule_is_points_and_joins_none(pool_result):
    panel = draw_curves(pool_result)["vconcat"][0]["hconcat"][0]
    swept = {row["label"] for row in panel["data"]["values"] if row["swept"]}
    assert swept == {"asc", "dsc"}
    lines = [layer for layer in panel["layer"] if layer["mark"]["type"] in ("line", "area")]
    assert lines and all({"filter": "!datum.swept"} in layer["transform"] for layer in lines)


def test_accuracy_is_bounded_by_pass_at_1_and_the_full_vote(pool_result):
    panel = draw_curves(pool_result)["vconcat"][0]["hconcat"][1]
    full = f"vote of the full pool {pool_result.vote_accuracy:.1%}"
    assert names(panel) == {f"one trace (pass@1) {pool_result.pass_at_1:.1%}", full}
    low, high = panel["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low < pool_result.pass_at_1 < high and low < pool_result.vote_accuracy <= high


def test_without_gold_there_is_no_accuracy(without_gold):
    chart = draw_curves(without_gold)
    (panel,) = chart["vconcat"][0]["hconcat"]
    assert "the policy cannot draw" in chart["title"]["text"]
    assert names(panel) == {f"all traces of the policy's half {without_gold.ceiling.mean():.1%}"}


def test_a_curve_runs_from_one_trace_a_question_to_all_of_them(pool_result):
    result = pool_result.result("okg:prior=1")
    line = series(result, result.consistency)
    assert not line.swept and line.traces[0] == 1 and line.traces[-1] == pool_result.size
    at = round(line.traces[7] * result.questions)
    both = result.agree[:, at] / result.questions
    reach = abs(np.subtract(*both)) / 2**0.5
    assert np.isclose(line.mean[7], both.mean())
    assert np.isclose(line.low[7], both.mean() - reach) and np.isclose(line.high[7], min(1.0, both.mean() + reach))


def test_a_sweep_has_every_value_cheapest_first(pool_result):
    result = pool_result.result("asc")
    line = series(result, result.accuracy)
    assert line.swept and len(line.traces) == len(result.values) and np.all(np.diff(line.traces) >= 0)
    assert np.isclose(line.mean.mean(), result.accuracy.mean())


def test_one_repetition_has_no_band(without_gold):
    result = without_gold.result("uniform")
    line = series(result, result.consistency)
    assert np.array_equal(line.low, line.mean) and np.array_equal(line.high, line.mean)


def test_a_curve_spends_what_its_mean_curve_needs(pool_result):
    by_label = spreads(pool_result)
    for policy in ("uniform", "okg:prior=1"):
        assert by_label[policy].mean() == pytest.approx(traces_at_mean(pool_result.result(policy), 0.99), abs=1 / 14)


def test_a_sweep_spends_what_its_cheapest_good_value_spent(pool_result):
    by_label = spreads(pool_result)
    for policy in ("asc", "dsc"):
        result = pool_result.result(policy)
        means = result.traces.mean(axis=0)[result.consistency.mean(axis=0) >= 0.99]
        assert by_label[policy].mean() == pytest.approx(means.min())


def test_streams_leave_training_questions_out(pool):
    (pool_result,) = replay([pool], ["online_grid"], config=ReplayConfig(1, 16, budgets=(16.0,)))
    (traces,) = spreads(pool_result).values()
    assert np.isnan(traces).sum() == 10
    assert np.nansum(traces) == pool_result.results[0].spent[0, 0]


def test_a_level_that_is_never_reached_is_said(pool):
    (pool_result,) = replay([pool], ["uniform", "online_grid"], config=ReplayConfig(1, 16, budgets=(4.0,)))
    chart = draw_difficulty(pool_result, read_answers(pool), level=1.0)
    assert spreads(pool_result, 1.0)["online_grid (stream)"] is None
    assert chart["concat"][1]["mark"]["text"] == "never gets there"


def test_every_question_is_a_dot_with_its_traces(pool, pool_result):
    uniform, *_ = draw_difficulty(pool_result, read_answers(pool))["concat"]
    dots = uniform["layer"][0]["data"]["values"]
    assert [dot["id"] for dot in dots] == [question.id for question in pool.questions]
    assert "Where the traces went" in drawn_svg(draw_difficulty(pool_result, read_answers(pool)))


def test_difficulty_is_the_leaders_share_of_the_votes(pool):
    question = read_answers(pool).questions[0]
    assert leader_share(question.labels) == max(map(question.labels.count, "ABC")) / len(question.labels)


@pytest.fixture(scope="module")
def certified(pool):
    return replay([pool], ["uniform", "okg", "asc"], config=ReplayConfig(2, 16, certified=(4.0, 8.0)))


def test_a_dot_a_bin_that_is_not_empty():
    right = np.array([True, True, False])
    calibration = calibrate([Certified("p", "okg", 4.0, np.array([0.95, 0.91, 0.15]), np.ones(3), right)])
    chart = draw_reliability({"okg": calibration}, "toy")
    rows = chart["data"]["values"]
    dots = [(row["certificate"], row["right"]) for row in rows if "right" in row]
    assert dots == [pytest.approx((0.15, 0.0)), pytest.approx((0.93, 1.0))]
    assert rows[0]["label"] == f"okg ({calibration.error:.3f})"
    assert [row["count"] for row in rows] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2]  # the last bin ends at 1
    assert "toy" in drawn_svg(chart)


def test_the_clock_has_a_line_of_hurries_and_a_point_for_one_setting(timed_pool):
    (result,) = replay([timed_pool], ["asc", "all:8"], clock=True, repetitions=2, size=12)
    chart = draw_clock(result)
    assert [row["at"] for row in chart["data"]["values"]] == [*(f"hurry {h:g}" for h in (0, 0.25, 0.5, 1, 2)), "rule 1"]
    assert "hurry" in drawn_svg(chart)
