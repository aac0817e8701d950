"""The fast path of a quota policy over recorded traces: the sizes that its queue gives, without launching a trace.

The policy is asked at the same tallies and with the same views as by :class:`~pets.core.queues.quotas.QuotaQueue`, so
the sizes are the same; tests hold them against the allocator. There are two cases in which the queue is a few sums.

- A *solitary* rule looks at one question alone (:meth:`Walk.stops`): nothing of the budget or of other questions
  matters, so its quota is asked once for each belief state that a path meets.
- Questions arrive one by one, each after the last has stopped, and every trace costs the same
  (:meth:`Walk.arrivals`): with R_t traces left when question t arrives and H_t questions to come, itself among them,
  its total is the policy's quota at (R_t, H_t), asked again until it is reached, and at most

      min(cap, R_t - warm-up (H_t - 1)).
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
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
        self._numbers: dict[Key, int] = {((), 0): 0}
        self._after: list[dict[int, int]] = [{}]
        self._quotas: dict[QuotaPolicy, Sizes] = {}

    def quotas(self, policy: QuotaPolicy) -> Sizes:
        """One entry for each state, -1 where the policy was not asked yet; to be filled in."""
        quotas = self._quotas.get(policy, np.empty(0, dtype=np.int64))
        if quotas.size < len(self.keys):
            more = np.full(2 * len(self.keys), -1, dtype=np.int64)
            more[: quotas.size] = quotas
            quotas = self._quotas[policy] = more
        return quotas

    def along(self, answers: Sequence[str | None]) -> list[int]:
        """The state of every prefix of a path, from no trace to all of them."""
        votes: dict[str, int] = {}
        state, states = 0, [0]
        for answer in answers:
            before = -1 if answer is None else votes.get(answer, 0)
            if answer is not None:
                votes[answer] = before + 1
            state = self.after(state, before)
            states.append(state)
        return states

    def after(self, state: int, before: int) -> int:
        """The state after a vote for an answer that had ``before`` votes, or after a no-answer (-1)."""
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
        if policy.sees == "counts":
            return self._stops_by_state(policy)
        return np.array([self._stop(policy, row) for row in range(len(self._paths))], dtype=np.int64)

    def arrivals(self, policy: QuotaPolicy, rows: Sequence[int], total: int, seed: int) -> Sizes:
        """Traces of the questions in ``rows``, in the order of their arrival, at ``total`` traces in all.

        For a policy that sees counts and learns nothing on its way, and a total that pays for every warm-up.
        """
        cap, left, coming, warmup, limit = self._cap, total, len(rows), policy.warmup, policy.rounds
        stops: deque[int] = deque(maxlen=STOPS_KEPT)
        sizes = []
        for position, row in enumerate(rows):
            coming -= 1
            view = View(left, coming + 1, cap, coin_of(seed, position), tuple(stops))
            most = min(cap, left - warmup * coming)
            size, rounds = min(warmup, cap), 0
            while size < most and not (limit and rounds == limit):
                wanted = min(math.floor(policy.quota(self._tally(row, size, rounds), view)), most)
                if wanted <= size:
                    break
                size, rounds = wanted, rounds + 1
            left -= size
            stops.append(size)
            sizes.append(size)
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def along(self) -> NDArray[np.int64]:
        """The state of every prefix of every path, shape (N, P + 1)."""
        paths = [self.states.along([trace.answer for trace in path]) for path in self._paths]
        return np.array(paths, dtype=np.int64)

    @cached_property
    def _along_lists(self) -> list[list[int]]:
        rows: list[list[int]] = self.along.tolist()
        return rows

    @cached_property
    def _total_tokens(self) -> list[list[int]]:
        return [list(accumulate((trace.tokens for trace in path), initial=0)) for path in self._paths]

    def _tally(self, row: int, size: int, rounds: int) -> Tally:
        """What a policy that sees counts is shown; a sweep over budgets meets most tallies many times."""
        key = row, size, rounds
        tally = self._tallies.get(key)
        if tally is None:
            counts, nulls = self.states.keys[self._along_lists[row][size]]
            mean_tokens = self._total_tokens[row][size] / max(1, size)
            tally = self._tallies[key] = Tally(
                counts, nulls, options=self.options, rounds=rounds, mean_tokens=mean_tokens, question=self._ids[row]
            )
        return tally

    def _stops_by_state(self, policy: QuotaPolicy) -> Sizes:
        """All questions at once: each step is one grant to every question that still runs."""
        along, cap, view = self.along, self._cap, View(cap=self._cap)
        sizes = np.full(len(along), min(policy.warmup, cap), dtype=np.int64)
        quotas = self.states.quotas(policy)
        running = np.arange(len(along))
        rounds = 0
        while running.size and not (policy.rounds and rounds == policy.rounds):
            here = along[running, sizes[running]]
            for state in np.unique(here[quotas[here] < 0]).tolist():
                counts, nulls = self.states.keys[state]
                tally = Tally(counts, nulls, options=self.options, rounds=rounds)
                quotas[state] = max(0, policy.quota(tally, view))
            wanted = np.minimum(quotas[here], cap)
            goes_on = wanted > sizes[running]
            running = running[goes_on]
            sizes[running] = wanted[goes_on]
            rounds += 1
        return sizes

    def _stop(self, policy: QuotaPolicy, row: int) -> int:
        """Where one question stops, for a policy that sees whole traces."""
        answers, confidences, tokens = self._columns[row]
        along, view = self.along[row], View(cap=self._cap)
        size, rounds = min(policy.warmup, self._cap), 0
        while not (policy.rounds and rounds == policy.rounds):
            counts, nulls = self.states.keys[along[size]]
            tally = Tally(
                counts,
                nulls,
                options=self.options,
                rounds=rounds,
                mean_tokens=sum(tokens[:size]) / max(1, size),
                question=self._ids[row],
                answers=answers[:size],
                confidences=confidences[:size],
                tokens=tokens[:size],
            )
            wanted = min(policy.quota(tally, view), self._cap)
            if wanted <= size:
                break
            size, rounds = wanted, rounds + 1
        return size

    @cached_property
    def _columns(self) -> list[tuple[tuple[str | None, ...], tuple[float | None, ...], tuple[int, ...]]]:
        """Answers, confidences and tokens of every path."""
        return [
            (tuple(t.answer for t in path), tuple(t.confidence for t in path), tuple(t.tokens for t in path))
            for path in self._paths
        ]
