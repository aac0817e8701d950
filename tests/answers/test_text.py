"""Folded text; signs, dates and symbols stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.text import Text


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
        (".5", "1/2"),
        ("C++", "c++"),
        ("#1", "#1"),
        ("5%", "5 %"),
        ("f(x)", "f(x)"),
        ("10²", "100"),
        ("2½", "5/2"),
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
