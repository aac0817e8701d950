"""Every answer type, found through the registry, keeps the laws; and a broken one is caught."""

from dataclasses import dataclass

import pytest

from pets.answers.base import AnswerType
from pets.answers.choice import Choice
from pets.errors import SpecError
from pets.registry import answer_types, make_answer_type
from pets.testing import check_answer_type

SAMPLES = [
    "C", "(C)", r"\text{(C)} Cold", "c.", "D", "073", "73", "1,234", "0.5", "1/2", r"\frac12", "-0", "5%",
    r"2\sqrt{3}+1", r"1+2\sqrt{3}", r"(3,\frac{\pi}{2})", r"(3,\pi/2)", "05/01/2021", "East", "east", "...", "",
    "x=3", "y=3", "3", r"The answer is \boxed{\frac{1}{2}}.", "The answer is (C).", "So it is 73.",
    "40_9", "(-2,\\1)", "(-2,1)",
]  # fmt: skip


NAMED = {"regex": r"regex:[(](\w)[)]|(\d+)", "python": "python:textwrap:dedent"}


@pytest.mark.parametrize("name", sorted(answer_types()))
def test_every_answer_type_keeps_the_laws(name):
    check_answer_type(make_answer_type(NAMED.get(name, name)), SAMPLES)


@dataclass(frozen=True, slots=True)
class Broken(AnswerType):
    how: str = ""

    def canonical(self, answer: str) -> str | None:
        return {"growing": answer + "!", "empty": ""}.get(self.how, answer)

    def same(self, first: str, second: str) -> bool:
        return first == second or (self.how == "one-way" and first < second)

    def same_at_once(self, first: str, second: str) -> bool | None:
        return True if self.how == "hasty" else None


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (Broken("growing"), "not idempotent"),
        (Broken("empty"), "an empty answer"),
        (Broken("one-way"), "not symmetric"),
        (Broken("hasty"), "same_at_once differs"),
    ],
)
def test_a_broken_answer_type_is_caught(broken, law):
    with pytest.raises(AssertionError, match=law):
        check_answer_type(broken, ["a", "b"])


def test_specs():
    assert make_answer_type("choice:options=4") == Choice(options=4)
    assert make_answer_type("math:seconds=0.5").seconds == 0.5


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "nope",
            "there is no answer type 'nope'. Known: auto, choice, json, judge, math, number, python, ",
        ),
        ("choice:options=x", "options='x' is not an int. Options of choice: options=None, digits=None."),
        ("choice:options=30", "1 to 26 options"),
        ("math:seconds=0", "more than 0"),
        ("text:x=1", "text has no options"),
    ],
)
def test_a_bad_spec_is_one_clear_line(spec, message):
    with pytest.raises(SpecError) as error:
        make_answer_type(spec)
    assert message in str(error.value) and "\n" not in str(error.value)
