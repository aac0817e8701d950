"""Results of a replay: every repetition's curve or points, kept whole so that they can be plotted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import Policy
from pets.errors import InputError
from pets.lab.calibration import Certified
from pets.lab.config import ReplayConfig
from pets.lab.contenders import Setting, name_of
from pets.lab.curves import Allocation, Timing
from pets.lab.limit import Frontier

Floats = NDArray[np.float64]
Counts = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One policy on one pool: R repetitions of V points.

    An offline curve (``option`` is ``None``) has a point after every trace, 0 to N P; a sweep one for each of
    ``values`` of ``option``, in their order. ``agree``, ``good``, ``correct`` (R, V) count questions, ``traces`` (R, V)
    and ``tokens`` (R, V) are totals. An online policy runs on the questions that did not train it, so ``questions`` may
    be fewer than the pool has. ``ceiling`` (R,) is the share of questions that agree when all their traces are in,
    ``good_ceiling`` of those whose verdict is good then. ``allocations`` are those of all repetitions, ``certified``
    holds certificates if asked for, ``timings`` how every repetition went on the clock.
    """

    pool: str
    policy: str
    setting: Setting
    option: str | None
    values: tuple[float, ...]
    questions: int
    size: int
    spent: Counts | None
    agree: Counts
    good: Counts
    correct: Counts
    tokens: Counts | None
    judged: Floats
    ceiling: Floats
    good_ceiling: Floats
    relative: bool
    allocations: tuple[Allocation, ...] = ()
    certified: tuple[Certified, ...] = ()
    timings: tuple[Timing, ...] = ()

    @property
    def repetitions(self) -> int:
        """R."""
        return len(self.agree)

    @property
    def traces(self) -> Floats:
        """Mean traces per question at each point, (R, V)."""
        if self.spent is not None:
            return self.spent / self.questions
        return np.broadcast_to(np.arange(self.agree.shape[1]) / self.questions, self.agree.shape)

    @property
    def consistency(self) -> Floats:
        """Self-consistency at each point, (R, V)."""
        return self.agree / self.questions

    @property
    def zone_consistency(self) -> Floats:
        """The share of questions whose verdict is good at each point, (R, V)."""
        return self.good / self.questions

    @property
    def accuracy(self) -> Floats:
        """Accuracy over the questions whose gold is known, (R, V); NaN where there are none."""
        judged = np.where(self.judged > 0, self.judged, np.nan)
        return self.correct / judged[:, None]

    @property
    def mean_tokens(self) -> Floats | None:
        """Mean tokens per question at each point, (R, V)."""
        return None if self.tokens is None else self.tokens / self.questions

    @property
    def on_clock(self) -> dict[str, Floats]:
        """A question's mean tokens and time in its own mean trace, the 95 % point of the time, traces cancelled.

        (R, V) each; nothing where there was no clock.
        """
        if not self.timings:
            return {}
        return {
            "trace_tokens": np.array([timing.tokens.mean(axis=1) for timing in self.timings]),
            "time": np.array([timing.time.mean(axis=1) for timing in self.timings]),
            "p95_time": np.array([np.percentile(timing.time, 95, axis=1) for timing in self.timings]),
            "cancelled": np.array([timing.cancelled.mean(axis=1) for timing in self.timings]),
        }

    @property
    def budget_used(self) -> Floats | None:
        """The share of the budget that an online policy spent, (R, V)."""
        if self.setting != "online" or self.spent is None:
            return None
        budgets: Floats = np.floor(np.array(self.values) * self.questions)
        return self.spent / budgets

    def bar(self, level: float) -> Floats:
        """The self-consistency that ``level`` asks of each repetition, (R,): with disjoint halves, of the ceiling."""
        return level * (self.ceiling if self.relative else np.ones(self.repetitions))

    def by_zone(self) -> "Result":
        """The same runs with zone-consistency in the place of self-consistency: every metric reads it so."""
        allocations = tuple(allocation.by_zone() for allocation in self.allocations)
        return replace(self, agree=self.good, ceiling=self.good_ceiling, allocations=allocations)


@dataclass(frozen=True, slots=True, eq=False)
class PoolResult:
    """All policies on one pool, and what bounds them.

    ``pass_at_1`` and ``vote_accuracy`` are of all recorded traces, ``None`` without gold. Of each repetition: ``tied``,
    the targets in which two answers share the lead, and ``ceiling``, the agreement of all traces with the target.
    ``ids`` are the questions'. ``limit`` is the attainable frontier, ``zone_limit`` that of zone-consistency, or
    ``None`` and ``no_limit`` says why.
    """

    pool: str
    questions: int
    size: int
    answer: str
    options: int | None
    config: ReplayConfig
    pass_at_1: float | None
    vote_accuracy: float | None
    tied: Floats
    ceiling: Floats
    results: tuple[Result, ...]
    ids: tuple[str, ...] = ()
    note: str = ""
    limit: Frontier | None = None
    zone_limit: Frontier | None = None
    no_limit: str = ""

    @property
    def dataset(self) -> str:
        """What was asked, whichever model answered: the pool's name up to its first dot."""
        return self.pool.partition(".")[0]

    def by_zone(self) -> "PoolResult":
        """The same runs, scored on zone-consistency."""
        return replace(self, results=tuple(result.by_zone() for result in self.results), limit=self.zone_limit)

    def result(self, policy: str | Policy, setting: Setting | None = None) -> Result:
        """The result of a policy, given as it was replayed; the first one unless a setting is named."""
        name = name_of(policy)
        for result in self.results:
            if result.policy == name and setting in (None, result.setting):
                return result
        names = ", ".join(dict.fromkeys(result.policy for result in self.results))
        raise InputError(f"pool {self.pool!r} has no result of {name!r}; it has {names}.")


def stacked(rows: Sequence[NDArray[np.int64]]) -> Counts:
    """The counts of all repetitions, (R, V), in the smallest type that holds them."""
    largest = max(int(row.max(initial=0)) for row in rows)
    return np.array(rows, dtype=np.min_scalar_type(largest))
