"""The charts of a run: every question counts once, and the run's own dot is where it is."""

from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.engine import Answer
from pets.report.equal_shares import equal_shares
from pets.report.look import drawn_svg
from pets.report.run_charts import draw_accuracy, draw_budget, draw_certificates, draw_spending

ANSWERS = [
    Answer("sure", "4", {"4": 4}, 1.0, traces=4, gold="4", right=True),
    Answer("unsure", "5", {"5": 3, "6": 2}, 0.55, traces=6, no_answer=1, gold="6", right=False),
    Answer("silent", traces=3, no_answer=3),
]


def test_the_run_is_a_dot_with_its_interval():
    uniform = equal_shares([Tally((4, 1))] * 9, LearnedPrior(), most=16)
    chart = draw_budget("okg", 5.0, (0.9, 0.8, 0.95), uniform)
    dots = [layer["data"]["values"] for layer in chart["layer"] if "data" in layer]
    assert dots == [[{"label": "okg", "traces": 5.0, "mean": 0.9, "low": 0.8, "high": 0.95}]] * 2
    low, high = chart["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low <= 0.8 and high >= 0.95 and "uniform" in drawn_svg(chart)


def test_a_question_with_votes_is_a_dot_of_its_traces():
    chart = draw_spending("okg", ANSWERS, 13 / 3)
    dots = {dot["id"]: (dot["share"], dot["traces"]) for dot in chart["layer"][0]["data"]["values"]}
    assert dots == {"sure": (1.0, 4), "unsure": (0.6, 6)}
    assert "the mean" in drawn_svg(chart)


def test_every_certificate_is_in_one_bin():
    rows = draw_certificates("okg", ANSWERS)["data"]["values"]
    assert [row["questions"] for row in rows] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_accuracy_is_of_the_judged_alone():
    rows = draw_accuracy(ANSWERS)["data"]["values"]
    assert [(row["right"], row["questions"]) for row in rows] == [(0.0, 1), (1.0, 1)]
