"""What is drawn is the mean of the repetitions, with their deviation."""

import numpy as np

from pets.report.series import series


def test_a_curve_runs_from_one_trace_a_question_to_all_of_them(found):
    result = found.result("okg:prior=1")
    line = series(result, result.consistency)
    assert not line.swept and line.traces[0] == 1 and line.traces[-1] == found.size
    at = round(line.traces[7] * result.questions)
    both = result.agree[:, at] / result.questions
    assert np.isclose(line.mean[7], both.mean()) and np.isclose(line.deviation[7], abs(np.subtract(*both)) / 2**0.5)


def test_a_sweep_has_every_value_cheapest_first(found):
    result = found.result("asc")
    line = series(result, result.accuracy)
    assert line.swept and len(line.traces) == len(result.values) and np.all(np.diff(line.traces) >= 0)
    assert np.isclose(line.mean.mean(), result.accuracy.mean())


def test_streams_say_so_and_one_repetition_has_no_band(found, without_gold):
    assert series(found.result("online_grid"), found.result("online_grid").consistency).label == "online_grid (stream)"
    result = without_gold.result("uniform")
    assert not series(result, result.consistency).deviation.any()
