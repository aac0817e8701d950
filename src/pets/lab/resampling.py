"""Intervals over questions: how a policy might have done on other questions of the same kind.

Repetitions draw traces of the same questions again, so their spread says nothing of other questions. Here questions are
resampled with replacement (the Poisson bootstrap: each weighs Poisson(1)), always with all that was drawn of them, and
in pairs: both policies, and all pools that ask the same question (11 models on AIME 2024), get the same weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pets.lab.metrics import RisingCurve
from pets.lab.results import Floats, PoolResult, Result

Points = NDArray[np.int64]

RESAMPLES = 300
MAX_POINTS = 600  # of a curve that has a point after every trace: 2 % apart


@dataclass(frozen=True, slots=True, eq=False)
class QuestionTable:
    """V points of a result, question by question, summed over repetitions.

    ``traces`` and ``agree`` (V, N); ``ceiling`` (N,) counts how often the vote of all traces agrees, ``runs`` (N,) how
    often the question took part.
    """

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


def spaced_points(result: Result) -> Points:
    """The points of a sweep, or about 600 of a curve, each a little further from the last than the one before."""
    V = result.agree.shape[1]
    if result.option is not None or V <= MAX_POINTS:
        return np.arange(V)
    return np.unique(np.geomspace(1, V, MAX_POINTS).round().astype(np.int64) - 1)


def question_table(result: Result, points: Points, repetitions: slice = slice(None)) -> QuestionTable:
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


def resampled_weights(pool: PoolResult, count: int = RESAMPLES) -> Floats:
    """How often each question is drawn in each resample, (count, N); the same for a question in every pool."""
    return np.array([_weights(pool.dataset, id, count) for id in pool.ids], dtype=np.float64).T


@lru_cache(maxsize=1 << 14)
def _weights(dataset: str, id: str, count: int) -> NDArray[np.int64]:
    return np.random.default_rng([crc32(name.encode("utf-8", "surrogatepass")) for name in (dataset, id)]).poisson(
        1.0, count
    )
