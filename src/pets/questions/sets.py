"""The question sets that PETS knows by name."""

from collections.abc import Callable, Mapping

from pets.errors import InputError
from pets.questions.problem import QuestionSet
from pets.questions.starter import starter

__all__ = ["named_sets", "question_set"]

SETS: Mapping[str, Callable[[], QuestionSet]] = {"starter": starter}


def named_sets() -> list[str]:
    """The names, sorted.

    >>> named_sets()
    ['starter']
    """
    return sorted(SETS)


def question_set(name: str) -> QuestionSet:
    """The set of that name."""
    if name not in SETS:
        raise InputError(f"there is no question set {name!r}. Sets: {', '.join(named_sets())}.")
    return SETS[name]()
