"""Which questions are open: a batch's are opened once, a stream's wait for the policy when nothing is in flight."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pets.answers.number import Number
from pets.engine import question as module
from pets.engine.question import OpenQuestions, chosen_for
from pets.types import Launch

from .conftest import asked


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4))))
def test_traces_in_flight_add_up_by_question_and_in_all(launches):
    questions = OpenQuestions(problems=asked("abc"))
    for id, traces in launches:
        questions.launched(questions.get(id), traces)
    assert questions.in_flight == sum(map(questions.in_flight_of, "abc")) == sum(traces for _, traces in launches)
    for id, traces in launches:
        questions.back(questions.get(id), traces)
    assert questions.in_flight == 0 == sum(map(questions.in_flight_of, "abc"))


def test_a_question_of_a_batch_is_opened_when_it_is_first_launched_and_not_again():
    questions = OpenQuestions(problems=asked("abc"))
    assert not questions.by_id and questions.ids == ["a", "b", "c"]
    question = questions.get("b")
    questions.launched(question, 1)
    questions.back(question)
    assert questions.get("b") is question and question.position == 1 and not questions.idle


def test_of_very_many_questions_those_at_rest_are_closed_and_keep_their_totals(monkeypatch):
    monkeypatch.setattr(module, "MAX_IDLE_QUESTIONS", 2)
    questions = OpenQuestions(problems=asked("abc"), keep="totals")
    for question in [questions.get(id) for id in "abc"]:
        questions.launched(question, 1)
        questions.back(question)
    assert len(questions.by_id) == 2
    assert all(questions.get(id).totals is questions.totals[id] for id in "abc")


def test_a_streams_question_is_idle_until_it_is_launched_and_when_it_is_back():
    questions = OpenQuestions()
    question = questions.make(asked("a")[0], 7)
    questions.open(question)
    assert questions.idle == {"a"} and question.position == 7
    questions.launched(question, 1)
    assert not questions.idle
    questions.back(question)
    assert questions.idle == {"a"}
    questions.close(question)
    assert not questions.idle and not questions.by_id


def test_launches_are_grouped_by_question_with_what_is_held_for_each():
    questions = OpenQuestions(problems=asked("ab"))
    launches = [(Launch("b", 3), 10), (Launch("a", 0), 20), (Launch("b", 4), 30)]
    assert [(question.id, numbers, holds) for question, numbers, holds in questions.group(launches)] == [
        ("b", range(3, 5), [10, 30]),
        ("a", range(1), [20]),
    ]


def test_a_type_that_was_chosen_reads_its_question_also_when_it_is_opened_again():
    problems = [replace(problem, answer_type="auto") for problem in asked("ab")]
    questions = OpenQuestions(problems=problems)
    first = questions.get("a")
    questions.choose(first, chosen_for(first.problem, ["The answer is 4."]))
    assert first.answer_type == Number() and questions.get("b").answer_type.chosen_from_traces
    questions.close(first)
    assert (questions.get("a").answer_type, questions.get("a").read_as) == (Number(), "number")
    assert questions.type_name(questions.problems[0]) == "number" and questions.type_name(problems[1]) == "auto"
