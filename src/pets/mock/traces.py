r"""The text of a trace, as many tokens as it has, the last of which holds the answer; and its log-probabilities.

>>> print(render(TraceSpec("7", 6)).text)
<think> so we look again </think> The answer is \boxed{7}.
>>> cut = render(TraceSpec("7", 6), limit=4)
>>> cut.finish, cut.tokens, cut.text
('length', 4, '<think> so we look')

A trace without an answer is one that never closed its thoughts, as most of the recorded ones were; it ends with
``finish_reason`` "length" too. Every text is one line, so that a client whose stop is a line break gets all of it.

A recorded confidence c shows at every token: minus the mean of the top k is c, so whatever a client computes from
them (mean, tail, lowest group) is c again. Where none was recorded, a level between 8 and 16 is drawn for each trace,
unrelated to its answer, and rises and falls along the trace so that the kinds of confidence differ. A trace of one
token whose answers have known probabilities shows those instead.

JSON is put together from cached fragments: a trace of 2,048 tokens with 20 log-probabilities each is 3 MB.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, cycle, repeat
from typing import Literal

from pets.answers.final import boxed

OPEN, CLOSE = "<think>", " </think>"
FILLER_LINE = "so we look again at what is given and then at what follows from it, step by step,"
FILLER = [f" {word}" for word in FILLER_LINE.split()]
CONFIDENCE_LEVELS = 16
WAVE_FACTORS = [1.0, 1.05, 1.1, 1.05, 1.0, 0.95, 0.9, 0.95]
WAVE_STEP_TOKENS = 8  # before the wave moves on


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
    """A trace after ``max_tokens`` and ``stop`` have had their way: its text, token by token, and why it ended."""

    spec: TraceSpec
    pieces: tuple[str, ...]
    finish: Literal["stop", "length"]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        return len(self.pieces)


def render(spec: TraceSpec, limit: int | None = None, stops: Iterable[str] = ()) -> TraceText:
    """The trace as a server with this ``max_tokens`` and ``stop`` returns it; the stop string is left out."""
    whole = spec.answer is not None and (limit is None or spec.tokens <= limit)
    count = spec.tokens if limit is None else min(spec.tokens, limit)
    pieces = [OPEN, *FILLER * (count // len(FILLER) + 1)][: count - whole]
    if whole:
        pieces.append(closing(spec.answer or "", spec.tokens == 1))
    text = "".join(pieces) if stops else ""
    ends = [end for stop in stops if (end := text.find(stop)) >= 0]
    if not ends:
        return TraceText(spec, tuple(pieces), "stop" if whole else "length")
    last = bisect_right(list(accumulate(map(len, pieces))), min(ends))  # the token that the stop begins in
    cut = text[sum(map(len, pieces[:last])) : min(ends)]
    return TraceText(spec, (*pieces[:last], cut), "stop")


@lru_cache(maxsize=4096)
def closing(answer: str, alone: bool) -> str:
    r"""The token with the answer, in a box where it fits into one: braces that do not pair up would break it.

    >>> closing("{", alone=True)
    'The answer is {'
    """
    start = "The answer is" if alone else f"{CLOSE} The answer is"
    box = rf"\boxed{{{answer}}}"
    return f"{start} {box}." if boxed(box) == answer.strip() else f"{start} {answer}"


# Log-probabilities


@lru_cache(maxsize=1024)
def top_logprobs(confidence: float, k: int) -> tuple[float, ...]:
    """k log-probabilities, largest first, with mean -confidence.

    They belong to a distribution where one exists (confidence >= log k); below that none does, and all are equal.

    >>> top_logprobs(4.0, 3)
    (-0.2, -4.72, -7.08)
    """
    first = 0.05 * confidence if k > 1 else confidence
    rest = (k * confidence - first) / max(1, k - 1)
    slope = [0.8 + 0.4 * i / (k - 2) if k > 2 else 1.0 for i in range(k - 1)]
    values = [-first, *(-rest * factor for factor in slope)]
    if math.fsum(map(math.exp, values)) > 1:
        values = [-confidence] * k
    return tuple(round(value, 6) for value in values)


def chat_content(spec: TraceSpec, pieces: Sequence[str], k: int) -> Iterator[str]:
    """For each token, its entry in ``logprobs.content``, as JSON."""
    if tokens := _known(spec, pieces, k):
        entries = [_chat_entry(token, value) for token, value in tokens]
        yield f'{entries[0][:-1]},"top_logprobs":[{",".join(entries)}]}}'
        return
    for piece, confidence in zip(pieces, _levels(spec), strict=False):
        sampled, others, _ = _others(confidence, k)
        named = _chat_entry(piece, sampled)
        yield f'{named[:-1]},"top_logprobs":[{named + others if k else ""}]}}'


def completion_logprobs(spec: TraceSpec, pieces: Sequence[str], k: int) -> Iterator[tuple[str, str]]:
    """For each token, its log-probability and its entry in ``top_logprobs``, as JSON."""
    if tokens := _known(spec, pieces, k):
        yield str(tokens[0][1]), f"{{{','.join(f'{_text(token)}:{value}' for token, value in tokens)}}}"
        return
    for piece, confidence in zip(pieces, _levels(spec), strict=False):
        sampled, _, others = _others(confidence, k)
        yield str(sampled), f"{{{_text(piece)}:{sampled}{others}}}"


def completion_form(pieces: Sequence[str], entries: Iterable[tuple[str, str]], offset: int = 0) -> str:
    """The ``logprobs`` object of ``/v1/completions`` for a run of tokens, the first of which starts at ``offset``."""
    sampled, tops = zip(*entries, strict=True) if pieces else ((), ())
    offsets = list(accumulate(map(len, pieces), initial=offset))[:-1]
    return (
        f'{{"tokens":[{",".join(map(_text, pieces))}],"token_logprobs":[{",".join(sampled)}],'
        f'"top_logprobs":[{",".join(tops)}],"text_offset":[{",".join(map(str, offsets))}]}}'
    )


def _known(spec: TraceSpec, pieces: Sequence[str], k: int) -> list[tuple[str, float]]:
    """The token of a trace that is its answer alone, and then the k likeliest others; none for any other trace."""
    if spec.answer is None or len(pieces) != 1 or not k:
        return []
    chances = {closing(answer, alone=True): chance for answer, chance in spec.shares if chance > 0}
    likeliest = sorted(chances.items(), key=lambda item: (item[0] != pieces[0], -item[1]))[: k + 1]
    return [(token, round(math.log(chance), 6)) for token, chance in likeliest]


def _levels(spec: TraceSpec) -> Iterator[float]:
    """The confidence of each token, without end."""
    if spec.confidence is not None:
        return repeat(spec.confidence)
    level = 8 + 8 * int(spec.mood * CONFIDENCE_LEVELS) / CONFIDENCE_LEVELS
    return cycle([level * factor for factor in WAVE_FACTORS for _ in range(WAVE_STEP_TOKENS)])


@lru_cache(maxsize=1024)
def _others(confidence: float, k: int) -> tuple[float, str, str]:
    """The sampled token's log-probability, and the k - 1 tokens below it in both forms, a comma before each."""
    sampled, *values = top_logprobs(confidence, max(1, k))
    others = [(f" ~{rank}", value) for rank, value in enumerate(values, 1)]
    chat = "".join(f",{_chat_entry(token, value)}" for token, value in others)
    return sampled, chat, "".join(f",{_text(token)}:{value}" for token, value in others)


def _chat_entry(token: str, value: float) -> str:
    return f'{{"token":{_text(token)},"logprob":{value},"bytes":{_bytes(token)}}}'


@lru_cache(maxsize=4096)
def _text(token: str) -> str:
    return json.dumps(token)


@lru_cache(maxsize=4096)
def _bytes(token: str) -> str:
    return json.dumps(list(token.encode("utf-8", "surrogatepass")), separators=(",", ":"))
