r"""The words of a trace: as many tokens as it has, the last of which holds the answer.

>>> print(speak(Said("7", 6)).text)
<think> so we look again </think> The answer is \boxed{7}.
>>> cut = speak(Said("7", 6), limit=4)
>>> cut.finish, cut.tokens, cut.text
('length', 4, '<think> so we look')

A trace without an answer is one that never closed its thoughts, as most of the recorded ones were; it ends with
``finish_reason`` "length" too. Every text is one line, so that a client whose stop is a line break gets all of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pets.answers.final import boxed

__all__ = ["Said", "Spoken", "speak"]

LINE = " so we look again at what is given and then at what follows from it, step by step,"
FILLER = [f" {word}" for word in LINE.split()]
PREFIX = ["".join(FILLER[:count]) for count in range(len(FILLER))]


@dataclass(frozen=True, slots=True)
class Said:
    """What a trace says: its answer, its length, its confidence if that was recorded.

    ``mood`` in [0, 1) stands in for a confidence that was not.
    """

    answer: str | None
    tokens: int
    confidence: float | None = None
    mood: float = 0.5


@dataclass(frozen=True, slots=True)
class Spoken:
    """The text of a trace after ``max_tokens`` and ``stop`` have had their way."""

    said: Said
    text: str
    tokens: int
    finish: Literal["stop", "length"]

    def pieces(self) -> list[str]:
        """The text, token by token."""
        pieces = _opening(self.said, self.tokens)
        length = sum(map(len, pieces))
        if len(pieces) < self.tokens:
            pieces.append(self.text[length:])
        elif length != len(self.text):  # a stop cut the last one short
            pieces[-1] = pieces[-1][: len(pieces[-1]) - (length - len(self.text))]
        return pieces


def speak(said: Said, limit: int | None = None, stops: Iterable[str] = ()) -> Spoken:
    """The trace as a server with this ``max_tokens`` and ``stop`` returns it; the stop string is left out."""
    whole = said.answer is not None and (limit is None or said.tokens <= limit)
    count = said.tokens if limit is None else min(said.tokens, limit)
    text = _thoughts(count - 1 if whole else count)
    if whole:
        text += closing(said.answer or "", said.tokens == 1)
    spoken = Spoken(said, text, count, "stop" if whole else "length")
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return _stopped(spoken, min(found)) if found else spoken


def _stopped(spoken: Spoken, at: int) -> Spoken:
    """Cut before the ``at``-th character: the token that the stop begins in is the last that was made."""
    length = 0
    for count, piece in enumerate(spoken.pieces(), 1):
        length += len(piece)
        if length > at:
            return Spoken(spoken.said, spoken.text[:at], count, "stop")
    return spoken


def _thoughts(count: int) -> str:
    """The first ``count`` tokens, the last one of an answered trace aside."""
    if count < 1:
        return ""
    rounds, rest = divmod(count - 1, len(FILLER))
    return "<think>" + LINE * rounds + PREFIX[rest]


def _opening(said: Said, count: int) -> list[str]:
    """The tokens before the one that holds the answer, at most ``count``."""
    count = min(count, said.tokens - (said.answer is not None))
    if count < 1:
        return []
    rounds, rest = divmod(count - 1, len(FILLER))
    return ["<think>", *FILLER * rounds, *FILLER[:rest]]


@lru_cache(maxsize=4096)
def closing(answer: str, alone: bool) -> str:
    r"""The token with the answer, in a box where it fits into one: braces that do not pair up would break it.

    >>> closing("{", alone=True)
    'The answer is {'
    """
    start = "The answer is" if alone else " </think> The answer is"
    box = rf"\boxed{{{answer}}}"
    return f"{start} {box}." if boxed(box) == answer.strip() else f"{start} {answer}"
