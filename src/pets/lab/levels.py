"""Levels are read off isotonic curves: the rising curve nearest to the points, in least squares.

The mean of a few repetitions is noisy, and the first of its points to reach a level is early by luck: read so, a policy
needs 4 to 6 % fewer traces than *itself*. The isotonic fit (pool adjacent violators) has no such luck. Its blocks, runs
of points of one value, are joined by straight lines from centre to centre; the last block, where a curve has arrived,
counts from its first point on.

What lies between two points is a mixture that a user can have: a share of the questions at one value, the others at
another. So a level is a vector of shares over the points, and the same shares say what it costs on other repetitions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

__all__ = ["LEVEL_TOLERANCE", "RisingCurve"]

Floats = NDArray[np.float64]

LEVEL_TOLERANCE = 1e-9  # 0.95 x 100 is not 95


@dataclass(frozen=True, slots=True, eq=False)
class RisingCurve:
    """K blocks of points: ``traces`` (K,) at their centres and ``consistency`` (K,), both ascending.

    ``order`` (V,) are the points by what they spend; block k is ``order[starts[k]:starts[k + 1]]``.
    """

    traces: Floats
    consistency: Floats
    order: NDArray[np.int64]
    starts: NDArray[np.int64]

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

    def shares_at(self, bar: float) -> Floats | None:
        """The share of questions at each of the V points whose mixture meets the bar, (V,); ``None`` if none does."""
        if bar - LEVEL_TOLERANCE > self.consistency[-1]:
            return None
        bar = min(bar, float(self.consistency[-1]))
        high = int(np.searchsorted(self.consistency, bar))
        low = max(0, high - 1)
        step = self.consistency[high] - self.consistency[low]
        w = float((bar - self.consistency[low]) / step) if step > 0 else 1.0
        shares = np.zeros(self.order.size)
        for block, share in ((low, 1.0 - w), (high, w)):
            members = self._members(block)
            shares[members] += share / members.size
        return shares

    def _members(self, block: int) -> NDArray[np.int64]:
        start = self.starts[block]
        last = block == self.starts.size - 1
        return self.order[start : start + 1 if last else self.starts[block + 1]]
