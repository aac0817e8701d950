r"""The text of a trace: as many tokens as it has, the last of which holds the answer.

>>> print(render(TraceSpec("7", 6)).text)
<think> so we look again </think> The answer is \boxed{7}.
>>> cut = render(TraceSpec("7", 6), limit=4)
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

__all__ = ["TraceSpec", "TraceText", "closing", "render"]

OPEN, CLOSE = "<think>", " </think>"
FILLER_LINE = " so we look again at what is given and then at what follows from it, step by step,"
FILLER = [f" {word}" for word in FILLER_LINE.split()]
FILLER_PREFIXES = ["".join(FILLER[:count]) for count in range(len(FILLER))]


@dataclass(frozen=True, slots=True)
class TraceSpec:
    """What a trace is to say: its answer, its length, its confidence if that was recorded.

    ``mood`` in [0, 1) stands in for a confidence that was not. ``shares`` are the probabilities of what it might have
    answered: the log-probabilities of a trace that is its answer alone.
    """

    answer: str | None
    tokens: int
    confidence: float | None = None
    mood: float = 0.5
    shares: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TraceText:
    """The text of a trace after ``max_tokens`` and ``stop`` have had their way."""

    spec: TraceSpec
    text: str
    tokens: int
    finish: Literal["stop", "length"]

    def pieces(self) -> list[str]:
        """The text, token by token."""
        pieces = _opening(self.spec, self.tokens)
        length = sum(map(len, pieces))
        if len(pieces) < self.tokens:
            pieces.append(self.text[length:])
        elif length != len(self.text):  # a stop cut the last one short
            pieces[-1] = pieces[-1][: len(pieces[-1]) - (length - len(self.text))]
        return pieces


def render(spec: TraceSpec, limit: int | None = None, stops: Iterable[str] = ()) -> TraceText:
    """The trace as a server with this ``max_tokens`` and ``stop`` returns it; the stop string is left out."""
    whole = spec.answer is not None and (limit is None or spec.tokens <= limit)
    count = spec.tokens if limit is None else min(spec.tokens, limit)
    text = _thoughts(count - 1 if whole else count)
    if whole:
        text += closing(spec.answer or "", spec.tokens == 1)
    trace = TraceText(spec, text, count, "stop" if whole else "length")
    ends = [end for stop in stops if (end := text.find(stop)) >= 0]
    return _stopped(trace, min(ends)) if ends else trace


def _stopped(trace: TraceText, end: int) -> TraceText:
    """Cut before character ``end``: the token that the stop begins in is the last that was made."""
    length = 0
    for count, piece in enumerate(trace.pieces(), 1):
        length += len(piece)
        if length > end:
            return TraceText(trace.spec, trace.text[:end], count, "stop")
    return trace


def _thoughts(count: int) -> str:
    """The first ``count`` tokens, the last one of an answered trace aside."""
    if count < 1:
        return ""
    rounds, rest = divmod(count - 1, len(FILLER))
    return OPEN + FILLER_LINE * rounds + FILLER_PREFIXES[rest]


def _opening(spec: TraceSpec, count: int) -> list[str]:
    """The tokens before the one that holds the answer, at most ``count``."""
    count = min(count, spec.tokens - (spec.answer is not None))
    if count < 1:
        return []
    rounds, rest = divmod(count - 1, len(FILLER))
    return [OPEN, *FILLER * rounds, *FILLER[:rest]]


@lru_cache(maxsize=4096)
def closing(answer: str, alone: bool) -> str:
    r"""The token with the answer, in a box where it fits into one: braces that do not pair up would break it.

    >>> closing("{", alone=True)
    'The answer is {'
    """
    start = "The answer is" if alone else f"{CLOSE} The answer is"
    box = rf"\boxed{{{answer}}}"
    return f"{start} {box}." if boxed(box) == answer.strip() else f"{start} {answer}"
