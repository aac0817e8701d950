"""One letter, however dressed; never a letter of a word."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.choice import Choice
from pets.errors import InputError


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        ("C", "C"),
        ("(C)", "C"),
        ("c.", "C"),
        ("c", "C"),
        ("[C]", "C"),
        ("C)", "C"),
        ("**C**", "C"),
        ("$C$", "C"),
        ("**(C)** Cold", "C"),
        (r"\text{(C)} Cold atomic clouds", "C"),
        (r"\textbf{(B)}\ 3", "B"),
        (r"\boxed{C}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\mathrm{C}", "C"),
        ("Answer: C", "C"),
        ("The correct answer is (C).", "C"),
        ("Option C", "C"),
        ("C. A cold atom", "C"),
        ("C: cold", "C"),
        ("C, because it is cold", "C"),
        ("C - cold", "C"),
        ("A", "A"),
        ("Cold", None),
        ("A cat", None),
        ("I think so", None),
        ("e.g. this", None),
        ("U.S.", None),
        ("A or B", None),
        ("(A) and (B)", None),
        ("A, B", None),
        ("9", None),
        ("", None),
        ("()", None),
        ("...", None),
        ("É", None),
    ],
)
def test_canonical(answer, option):
    assert Choice().canonical(answer) == option


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("Let me see. The answer is C because A is wrong.", "C"),
        ("The answer is A because B is wrong.", "A"),
        ("The answer is A cat.", None),
        ("The answer is not C.", None),
        ("I compare all.\n\nSo I choose (D).", "D"),
        ("Between (A) and (B) I cannot decide.", None),
        (r"(A) looks right, but \boxed{B}", "B"),
        (r"(A) looks right, but \boxed{42}", None),
        ("**Answer: B**", "B"),
        ("The correct option is (B) Gold", "B"),
        ("<think>The answer is B</think>Answer: C", "C"),
        ("", None),
    ],
)
def test_extract(text, option):
    assert Choice().extract(text) == option


def test_options_bound_the_letters():
    assert [Choice(options=4).canonical(letter) for letter in "ADEZ"] == ["A", "D", None, None]
    assert Choice(options=4).extract("The answer is E.") is None
    for options in (0, 27, -1):
        with pytest.raises(InputError, match="1 to 26"):
            Choice(options=options)


@pytest.mark.parametrize("dress", ["{}", "({})", "[{}]", "{}.", "{})", "**{}**", "${}$", r"\boxed{{{}}}", "Answer: {}"])
def test_declared_digits_are_read_in_every_dress(dress):
    assert [Choice(digits="0-3").canonical(dress.format(digit)) for digit in "0349"] == ["0", "3", None, None]
    assert Choice(digits="0-3").extract(f"I count. The answer is {dress.format(2)}") == "2"


@pytest.mark.parametrize(
    "answer", ["1.5", "10", "1/2", "-1", "1, 2", "1 or 2", "(1) and (2)", "1 cat", "A", "(A)", "", "١"]
)
def test_a_digit_that_does_not_stand_alone_is_none(answer):
    assert Choice(digits="0-3").canonical(answer) is None
    assert Choice(digits="0-3").extract(f"The answer is {answer}") is None


@pytest.mark.parametrize("digits", ["", "01", "1-0", "1-1", "a-c", "0-10"])
def test_digits_are_a_range(digits):
    with pytest.raises(InputError, match="a range such as"):
        Choice(digits=digits)
    with pytest.raises(InputError, match="leave options=2 out"):
        Choice(options=2, digits="0-1")


@given(
    st.sampled_from(string.ascii_letters), st.sampled_from(["{}", "({})", "{}.", "**{}**", r"\text{{({})}}", " {} "])
)
def test_every_letter_in_every_dress(letter, dress):
    assert Choice().canonical(dress.format(letter)) == letter.upper()


@given(st.text(max_size=40))
def test_a_form_is_one_letter_and_final(text):
    for form in (Choice().canonical(text), Choice().extract(text)):
        assert form is None or (form in string.ascii_uppercase and len(form) == 1 and Choice().canonical(form) == form)
