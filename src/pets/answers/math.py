r"""Mathematics in LaTeX: ``\frac12``, ``0.5`` and ``1/2``; ``(3,\frac{\pi}{2})`` and ``(3,\pi/2)``.

Spelling is settled by rewriting, numbers exactly, words by equality; what is left goes to math-verify
(https://github.com/huggingface/Math-Verify) in a worker process with a time limit, under two conditions that keep
its leniency from merging what differs (it takes ``2^{-99}`` for ``2^{-100}``): both values agree to 300 digits at
fixed points, and it says yes both ways. Timeouts, errors and doubts leave two answers apart. A bare list is a set
(``1,-2`` and ``-2,1``), a bracketed one is ordered.
"""

import re
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from pets._extras import check_installed
from pets.answers.base import AnswerType
from pets.answers.comparison import OUT_OF_TIME, agree, fingerprint, worker_seconds
from pets.answers.final import places
from pets.answers.latex import comparable, normalize, word
from pets.answers.rational import read, show
from pets.errors import InputError

__all__ = ["Math"]

MAX_CHARS = 2000  # what is longer is no answer
SOON_SECONDS = 0.2  # of processor time; most comparisons take a few hundredths
MAX_CACHED_CHARS = 200  # so that the cache stays within about 30 MB
EXACT = re.compile(r"-?\d+(?:/\d+)?")
LONE_LETTER = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")
SCIENTIFIC = re.compile(r"[\d.,]+[eE][+-]?\d+")
OPENING = re.compile(r"\$+|\\[(\[]")
DOLLARS, CLOSING = re.compile(r"\$+"), re.compile(r"\\[)\]]")
SENTENCE = re.compile(r"\.(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Math(AnswerType):
    r"""Formulas and numbers in LaTeX. A comparison may cost ``seconds`` of processor time, a question 20 times that.

    >>> print(Math().canonical(r"\dfrac{1}{2}"), Math().canonical("0.50"), Math().canonical(r"$x = 2\sqrt 3$"))
    1/2 1/2 2\sqrt{3}
    """

    operator_only: ClassVar[bool] = False

    seconds: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3600:
            raise InputError(f"a comparison takes more than 0 and at most 3600 seconds; got {self.seconds}.")
        check_installed("math_verify", "math", "math-verify, which compares formulas,")  # before anything is paid

    @property
    def instruction(self) -> str:
        """A box."""
        return r"Put your final answer within \boxed{}."

    @property
    def question_seconds(self) -> float:
        """Twenty comparisons that take all of their time."""
        return 20 * self.seconds

    def canonical(self, answer: str) -> str | None:
        """An exact number, or LaTeX with one spelling."""
        if len(answer) > MAX_CHARS:
            return None
        return _canonical(answer) if len(answer) > MAX_CACHED_CHARS else _cached_canonical(answer)

    def extract(self, text: str) -> str | None:
        """The formula in a box, else after "answer is", else the last one, or the number that the last line is."""
        for place, passage in places(text):
            if place == "boxed":
                return self.canonical(passage)
            formulas = _formulas(passage)
            if place == "cue":
                sentence = SENTENCE.split(passage.strip("*_ "))[0].strip("*_ ")
                answer = self.canonical(formulas[0] if formulas else sentence)
            else:
                answer = self.canonical(formulas[-1]) if formulas else _number(passage)
            if answer is not None:
                return answer
        return None

    def same_at_once(self, first: str, second: str) -> bool | None:
        """What spelling, numbers and words decide."""
        if first == second:
            return True
        if EXACT.fullmatch(first) and EXACT.fullmatch(second):
            return False
        if (key := word(first)) is not None or word(second) is not None:
            return key == word(second)
        if not (comparable(first) and comparable(second)) or _cases_clash(first, second):
            return False
        return None

    def processor_time(self) -> float:
        """This thread's, and the worker's on its behalf."""
        return time.thread_time() + worker_seconds()

    def same(self, first: str, second: str) -> bool:
        """Whether two canonical forms have one meaning; asks the worker only if nothing cheaper decides."""
        if (plain := self.same_at_once(first, second)) is not None:
            return plain
        return bool(self._same_within(first, second, self.seconds))

    def same_soon(self, first: str, second: str) -> bool | None:
        """What :meth:`same` says; ``None`` where that takes the worker more than a fifth of a second."""
        if (plain := self.same_at_once(first, second)) is not None:
            return plain
        return self._same_within(first, second, min(self.seconds, SOON_SECONDS))

    @staticmethod
    def _same_within(first: str, second: str, seconds: float) -> bool | None:
        first, second = sorted((first, second))  # symmetric, and one entry of the cache
        mark = fingerprint(first, seconds)
        other = mark and fingerprint(second, seconds)
        if mark and mark == other:
            reply = agree(first, second, seconds)
        else:
            reply = OUT_OF_TIME if OUT_OF_TIME in (mark, other) else "no"
        return None if reply == OUT_OF_TIME else reply == "yes"


def _canonical(answer: str) -> str | None:
    text = _number(answer) or normalize(answer)
    text = _number(text) or text
    return text if 0 < len(text) <= MAX_CHARS else None


_cached_canonical = lru_cache(maxsize=1 << 14)(_canonical)


def _formulas(line: str) -> list[str]:
    r"""What stands in ``$...$``, ``\(...\)`` and ``\[...\]``, from left to right.

    >>> _formulas(r"$x$ or \(y\), but $$z$$ for $5")
    ['x', 'y', 'z']
    """
    formulas, place, ended = [], 0, set[re.Pattern[str]]()
    while opening := OPENING.search(line, place):
        place = opening.end()
        dollars = opening[0][0] == "$"
        pattern = DOLLARS if dollars else CLOSING
        # A bracketed formula has a character at least; between dollars there is one anyway.
        closing = None if pattern in ended else pattern.search(line, place + (not dollars))
        if closing is None:
            ended.add(pattern)
        else:
            formulas.append(line[place : closing.start()])
            place = closing.end()
    return formulas


def _number(text: str) -> str | None:
    """The exact number that the text is; a lone letter is a variable here, no unit."""
    if LONE_LETTER.search(text) and not SCIENTIFIC.fullmatch(text.strip()):
        return None
    value = read(text)
    return None if value is None else show(value)


def _cases_clash(first: str, second: str) -> bool:
    """Whether ``R`` meets ``r``: the parser does not tell them apart."""
    letters = set(re.sub(r"\\[a-zA-Z]+", "", first + second))
    return any(letter.isupper() and letter.lower() in letters for letter in letters)
