"""Dates in words and in figures: one form for one day, and no guess about day and month."""

import pytest

from pets.answers.dates import dates_in, iso_date


@pytest.mark.parametrize(
    "text", ["may 1, 2021", "1 may 2021", "the 1st of may 2021", "2021-05-01", "saturday, may 1, 2021"]
)
def test_ways_to_write_one_day_are_one(text):
    assert iso_date(text) == "2021-05-01"


def test_day_and_month_in_figures_are_never_guessed():
    assert iso_date("05/06/2021") == iso_date("5/6/2021") != iso_date("6/5/2021")
    assert iso_date("5/6/2021") != iso_date("may 6, 2021")


def test_days_that_there_are_not_are_no_dates():
    assert iso_date("february 30, 2021") is None and iso_date("may 32") is None


def test_dates_are_found_within_a_sentence():
    assert dates_in("it was signed on july 4, 1776 and not on 5 july 1776") == ["july 4, 1776", "5 july 1776"]
