"""Quantities: units are converted, never dropped between two that have one; alternatives are refused."""

from fractions import Fraction

import pytest

from pets.answers.quantity import (
    AmbiguousError,
    concluded,
    equated,
    read,
    same,
    show,
    stated,
    with_points,
    writes_decimal_commas,
)


@pytest.mark.parametrize(
    ("one", "other"), [("5 km", "5000 m"), ("2 h", "120 minutes"), ("$2.5 billion", "2500000000 USD")]
)
def test_units_of_a_kind_are_converted(one, other):
    assert same(read(one), read(other))


@pytest.mark.parametrize(("one", "other"), [("5 km", "5 m"), ("5 kg", "5 km"), ("20 °C", "20 °F"), ("7", "8")])
def test_other_units_and_other_numbers_are_other_quantities(one, other):
    assert not same(read(one), read(other))


def test_a_number_without_a_unit_is_the_same_as_with_one():
    assert same(read("5"), read("5 km")) and same(read("50%"), read("50"))


@pytest.mark.parametrize(
    ("text", "value"), [("1,234.50", Fraction(2469, 2)), ("2^10", 1024), ("x = 1/2", Fraction(1, 2))]
)
def test_what_an_equation_comes_to(text, value):
    assert equated(text).value == value


def test_alternatives_are_no_answer():
    with pytest.raises(AmbiguousError):
        stated("7 or 8")


def test_a_line_concludes_with_its_last_result():
    assert show(concluded("3 bags of 14 make 42 apples.")) == "42"


def test_decimal_commas_are_seen_by_the_language():
    assert writes_decimal_commas("La respuesta es 3,5.") and not writes_decimal_commas("The answer is 1,000.")
    assert read(with_points("3,5")).value == Fraction(7, 2)
