"""Curves: what one policy reached in one repetition at each spend, or at each value of its sweep; and where it went."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pets.replay.draws import Draw

__all__ = ["Allocation", "Curve", "curve_of_order", "curve_of_sizes"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """What each of N questions was given: ``order`` (T,) is the question of every trace of an offline run.

    ``sizes`` (V, N) are those of a sweep, -1 where a question took no part because it trained the policy.
    """

    questions: int
    order: NDArray[np.integer] | None = None
    sizes: NDArray[np.integer] | None = None

    def at(self, point: int) -> NDArray[np.float64]:
        """Traces of each question at one point of the curve, (N,); NaN where it took no part."""
        if self.order is not None:
            return np.bincount(self.order[:point], minlength=self.questions).astype(np.float64)
        assert self.sizes is not None
        return np.where(self.sizes[point] < 0, np.nan, self.sizes[point])


@dataclass(frozen=True, slots=True)
class Curve:
    """Totals over the questions at V points: traces spent, votes that are the target, votes that are gold, tokens.

    ``agree`` is out of ``questions``, ``correct`` out of ``judged``; ``ceiling`` is the share of questions that agree
    when all their traces are in. ``allocation`` is what lies behind the totals.
    """

    traces: Counts
    agree: Counts
    correct: Counts
    tokens: Counts | None
    questions: int
    judged: int
    ceiling: float
    allocation: Allocation | None = None


def curve_of_order(order: Counts, draw: Draw) -> Curve:
    """The curve of an offline run that served questions in this order: a point after each of 0..N P traces.

    A run that ends early stays where it is: its points are budgets.
    """
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

    return Curve(
        np.arange(N * P + 1),
        after(draw.agree),
        after(draw.correct & draw.judged[:, None]),
        None if draw.tokens is None else after(draw.tokens),
        N,
        int(draw.judged.sum()),
        float(draw.agree[:, P].mean()),
        Allocation(N, order=order.astype(np.min_scalar_type(N))),
    )


def curve_of_sizes(sizes: Counts, draw: Draw, subset: Counts | None = None) -> Curve:
    """The curve of runs that gave each question ``sizes`` (V, questions) traces; ``chosen`` are the rows they mean."""
    rows = np.arange(len(draw.agree)) if subset is None else subset
    judged = draw.judged[rows]
    placed = np.full((len(sizes), len(draw.agree)), -1, dtype=np.min_scalar_type(-draw.size - 1))
    placed[:, rows] = sizes
    return Curve(
        sizes.sum(axis=1),
        draw.agree[rows, sizes].sum(axis=1),
        (draw.correct[rows, sizes] & judged).sum(axis=1),
        None if draw.tokens is None else draw.tokens[rows, sizes].sum(axis=1),
        len(rows),
        int(judged.sum()),
        float(draw.agree[rows, -1].mean()),
        Allocation(len(draw.agree), sizes=placed),
    )
