"""Questions and traces go into rows and come back equal."""

import pytest

from pets.confidence import Confidence
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import StoredTrace
from pets.store.rows import problem_of, question_row, storable, text_rows, trace_of, trace_row


@pytest.mark.parametrize(
    "prompt",
    [Prompt("2 + 2 ="), Prompt.chat("2 + 2?"), Prompt.chat("naïve ☃?", system="Be brief."), Prompt('[["user", "x"]]')],
)
def test_every_form_of_prompt_comes_back(prompt):
    problem = Problem("q", prompt, "number", "4", "easy", 4)
    assert problem_of(question_row(1, 3, problem)[1:]) == problem


@pytest.mark.parametrize("confidences", [None, Confidence(2.0, 3.0, 1.0, 1.5, 7)])
def test_a_trace_comes_back_without_its_text(confidences):
    trace = StoredTrace("q", 2, "4", "", "stop", 3, 8, confidences, "cut", 1, 0.5, 2, 1)
    _, question, number, answer, *rest = trace_row(1, trace)
    assert trace_of((3, question, number, answer, "", *rest)) == trace


def test_only_texts_that_are_there_have_a_row_and_all_are_utf_8():
    traces = [StoredTrace("q", 0), StoredTrace("q", 1, text="half \ud83d")]
    assert list(text_rows(1, traces)) == [(1, "q", 1, "half ?")]
    assert storable("☃") == "☃"
