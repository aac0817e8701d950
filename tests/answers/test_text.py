"""Folded text; signs, dates and symbols stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.text import Text, iso_date, moments_in


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("05/01/2021", "5/1/2021"),
        (" New   York. ", "new york"),
        ("“Paris”", "paris"),
        ("**Paris**", "paris"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
        ("Ｐａｒｉｓ", "paris"),
        ("Pa\u200bris", "paris"),
        ("-5", "-5"),
        (".5", "0.5"),
        ("C++", "c++"),
        ("#1", "#1"),
        ("5%", "5 %"),
        ("f(x)", "f(x)"),
        ("10²", "100"),
        ("2½", "2.5"),
        (r"\text{even}", "even"),
        (r"$\text{even}$", "even"),
        ("yes!", "yes"),
        ("...", None),
        ("''", None),
        ("", None),
        (" \u200b ", None),
    ],
)
def test_canonical(answer, form):
    assert Text().canonical(answer) == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Counting days... The answer is 05/01/2021.", "5/1/2021"),
        (r"\boxed{\text{Evelyn}}", "evelyn"),
        ("I thought.\nParis", "paris"),
        ("", None),
    ],
)
def test_extract(text, form):
    assert Text().extract(text) == form


@given(st.text(max_size=30))
def test_a_form_is_final_and_not_empty(text):
    form = Text().canonical(text)
    assert form is None or (form and Text().canonical(form) == form)


@given(st.text(min_size=1, max_size=30))
def test_case_and_space_do_not_matter(text):
    assert Text().canonical(f"  {text}\n") == Text().canonical(text)
    assert Text().canonical(text.casefold()) == Text().canonical(text)


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
    assert moments_in("it was signed on july 4, 1776 and not on 5 july 1776") == ["july 4, 1776", "5 july 1776"]
