"""The right answer of a data set, read as the answers of a model are."""

from collections.abc import Iterable

from pets.answers.base import AnswerType

__all__ = ["GSM8K_MARK", "gold_form", "gold_label"]

BOX = "\\boxed"  # what MATH's worked solutions have their answer in
GSM8K_MARK = "####"  # what GSM8K's worked solutions end with, before the number


def gold_form(kind: AnswerType, gold: str) -> str | None:
    r"""The canonical form of a right answer, which may stand at the end of a worked solution.

    >>> from pets.answers.number import Number
    >>> gold_form(Number(), "72"), gold_form(Number(), "48 + 24 = <<48+24=72>>72\n#### 72")
    ('72', '72')
    """
    final = gold.rpartition(GSM8K_MARK)[2]
    form = None if BOX in final else kind.canonical(final.strip())
    return kind.extract(final) if form is None else form


def gold_label(kind: AnswerType, gold: str, labels: Iterable[str | None]) -> str | None:
    """The label of the answers that equal gold, else gold's own form; ``None`` where gold cannot be read.

    It joins the classes after the votes are counted: it must not make two of them one.
    """
    form = gold_form(kind, gold)
    if form is None:
        return None
    names = [name for name in dict.fromkeys(labels) if name is not None]
    return next((name for name in names if kind.same(name, form)), form)
