"""Numbers in English words: every value up to a thousand, and what is no number."""

from fractions import Fraction

import pytest

from pets.answers.numerals import in_words

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


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
