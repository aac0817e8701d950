"""The charts of a run: every question counts once, bars add up, and the run's own dot is where it is."""

import numpy as np

from pets.engine import Answer
from pets.report.budget_curves import BudgetCurves
from pets.report.look import colour_of, drawn_svg
from pets.report.run_charts import (
    agreement_classes,
    draw_accuracy,
    draw_budget,
    draw_certificates,
    draw_shares,
    draw_spending,
)

ANSWERS = [
    Answer("sure", "4", {"4": 4}, 1.0, traces=4, gold="4", right=True),
    Answer("unsure", "5", {"5": 3, "6": 2}, 0.55, traces=6, no_answer=1, gold="6", right=False),
    Answer("silent", traces=3, no_answer=3),
]


TRACES = np.arange(1.0, 17.0)
RISING = np.linspace(0.6, 0.95, 16)
UNIFORM = BudgetCurves(TRACES, RISING, RISING / 50, RISING - 0.2, RISING / 50)
RUN = BudgetCurves(TRACES[:5], RISING[:5], RISING[:5] / 50, None, None)


def test_the_run_is_a_line_and_a_dot_with_its_interval():
    chart = draw_budget("okg", "self-consistency", 5.0, (0.9, 0.8, 0.95), RUN, UNIFORM)
    rows = chart["data"]["values"]
    dots = [row for row in rows if row["swept"]]
    assert [(dot["label"], dot["traces"], dot["mean"], dot["low"], dot["high"]) for dot in dots] == [
        ("okg (this run)", 5.0, 0.9, 0.8, 0.95)
    ]
    assert sum(row["label"] == "okg (this run)" for row in rows) == 6
    drawing = drawn_svg(chart)
    assert "uniform (estimated)" in drawing and colour_of("okg") in drawing and colour_of("uniform") in drawing


def test_the_dot_at_the_end_is_shown_whole_with_its_whisker():
    chart = draw_budget("okg", "accuracy", 5.0, (0.5, 0.2, 0.97), None, UNIFORM)
    encoding = chart["layer"][1]["encoding"]
    low, high = encoding["y"]["scale"]["domain"]
    assert low < 0.2 and high > 0.97 and encoding["x"]["scale"]["domain"][1] > 5.0


def test_accuracy_of_equal_shares_ends_where_the_run_does():
    chart = draw_budget("asc", "accuracy", 4.5, (0.7, 0.6, 0.8), None, UNIFORM)
    rows = chart["data"]["values"]
    assert max(row["traces"] for row in rows if not row["swept"]) == 5.0
    assert [row["label"] for row in rows if row["swept"]] == ["asc (this run)"]


def test_a_dot_stands_for_all_questions_with_its_share_and_traces():
    twice = [*ANSWERS, Answer("sure too", "4", {"4": 4}, 1.0, traces=4)]
    chart = draw_spending("okg", twice, 17 / 4)
    dots = {(dot["share"], dot["traces"]): dot for dot in chart["layer"][0]["data"]["values"]}
    assert {place: dot["questions"] for place, dot in dots.items()} == {(1.0, 4): 2, (0.6, 6): 1}
    assert dots[1.0, 4]["ids"] == "sure, sure too" and "the mean" in drawn_svg(chart)


def test_every_question_and_every_trace_is_in_one_class():
    classes = agreement_classes(ANSWERS)
    assert classes == [("over 90 % agree", 1, 4), ("60 to 90 %", 1, 6), ("no vote", 1, 3)]
    rows = draw_shares("okg", ANSWERS)["data"]["values"]
    for of, total in (("of the questions", 3), ("of the traces", 13)):
        own = [row for row in rows if row["of"] == of]
        assert sum(row["count"] for row in own) == total
        assert [row["share"] for row in own] == [row["count"] / total for row in own]


def test_every_certificate_is_in_one_bin():
    rows = draw_certificates("okg", ANSWERS)["layer"][0]["data"]["values"]
    assert [row["questions"] for row in rows] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_accuracy_is_of_the_judged_alone():
    rows = draw_accuracy(ANSWERS)["data"]["values"]
    assert [(row["right"], row["questions"]) for row in rows] == [(0.0, 1), (1.0, 1)]


def test_a_bin_of_few_answers_is_faint():
    few = drawn_svg(draw_accuracy(ANSWERS))
    many = drawn_svg(draw_accuracy([ANSWERS[0]] * 30))
    assert 'opacity="0.3"' in few and 'opacity="0.3"' not in many
