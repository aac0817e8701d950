"""Planning backwards: how much budget brings which self-consistency.

What the batch has shown gives every question a posterior: a strength under the learned prior, then theta. From there
the run is played on, again and again: theta is drawn for every question, the policy spends on, answers come from theta,
and the share of leaders that are argmax theta is the self-consistency. (How an adaptive policy will spend has no closed
form; everything that it decides by has.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.okg import voting_chance
from pets.core.policy import IndexPolicy, Policy
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import Tally
from pets.errors import InputError
from pets.types import Question, Trace

__all__ = ["Forecast", "forecast"]

QUESTIONS = 400  # that a simulation plays with, evenly spread over the batch
WIDTH = 8  # traces in flight
POINTS = 96  # of the curve

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Self-consistency against the mean traces a question, from what is spent now on; shapes (POINTS,).

    ``deviation`` is that of the simulated runs about their mean.
    """

    mean_budget: Floats
    consistency: Floats
    deviation: Floats

    def budget_for(self, target: float) -> float | None:
        """Mean traces a question at which the target is reached and kept; ``None`` beyond the curve."""
        below = np.flatnonzero(self.consistency < target)
        if not below.size:
            return float(self.mean_budget[0])
        at = int(below[-1])
        if at + 1 == len(self.consistency):
            return None
        low, high = self.consistency[at], self.consistency[at + 1]
        part = (target - low) / (high - low) if high > low else 1.0
        return float(self.mean_budget[at] + part * (self.mean_budget[at + 1] - self.mean_budget[at]))


def forecast(
    tallies: Sequence[Tally], policy: Policy, *, up_to: float = 32.0, cap: int | None = 64, runs: int = 8, seed: int = 0
) -> Forecast:
    """Play a batch on to ``up_to`` mean traces a question.

    >>> from pets.policies.okg import OKG
    >>> easy = forecast([Tally((4,), options=4)] * 60 + [Tally((2, 2), options=4)] * 4, OKG(), up_to=8, runs=4)
    >>> bool(easy.consistency[-1] > 0.95)
    True
    """
    if not tallies:
        raise InputError("a forecast needs at least one question with traces; there is none.")
    if not isinstance(policy, IndexPolicy) or policy.sees != "counts":
        raise InputError("a forecast plays an index policy that sees counts, such as okg; choose one with --policy.")
    chosen = list(tallies[:: max(1, -(-len(tallies) // QUESTIONS))])
    prior = fit_prior({tally: chosen.count(tally) for tally in set(chosen)})
    now = sum(tally.returned for tally in chosen) / len(chosen)
    if up_to <= now:
        raise InputError(f"{now:.1f} traces a question are spent already; look further than {up_to:g} with --up-to.")
    grid = np.linspace(now, up_to, POINTS)
    rng = np.random.default_rng(seed)
    curves = np.array([_played(chosen, prior, policy, grid, cap, rng) for _ in range(runs)])
    return Forecast(grid, curves.mean(axis=0), curves.std(axis=0))


def _played(
    tallies: Sequence[Tally],
    prior: LearnedPrior,
    policy: Policy,
    grid: Floats,
    cap: int | None,
    rng: np.random.Generator,
) -> Floats:
    """Self-consistency along the grid in one simulated continuation."""
    N = len(tallies)
    thetas = [prior.draw(tally, rng) for tally in tallies]
    lots = [np.cumsum(theta) for theta in thetas]
    target = [str(int(theta.argmax())) for theta in thetas]
    chance = [voting_chance(tally) for tally in tallies]
    questions = [Question(str(row), options=tally.options) for row, tally in enumerate(tallies)]
    allocator = Allocator(policy, Budget(int(grid[-1] * N), cap), questions)
    allocator.adopt(trace for row, tally in enumerate(tallies) for trace in _past(row, tally))
    right = np.array([allocator.verdict(str(row)).answer == target[row] for row in range(N)])
    spent, share = [allocator.told], [right.mean()]
    while launches := allocator.ask(WIDTH):
        for launch in launches:
            row = int(launch.question)
            voted = rng.random() < chance[row]
            answer = str(int(np.searchsorted(lots[row], rng.random() * lots[row][-1]))) if voted else None
            allocator.tell(Trace(launch.question, launch.number, answer, tokens=round(tallies[row].mean_tokens)))
            right[row] = allocator.verdict(launch.question).answer == target[row]
        spent.append(allocator.told)
        share.append(right.mean())
    curve: Floats = np.interp(grid, np.array(spent) / N, share)
    return curve


def _past(row: int, tally: Tally) -> list[Trace]:
    """Traces that give this tally."""
    answers = [str(k) for k, count in enumerate(tally.counts) for _ in range(count)] + [None] * tally.nulls
    tokens = round(tally.mean_tokens)
    return [Trace(str(row), number, answer, tokens=tokens) for number, answer in enumerate(answers)]
