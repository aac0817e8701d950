r"""Multiple choice: one letter, however it is dressed.

``C``, ``(C)``, ``c.``, ``**C**``, ``\boxed{C}``, ``Answer: C`` and ``\text{(C)} Cold atoms`` are ``C``. A letter
within a word is no option, an article is none either, and two options ("A or B") are no answer. Sets of digits, as
crowds label with, are declared: ``choice:digits=0-1``.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from pets.answers.base import AnswerType
from pets.answers.final import boxed, places
from pets.errors import InputError

__all__ = ["Choice"]

MAX_CHARS = 10_000  # what is longer is no option
MAX_LAYERS = 20  # of fonts, one around the other

DRESS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)\s*\{([^{}]*)\}")
MARKS = re.compile(r"\\[,;!: ()\[\]]|\\(?:left|right)(?![a-zA-Z])|[$*_`{}]")
LEAD = re.compile(r"^(?:(?:the|final|correct|best|my|answer|option|choice|is)\b[\s:=]*)+", re.IGNORECASE)
LETTER = re.compile(r"[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])(?:\s*[)\]]|\s*$|[.:,](?=\s|$)|\s+[-–—]\s)")
SEVERAL = re.compile(r"[(\[]?[A-Za-z][)\]]?\s*(?:,|/|&|and\b|or\b)\s*(?:(?:and|or)\s*)?[(\[]?[A-Z][)\]]?(?![A-Za-z])")
# After "the answer is" a bare letter may run on; A and I need a word that no article or pronoun takes.
RUNNING = re.compile(r"([B-HJ-Z])\s+(?!and\b|or\b)[a-z]|([AI])\s+(?:because|since|as|due)\b")
BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")


# A digit stands alone: what follows it would be more of a number, or a list.
DIGIT = re.compile(r"([0-9])\s*[.)\]]?|[(\[]\s*([0-9])\s*[)\]]\.?")
RANGE = re.compile(r"([0-9])-([0-9])")


@dataclass(frozen=True, slots=True)
class Choice(AnswerType):
    """One letter of a closed set. ``options`` is how many letters there are, from A; ``None`` takes any letter.

    ``digits`` declares digits in their place, "0-1" or "1-5": then a digit of that range is the answer, if it stands
    alone, and no letter is one.

    >>> Choice().canonical("c."), Choice(options=4).canonical("(E)"), Choice().canonical("Cold")
    ('C', None, None)
    >>> crowd = Choice(digits="0-1")
    >>> crowd.canonical("(1)"), crowd.canonical("2"), crowd.canonical("1.5"), crowd.canonical("A")
    ('1', None, None, None)
    """

    operator_only: ClassVar[bool] = False
    client_options: ClassVar[frozenset[str]] = frozenset({"options", "digits"})

    options: int | None = None
    digits: str | None = None

    def __post_init__(self) -> None:
        if self.options is not None and not 1 <= self.options <= 26:
            raise InputError(f"a choice has 1 to 26 options, A to Z; got options={self.options}.")
        if self.digits is None:
            return
        ends = RANGE.fullmatch(self.digits)
        if ends is None or ends[1] >= ends[2]:
            raise InputError(f'digits are a range such as "0-1" or "1-5"; got {self.digits!r}.')
        if self.options is not None:
            raise InputError(f"digits={self.digits} says how many options there are; leave options={self.options} out.")

    @property
    def instruction(self) -> str:
        """The letter in brackets, or the digit."""
        if self.digits is None:
            return 'End with "The answer is (X).", where X is the letter of your choice.'
        return f'End with "The answer is N.", where N is {self.digits[0]} to {self.digits[-1]}.'

    def canonical(self, answer: str) -> str | None:
        """The option that the string starts with; where digits are declared, the digit that it is."""
        if len(answer) > MAX_CHARS:
            return None
        bare = _undress(answer)
        if self.digits is not None:
            alone = DIGIT.fullmatch(bare)
            digit = (alone[1] or alone[2]) if alone else ""
            return digit if self.digits[0] <= digit <= self.digits[-1] else None
        if SEVERAL.match(bare):
            return None
        letter = LETTER.match(bare)
        return self._within(letter[1] or letter[2]) if letter else None

    def extract(self, text: str) -> str | None:
        """The option in a box, else after "answer is", else of the last line, where the only one in brackets counts."""
        for place, passage in places(text):
            option = self.canonical(passage)
            if self.digits is not None and option is None:
                continue
            if option is None and place == "cue" and (running := RUNNING.match(_undress(passage))):
                option = self._within(running[1] or running[2])
            if option is None and place == "line" and len(letters := set(BRACKETED.findall(_undress(passage)))) == 1:
                option = self._within(letters.pop())
            if option is not None:
                return option
        return None

    def _within(self, letter: str) -> str | None:
        option = letter.upper()
        return option if self.options is None or ord(option) - ord("A") < self.options else None


def _undress(answer: str) -> str:
    """Without box, fonts, math and Markdown marks, and without "the answer is"."""
    bare = boxed(answer) or answer
    for _ in range(MAX_LAYERS):
        bare, before = DRESS.sub(r"\1", bare), bare
        if bare == before:
            break
    return LEAD.sub("", MARKS.sub("", bare).strip()).strip()
