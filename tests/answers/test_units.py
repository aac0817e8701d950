"""Units: how they are written after a number, and how they convert."""

from fractions import Fraction

import pytest

from pets.answers.units import NAMES, dimension, unit_at


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (" km", "km"),
        ("km", "km"),
        (" Kilometer", "km"),
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


@pytest.mark.parametrize("unit", sorted(set(NAMES.values())))
def test_every_unit_has_a_size(unit):
    kind, size = dimension(unit)
    assert kind and size > 0


def test_units_of_one_dimension_convert():
    assert dimension("km/h")[1] / dimension("m/s")[1] == Fraction(5, 18)
    assert dimension("m^2") == ("length^2", 1) and dimension("cm^2") == ("length^2", Fraction(1, 10_000))
    assert dimension("mph") == dimension("mi/h")
    assert dimension("kg")[0] != dimension("km")[0]
