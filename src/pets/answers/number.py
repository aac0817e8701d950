r"""Numbers, exactly: ``073`` is ``73``, ``3.0`` is ``3``, ``0.5``, ``1/2`` and ``\frac12`` are ``1/2``.

A percent sign, a currency, a degree sign and a known unit are dressing: ``5%`` is ``5``, not ``1/20``, because
voters on one question differ in writing the sign far more often than in meaning another number. There are no
floats: ``0.333`` is not ``1/3``.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from pets.answers.base import AnswerType
from pets.answers.final import places
from pets.answers.rational import read, show

__all__ = ["Number"]

EQUALS = re.compile(r"=|\\approx|≈|\\simeq")
DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?"
FRACTION = r"\\[dtc]?frac\s*(?:\{[^{}]*\}\s*\{[^{}]*\}|\d\s*\d)"
NUMBER = re.compile(rf"(?<![\w.])(?:(?<![)}}\]])[-+−])?\s?[$€£]?(?:{FRACTION}|{DIGITS}(?:\s?/\s?\d+)?)(?![\w/])")
LIST = re.compile(r"\s*(?:,|;|and\b|or\b)\s*[-+−]?[\d\\$]")


@dataclass(frozen=True, slots=True)
class Number(AnswerType):
    """An integer or a reduced fraction.

    >>> Number().canonical("1,234.50"), Number().canonical("m+n=127"), Number().canonical("many")
    ('2469/2', '127', None)
    >>> Number().extract("3 bags of 14 make 42 apples.")
    '42'
    """

    operator_only: ClassVar[bool] = False

    @property
    def instruction(self) -> str:
        """A number and nothing else."""
        return 'End with "The answer is N.", where N is a number.'

    def canonical(self, answer: str) -> str | None:
        """The value after the last equals sign, if that is a plain number."""
        value = read(EQUALS.split(answer)[-1])
        return None if value is None else show(value)

    def extract(self, text: str) -> str | None:
        """The number in a box, else the one after "answer is" (a list of them is none), else the last line's last."""
        for place, passage in places(text):
            number = self.canonical(passage.strip("*_ "))
            if number is None and place == "cue" and (first := NUMBER.match(passage.lstrip("*_(= \\"))):
                return None if LIST.match(first.string, first.end()) else self.canonical(first[0])
            if number is None and place == "line":
                numbers = NUMBER.findall(passage)
                number = self.canonical(numbers[-1]) if numbers else None
            if number is not None:
                return number
        return None
