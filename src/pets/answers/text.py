"""Free text: names, dates, short phrases. Equal after Unicode, case, space and surrounding punctuation are folded.

Dates, signs and symbols stay as they are: ``05/01/2021``, ``-5``, ``C++`` and ``#1`` are answers, not noise.
"""

import re
import unicodedata
from dataclasses import dataclass

from pets.answers.base import AnswerType

__all__ = ["Text"]

LEADING = " \t\"'`*_“”‘’«»¿¡"
TRAILING = LEADING + ".,;:!?。，"
INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
# NFKC alone would read 10² as 102 and 2½ as 21/2.
RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
VULGAR = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
WRAPPED = re.compile(r"\$(.*)\$|\\(?:boxed|text|textbf|mathrm)\{([^{}]*)\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text(AnswerType):
    """Short text, compared after folding.

    >>> Text().canonical(' “New  York.” '), Text().canonical("05/01/2021"), Text().canonical("...")
    ('new york', '05/01/2021', None)
    """

    def canonical(self, answer: str) -> str | None:
        """NFKC, casefold, single spaces, no surrounding quotes, marks or final stop."""
        before = None
        while before != answer:  # casefolding can undo NFKC and the reverse; both settle in a few rounds
            before, answer = answer, _fold(answer)
        return answer or None


def _fold(text: str) -> str:
    text = VULGAR.sub(" ", RAISED.sub(lambda match: "^" + match[0], text))
    text = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).casefold().replace("⁄", "/")
    text = " ".join(text.split())
    if whole := WRAPPED.fullmatch(text):
        text = whole[1] or whole[2] or ""
    return text.lstrip(LEADING).rstrip(TRAILING)
