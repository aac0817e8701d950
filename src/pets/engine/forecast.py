"""Planning backwards: how much budget brings which self-consistency.

A question's posterior is that of its certificate: a mixture of Dirichlets, then theta. The run is played on from there:
theta is drawn for every question, several times, the policy spends on, answers come from theta, and the share of
leaders that are argmax theta, the vote of infinitely many traces, is the self-consistency. (How an adaptive policy will
spend has no closed form.)

An index policy that has learned serves the highest index, so a question's traces depend on the others through one price
alone: all draws of all questions are played as one large batch, under the prior that the policy has now.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappush, heapreplace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from pets.core.policy import IndexPolicy, Policy, View
from pets.core.prior import BatchFit, length_class
from pets.core.tally import Tally, add_vote
from pets.errors import InputError

PATHS = 2_400  # questions that are played on in all: as many draws of each, evenly spread over the batch's tallies
POINTS = 96  # of the curve
MAX_TRACES = 64  # of a question
NEAR, FAR = 4.0, 32.0  # times what is spent: how far a forecast looks first, and where nothing else ends it
ROUND = 12  # a question that has had as many traces as this gets 2 before it is looked at again, 3 of twice as many
STEPS_HEARD = 1_000  # looks between two words of progress
BLOCK = 32  # answers of a question that are drawn at once
SILENT = -1

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Self-consistency against the mean traces per question, from what is spent now on; shapes (POINTS,)."""

    mean_budget: Floats
    consistency: Floats

    def budget_for(self, target: float) -> float | None:
        """Mean traces per question at which the curve, made to rise, reaches the target; ``None`` if it never does."""
        rising = isotonic_regression(self.consistency).x
        if target > rising[-1]:
            return None
        at = max(1, int(np.searchsorted(rising, target)))
        return float(np.interp(target, rising[at - 1 : at + 1], self.mean_budget[at - 1 : at + 1]))


def forecast(
    tallies: Sequence[Tally],
    policy: Policy,
    *,
    up_to: float | None = None,
    max_traces: int | None = MAX_TRACES,
    targets: Sequence[float] = (),
    paths: int = PATHS,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, most: None,
) -> Forecast:
    """Play a batch on to ``up_to`` mean traces per question, by default until all have ``max_traces``.

    With ``targets`` it ends where all are reached. ``progress`` is called with how many traces of how many are done.

    >>> from pets.policies.okg import OKG
    >>> easy = forecast([Tally((4,), options=4)] * 60 + [Tally((2, 2), options=4)] * 4, OKG(), up_to=8, paths=256)
    >>> bool(easy.consistency[-1] > 0.95)
    True
    """
    if not tallies:
        raise InputError("a forecast needs at least one question with traces; there is none.")
    if not isinstance(policy, IndexPolicy) or policy.sees != "counts":
        raise InputError("a forecast plays an index policy that sees counts, such as okg; choose one with --policy.")
    ranked = sorted(tallies, key=lambda tally: (tally.counts, tally.nulls, tally.mean_tokens))
    step = -(-len(ranked) // paths)
    sample = ranked[step // 2 :: step]
    now = sum(tally.returned for tally in sample) / len(sample)
    cap = math.inf if max_traces is None else max(now, float(max_traces))
    if up_to is not None and up_to <= now < cap:
        raise InputError(f"{now:.1f} traces per question are spent already; give --max-budget more than {up_to:g}x.")
    far = min(cap, up_to or max_traces or FAR * now)
    batch, rng = Counter(tallies), np.random.default_rng(seed)
    fit, copies = BatchFit(batch), -(-paths // len(sample))
    simulated = _Simulation(policy.refit(batch), max_traces)
    for tally in sample:
        simulated.add(tally, fit.without(tally).draws(tally, copies, rng), rng)
    for most in (min(far, NEAR * now), far) if targets else (far,):
        simulated.play(round(most * len(sample) * copies), progress)
        grid = np.linspace(now, most, POINTS)
        spent = now + np.arange(len(simulated.right)) / (len(sample) * copies)
        played = Forecast(grid, np.interp(grid, spent, simulated.right) / (len(sample) * copies))
        if all(played.budget_for(target) is not None for target in targets):
            break
    return played


class _Simulation:
    """One large batch under an index policy that learns no more; ``right`` counts right leaders after each trace."""

    def __init__(self, policy: IndexPolicy, cap: int | None) -> None:
        self.traces, self.right = 0, [0]
        self._view, self._cap, self._edges = View(cap=cap), math.inf if cap is None else cap, policy.length_edges
        self._heap: list[tuple[float, int, _Future]] = []
        self._index = lru_cache(maxsize=None)(policy.index)

    def add(self, tally: Tally, thetas: Sequence[Floats], rng: np.random.Generator) -> None:
        """Add a question, once for each draw of its theta, before any is played."""
        start = Tally(tally.counts, tally.nulls, 0, tally.options, mark=length_class(self._edges, tally.mean_tokens))
        for theta in thetas:
            future = _Future(start, theta, tally.voting_chance, rng)
            self.traces += tally.returned
            self.right[0] += future.right
            heappush(self._heap, (self._rank(start), len(self._heap), future))

    def play(self, traces: int, progress: Callable[[int, int], None]) -> None:
        """Serve the highest index until so many traces have come back in all, or every question has its most."""
        heap, looks = self._heap, 0
        while self.traces < traces and heap[0][0] < math.inf:
            _, number, future = heap[0]
            had = future.tally.returned
            for _ in range(int(min(1 + had // ROUND, self._cap - had, traces - self.traces))):
                self.right.append(self.right[-1] + future.step())
                self.traces += 1
            heapreplace(heap, (self._rank(future.tally), number, future))
            looks += 1
            if looks % STEPS_HEARD == 0:
                progress(self.traces, traces)
        progress(traces, traces)

    def _rank(self, tally: Tally) -> float:
        """The negative index, infinite where a question may get no more."""
        return math.inf if tally.returned >= self._cap else -self._index(tally, self._view)


class _Future:
    """One question's answers to come from its theta. ``right``: the leader is the vote of infinitely many traces."""

    def __init__(self, tally: Tally, theta: Floats, voting_chance: float, rng: np.random.Generator) -> None:
        self.tally, self.right = tally, bool(tally.counts) and int(theta.argmax()) == 0
        self._votes, self._target = dict(enumerate(tally.counts)), int(theta.argmax())
        self._answers = _answers(theta, voting_chance, rng)

    def step(self) -> int:
        """Let one more answer come: 1 where the leader became right by it, -1 where it became wrong."""
        tally, answer, votes = self.tally, next(self._answers), self._votes
        if answer == SILENT:
            self.tally = Tally(tally.counts, tally.nulls + 1, 0, tally.options, mark=tally.mark)
            return 0
        had = votes.get(answer, 0)
        votes[answer] = had + 1
        self.tally = Tally(add_vote(tally.counts, had), tally.nulls, 0, tally.options, mark=tally.mark)
        if had + 1 < self.tally.counts[0]:
            return 0
        before = self.right
        self.right = max(votes, key=votes.__getitem__) == self._target  # the first of the tied: launch order
        return self.right - before


def _answers(theta: Floats, voting_chance: float, rng: np.random.Generator) -> Iterator[int]:
    """Answers as places in theta, without end; ``SILENT`` where a trace casts no vote."""
    edges = np.cumsum(theta)
    while True:
        drawn = np.searchsorted(edges, rng.random(BLOCK) * edges[-1])
        yield from np.where(rng.random(BLOCK) < voting_chance, drawn, SILENT).tolist()
