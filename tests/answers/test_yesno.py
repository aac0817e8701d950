"""Yes or no; in doubt neither."""

import pytest

from pets.answers.yesno import YesNo
from pets.testing import check_answer_type

YES = [
    "Yes", "yes.", "**Yes**", "YES!", "True", "Yes, because 7 is prime.", "Yes - it is.", "The answer is yes.",
    "Therefore, the answer is: **True**.", r"\boxed{\text{Yes}}", "Sí, porque es primo.", "Oui.", "Ja, das stimmt.",
    "La respuesta es sí.", "Die Antwort ist: Ja", "是的。", "答案是：是", "はい、そうです。", "Да.", "Ответ: да",
    "Yes.\n\nThere is no larger one.", "So the statement is true.", "Yes because no one knows better.",
    "It has two divisors.\nHence the claim is not false.", "Yes, it's even.", "<think>No?</think>\nYes.",
]  # fmt: skip
NO = [
    "No", "no.", "False.", "No, it is not.", "Not true.", "The answer is no, since 4 is even.", "Nein.", "Non, jamais.",
    "Não.", "いいえ。", "不是。", "Нет, это не так.", "Therefore the statement is false.", "This is incorrect.",
    "So the statement is not true.", r"\boxed{No}", "Answer: no", "No because it is even.", "No - never.",
]  # fmt: skip
NEITHER = [
    "", "Maybe.", "Yes and no.", "Yes or no?", "yes/no", "No idea.", "I am not sure.", "It depends.", "42",
    "No prime is even.", "Nobody knows.", "Yesterday.", "Notable.", "The answer is 42.", "Yes.\nOn reflection:\nNo.",
    "The answer cannot be determined.", "None of them.", "True love waits for nobody", "Jane", r"\boxed{7} yes",
]  # fmt: skip


@pytest.mark.parametrize("text", YES)
def test_yes(text):
    assert YesNo().extract(text) == "yes"


@pytest.mark.parametrize("text", NO)
def test_no(text):
    assert YesNo().extract(text) == "no"


@pytest.mark.parametrize("text", NEITHER)
def test_neither(text):
    assert YesNo().extract(text) is None


def test_laws():
    check_answer_type(YesNo(), [*YES, *NO, *NEITHER])


def test_the_set_is_closed():
    assert YesNo().options == 2


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("300 is not divisible by 7, so no.", "no"),
        ("It has two divisors; hence, yes!", "yes"),
        ("17 is prime, thus the answer is yes.", "yes"),
        ("That's false.", "no"),
        ("It's not true.", "no"),
        ("Y", "yes"),
        ("n.", "no"),
        ("The variable is N", None),
        ("Some say yes, so no one knows.", None),
        ("He said no, so yes, maybe.", None),
    ],
)
def test_an_answer_in_passing_is_read(text, form):
    assert YesNo().extract(text) == form
