"""The type that fits: a question with lettered options is a ``choice``, the others go by what the first traces say.

A run reads its first traces, takes the type that four of five of them fit, and keeps it; ``text`` where none is clear.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import ClassVar, Literal, NamedTuple

from pets._extras import missing
from pets.answers.base import AnswerType, Reading
from pets.answers.choice import Choice
from pets.answers.final import places, visible_text
from pets.answers.json import Json
from pets.answers.math import Math
from pets.answers.number import Number
from pets.answers.text import Text
from pets.answers.yesno import YesNo
from pets.patterns import BLANK, Pattern

TypeName = Literal["choice", "json", "math", "number", "text", "yesno"]
TYPES: dict[TypeName, type[AnswerType]] = {
    "choice": Choice, "json": Json, "math": Math, "number": Number, "text": Text, "yesno": YesNo
}  # fmt: skip
CLEAR_SHARE = 0.8  # of the traces that fit a type
FEWEST_TRACES = 2  # that a choice is made by
MAX_QUESTION_CHARS = 20_000
MAX_SHORT_CHARS = 60  # of a passage that is a number, with its unit
OPTION_LINES = Pattern(rf"(?m)^{BLANK}*[(\[]?([A-Z])[).:\]]{BLANK}+\S")
OPTIONS_IN_LINE = Pattern(rf"\(([A-Z])\){BLANK}*\S", needs="(")
FORMULA = Pattern(r"\\[a-zA-Z]{2,}|[a-zA-Z0-9)}]\s*\^|\$")


class ChosenType(NamedTuple):
    """How answers are read, and why: ``fitting`` of ``traces`` traces end as the type's answers do.

    Of ``text`` they end in formulas, which cannot be compared without math-verify.
    """

    name: TypeName
    fitting: int
    traces: int

    def __str__(self) -> str:
        """In one line.

        >>> print(choose_type(["The answer is 4.", "So 2 + 2 = 4. The answer is 4.", r"\\\\boxed{5}"]))
        Answers are read as number: 3 of the first 3 traces end in one. --answer names another.
        """
        if self.name == "text" and self.fitting:
            return (
                f"Answers are read as text, though {self.fitting} of the first {self.traces} traces end in formulas: "
                f"{missing('math-verify, which compares them,', 'math')}"
            )
        if self.name == "text":
            return f"Answers are read as text: no other type fits the first traces ({self.traces}). --answer names one."
        return (
            f"Answers are read as {self.name}: {self.fitting} of the first {self.traces} traces end in one. "
            "--answer names another."
        )


@dataclass(frozen=True, slots=True)
class Auto(AnswerType):
    """Stands for another type: ``type``, once it is chosen; until then it reads as ``text`` does.

    >>> Auto().settled("Which is even?\\nA) 1\\nB) 2"), Auto().settled("2 + 2?"), Auto("number").settled("2 + 2?")
    (Choice(options=2, digits=None), Auto(type=None), Number())
    """

    chosen_from_traces: ClassVar[bool] = True
    reads_at_once: ClassVar[bool] = True

    type: TypeName | None = None

    def settled(self, question: str, options: int | None = None) -> AnswerType:
        """The type of a question: by its options, else the one that was chosen, else this."""
        count = options or _option_count(question[-MAX_QUESTION_CHARS:])
        if count is not None and count <= 26:
            return Choice(options=count)
        return self if self.type is None else _answer_type(self.type)

    def canonical(self, answer: str) -> str | None:
        """As the type that was chosen, or text."""
        return _answer_type(self.type or "text").canonical(answer)

    def read(self, text: str) -> Reading | None:
        """As the type that was chosen, or text."""
        return _answer_type(self.type or "text").read(text)


def choose_type(texts: Iterable[str]) -> ChosenType:
    """The type that four of five traces fit, of those that state an answer; in any order, the same."""
    counts: Counter[str] = Counter()
    total = stating = 0
    for text in texts:
        types = _fitting(text)
        counts.update(types)
        total += 1
        stating += bool(types) or any(place != "line" for place, _ in places(text))
    enough = max(FEWEST_TRACES, CLEAR_SHARE * stating, total / 2)
    names: tuple[TypeName, ...] = ("json", "yesno", "choice", "number", "math")
    name: TypeName = next((name for name in names if counts[name] >= enough), "text")
    readable: TypeName = "text" if name == "math" and not _formulas_compare() else name
    return ChosenType(readable, counts[name], total)


@cache
def _answer_type(name: TypeName) -> AnswerType:
    """Made when it is used: formulas need an extra."""
    return TYPES[name]()


def _formulas_compare() -> bool:
    """Whether math-verify is installed, without which there is no type for formulas."""
    return find_spec("math_verify") is not None


def _fitting(text: str) -> set[str]:
    """The types whose answers the text ends in; a number is a formula, too, but not the reverse."""
    visible = visible_text(text).strip()
    if visible.startswith(("{", "[", "```")) and Json().extract(visible) is not None:
        return {"json"}
    passage = next((passage for _, passage in places(text)), "").strip("*_ .")
    if Choice().canonical(passage) is not None and len(passage.split()) <= 2:
        return {"choice"}
    if YesNo().extract(text) is not None:
        return {"yesno"}
    if Number().canonical(passage) is not None:
        return {"number", "math"}
    if FORMULA.search(passage):
        return {"math"} if not _formulas_compare() or _answer_type("math").extract(text) is not None else set()
    numbers = len(passage) <= MAX_SHORT_CHARS and any(map(str.isdigit, passage))
    return {"number", "math"} if numbers and Number().extract(f"The answer is {passage}.") is not None else set()


def _option_count(question: str) -> int | None:
    """How many options a question lists, A, B and so on, on lines of their own or in brackets."""
    for pattern, fewest in ((OPTION_LINES, 2), (OPTIONS_IN_LINE, 3)):
        letters = [match[1] for match in pattern.finditer(question)]
        begin = max((index for index, letter in enumerate(letters) if letter == "A"), default=len(letters))
        count = 0
        while begin + count < len(letters) and letters[begin + count] == chr(ord("A") + count):
            count += 1
        if count >= fewest:
            return count
    return None
