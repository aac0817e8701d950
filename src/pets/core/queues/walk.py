"""The fast path of a quota policy over recorded traces: the sizes that its queue gives, without launching a trace.

The policy is asked at the same tallies and with the same views as by :class:`~pets.core.queues.quotas.QuotaQueue`.

- A *solitary* rule looks at one question alone (:meth:`Walk.stops`): its quota is asked once for each belief state.
- Questions arrive one by one, each after the last has stopped, and every trace costs the same
  (:meth:`Walk.arrivals`): with R_t traces left when question t arrives and H_t questions to come, itself among them,
  its total is the policy's quota at (R_t, H_t), asked again until it is reached, and at most

      min(cap, R_t - warm-up (H_t - 1)).
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import QuotaPolicy, View
from pets.core.queues.quotas import STOPS_KEPT, coin_of
from pets.core.tally import Tally, add_vote
from pets.types import Trace

Sizes = NDArray[np.int64]
Key = tuple[tuple[int, ...], int]


class States:
    """Numbers for ``(counts, nulls)``, with what each solitary policy asked there; walks of one pool may share them."""

    def __init__(self) -> None:
        self.keys: list[Key] = [((), 0)]
        self.quotas: dict[QuotaPolicy, dict[int, float]] = {}
        self._numbers: dict[Key, int] = {((), 0): 0}
        self._after: list[dict[int, int]] = [{}]

    def along(self, answers: Sequence[str | None]) -> list[int]:
        """The state of every prefix of a path, from no trace to all of them."""
        votes: dict[str, int] = {}
        states = [0]
        for answer in answers:
            states.append(self.after(states[-1], answer, votes))
        return states

    def after(self, state: int, answer: str | None, votes: dict[str, int]) -> int:
        """The state after a trace with this answer, which is counted among the ``votes`` of the path."""
        before = -1 if answer is None else votes.get(answer, 0)
        if answer is not None:
            votes[answer] = before + 1
        after = self._after[state].get(before)
        if after is None:
            counts, nulls = self.keys[state]
            key = (counts, nulls + 1) if before < 0 else (add_vote(counts, before), nulls)
            if key not in self._numbers:
                self._numbers[key] = len(self.keys)
                self.keys.append(key)
                self._after.append({})
            after = self._after[state][before] = self._numbers[key]
        return after


def with_traces(tally: Tally, traces: Sequence[Trace]) -> Tally:
    """The tally as a policy sees it that asks for whole traces."""
    return replace(
        tally,
        answers=tuple(trace.answer for trace in traces),
        confidences=tuple(trace.confidence for trace in traces),
        tokens=tuple(trace.tokens for trace in traces),
    )


class Walk:
    """Walks along ``paths``: the traces of each question in launch order, all of the same length, the cap.

    >>> from pets.policies.asc import ASC
    >>> paths = {"q1": [Trace("q1", n, "A") for n in range(16)], "q2": [Trace("q2", n, "AB"[n % 2]) for n in range(16)]}
    >>> Walk(paths, options=4).stops(ASC()).tolist()
    [4, 16]
    """

    def __init__(
        self, paths: Mapping[str, Sequence[Trace]], options: int | None = None, states: States | None = None
    ) -> None:
        self.options = options
        self.states = States() if states is None else states
        self._ids = list(paths)
        self._paths = list(paths.values())
        self._cap = len(self._paths[0])
        self._tallies: dict[tuple[int, int, int], Tally] = {}

    def stops(self, policy: QuotaPolicy) -> Sizes:
        """Traces at which each question stops under a solitary policy, shape (N,)."""
        view, quota = View(cap=self._cap), self._quota
        if policy.sees == "counts":
            self.states.quotas.setdefault(policy, {})
            quota = self._quota_of_state
        sizes = [self._size(policy, partial(quota, policy, view, row), self._cap) for row in range(len(self._paths))]
        return np.array(sizes, dtype=np.int64)

    def arrivals(self, policy: QuotaPolicy, rows: Sequence[int], total: int, seed: int) -> Sizes:
        """Traces of the questions in ``rows``, in the order of their arrival, at ``total`` traces in all.

        For a policy that sees counts and learns nothing on its way, and a total that pays for every warm-up.
        """
        left, coming = total, len(rows)
        stops: deque[int] = deque(maxlen=STOPS_KEPT)
        sizes = []
        for position, row in enumerate(rows):
            coming -= 1
            view = View(left, coming + 1, self._cap, coin_of(seed, position), tuple(stops))
            most = min(self._cap, left - policy.warmup * coming)
            size = self._size(policy, partial(self._quota, policy, view, row), most)
            left -= size
            stops.append(size)
            sizes.append(size)
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def along(self) -> list[list[int]]:
        """The state of every prefix of every path, N lists of P + 1."""
        return [self.states.along([trace.answer for trace in path]) for path in self._paths]

    @cached_property
    def _total_tokens(self) -> list[list[int]]:
        return [list(accumulate((trace.tokens for trace in path), initial=0)) for path in self._paths]

    def _size(self, policy: QuotaPolicy, quota: Callable[[int, int], float], most: int) -> int:
        """Where a question stops: its quota, given its size and rounds, is asked again until that is reached."""
        size, rounds = min(policy.warmup, self._cap), 0
        while size < most and not (policy.rounds and rounds == policy.rounds):
            wanted = min(math.floor(quota(size, rounds)), most)
            if wanted <= size:
                break
            size, rounds = wanted, rounds + 1
        return size

    def _quota(self, policy: QuotaPolicy, view: View, row: int, size: int, rounds: int) -> float:
        """The quota after ``size`` traces of a path; tallies are kept: a sweep over budgets meets most many times."""
        tally = self._tallies.get((row, size, rounds))
        if tally is None:
            mean, key = self._total_tokens[row][size] / max(1, size), self.states.keys[self.along[row][size]]
            tally = Tally(*key, options=self.options, rounds=rounds, mean_tokens=mean, question=self._ids[row])
            self._tallies[row, size, rounds] = tally
        if policy.sees == "traces":
            tally = with_traces(tally, self._paths[row][:size])
        return policy.quota(tally, view)

    def _quota_of_state(self, policy: QuotaPolicy, view: View, row: int, size: int, rounds: int) -> float:
        """The quota of a solitary policy that sees counts, asked once in each state."""
        state, known = self.along[row][size], self.states.quotas[policy]
        if state not in known:
            known[state] = policy.quota(Tally(*self.states.keys[state], options=self.options, rounds=rounds), view)
        return known[state]
