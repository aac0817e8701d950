"""Curves in a terminal: round numbers, nothing on top of a curve, no colour in a pipe."""

import pytest

from pets.cli._chart import draw_chart

RISING = {"okg": ([1.0, 8.0, 64.0], [0.41, 0.8, 1.0])}
FLAT = {"uniform": ([1.0, 8.0, 64.0], [0.41, 0.6, 0.9])}


def test_the_title_and_the_legend_stand_above_the_curves():
    title, legend, *chart = draw_chart("what it is", RISING | FLAT, 80, colour=False).splitlines()
    assert (title, legend) == ("what it is", "• okg   x uniform")
    assert not any("okg" in line for line in chart)
    assert any("•" in line for line in chart) and any("x" in line for line in chart)


def test_one_curve_needs_no_legend():
    assert "okg" not in draw_chart("what it is", RISING, 80, colour=False)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_is_never_wider_than_the_terminal_and_has_round_numbers(width):
    chart = draw_chart("t", RISING | FLAT, width, colour=False)
    assert max(map(len, chart.splitlines())) <= min(width, 80)
    assert "100%" in chart and "50%" in chart and "64" in chart.splitlines()[-1] and "." not in chart.splitlines()[-1]


def test_colour_is_for_terminals():
    assert "\x1b" in draw_chart("t", RISING | FLAT, 80, colour=True)
    assert "\x1b" not in draw_chart("t", RISING | FLAT, 80, colour=False)


def test_a_policy_has_its_colour_in_whatever_company():
    for lines in (RISING, FLAT | RISING, RISING | FLAT):
        assert "38;5;166m" in draw_chart("t", lines, 80, colour=True)  # okg's vermilion, as near as a terminal has it
    assert "38;5;166m" not in draw_chart("t", FLAT, 80, colour=True)


def test_a_narrow_range_has_finer_ticks():
    assert "98%" in draw_chart("t", {"a": ([1.0, 4.0], [0.95, 1.0])}, 80, colour=False)
