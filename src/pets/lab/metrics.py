"""Metrics of a curve: where a level is reached, what a matched budget buys, the area, the mean curve.

Points of a sweep are taken in the order of what they spent. Traces and tokens are means per question. NaN stands for
"not reached".

Levels of a mean curve are read off the isotonic curve: the rising curve nearest to the points, in least squares (pool
adjacent violators). The first point of a noisy mean to reach a level is early by luck: read so, a policy needs 4 to 6 %
fewer traces than *itself*. The fit's blocks, runs of points of one value, are joined by straight lines from centre to
centre; the last block, where a curve has arrived, counts from its first point on. What lies between two points is a
mixture that a user can have: a share of the questions at one value, the others at another.

Intervals are over questions, resampled with replacement (the Poisson bootstrap: each weighs Poisson(1)), always with
all that was drawn of them, and in pairs: both policies, and all pools that ask the same question, get the same weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
from scipy.optimize import isotonic_regression

from pets.lab.draws import Floats, Indices
from pets.lab.results import PoolResult, Result

LEVELS = (0.95, 0.99, 0.995, 1.0)
LEVEL_TOLERANCE = 1e-9  # 0.95 x 100 is not 95


@dataclass(frozen=True, slots=True, eq=False)
class RisingCurve:
    """K blocks of points: ``traces`` (K,) at their centres and ``consistency`` (K,), both ascending.

    ``order`` (V,) are the points by what they spend; block k is ``order[starts[k]:starts[k + 1]]``.
    """

    traces: Floats
    consistency: Floats
    order: Indices
    starts: Indices

    @classmethod
    def through(cls, traces: Floats, consistency: Floats) -> "RisingCurve":
        """The isotonic fit of V points, in any order.

        >>> curve = RisingCurve.through(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.7, 0.6, 1.0]))
        >>> curve.traces, curve.consistency, curve.traces_at(0.575)
        (array([1. , 2.5, 4. ]), array([0.5 , 0.65, 1.  ]), 1.75)
        """
        order = np.lexsort((consistency, traces))
        values = isotonic_regression(consistency[order]).x
        starts = np.flatnonzero(np.concatenate([[True], np.diff(values) > LEVEL_TOLERANCE]))
        sizes = np.diff(np.append(starts, values.size))
        centres = np.add.reduceat(traces[order], starts) / sizes
        centres[-1] = traces[order[starts[-1]]]
        return cls(centres, values[starts], order, starts)

    def traces_at(self, bar: float) -> float:
        """Mean traces per question at this self-consistency; NaN if the curve never reaches it.

        Under the cheapest point of a sweep there is nothing to join: it costs what that point does.
        """
        reached = bar - LEVEL_TOLERANCE <= self.consistency[-1]
        return float(np.interp(bar, self.consistency, self.traces)) if reached else np.nan


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """Where each repetition first reached a level and from where on it stayed: traces and tokens, (R,)."""

    first: Floats
    settled: Floats
    first_tokens: Floats | None
    settled_tokens: Floats | None


def reached(result: Result, level: float) -> Reached:
    """First point at the level, and the point from which on all are; see :meth:`Result.bar` for what a level is."""
    tokens = result.mean_tokens
    traces, consistency = by_spend(result, result.traces), by_spend(result, result.consistency)
    good = consistency >= result.bar(level)[:, None] - LEVEL_TOLERANCE
    first = np.where(good.any(axis=1), good.argmax(axis=1), -1)
    last_bad = good.shape[1] - 1 - np.where(good.all(axis=1), good.shape[1], (~good[:, ::-1]).argmax(axis=1))
    settled = np.where(good[:, -1], last_bad + 1, -1)
    return Reached(
        _picked(traces, first),
        _picked(traces, settled),
        None if tokens is None else _picked(by_spend(result, tokens), first),
        None if tokens is None else _picked(by_spend(result, tokens), settled),
    )


def by_spend(result: Result, values: Floats) -> Floats:
    """The values of each repetition's points, (R, V), the cheapest point first."""
    return np.take_along_axis(values, np.argsort(result.traces, axis=1, kind="stable"), axis=1)


def _picked(values: Floats, points: Indices) -> Floats:
    rows = np.arange(len(points))
    return np.where(points >= 0, values[rows, np.maximum(points, 0)], np.nan)


