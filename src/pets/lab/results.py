"""Results of a replay: what each question was given, and what that came to at every point, repetition by repetition.

They are kept whole, so that they can be plotted and resampled question by question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pets.core.policy import Policy
from pets.core.tally import majority
from pets.errors import InputError
from pets.lab.calibration import Certified
from pets.lab.clock import Finish
from pets.lab.config import ReplayConfig
from pets.lab.draws import NO_VOTE, Draw, Flags, Floats, Indices, Outcomes
from pets.lab.limit import Frontier
from pets.registry import spec_of

Counts = NDArray[np.unsignedinteger]
Setting = Literal["offline", "waves", "stopping", "ranked", "online", "clock"]


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """How each question went on the clock at V points, (V, questions): tokens and time are in its own mean trace.
    ``rows`` are the questions' places in the pool, ``spent`` (V,) the tokens of them all."""

    rows: Indices
    spent: Indices
    tokens: Floats
    time: Floats
    cancelled: Indices
    agree: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """What each of N questions was given: ``order`` (T,) is the question of every trace of an offline run, ``sizes``
    (V, N) are those of a sweep, -1 where a question trained the policy.

    ``outcomes`` say what its verdict was worth after each trace, or with a ``timing`` at each of V points; ``vote``
    what the vote of all traces is worth, (N,) each: does it agree, is it good.
    """

    outcomes: Outcomes
    vote: tuple[Flags, Flags]
    order: NDArray[np.integer] | None = None
    sizes: NDArray[np.integer] | None = None
    timing: Timing | None = None

    @classmethod
    def of_order(cls, order: Indices, draw: Draw, outcomes: Outcomes) -> "Allocation":
        """An offline run that served questions in this order."""
        return cls(outcomes, draw.full_vote, order=order.astype(np.min_scalar_type(len(draw.paths))))

    @classmethod
    def of_sizes(cls, sizes: Sequence[Indices], draw: Draw, rows: Sequence[int], outcomes: Outcomes) -> "Allocation":
        """Runs that gave the questions in ``rows`` so many traces, at each of V points."""
        placed = np.full((len(sizes), len(draw.paths)), -1, dtype=np.min_scalar_type(-draw.size - 1))
        placed[:, rows] = sizes
        return cls(outcomes, draw.full_vote, sizes=placed)

    @classmethod
    def of_races(
        cls, points: Sequence[Sequence[Finish]], draw: Draw, rows: Sequence[int], *, batch: bool = False
    ) -> "Allocation":
        """Races of the questions in ``rows`` that ended so at each of V points, by the vote over what was back; those
        of a ``batch`` are in the mean trace of all its questions."""
        paths, judge = list(draw.traces.values()), draw.judge
        means = [np.mean(draw.pool.questions[row].tokens or 1.0) for row in rows]
        if batch:
            means = [np.mean(means)] * len(rows)
        verdicts = np.full((len(draw.paths), len(points)), NO_VOTE, dtype=np.int32)
        for point, finishes in enumerate(points):
            for row, finish in zip(rows, finishes, strict=True):
                winner = majority([paths[row][number].answer for number in sorted(finish.back)])
                verdicts[row, point] = NO_VOTE if winner is None else judge.ranks[row][winner]
        outcomes = judge.score(verdicts)
        tokens = np.array([[finish.tokens for finish in finishes] for finishes in points], dtype=np.float64)
        times = np.array([[finish.time for finish in finishes] for finishes in points])
        cancelled = np.array([[len(finish.parts) for finish in finishes] for finishes in points])
        spent = np.rint(tokens.sum(axis=1)).astype(np.int64)
        timing = Timing(np.array(rows), spent, tokens / means, times / means, cancelled, outcomes.agree[rows].T)
        sizes = np.full((len(points), len(draw.paths)), -1, dtype=np.int64)
        sizes[:, rows] = cancelled + [[len(finish.back) for finish in finishes] for finishes in points]
        return cls(outcomes, draw.full_vote, sizes=sizes, timing=timing)

    @property
    def questions(self) -> int:
        """N."""
        return len(self.vote[0])

    @property
    def rows(self) -> Indices:
        """The questions that took part."""
        return np.arange(self.questions) if self.sizes is None else np.flatnonzero(self.sizes[0] >= 0)

    def by_zone(self) -> "Allocation":
        """The same allocation, where a good verdict counts as one that agrees."""
        good = self.outcomes.good
        return replace(self, outcomes=replace(self.outcomes, agree=good), vote=(self.vote[1], self.vote[1]))

    def at(self, point: int) -> Floats:
        """Traces of each question at one point of the curve, (N,); NaN where it took no part."""
        (counts,) = self.counts(np.array([point]))
        return np.where(counts < 0, np.nan, counts)

    def counts(self, points: Indices) -> Indices:
        """Traces of each question at each of some points, ascending, (G, N); -1 where it took no part."""
        if self.sizes is not None:
            return self.sizes[points].astype(np.int64)
        assert self.order is not None
        first = np.searchsorted(points, np.arange(self.order.size), side="right")  # the first point after each trace
        cells = first * self.questions + self.order
        steps = np.bincount(cells, minlength=(points.size + 1) * self.questions)
        return steps.reshape(-1, self.questions)[: points.size].cumsum(axis=0)

    def totals(self, table: NDArray[np.bool_] | NDArray[np.int64]) -> Counts:
        """What questions have after 0..P traces, (N, P + 1), added up at every point, (1, V).

        An offline run has a point after each of 0..N P traces; one that ends early stays where it is.
        """
        if self.timing is not None:
            sums = table[self.rows].sum(axis=0)
        elif self.sizes is not None:
            sums = table[self.rows, self.sizes[:, self.rows]].sum(axis=1)
        else:
            assert self.order is not None
            N, P = table.shape[0], table.shape[1] - 1
            values = table.astype(np.int64)
            taken = np.arange(P) < np.bincount(self.order, minlength=N)[:, None]  # (N, P): the steps that were made
            steps = np.zeros(N * P + 1, dtype=np.int64)
            steps[0] = values[:, 0].sum()
            steps[1 + np.argsort(self.order, kind="stable")] = np.diff(values, axis=1)[taken]
            sums = steps.cumsum()
        return smallest(sums)


