"""Free text: names, dates, short phrases. Equal after Unicode, case, space and surrounding punctuation are folded.

Dates, signs and symbols stay as they are: ``05/01/2021``, ``-5``, ``C++`` and ``#1`` are answers, not noise.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import ClassVar

from pets.answers.base import AnswerType

__all__ = ["Text"]

LEADING = " \t\"'`*_“”‘’«»¿¡"
TRAILING = LEADING + ".,;:!?。，"
INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
# NFKC alone would read 10² as 102 and 2½ as 21/2.
RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
VULGAR = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
FONT = re.compile(r"\\(?:boxed|text|textbf|mathrm)\{([^{}]*)\}")
MAX_CHARS = 10_000  # what is longer is no short text; sorting its accents alone could take the square of its length
MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Text(AnswerType):
    """Short text, compared after folding.

    >>> Text().canonical(' “New  York.” '), Text().canonical("05/01/2021"), Text().canonical("...")
    ('new york', '05/01/2021', None)
    """

    operator_only: ClassVar[bool] = False

    @property
    def instruction(self) -> str:
        """A few words."""
        return 'End with "The answer is ...", in a few words at most.'

    def canonical(self, answer: str) -> str | None:
        """NFKC, casefold, single spaces, no surrounding quotes, marks or final stop."""
        if len(answer) > MAX_CHARS:
            return None
        for _ in range(MAX_ROUNDS):  # casefolding can undo NFKC and the reverse; both settle in a few rounds
            before, answer = answer, _fold(answer)
            if answer == before:
                return answer or None
        return None


def _fold(text: str) -> str:
    text = VULGAR.sub(" ", RAISED.sub(lambda match: "^" + match[0], text))
    text = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).casefold().replace("⁄", "/")
    text = _unwrap(" ".join(text.split()))
    if whole := FONT.fullmatch(text):  # its content has no braces: no font is within
        text = _unwrap(whole[1])
    return text


def _unwrap(text: str) -> str:
    """Without quotes, marks and dollars around it, however many and in whatever order."""
    start, end = 0, len(text)
    while start < end:
        if text[start] in LEADING:
            start += 1
        elif text[end - 1] in TRAILING:
            end -= 1
        elif end - start > 1 and text[start] == text[end - 1] == "$":
            start, end = start + 1, end - 1
        else:
            break
    return text[start:end]
