"""Quantities: another unit is another answer, another spelling of it is not; alternatives are refused."""

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
    unit_at,
    with_points,
    writes_decimal_commas,
)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (" km", "km"),
        ("km", "km"),
        (" Kilometer", "km"),
        (" kilometres", "km"),
        (" months", "month"),
        (" mph", "mi/h"),
        (" square meters", "m^2"),
        (" m^{3}", "m^3"),
        (" meters squared", "m^2"),
        (" miles per hour", "mi/h"),
        (" m/s^2", "m/s^2"),
        ("^\\circ", "°"),
        ("°C", "°C"),
        (" 公里", "km"),
        (" apples", ""),
        (" in total", ""),  # not inches
        (" in", "in"),
    ],
)
def test_a_unit_is_read_as_it_is_written(text, unit):
    symbol, end = unit_at(f"5{text}", 1)
    assert symbol == unit and end == (1 + len(text) if unit else 1)


def test_a_letter_beside_a_number_may_be_a_variable():
    assert unit_at("5m", 1) == ("m", 2)
    assert unit_at("5m", 1, letters=False) == ("", 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [("5 km", "5 kilometres"), ("$2.5 billion", "2500000000 USD"), ("$5.30", "5 dollars and 30 cents")],
)
def test_one_unit_in_two_spellings_is_one_quantity(one, other):
    assert same(read(one), read(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("5 km", "5000 m"), ("2 h", "120 min"), ("5 ft 10 in", "5"), ("5 kg", "5 km"), ("20 °C", "20 °F"), ("7", "8")],
)
def test_other_units_and_other_numbers_are_other_quantities(one, other):
    assert not same(read(one), read(other))


def test_smaller_units_that_follow_are_part_of_a_quantity():
    assert show(read("12 hours and 30 minutes")) == "12 h 30 min" == show(read("12 h 30 min"))
    assert read("5 km and 3 kg") is None and read("30 minutes and 12 hours") is None


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
