"""The type that fits: by a question's options, else by what most traces end in."""

import random

import pytest

from pets.answers.auto import Auto, choose_type, kinds_words, type_named
from pets.answers.choice import Choice
from pets.answers.number import Number
from pets.testing import check_answer_type

TRACES = {
    "number": ["The answer is 42.", r"So \boxed{41}", "The answer is 1,200 apples.", "Answer: -3", "The answer is 0.5"],
    "choice": ["The answer is (B).", "**C**", "Answer: A", r"\boxed{D}", "The answer is B."],
    "yesno": ["Yes, because it is prime.", "The answer is no.", "No.", "Reasons.\n\nThe answer is yes.", "yes"],
    "json": ['{"a": 1}', '```json\n{"a": 2}\n```', '{"b": [1]}', '{"a": 1}', "[1, 2]"],
    "math": [r"\boxed{\frac{1}{2}}", r"\boxed{x^2+1}", r"The answer is $\sqrt{2}$.", r"\boxed{3}", r"\boxed{2\pi}"],
    "text": ["The answer is Paris.", "It is London.", "The answer is Rome.", "Berlin", "The answer is Oslo."],
}


@pytest.mark.parametrize("name", TRACES)
def test_four_of_five_traces_decide_in_any_order(name):
    traces = [*TRACES[name], TRACES[name][0], TRACES[name][1], "I cannot say, sorry to disappoint you there."]
    assert choose_type("", traces) == name
    random.Random(1).shuffle(traces)
    assert choose_type("", traces) == name


def test_without_clear_evidence_it_is_text_and_without_any_nothing():
    assert choose_type("", [*TRACES["number"][:4], *TRACES["text"][:4]]) == "text"
    assert choose_type("", TRACES["number"][:1]) == "number"
    assert choose_type("", [*TRACES["number"][:2], "I am not sure."]) == "number"
    assert choose_type("", ["I am not sure.", ""]) is None


def test_one_odd_trace_makes_no_yes_or_no_of_an_open_question():
    assert choose_type("What is the capital?", ["Yes."]) == "text"
    assert choose_type("Is 7 prime?", ["Yes."]) == choose_type("What is true?", ["Yes.", "No."]) == "yesno"


def test_without_math_verify_formulas_are_text_and_that_is_said(monkeypatch):
    monkeypatch.setattr("pets.answers.auto.find_spec", lambda name: None)
    monkeypatch.setattr("pets.answers.auto.type_named", type_named.__wrapped__)  # which keeps what other tests made
    name = choose_type("", TRACES["math"])
    assert Auto(name).extract(r"\\boxed{Paris}") == "paris" and "math-verify" in kinds_words({name: 2})


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Which?\nA) one\nB) two\nC) three", 3),
        ("Which?\n(A) one\n(B) two", 2),
        ("Which is it: (A) one, (B) two or (C) three?", 3),
        ("Read:\nA. Smith wrote it.\n\nWhich?\nA. one\nB. two\nC. three\nD. four", 4),
        ("Who was A. Smith?", None),
        ("A) is a letter.", None),
        ("Solve:\nB) two\nC) three", None),
    ],
)
def test_a_question_that_lists_options_is_a_choice(question, options):
    settled = Auto("number").settled(question)
    assert settled == (Number() if options is None else Choice(options=options))


def test_a_declared_number_of_options_is_a_choice():
    assert Auto().settled("Which?", 4) == Choice(options=4)


@pytest.mark.parametrize("name", [None, *TRACES])
def test_laws(name):
    check_answer_type(Auto(name), ["42", "Paris", "paris.", "yes", '{"a": 1}', "(B)", ""])
