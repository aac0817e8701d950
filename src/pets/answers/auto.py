"""The type that fits a question: by the options that it lists, else by its words and what its first traces say.

A run chooses once for each question, and keeps it; ``text`` where nothing else is clear.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import Literal

from pets._extras import missing
from pets.answers import quantity
from pets.answers.base import AnswerType, Reading
from pets.answers.choice import Choice
from pets.answers.final import places, visible_text
from pets.answers.json import Json
from pets.answers.math import Math
from pets.answers.number import Number
from pets.answers.phrases import words
from pets.answers.text import DATE_OR_TIME, Text
from pets.answers.yesno import YesNo
from pets.patterns import BLANK, END, Pattern

TypeName = Literal["choice", "json", "math", "number", "text", "yesno"]
TYPES: dict[TypeName, type[AnswerType]] = {
    "choice": Choice, "json": Json, "math": Math, "number": Number, "text": Text, "yesno": YesNo
}  # fmt: skip
CLEAR_SHARE = 0.8  # of the traces that fit a type
MAX_TEXTS = 8  # that a choice is made by
MAX_QUESTION_CHARS = 20_000
OPTION_LINES = Pattern(rf"(?m)^{BLANK}*[(\[]?([A-Z])[).:\]]{BLANK}+\S")
OPTIONS_IN_LINE = Pattern(rf"\(([A-Z])\){BLANK}*\S", needs="(")
OPEN_QUESTION = Pattern(rf"(?im)(?:^|[.!?:,]\s|(?:in|at|on|of|by|for|with|from|to) )({words('asking')}){END}")
NAMING = frozenset({"who", "whose", "whom", "where", "when", "why"})  # what asks for no number
OF_NUMBER = Pattern(rf"(?i)\A(?:(?:an?|the) )?(?:\w+ )?(?:{words('magnitude_nouns')}) of ›[$€£\d]")
TITLE = Pattern(r" [A-Z][a-z]")
FONT = Pattern(r"\\(?:text|textbf|textit|mathrm|mathbf)\s*\{([^{}\\]*)\}", needs="\\")
FORMULA = Pattern(r"\\[a-zA-Z]{2,}|[a-zA-Z0-9)}]\s*\^|\$(?:[^$\d\s]|\d+[a-zA-Z(+*/=-])[^$\n]{0,200}\$")


@dataclass(frozen=True, slots=True)
class Auto(AnswerType):
    """Stands for another type: ``type``, once it is chosen; until then it reads as ``text`` does.

    >>> Auto().settled("Which is even?\\nA) 1\\nB) 2"), Auto().settled("2 + 2?"), Auto("number").settled("2 + 2?")
    (Choice(options=2, digits=None), Auto(type=None), Number())
    """

    chosen_from_traces = True
    reads_at_once = True

    type: TypeName | None = None

    def settled(self, question: str, options: int | None = None) -> AnswerType:
        """The type of a question: by its options, else the one that was chosen, else this."""
        count = options or _option_count(question[-MAX_QUESTION_CHARS:])
        if count is not None and count <= 26:
            return Choice(options=count)
        return self if self.type is None else type_named(self.type)

    def canonical(self, answer: str) -> str | None:
        return type_named(self.type or "text").canonical(answer)

    def read(self, text: str) -> Reading | None:
        return type_named(self.type or "text").read(text)


def choose_type(question: str, texts: Iterable[str]) -> TypeName | None:
    """The type that most of a question's first traces fit, of those that state an answer; ``None`` where none does.

    >>> choose_type("How many are left?", ["So 12 are left.", "The answer is 12."]), choose_type("Who?", ["No idea."])
    ('number', None)
    """
    counts, stating = Counter[str](), 0
    asking = OPEN_QUESTION.findall(question[-MAX_QUESTION_CHARS:])
    wanted = asking[-1].lower() if asking else ""
    for text in islice(texts, MAX_TEXTS):
        types = _fitting(text, wanted)
        counts.update(types)
        stating += bool(types) or Text().read(text) is not None
    if not stating:
        return None
    fewest = {"yesno": 2 if wanted else 1, "choice": 2}  # one odd trace makes no such question of an open one
    names: tuple[TypeName, ...] = ("json", "yesno", "choice", "number", "math")
    return next((name for name in names if counts[name] >= max(CLEAR_SHARE * stating, fewest.get(name, 1))), "text")


def kinds_words(kinds: Mapping[str, int]) -> str:
    """Count the questions by the type that was chosen, in a sentence; empty where none was.

    >>> kinds_words({"number": 120, "text": 1})
    'auto read 120 questions as number, 1 as text.'
    """
    if not kinds:
        return ""
    (first, number), *others = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{number:,} question{'s' * (number != 1)} as {first}", *(f"{many:,} as {name}" for name, many in others)]
    is_without = "math" in kinds and find_spec("math_verify") is None
    without = missing("math-verify, which compares formulas,", "math") if is_without else ""
    return f"auto read {', '.join(parts)}. {without}".rstrip()


@cache
def type_named(name: TypeName) -> AnswerType:
    """The type of that name; formulas are text where math-verify, which compares them, is not installed."""
    return Text() if name == "math" and find_spec("math_verify") is None else TYPES[name]()


def _fitting(text: str, wanted: str) -> set[str]:
    """The types whose answers the text ends in; a number is a formula, too, but not the reverse.

    ``wanted`` is what the question asks for: "who" is no number, "how many" is one.
    """
    visible = visible_text(text).strip()
    if visible.startswith(("{", "[", "```")) and Json().extract(visible) is not None:
        return {"json"}
    passage = next((passage for _, passage in places(text)), "").strip("*_ .")
    if Choice().canonical(passage) is not None and len(passage.split()) <= 2:
        return {"choice"}
    if YesNo().extract(text) is not None:
        return {"yesno"}
    if wanted not in NAMING and _is_number(text, counted=wanted.startswith("how "), named=wanted == "which"):
        return {"number", "math"}
    return {"math"} if FORMULA.search(FONT.sub(r"\1", passage)) else set()


def _is_number(text: str, *, counted: bool, named: bool) -> bool:
    """Whether its answer is a number, and not a name, a date, a time or a list in which one stands.

    What is ``counted`` by the question may have names: "There are two: Phobos and Deimos." A question for something
    that is ``named`` has a number only as its whole answer.
    """
    number, short = Number().read(text), Text().read(text)
    if number is None or short is None or counted:
        return number is not None and not (short is None and named)
    if DATE_OR_TIME.fullmatch(short.form):
        return False
    spelling = quantity.with_points(short.spelling) if quantity.writes_decimal_commas(text) else short.spelling
    spelling = OF_NUMBER.sub("", spelling)
    begins = spelling.startswith(number.spelling)
    if begins and TITLE.match(spelling, len(number.spelling)):  # "12 Angry Men"
        return False
    return begins or quantity.equated(spelling) is not None


def _option_count(question: str) -> int | None:
    """Count the options that a question lists, A, B and so on, on lines of their own or in brackets."""
    for pattern, fewest in ((OPTION_LINES, 2), (OPTIONS_IN_LINE, 3)):
        count, goes_on = 0, False
        for match in pattern.finditer(question):  # the last list that begins with A counts
            goes_on = match[1] == "A" or (goes_on and match[1] == chr(ord("A") + count))
            count = 1 if match[1] == "A" else count + goes_on
        if count >= fewest:
            return count
    return None
