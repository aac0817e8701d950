"""Real-life outputs are read as a person reads them, and pairs of answers are one where a person says so."""

import pytest

from pets.registry import make_answer_type

from .tables import choice, math, number
from .tables import text as free_text

TABLES = {"choice": choice, "number": number, "math": math, "text": free_text}


def misread(name: str) -> dict[str, tuple[str | None, str | None]]:
    """Outputs that are not read as the table says: what was read and what was to be read."""
    kind, wrong = make_answer_type(name), {}
    for text, expected in TABLES[name].OUTPUTS:
        form = kind.extract(text)
        right = (
            form is None if expected is None else form is not None and kind.same(form, kind.canonical(expected) or "")
        )
        if not right:
            wrong[text] = form, expected
    return wrong


def misjudged(name: str) -> list[tuple[str, str, bool]]:
    """Pairs that are one answer and should be two, or the reverse."""
    kind = make_answer_type(name)

    def same(first: str, second: str) -> bool:
        forms = kind.canonical(first), kind.canonical(second)
        return forms[0] is not None and forms[1] is not None and kind.same(forms[0], forms[1])

    return [(first, second, one) for first, second, one in TABLES[name].PAIRS if same(first, second) != one]


@pytest.mark.parametrize("name", TABLES)
def test_outputs_are_read_as_a_person_reads_them(name):
    assert misread(name) == {}


@pytest.mark.parametrize("name", TABLES)
def test_pairs_are_one_answer_where_a_person_says_so(name):
    assert misjudged(name) == []
