"""Plain numbers are read exactly, and what is too long to be meant is none."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.rational import read, show


@given(st.fractions())
def test_what_is_shown_is_read_back(value):
    assert read(show(value)) == value


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
        (" " * 10_001 + "1", None),
        ("1/2/3", None),
    ],
)
def test_arithmetic_is_exact_and_the_endless_refused(text, value):
    assert read(text) == value
