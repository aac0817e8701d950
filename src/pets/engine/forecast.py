"""Planning backwards: how much budget brings which self-consistency.

What the batch has shown gives every question a posterior: a mixture of Dirichlets under the learned prior, then theta.
From there the run is played on, again and again: theta is drawn for every question, the policy spends on, answers come
from theta, and the share of leaders that are argmax theta, the vote of infinitely many traces, is the self-consistency,
as in the run's own figure. (How an adaptive policy will spend has no closed form; everything that it decides by has.)
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import Tally
from pets.errors import InputError
from pets.types import Question, Trace

QUESTIONS = 600  # that a simulation plays with, evenly spread over the batch's tallies
WIDTH = 8  # traces in flight
POINTS = 96  # of the curve
MAX_TRACES = 64  # of a question
NEAR, FAR = 4.0, 32.0  # times what is spent: how far a forecast looks first, and where nothing else ends it

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Self-consistency against the mean traces per question, from what is spent now on; shapes (POINTS,).

    ``deviation`` is that of the simulated runs about their mean.
    """

    mean_budget: Floats
    consistency: Floats
    deviation: Floats

    def budget_for(self, target: float) -> float | None:
        """Mean traces per question at which the curve, made to rise, reaches the target; ``None`` if it never does."""
        rising = isotonic_regression(self.consistency).x
        if target > rising[-1]:
            return None
        at = int(np.searchsorted(rising, target))
        if at == 0:
            return float(self.mean_budget[0])
        return float(np.interp(target, rising[at - 1 : at + 1], self.mean_budget[at - 1 : at + 1]))


def forecast(
    tallies: Sequence[Tally],
    policy: Policy,
    *,
    up_to: float | None = None,
    max_traces: int | None = MAX_TRACES,
    targets: Sequence[float] = (),
    runs: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, runs: None,
) -> Forecast:
    """Play a batch on to ``up_to`` mean traces per question; ``progress`` hears how many runs of how many are done.

    No question gets more than ``max_traces``, and by default it is played on until all have as many. With ``targets``
    it ends earlier where they are all reached soon.

    >>> from pets.policies.okg import OKG
    >>> easy = forecast([Tally((4,), options=4)] * 60 + [Tally((2, 2), options=4)] * 4, OKG(), up_to=8, runs=4)
    >>> bool(easy.consistency[-1] > 0.95)
    True
    """
    if not tallies:
        raise InputError("a forecast needs at least one question with traces; there is none.")
    if not isinstance(policy, IndexPolicy) or policy.sees != "counts":
        raise InputError("a forecast plays an index policy that sees counts, such as okg; choose one with --policy.")
    prior = fit_prior(Counter(tallies))
    ranked = sorted(tallies, key=lambda tally: (tally.counts, tally.nulls, tally.mean_tokens))
    step = -(-len(ranked) // QUESTIONS)
    sample = ranked[step // 2 :: step]
    now = sum(tally.returned for tally in sample) / len(sample)
    cap = math.inf if max_traces is None else max(now, float(max_traces))
    if up_to is not None and up_to <= now < cap:
        raise InputError(
            f"{now:.1f} traces per question are spent already; give more with --max-budget than {up_to:g}x."
        )
    far = min(cap, up_to or max_traces or FAR * now)
    for most in (min(far, NEAR * now), far) if targets else (far,):
        grid, rng = np.linspace(now, most, POINTS), np.random.default_rng(seed)
        curves = np.empty((runs, POINTS))
        for run in range(runs):
            allocator = Allocator(policy, Budget(int(most * len(sample)), max_traces))
            curves[run] = _played(sample, prior, allocator, grid, rng)
            progress(run + 1, runs)
        played = Forecast(grid, curves.mean(axis=0), curves.std(axis=0))
        if most == far or all(played.budget_for(target) is not None for target in targets):
            break
    return played


def _played(
    tallies: Sequence[Tally],
    prior: LearnedPrior,
    allocator: Allocator,
    grid: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Self-consistency along the grid in one simulated continuation."""
    rows = [_Simulated(tally, prior.draw(tally, rng), rng) for tally in tallies]
    allocator.add(*(Question(str(row), options=tally.options) for row, tally in enumerate(tallies)))
    allocator.adopt(trace for row, tally in enumerate(tallies) for trace in _past(row, tally))
    right = np.array([allocator.verdict(str(row)).answer == rows[row].target for row in range(len(rows))])
    spent, share = [allocator.told], [right.mean()]
    while launches := allocator.ask(WIDTH):
        for launch in launches:
            question = rows[int(launch.question)]
            tokens = round(question.tally.mean_tokens)
            allocator.tell(Trace(launch.question, launch.number, question.answer(launch.number), tokens=tokens))
            right[int(launch.question)] = allocator.verdict(launch.question).answer == question.target
        spent.append(allocator.told)
        share.append(right.mean())
    curve: Floats = np.interp(grid, np.array(spent) / len(rows), share)
    return curve


class _Simulated:
    """One question's answers to come, drawn from its theta, and the answer that counts as right."""

    def __init__(self, tally: Tally, theta: Floats, rng: np.random.Generator) -> None:
        self.tally = tally
        self._edges, self._rng, self._chance = np.cumsum(theta), rng, tally.voting_chance
        self._path = [trace.answer for trace in _past(0, tally)]
        self.target = str(int(theta.argmax()))

    def answer(self, number: int) -> str | None:
        """What trace ``number`` says; the same whenever it is asked."""
        while len(self._path) <= number:
            votes = self._rng.random() < self._chance
            index = int(np.searchsorted(self._edges, self._rng.random() * self._edges[-1]))
            self._path.append(str(index) if votes else None)
        return self._path[number]


def _past(row: int, tally: Tally) -> list[Trace]:
    """Traces that give this tally."""
    answers = [str(k) for k, count in enumerate(tally.counts) for _ in range(count)] + [None] * tally.nulls
    tokens = round(tally.mean_tokens)
    return [Trace(str(row), number, answer, tokens=tokens) for number, answer in enumerate(answers)]
