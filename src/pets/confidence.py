r"""Trace confidence from token log-probabilities (DeepConf: Fu et al., *Deep Think with Confidence*, arXiv:2508.15260).

    c_t    = - mean of the k largest log-probabilities reported for token t        token confidence
    mean   = mean of c_t over the trace
    tail   = mean of c_t over its last W tokens
    lowest = least mean of c_t over any W tokens in a row                          lowest group
    bottom = mean of the lowest max(1, floor(G / 10)) of the G = T - W + 1 groups  bottom 10 %

A trace of T <= W tokens is one group, the whole trace: then all four are one number. On short traces, choose a
short window.

k is ``top``. A server gives k + 1 where the sampled token was not among the k likeliest (the k largest are used) and
may give fewer (all are used). Where it says that a token is impossible, as ``-inf``, as -9999.0 (OpenAI, vLLM) or as
the lowest float32 (llama.cpp), that token counts as :data:`FLOOR`: left out, it would make the surest tokens look
unsure; taken at its word, one of them would outweigh the rest of the trace. So 0 <= c_t <= 87.34. No
log-probabilities, NaN, or one above 0 (by more than rounding) raise: a confidence is never made up.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pets.errors import InputError

Kind = Literal["mean", "tail", "lowest", "bottom"]
KINDS: tuple[Kind, ...] = ("mean", "tail", "lowest", "bottom")
FLOOR = math.log(2.0**-126)
"""-87.34, the logarithm of the smallest normal float32: no token counts as less likely."""

ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Confidence:
    """The four confidences of a trace of ``tokens`` tokens; higher is surer, all lie in [0, 87.34]."""

    mean: float
    tail: float
    lowest: float
    bottom: float
    tokens: int


def token_confidence(logprobs: Iterable[float], top: int = 20) -> float:
    """Minus the mean of the ``top`` largest log-probabilities.

    >>> token_confidence([-0.5, -1.5, -4.0]), token_confidence([-0.5, -1.5, -4.0], top=2)
    (2.0, 1.0)
    >>> round(token_confidence([0.0, -9999.0]), 2)
    43.67
    """
    values = list(logprobs)
    if not values:
        raise InputError("a token came without log-probabilities; its confidence is unknown. Ask for top_logprobs.")
    if len(values) > top:
        values = sorted(values, reverse=True)[:top]
    total = sum(values)
    if min(values) < FLOOR or max(values) > 0.0 or total != total:  # some are at or beyond the ends of the scale
        for value in values:
            if math.isnan(value) or value > ROUNDING:
                raise InputError(f"a log-probability is {value}; it is at most 0. Check what the server sends.")
        total = sum(min(0.0, max(FLOOR, value)) for value in values)
    return -total / len(values) if total else 0.0


class Meter:
    """Confidence while the tokens come in, exact up to rounding. It keeps one number per token, none of its candidates.

    >>> meter = Meter(window=2, top=2)
    >>> for logprobs in ([-0.1, -3.9], [-1.0, -1.0], [-0.2, -2.8], [-0.1, -4.9]):
    ...     meter.add(logprobs)
    >>> result = meter.result()
    >>> print(f"{result.mean:.3f} {result.tail:.1f} {result.lowest:.2f} {result.bottom:.2f} {result.tokens}")
    1.750 2.0 1.25 1.25 4
    >>> Meter().result() is None
    True
    """

    __slots__ = ("_closed", "_last", "_means", "_running", "_tokens", "_top", "_window")

    def __init__(self, window: int = 2048, top: int = 20) -> None:
        if window < 1 or top < 1:
            raise InputError(f"the window and top are at least 1; got window={window}, top={top}.")
        self._window, self._top = window, top
        self._last = deque[float](maxlen=window)  # the confidences of the last tokens
        self._running = 0.0  # their sum
        self._tokens = 0
        self._closed = 0.0  # sum of the tokens up to the last multiple of the window
        self._means = array("d")  # of the groups

    def add(self, logprobs: Iterable[float]) -> None:
        """One token: the log-probabilities that were reported for its place, in any order."""
        value = token_confidence(logprobs, self._top)
        last, window = self._last, self._window
        self._running += value if self._tokens < window else value - last[0]
        last.append(value)
        self._tokens += 1
        if self._tokens % window == 0:  # summed afresh, so that rounding never piles up
            self._running = math.fsum(last)
            self._closed += self._running
        if self._tokens >= window:
            self._means.append(max(0.0, self._running / window))  # below 0 by rounding, after an unsure window

    def result(self) -> Confidence | None:
        """The confidences so far; ``None`` before the first token. Changes nothing: more tokens may follow."""
        last, tokens = self._last, self._tokens
        if not tokens:
            return None
        tail = math.fsum(last) / len(last)
        if tokens <= self._window:
            return Confidence(tail, tail, tail, tail, tokens)
        total = self._closed + math.fsum(islice(last, self._window - tokens % self._window, None))
        lowest = sorted(self._means)[: max(1, len(self._means) // 10)]
        return Confidence(total / tokens, tail, lowest[0], math.fsum(lowest) / len(lowest), tokens)


def measure(tokens: Iterable[Iterable[float]], window: int = 2048, top: int = 20) -> Confidence | None:
    """The confidence of a whole trace at once; ``None`` for a trace without tokens.

    >>> measure([[-1.0, -3.0]] * 3, window=2)
    Confidence(mean=2.0, tail=2.0, lowest=2.0, bottom=2.0, tokens=3)
    """
    meter = Meter(window, top)
    for logprobs in tokens:
        meter.add(logprobs)
    return meter.result()
