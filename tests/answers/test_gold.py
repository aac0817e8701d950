"""Right answers are read as answers are, also at the end of a worked solution."""

import pytest

from pets.answers.gold import gold_form, gold_label
from pets.registry import make_answer_type


@pytest.mark.parametrize(
    ("spec", "gold", "form"),
    [
        ("number", "1,004", "1004"),
        ("number", "She has 48 + 24 = <<48+24=72>>72 clips.\n#### 72", "72"),
        ("text", "So it was Paris.\n#### Paris", "paris"),
        ("choice", "(B)", "B"),
        ("math", "Squaring gives $x = 3$, so the answer is $\\boxed{\\frac{1}{2}}$.", "1/2"),
        ("number", "see the appendix", None),
    ],
)
def test_gold_has_a_form(spec, gold, form):
    assert gold_form(make_answer_type(spec), gold) == form


def test_gold_takes_the_label_of_the_answers_that_equal_it():
    kind = make_answer_type("math")
    assert gold_label(kind, "0.5", ["7", None, "1/2"]) == "1/2"
    assert gold_label(kind, "8", ["7"]) == "8" and gold_label(kind, "", ["7"]) is None