def smallest(sums: Indices) -> Counts:
    """The sums at every point (V,) as those of one repetition, (1, V), in the smallest type that holds them."""
    return sums[None].astype(np.min_scalar_type(int(sums.max(initial=0))))


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One policy on one pool: R repetitions of V points.

    An offline curve (``option`` is ``None``) has a point after every trace, 0 to N P; a sweep one for each of
    ``values`` of ``option``, in their order. ``agree``, ``good``, ``correct`` (R, V) count questions, ``spent`` (R, V)
    and ``tokens`` (R, V) are totals. An online policy runs on the ``questions`` that did not train it. ``ceiling`` (R,)
    is the share of questions that agree when all their traces are in, ``good_ceiling`` of those whose verdict is good
    then. ``allocations`` are those of all repetitions, ``certified`` holds certificates if asked for.
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

    @classmethod
    def joined(cls, parts: Sequence["Result"]) -> "Result":
        """The repetitions of one policy on one pool as one result."""
        columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(cls)}
        joined: dict[str, Any] = {
            name: np.concatenate(own) for name, own in columns.items() if isinstance(own[0], np.ndarray)
        }
        joined["allocations"] = tuple(chain(*columns["allocations"]))
        joined["certified"] = tuple(chain(*zip(*columns["certified"], strict=True)))  # budget by budget
        return replace(parts[0], **joined)

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
        """A question's mean tokens and time in its own mean trace, the 95 % point of the time, traces cancelled,
        (R, V) each; nothing where there was no clock."""
        timings = [allocation.timing for allocation in self.allocations if allocation.timing is not None]
        if not timings:
            return {}
        return {
            "trace_tokens": np.array([timing.tokens.mean(axis=1) for timing in timings]),
            "time": np.array([timing.time.mean(axis=1) for timing in timings]),
            "p95_time": np.array([np.percentile(timing.time, 95, axis=1) for timing in timings]),
            "cancelled": np.array([timing.cancelled.mean(axis=1) for timing in timings]),
        }

    @property
    def budget_used(self) -> Floats | None:
        """The share of the budget that an online policy spent, (R, V)."""
        if self.setting != "online" or self.spent is None:
            return None
        return np.asarray(self.spent / np.floor(np.array(self.values) * self.questions))

    def bar(self, level: float) -> Floats:
        """The self-consistency that ``level`` asks of each repetition, (R,): with disjoint halves, of the ceiling."""
        return level * (self.ceiling if self.relative else np.ones(self.repetitions))

    def by_zone(self) -> "Result":
        """The same runs with zone-consistency in the place of self-consistency: every metric reads it so."""
        allocations = tuple(allocation.by_zone() for allocation in self.allocations)
        return replace(self, agree=self.good, ceiling=self.good_ceiling, allocations=allocations)


def name_of(policy: str | Policy) -> str:
    """What results call a policy: its spec, or where no spec makes it, its class and its plain options.

    >>> from pets.policies.okg import OKG
    >>> name_of("okg:prior=1"), name_of(OKG(lengths=False)), name_of(OKG(edges=(100.0,), shares=((1.0,), (1.0,))))
    ('okg:prior=1', 'okg:lengths=false', 'OKG(...)')
    """
    if isinstance(policy, str):
        return policy
    if (spec := spec_of(policy)) is not None:
        return spec
    options = changed_options(policy)
    plain = [f"{key}={value}" for key, value in options.items() if isinstance(value, int | float | str)]
    return f"{type(policy).__name__}({', '.join(plain if len(plain) == len(options) else [*plain, '...'])})"


def changed_options(policy: Policy) -> Mapping[str, object]:
    """The options of an object that are not their defaults."""
    if not is_dataclass(policy):
        return {}
    values = {field.name: (getattr(policy, field.name), field.default) for field in fields(policy)}
    return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True, slots=True, eq=False)
class PoolResult:
    """All policies on one pool, and what bounds them.

    ``pass_at_1`` and ``vote_accuracy`` are of all recorded traces, ``None`` without gold. For each repetition ``tied``
    counts targets in which two answers share the lead, and ``ceiling`` is the agreement of all traces with the target.
    ``limit`` is the attainable frontier, ``zone_limit`` that of zone-consistency; ``None`` where ``no_limit`` says why.
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
