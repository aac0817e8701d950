r"""Mathematics in LaTeX: ``\frac12``, ``0.5`` and ``1/2``; ``(3,\frac{\pi}{2})`` and ``(3,\pi/2)``.

Spelling is settled by rewriting, numbers exactly, words by equality; what is left goes to math-verify
(https://github.com/huggingface/Math-Verify) in a worker process with a time limit, under two conditions that keep
its leniency from merging what differs (it takes ``2^{-99}`` for ``2^{-100}``): both values agree to 300 digits at
fixed points, and it says yes both ways. Timeouts, errors and doubts leave two answers apart. A bare list is a set
(``1,-2`` and ``-2,1``), a bracketed one is ordered. Inequalities in ``x`` are intervals; units are as in ``number``.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from pets._extras import check_installed
from pets.answers import quantity
from pets.answers.base import MAX_CACHED_CHARS, AnswerType, Reading
from pets.answers.comparison import OUT_OF_TIME, agree, fingerprint, worker_seconds
from pets.answers.final import Place, places, strip_openers
from pets.answers.latex import COMMAND, NAME, comparable, normalize, word
from pets.answers.phrases import words
from pets.errors import InputError
from pets.patterns import END, START, Pattern

MAX_CHARS = 2000  # what is longer is no answer
SOON_SECONDS = 0.2  # of processor time; most comparisons take a few hundredths
MAX_WORDS = 6  # of a verbal answer
MAX_EXPRESSION_CHARS = 200  # in prose
AROUND_FORMULA = " \t\n$*_`.,;"
EXACT = Pattern(r"-?[0-9]+(?:[/.][0-9]+)?(?: \S+(?: [0-9/.]+ \S+)*)?")
NAMED = Pattern(rf"[\s$]*({NAME.pattern})\s*=([^=]*)")
LINE = Pattern(r"y=(.*x.*)")
JOINED = Pattern(r"(?i)[\s$]*(?:or|and|,|;|\\text\{\s*(?:or|and)\s*\})[\s$]*")
FUNCTION_NAMES = frozenset(words("functions").split("|"))
WORD = Pattern(r"(\\?)([a-zA-Z]+)")
LAST_SIGN = "\u2e7f"  # beyond, there is writing without letters
UNITS = Pattern(rf"(?i)\s(?:{quantity.UNIT_WORD}|radians?)›\n?\z")
VERBAL = Pattern(rf"(?i){START}(?:{words('verbal_results')}){END}")
EXPRESSION = Pattern(r"[^.!?]*(?:[=+*/^<>\\\d|()-])[^.!?]*(?:\.\d[^.!?]*)*")
BRACKETED = Pattern(r"\([^()]*\)", needs="(")
SAID = Pattern(
    rf"{START}(?:is|are|equals|be|get|gives|obtain|have|ist|est|es|è|é)\s+(?:at\s|given by\s|equal to\s|simply\s"
    r"|just\s)?|:\s+"
)
EXCLAMATION = Pattern(r"\d‹!{1,5}[*_\s]{0,10}›\n?\z", needs="!")
FORMULA = Pattern(r"(?s)\$+([^$]+)\$+|\\[(\[](.+?)\\[)\]]")
SENTENCE = Pattern(r"\.(?:\s|\z)", needs=".")
COORDINATE = Pattern(r"(?:\A|[^a-zA-Z\\])[xyz](?:[^a-zA-Z(]|\z)")


@dataclass(frozen=True, slots=True)
class Math(AnswerType):
    r"""Formulas and numbers in LaTeX. A comparison may cost ``seconds`` of processor time, a question 20 times that.

    >>> print(Math().canonical(r"\dfrac{1}{2}"), Math().canonical("0.50"), Math().canonical(r"$x = 2\sqrt 3$"))
    0.5 0.5 2\sqrt{3}
    """

    operator_only = False
    reads_at_once = True
    instruction = r"Put your final answer within \boxed{}."

    seconds: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3600:
            raise InputError(f"a comparison takes more than 0 and at most 3600 seconds; got {self.seconds}.")
        check_installed("math_verify", "math", "math-verify, which compares formulas,")  # before anything is paid

    @property
    def question_seconds(self) -> float:
        return 20 * self.seconds

    def canonical(self, answer: str) -> str | None:
        """An exact number, or LaTeX with one spelling."""
        if len(answer) > MAX_CHARS:
            return None
        return _canonical(answer) if len(answer) > MAX_CACHED_CHARS else cached_canonical(answer)

    def read(self, text: str) -> Reading | None:
        """The formula in a box, a tag or a JSON field, else of the last statement, else of the last line."""
        comma = quantity.writes_decimal_commas(text)
        passages = places(text)
        with suppress(quantity.AmbiguousError):
            for place, passage in passages:
                first = next((first for _, first in passages), "") if place == "line" else ""
                answer = self._read(place, passage, comma, first)
                if answer is not None or place == "boxed":
                    return answer
        return None

    def _read(self, place: Place, passage: str, comma: bool, first: str) -> Reading | None:
        """The formula of a passage, else the number that it comes to, else what is said in a few words."""
        if place == "boxed":
            return self._formula(passage)
        if place == "first":
            return None
        bare = strip_openers(EXCLAMATION.sub("", passage.strip("*_ ")))
        formulas = _formulas(quantity.without_condition(bare))
        if formulas:
            return self._formula(_result(formulas[0] if place == "cue" else formulas[-1]))
        prose = quantity.with_points(bare) if comma else bare
        number = _number(prose) or (_number(first) if place == "line" else None)
        sentence = SENTENCE.split(bare)[0].strip("*_ \"'“”")
        expression = UNITS.sub("", SAID.split(sentence)[-1])
        if number is None and len(expression) <= MAX_EXPRESSION_CHARS and _is_expression(expression):
            return self._formula(_result(expression))
        number = number or (quantity.concluded if place == "line" else quantity.stated)(prose)
        if number is not None:
            return Reading(quantity.show(number), number.written.strip())
        if verbal := VERBAL.search(passage):
            return self._formula(verbal[0])
        is_short = len(sentence) <= MAX_EXPRESSION_CHARS and len(sentence.split()) <= MAX_WORDS
        return self._formula(sentence) if is_short and place != "line" else None

    def _formula(self, text: str) -> Reading | None:
        form = self.canonical(text)
        if form is None:
            return None
        number = _number(text) if EXACT.fullmatch(form) else None
        return Reading(form, (number.written if number else text).strip(AROUND_FORMULA))

    def same_at_once(self, first: str, second: str) -> bool | None:
        """Decide by spelling, numbers and words."""
        if first == second:
            return True
        if EXACT.fullmatch(first) and EXACT.fullmatch(second):
            return quantity.same(quantity.parse(first), quantity.parse(second))
        if (key := word(first)) is not None or word(second) is not None:
            return key == word(second)
        letters = set(COMMAND.sub("", first + second))
        clash = any(letter.isupper() and letter.lower() in letters for letter in letters)  # the parser reads R as r
        return None if comparable(first) and comparable(second) and not clash else False

    def processor_time(self) -> float:
        """This thread's, and the worker's on its behalf."""
        return time.thread_time() + worker_seconds()

    def same(self, first: str, second: str) -> bool:
        """Whether two canonical forms have one meaning; asks the worker only if nothing cheaper decides."""
        return bool(self._same_within(first, second, self.seconds))

    def same_soon(self, first: str, second: str) -> bool | None:
        return self._same_within(first, second, min(self.seconds, SOON_SECONDS))

    def _same_within(self, first: str, second: str, seconds: float) -> bool | None:
        if (plain := self.same_at_once(first, second)) is not None:
            return plain
        if ("=" in first) != ("=" in second):  # y=2x+3 beside 2x+3 goes without its name
            first, second = (line[1] if (line := LINE.fullmatch(form)) else form for form in (first, second))
        first, second = sorted((first, second))  # symmetric, and one entry of the cache
        mark = fingerprint(first, seconds)
        other = mark and fingerprint(second, seconds)
        if mark and mark == other:
            reply = agree(first, second, seconds)
            return None if reply == OUT_OF_TIME else reply == "yes"
        return None if OUT_OF_TIME in (mark, other) else False


def _canonical(answer: str) -> str | None:
    text = answer
    for _ in range(2):  # as it stands, and rewritten
        if number := _number(text):
            return quantity.show(number)
        text = normalize(answer)
    return text if 0 < len(text) <= MAX_CHARS else None


cached_canonical = lru_cache(maxsize=1 << 14)(_canonical)


def _formulas(line: str) -> list[str]:
    r"""The formulas in ``$...$``, ``\(...\)`` and ``\[...\]``, from left to right; joined where "or" is between."""
    formulas, last_end = list[str](), 0
    for match in FORMULA.finditer(line):
        formula = match[1] or match[2]
        if formulas and JOINED.fullmatch(line[last_end : match.start()]):
            formulas[-1] += f",{formula}"
        else:
            formulas.append(formula)
        last_end = match.end()
    return formulas


def _number(text: str) -> quantity.Quantity | None:
    """The exact number or quantity that the text is, or that a name in it stands for."""
    named = NAMED.fullmatch(text)
    return quantity.read(named[2] if named and named[1] != "y" else text, letters=False)


def _result(formula: str) -> str:
    """The last side of a concluding formula such as ``m+n=3+4=7``; an equation in x or y stays."""
    above, equals, value = formula.rpartition("=")
    coordinates = COORDINATE.search(above)
    single = equals and above.strip() and "," not in BRACKETED.sub("", above)
    return value if single and not coordinates and _number(value) else formula


def _is_expression(text: str) -> bool:
    """Whether it is written in signs: no word of three letters that is neither a command nor a function."""
    if EXPRESSION.fullmatch(text) is None or max(text) > LAST_SIGN:
        return False
    names = (name for backslash, name in WORD.findall(text) if not backslash)
    return not any(len(name) >= 3 and name not in FUNCTION_NAMES for name in names)
