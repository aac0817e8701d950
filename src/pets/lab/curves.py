"""Curves: what one policy reached in one repetition at each spend, or at each value of its sweep; and where it went."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pets.core.tally import majority
from pets.lab.clock import Finish
from pets.lab.draws import NO_VOTE, Draw, Outcomes

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """What each of N questions was given: ``order`` (T,) is the question of every trace of an offline run.

    ``sizes`` (V, N) are those of a sweep, -1 where a question took no part because it trained the policy. ``outcomes``
    say what its verdict was worth after each trace, ``vote`` what the vote of all traces is worth, (N,) each: does it
    agree, is it good.
    """

    questions: int
    outcomes: Outcomes
    vote: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    order: NDArray[np.integer] | None = None
    sizes: NDArray[np.integer] | None = None

    def at(self, point: int) -> NDArray[np.float64]:
        """Traces of each question at one point of the curve, (N,); NaN where it took no part."""
        if self.order is not None:
            return np.bincount(self.order[:point], minlength=self.questions).astype(np.float64)
        assert self.sizes is not None
        return np.where(self.sizes[point] < 0, np.nan, self.sizes[point])

    def by_zone(self) -> "Allocation":
        """The same allocation, where a good verdict counts as one that agrees."""
        good = self.outcomes.good
        return replace(self, outcomes=replace(self.outcomes, agree=good), vote=(self.vote[1], self.vote[1]))

    def counts(self, points: Counts) -> Counts:
        """Traces of each question at each of some points, ascending, (G, N); -1 where it took no part."""
        if self.sizes is not None:
            return self.sizes[points].astype(np.int64)
        assert self.order is not None
        first = np.searchsorted(points, np.arange(self.order.size), side="right")  # the first point after each trace
        cells = first * self.questions + self.order
        steps = np.bincount(cells, minlength=(points.size + 1) * self.questions)
        return steps.reshape(-1, self.questions)[: points.size].cumsum(axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """How each question went on the clock at V points, (V, questions): tokens and time are in its own mean trace.

    ``rows`` are the questions' places in the pool; ``agree``: the verdict is the target.
    """

    rows: Counts
    tokens: NDArray[np.float64]
    time: NDArray[np.float64]
    cancelled: Counts
    agree: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Curve:
    """Totals over the questions at V points: traces spent; verdicts that are the target, good, and gold; tokens.

    ``agree`` and ``good`` are out of ``questions``, ``correct`` out of ``judged``; the ceilings are the shares of
    questions that agree, or whose vote is good, when all their traces are in. ``allocation`` is what lies behind the
    totals.
    """

    traces: Counts
    agree: Counts
    good: Counts
    correct: Counts
    tokens: Counts | None
    questions: int
    judged: int
    ceiling: float
    good_ceiling: float
    allocation: Allocation
    timing: Timing | None = None


def curve_of_order(order: Counts, draw: Draw, outcomes: Outcomes | None = None) -> Curve:
    """The curve of an offline run that served questions in this order: a point after each of 0..N P traces.

    A run that ends early stays where it is: its points are budgets. ``outcomes`` are those of the policy's own verdict.
    """
    outcomes = outcomes or draw.outcomes
    N, P = draw.paths.shape
    by_question = np.argsort(order, kind="stable")
    served = np.bincount(order, minlength=N)
    taken = np.arange(P) < served[:, None]  # (N, P): the steps that were made, in the order of by_question

    def after(table: NDArray[np.bool_] | NDArray[np.int64]) -> Counts:
        values = table.astype(np.int64)
        steps = np.zeros(N * P + 1, dtype=np.int64)
        steps[0] = values[:, 0].sum()
        steps[1 + by_question] = np.diff(values, axis=1)[taken]
        return steps.cumsum()

    tables = (outcomes.agree, outcomes.good, outcomes.correct & draw.judged[:, None])
    tokens = None if draw.tokens is None else after(draw.tokens)
    allocation = Allocation(N, outcomes, draw.full_vote, order=order.astype(np.min_scalar_type(N)))
    agree, good, correct = map(after, tables)
    return Curve(np.arange(N * P + 1), agree, good, correct, tokens, *_bounds(draw, np.arange(N)), allocation)


def curve_of_sizes(sizes: Counts, draw: Draw, subset: Counts | None = None, outcomes: Outcomes | None = None) -> Curve:
    """The curve of runs that gave each question ``sizes`` (V, questions) traces; ``subset`` are the rows they mean."""
    outcomes = outcomes or draw.outcomes
    rows = np.arange(len(draw.paths)) if subset is None else subset
    placed = np.full((len(sizes), len(draw.paths)), -1, dtype=np.min_scalar_type(-draw.size - 1))
    placed[:, rows] = sizes
    tables = (outcomes.agree, outcomes.good, outcomes.correct & draw.judged[:, None])
    tokens = None if draw.tokens is None else draw.tokens[rows, sizes].sum(axis=1)
    agree, good, correct = (table[rows, sizes].sum(axis=1) for table in tables)
    allocation = Allocation(len(draw.paths), outcomes, draw.full_vote, sizes=placed)
    return Curve(sizes.sum(axis=1), agree, good, correct, tokens, *_bounds(draw, rows), allocation)


def curve_of_races(
    points: Sequence[Sequence[Finish]], draw: Draw, subset: Sequence[int] | None = None, *, batch: bool = False
) -> Curve:
    """The curve of races that ended so at each of V points; the vote is over what was back.

    Those of a ``batch`` are in the mean trace of all its questions.
    """
    rows = list(range(len(draw.paths)) if subset is None else subset)
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
    launched = np.array([[len(f.back) + len(f.parts) for f in finishes] for finishes in points])
    placed = np.full((len(points), len(draw.paths)), -1, dtype=np.int64)
    placed[:, rows] = launched
    tokens = np.array([[f.tokens for f in finishes] for finishes in points], dtype=np.float64)
    tables = (outcomes.agree, outcomes.good, outcomes.correct & draw.judged[:, None])
    agree, good, correct = (table[rows].sum(axis=0) for table in tables)
    allocation = Allocation(len(draw.paths), draw.outcomes, draw.full_vote, sizes=placed)
    times = np.array([[f.time for f in finishes] for finishes in points]) / means
    cancelled = np.array([[len(f.parts) for f in finishes] for finishes in points])
    timing = Timing(np.array(rows), tokens / means, times, cancelled, outcomes.agree[rows].T)
    spent = np.rint(tokens.sum(axis=1)).astype(np.int64)
    return Curve(launched.sum(axis=1), agree, good, correct, spent, *_bounds(draw, np.array(rows)), allocation, timing)


def _bounds(draw: Draw, rows: Counts) -> tuple[int, int, float, float]:
    """How many questions these are, how many have gold, and the ceilings of agreement and of good votes."""
    agree, good = (float(table[rows, -1].mean()) for table in (draw.outcomes.agree, draw.outcomes.good))
    return len(rows), int(draw.judged[rows].sum()), agree, good
