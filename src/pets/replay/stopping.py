"""Stopping rules that look at one question alone: where along its path each question stops.

Nothing of the budget or of other questions matters to them, so :meth:`QuotaPolicy.quota` is called on the path's
prefixes, once for each state; the allocator would call it at the same ones.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.replay.draws import Draw
from pets.types import Trace

__all__ = ["States", "stop_sizes"]

Sizes = NDArray[np.int64]
Key = tuple[tuple[int, ...], int]
Shown = tuple[tuple[str | None, ...], tuple[float | None, ...], tuple[int, ...]]


class States:
    """Numbers for ``(counts, nulls)``; shared by the repetitions of a pool, with what each policy asked there."""

    def __init__(self) -> None:
        self.keys: list[Key] = [((), 0)]
        self._numbers: dict[Key, int] = {((), 0): 0}
        self._after: list[dict[int, int]] = [{}]
        self._quotas: dict[QuotaPolicy, NDArray[np.int64]] = {}
        self._latest: tuple[Draw | None, NDArray[np.int64]] = None, np.empty((0, 0), dtype=np.int64)
        self._shown: tuple[Draw | None, list[Shown]] = None, []

    def along(self, drawn: Draw) -> NDArray[np.int64]:
        """The state of every prefix of every path, shape (N, P + 1); kept for the next policy on the same draw."""
        if self._latest[0] is not drawn:
            paths = [self._path([trace.answer for trace in path]) for path in drawn.traces.values()]
            self._latest = drawn, np.array(paths, dtype=np.int64)
        return self._latest[1]

    def shown(self, drawn: Draw) -> list[Shown]:
        """What a policy that sees whole traces is shown of every path; kept like :meth:`along`."""
        if self._shown[0] is not drawn:
            self._shown = drawn, [_shown(path) for path in drawn.traces.values()]
        return self._shown[1]

    def quotas(self, policy: QuotaPolicy) -> NDArray[np.int64]:
        """One entry a state, -1 where the policy was not asked yet; to be filled in."""
        known = self._quotas.get(policy, np.empty(0, dtype=np.int64))
        if known.size < len(self.keys):
            more = np.full(2 * len(self.keys), -1, dtype=np.int64)
            more[: known.size] = known
            known = self._quotas[policy] = more
        return known

    def _path(self, answers: list[str | None]) -> list[int]:
        votes: dict[str, int] = {}
        state, states = 0, [0]
        for answer in answers:
            before = -1 if answer is None else votes.get(answer, 0)
            if answer is not None:
                votes[answer] = before + 1
            after = self._after[state].get(before)
            if after is None:
                after = self._after[state][before] = self._moved(state, before)
            state = after
            states.append(state)
        return states

    def _moved(self, state: int, before: int) -> int:
        """The state after a vote for an answer that had ``before`` votes, or after a no-answer (-1)."""
        counts, nulls = self.keys[state]
        if before < 0:
            key = counts, nulls + 1
        else:
            grown = list(counts) if before else [*counts, 0]
            grown[grown.index(before)] += 1
            key = tuple(grown), nulls
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self._after.append({})
        return self._numbers[key]


def _shown(path: Sequence[Trace]) -> Shown:
    return tuple(t.answer for t in path), tuple(t.confidence for t in path), tuple(t.tokens for t in path)


def stop_sizes(policy: QuotaPolicy, drawn: Draw, states: States) -> Sizes:
    """Traces at which each question stops, shape (N,)."""
    along = states.along(drawn)
    if policy.sees == "counts":
        return _by_state(policy, drawn, states, along)
    shown = states.shown(drawn)
    return np.array([_one(policy, drawn, row, states, shown[row]) for row in range(len(along))], dtype=np.int64)


def _by_state(policy: QuotaPolicy, drawn: Draw, states: States, along: NDArray[np.int64]) -> Sizes:
    """All questions at once: each step is one grant to every question that still runs."""
    view, options = View(cap=drawn.size), drawn.pool.options
    sizes = np.full(len(along), min(policy.warmup, drawn.size), dtype=np.int64)
    quotas = states.quotas(policy)
    running = np.arange(len(along))
    rounds = 0
    while running.size and not (policy.rounds and rounds == policy.rounds):
        here = along[running, sizes[running]]
        for state in np.unique(here[quotas[here] < 0]).tolist():
            counts, nulls = states.keys[state]
            quotas[state] = max(0, policy.quota(Tally(counts, nulls, options=options, rounds=rounds), view))
        wanted = np.minimum(quotas[here], drawn.size)
        goes_on = wanted > sizes[running]
        running = running[goes_on]
        sizes[running] = wanted[goes_on]
        rounds += 1
    return sizes


def _one(policy: QuotaPolicy, drawn: Draw, row: int, states: States, shown: Shown) -> int:
    """One question, for a policy that sees whole traces."""
    id, along = drawn.pool.questions[row].id, states.along(drawn)[row]
    answers, confidences, tokens = shown
    view, options = View(cap=drawn.size), drawn.pool.options
    size, rounds = min(policy.warmup, drawn.size), 0
    while not (policy.rounds and rounds == policy.rounds):
        counts, nulls = states.keys[along[size]]
        tally = Tally(
            counts,
            nulls,
            options=options,
            rounds=rounds,
            mean_tokens=sum(tokens[:size]) / max(1, size),
            question=id,
            answers=answers[:size],
            confidences=confidences[:size],
            tokens=tokens[:size],
        )
        wanted = min(policy.quota(tally, view), drawn.size)
        if wanted <= size:
            break
        size, rounds = wanted, rounds + 1
    return size
