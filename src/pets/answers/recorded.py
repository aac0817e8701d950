"""Answers that have been read already: those of a pool, or of a stored run whose reading code is not named.

A store never names code to run. What its run read with ``python:my_answers:read`` is shown as ``recorded:``, as it
stands in the store, unless the user names that code again.
"""

from dataclasses import dataclass

from pets.answers.base import AnswerType


@dataclass(frozen=True, slots=True)
class Recorded(AnswerType):
    """An answer as it stands; ``reader`` is the spec of what read it, which is not made.

    >>> Recorded("python:my_answers:read").canonical(" 42")
    ' 42'
    """

    files_may_name = False
    spec_option = "reader"

    reader: str = ""

    def canonical(self, answer: str) -> str | None:
        return answer or None

    def extract(self, text: str) -> str | None:
        return self.canonical(text)
