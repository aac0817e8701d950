"""Numbers are read exactly, compared with Fraction."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.number import Number


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("073", "73"),
        ("000", "0"),
        ("1,234", "1234"),
        ("1{,}234", "1234"),
        (r"58\,500", "58500"),
        ("58 500", "58500"),
        ("1,234,567.5", "1234567.5"),
        ("3.0", "3"),
        ("36.00", "36"),
        ("-0", "0"),
        ("+5", "5"),
        ("−5", "-5"),
        ("５", "5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("0.5", "0.5"),
        ("1/2", "0.5"),
        ("2/4", "0.5"),
        ("½", "0.5"),
        ("2½", "2.5"),
        ("1 4/5", "1.8"),
        (r"\frac12", "0.5"),
        (r"\dfrac{1}{2}", "0.5"),
        (r"-\frac{35}{9}", "-35/9"),
        (r"\frac{-35}{9}", "-35/9"),
        (r"1\frac{4}{5}", "1.8"),
        (r"-1\frac{4}{5}", "-1.8"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        (r"6.02\times10^{23}", "602000000000000000000000"),
        ("5%", "5 %"),
        (r"5\%", "5 %"),
        ("$5", "5 USD"),
        (r"\$5.50", "5.5 USD"),
        ("$5$", "5"),
        (r"90^\circ", "90 °"),
        ("90°", "90 °"),
        ("204minutes", "204 min"),
        (r"15\text{ cm}^2", "15 cm^2"),
        ("15 square units", "15"),
        ("60 mph", "60 mi/h"),
        ("5 m", "5 m"),
        ("12th", "12"),
        ("**42**", "42"),
        (r"\textbf{42}", "42"),
        ("m+n=127", "127"),
        ("147+147=294", "294"),
        ("10²", "100"),
        ("1,23", None),
        ("1.234,56", "1234.56"),
        ("1/0", None),
        (r"\frac{1}{0}", None),
        ("1/2/3", None),
        ("05/01/2021", None),
        ("12:30", None),
        ("52(3+\\sqrt{39})", None),
        ("5 apples", "5"),
        ("1e999999999", None),
        ("9" * 5000, None),
        ("nan", None),
        ("inf", None),
        ("two", "2"),
        ("...", None),
        ("", None),
        ("-", None),
        ("٣", "3"),
    ],
)
def test_canonical(answer, number):
    assert Number().canonical(answer) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3 bags of 14 make 42 apples.", "42"),
        ("The answer is 42 apples, from 3 bags.", "42"),
        ("The answer is **1,234**.", "1234"),
        ("The answer is $18.", "18 USD"),
        ("The answer is 2 and 3.", None),
        ("The answer is the sum, 42.", "42"),
        (r"The final answer is \(\frac{3}{4}\).", "0.75"),
        ("#### 73", "73"),
        (r"So \boxed{073}", "73"),
        (r"The answer is 5, that is \boxed{x}", None),
        ("It is 10-3.", None),
        ("It drops to -3.", "-3"),
        ("no number", None),
        ("", None),
    ],
)
def test_extract(text, number):
    assert Number().extract(text) == number


integers = st.integers(-(10**40), 10**40)


@given(integers, st.integers(1, 10**20))
def test_fractions_are_exact(above, below):
    value = Number().canonical(f"{above}/{below}")
    assert value is not None and Fraction(value) == Fraction(above, below)
    assert Number().canonical(f"\\frac{{{above}}}{{{below}}}") == value
    assert Number().canonical(value) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12))
def test_decimals_are_exact(decimal: Decimal):
    value = Number().canonical(format(decimal, "f"))
    assert value is not None and "/" not in value and Fraction(value) == Fraction(decimal)
    assert Number().canonical(format(decimal, "E")) == value


@given(integers)
def test_grouped_digits_are_the_same_number(value):
    assert Number().canonical(f"{value:,}") == str(value)


@given(st.text("0123456789.,/+-−eE% $\\frac{}^ m", max_size=20))
def test_a_form_is_final(text):
    form = Number().canonical(text)
    assert form is None or Number().canonical(form) == form
    value = "" if form is None else form.split(" ")[0]
    assert "/" not in value or value == str(Fraction(value))


def test_hostile_numbers_are_refused_at_once():
    for text in (
        "9" * 10**6,
        "1e" + "9" * 10**5,
        "1" + ",000" * 10**5,
        "1/" + "3" * 10**5,
        "-" * 10**5,
    ):
        assert Number().canonical(text) is Number().extract(text) is None
    zeros = " 000" * 10**5
    assert (Number().canonical(zeros), Number().extract(zeros)) == (None, "0")


def test_a_number_without_a_unit_makes_no_two_units_one():
    assert Number().merge(["5 km", "5", "5 m"]) == {"5 km": "5 km", "5": "5 km", "5 m": "5 m"}
    assert Number().merge(["5 USD", "5 EUR", "5"]) == {"5 USD": "5 USD", "5 EUR": "5 EUR", "5": "5 USD"}
    assert Number().merge(["5", "0.05", "5 %"])["0.05"] == "0.05"
