"""A pool's curves: who is drawn, within which bounds, under which title; each the mean of the repetitions."""

import numpy as np

from pets.report.curves import draw_curves, series
from pets.report.style import save

PNG = b"\x89PNG\r\n\x1a\n"


def test_streams_have_a_row_of_their_own(pool_result, tmp_path):
    figure = draw_curves(pool_result)
    assert len(figure.axes) == 4
    labels = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes[::2]]
    assert labels == [["uniform", "okg:prior=1", "asc", "dsc"], ["online_grid (stream)", "uniform (stream)"]]
    assert figure.get_suptitle().startswith(
        "toy: how often a vote is the vote of all traces drawn\n14 questions x 16 traces"
    )
    assert save(figure, tmp_path / "toy.png").read_bytes().startswith(PNG)


def test_accuracy_is_bounded_by_pass_at_1_and_the_full_vote(pool_result):
    axes = draw_curves(pool_result).axes[1]
    labels = {text.get_text() for text in axes.texts}
    assert labels == {f"pass@1 {pool_result.pass_at_1:.3f}", f"vote of the full pool {pool_result.vote_accuracy:.3f}"}
    low, high = axes.get_ylim()
    assert low < pool_result.pass_at_1 < high and low < pool_result.vote_accuracy < high


def test_without_gold_there_is_no_accuracy(without_gold):
    figure = draw_curves(without_gold)
    assert len(figure.axes) == 1 and "the policy cannot draw" in figure.get_suptitle()
    (ceiling,) = figure.axes[0].texts
    assert ceiling.get_text().endswith(f"{without_gold.ceiling.mean():.3f}")


def test_a_curve_runs_from_one_trace_a_question_to_all_of_them(pool_result):
    result = pool_result.result("okg:prior=1")
    line = series(result, result.consistency)
    assert not line.swept and line.traces[0] == 1 and line.traces[-1] == pool_result.size
    at = round(line.traces[7] * result.questions)
    both = result.agree[:, at] / result.questions
    assert np.isclose(line.mean[7], both.mean()) and np.isclose(line.deviation[7], abs(np.subtract(*both)) / 2**0.5)


def test_a_sweep_has_every_value_cheapest_first(pool_result):
    result = pool_result.result("asc")
    line = series(result, result.accuracy)
    assert line.swept and len(line.traces) == len(result.values) and np.all(np.diff(line.traces) >= 0)
    assert np.isclose(line.mean.mean(), result.accuracy.mean())


def test_streams_say_so_and_one_repetition_has_no_band(pool_result, without_gold):
    assert (
        series(pool_result.result("online_grid"), pool_result.result("online_grid").consistency).label
        == "online_grid (stream)"
    )
    result = without_gold.result("uniform")
    assert not series(result, result.consistency).deviation.any()
