"""Numbers are read exactly, in figures and in words, and what is too long to be meant is none."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.rational import in_words, number_at, plain

BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
ONES = BELOW_TWENTY.split()
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def read(text):
    """The value of a text that is one number and nothing else."""
    bare = plain(text)
    result = number_at(bare, 0)
    return result[0] if result and result[1] == len(bare) else None


@given(st.fractions())
def test_what_is_shown_is_read_back(value):
    assert read(str(value)) == value


@given(st.integers(-(10**40), 10**40))
def test_grouped_digits_are_the_same_number(value):
    assert read(f"{value:,}") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2½", Fraction(5, 2)),
        (r"1\,234.50", Fraction(2469, 2)),
        (r"$\frac{\sqrt{4}}{2^{3}}$", Fraction(1, 4)),
        ("3 x 10^8", Fraction(3 * 10**8)),
        ("(1 + 2) * 3 - 4", Fraction(5)),
        ("1.234.567", Fraction(1234567)),
        ("15 m/s", None),
        ("7-8", None),
        ("2^{99999}", None),
        ("9" * 900 + "!", None),
        ("(" * 500 + "1" + ")" * 500, None),
        ("1^{" * 500 + "1", None),
        ("1e1001", None),
        ("9" * 4001, None),
        ("1/2/3", None),
    ],
)
def test_arithmetic_is_exact_and_the_endless_refused(text, value):
    assert read(text) == value


def spelled(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + (f"-{ONES[n % 10]}" if n % 10 else "")
    return f"{ONES[n // 100]} hundred" + (f" and {spelled(n % 100)}" if n % 100 else "")


def test_every_number_up_to_a_thousand_is_read():
    for n in range(1000):
        value = in_words(spelled(n))
        assert value is not None and value[0] == n, spelled(n)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("minus seven", -7),
        ("two thirds", Fraction(2, 3)),
        ("one and a half", Fraction(3, 2)),
        ("three million", 3_000_000),
    ],
)
def test_signs_fractions_and_magnitudes(text, value):
    assert in_words(text)[0] == value


@pytest.mark.parametrize("text", ["several", "twenty-third", "oneness", ""])
def test_what_is_no_number_is_none(text):
    assert in_words(text) is None