def at_spend(result: Result, values: Floats, spends: Floats) -> Floats:
    """``values`` (R, V) of each repetition at a given mean spend (R,), interpolated between the points of a sweep.

    A policy that ends under the spend is worth what it ended with; NaN under its cheapest point.
    """
    levels = np.full(len(spends), np.nan)
    traces, values = by_spend(result, result.traces), by_spend(result, values)
    for row in np.flatnonzero(spends >= traces[:, 0] - LEVEL_TOLERANCE):  # no spend at all is NaN
        levels[row] = np.interp(spends[row], traces[row], values[row])
    return levels


def area(result: Result) -> Floats:
    """Mean self-consistency over mean spends 0..P, (R,): straight lines between points, level after the last."""
    areas = []
    for traces, values in zip(by_spend(result, result.traces), by_spend(result, result.consistency), strict=True):
        x = np.concatenate([[0.0], traces, [max(float(result.size), traces[-1])]])
        y = np.concatenate([[0.0], values, [values[-1]]])
        areas.append(float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum()) / x[-1])
    return np.array(areas)


def mean_curve(result: Result, repetitions: slice = slice(None)) -> tuple[Floats, Floats]:
    """Mean traces and mean self-consistency of each point over repetitions, (V,) each."""
    return result.traces[repetitions].mean(axis=0), result.consistency[repetitions].mean(axis=0)


def traces_at_mean(result: Result, level: float, repetitions: slice = slice(None)) -> float:
    """Mean traces per question at which the isotonic mean curve reaches the level; NaN if it never does."""
    bar = float(result.bar(level)[repetitions].mean())
    return RisingCurve.through(*mean_curve(result, repetitions)).traces_at(bar)


RESAMPLES = 300
MAX_POINTS = 600  # of a curve that has a point after every trace: 2 % apart


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTable:
    """V points of a result, question by question, summed over repetitions: ``traces`` and ``agree`` (V, N); how often
    the vote of all traces agrees (``ceiling``) and the question took part (``runs``), (N,) each."""

    traces: Floats
    agree: Floats
    ceiling: Floats
    runs: Floats

    def curves(self, weights: Floats) -> tuple[Floats, Floats]:
        """Mean traces and self-consistency under each row of question weights; (B, N) -> (B, V) each."""
        total = np.maximum(1.0, weights @ self.runs)
        return weights @ self.traces.T / total[:, None], weights @ self.agree.T / total[:, None]

    def ceilings(self, weights: Floats) -> Floats:
        """The share of questions that agree when all their traces are in, under each row of weights; (B,)."""
        return np.asarray(weights @ self.ceiling / np.maximum(1.0, weights @ self.runs))


def spaced_points(result: Result) -> Indices:
    """The points of a sweep, or about 600 of a curve, each a little further from the last than the one before."""
    V = result.agree.shape[1]
    if result.option is not None or V <= MAX_POINTS:
        return np.arange(V)
    return np.unique(np.geomspace(1, V, MAX_POINTS).round().astype(np.int64) - 1)


def question_table(result: Result, points: Indices, repetitions: slice = slice(None)) -> QuestionTable:
    """The table of some points of a result over some repetitions."""
    N = result.allocations[0].questions
    traces, agree = np.zeros((points.size, N)), np.zeros((points.size, N))
    ceiling, runs = np.zeros(N), np.zeros(N)
    for allocation in result.allocations[repetitions]:
        counts = allocation.counts(points)
        took_part = counts[0] >= 0
        counts[:, ~took_part] = 0
        traces += counts
        agree += allocation.outcomes.agree[np.arange(N), counts] & took_part
        ceiling += allocation.vote[0] & took_part
        runs += took_part
    return QuestionTable(traces, agree, ceiling, runs)


def resampled_levels(pool: PoolResult, result: Result, levels: Sequence[float]) -> Floats:
    """Mean traces per question at each level in each resample, (B, L); NaN where a level is not reached."""
    weights = resampled_weights(pool)
    table = question_table(result, spaced_points(result))
    bars = np.outer(table.ceilings(weights) if result.relative else np.ones(len(weights)), levels)
    curves = (RisingCurve.through(x, y) for x, y in zip(*table.curves(weights), strict=True))
    return np.array([[curve.traces_at(bar) for bar in row] for curve, row in zip(curves, bars.tolist(), strict=True)])


def resampled_weights(pool: PoolResult) -> Floats:
    """How often each question is drawn in each resample, (B, N); the same for a question in every pool."""
    return np.array([_weights(pool.dataset, id) for id in pool.ids], dtype=np.float64).T


@lru_cache(maxsize=1 << 14)
def _weights(dataset: str, id: str) -> Indices:
    seeds = [crc32(name.encode("utf-8", "surrogatepass")) for name in (dataset, id)]
    return np.random.default_rng(seeds).poisson(1.0, RESAMPLES)
