"""Streams, walked: the sizes that the allocator gives questions which arrive one by one, without launching a trace.

Where each question arrives after the last has stopped and every trace costs the same, the queue of a quota policy
(:mod:`pets.core.quotas`) is a few sums. With R_t traces left when question t arrives and H_t questions to come, itself
among them, its total is the policy's quota at (R_t, H_t), asked again until it is reached, and at most

    min(cap, R_t - warm-up (H_t - 1)).

The policy is asked at the same tallies and with the same views, so the sizes are the same: a test holds them against
:func:`~pets.replay.drivers.stream_sizes`. A sweep over budgets meets most tallies many times; they are made once.
"""

import math
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import QuotaPolicy, View
from pets.core.quotas import COINS, STOPS_KEPT
from pets.core.tally import Tally
from pets.replay.draws import Draw
from pets.replay.drivers import stream_sizes
from pets.replay.stopping import States

__all__ = ["Prefixes", "walked_sizes"]

Sizes = NDArray[np.int64]


class Prefixes:
    """The tallies of one draw's prefixes, each made when it is first met; at most N (P + 1) for each round."""

    def __init__(self, drawn: Draw, states: States) -> None:
        self.drawn = drawn
        self._keys = states.keys
        self._tokens: dict[int, list[int]] = {}
        self._along = states.along(drawn).tolist()
        self._tallies: dict[tuple[int, int, int], Tally] = {}

    def tally(self, row: int, n: int, rounds: int) -> Tally:
        """What a policy that sees counts is shown after n traces of a question, in its ``rounds``-th round."""
        key = row, n, rounds
        found = self._tallies.get(key)
        if found is None:
            found = self._tallies[key] = self._made(row, n, rounds)
        return found

    def _made(self, row: int, n: int, rounds: int) -> Tally:
        id, options = self.drawn.pool.questions[row].id, self.drawn.pool.options
        if row not in self._tokens:
            self._tokens[row] = list(accumulate((trace.tokens for trace in self.drawn.traces[id]), initial=0))
        counts, nulls = self._keys[self._along[row][n]]
        mean_tokens = self._tokens[row][n] / max(1, n)
        return Tally(counts, nulls, options=options, rounds=rounds, mean_tokens=mean_tokens, question=id)


def walked_sizes(policy: QuotaPolicy, prefixes: Prefixes, arrivals: Sequence[int], total: int, seed: int) -> Sizes:
    """What :func:`~pets.replay.drivers.stream_sizes` finds; as ``arrivals`` lists.

    A policy that learns on its way or sees whole traces is left to the allocator, and so is a budget that it refuses.
    """
    drawn, warmup, limit = prefixes.drawn, policy.warmup, policy.rounds
    if policy.learns or policy.sees == "traces" or warmup * len(arrivals) > total:
        return stream_sizes(policy, drawn, arrivals, total, seed)
    size, left, coming = drawn.size, total, len(arrivals)
    stops: deque[int] = deque(maxlen=STOPS_KEPT)
    sizes = []
    for row, coin in zip(arrivals, _coins(seed, coming), strict=True):
        coming -= 1
        view = View(left, coming + 1, size, coin, tuple(stops))
        most = min(size, left - warmup * coming)
        n, rounds = min(warmup, size), 0
        while n < most and not (limit and rounds == limit):
            wanted = min(math.floor(policy.quota(prefixes.tally(row, n, rounds), view)), most)
            if wanted <= n:
                break
            n, rounds = wanted, rounds + 1
        left -= n
        stops.append(n)
        sizes.append(n)
    return np.array(sizes, dtype=np.int64)


def _coins(seed: int, questions: int) -> list[float]:
    """The coins that the allocator gives the first questions to arrive."""
    blocks = range(-(-questions // COINS))
    drawn = [np.random.default_rng([seed, block]).random(COINS) for block in blocks]
    coins: list[float] = np.concatenate(drawn)[:questions].tolist()
    return coins
