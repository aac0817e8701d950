"""A pool's curves: who is drawn, within which bounds, under which title; each the mean of the repetitions."""

import numpy as np

from pets.report.curves import draw_curves, series
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
