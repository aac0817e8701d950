"""``History``: snapshots of what was counted, of which two differ by what came between; and quantiles of histograms."""

import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

RESOLUTIONS = {"hour": (30, 120), "day": (720, 120)}
"""Seconds of an interval and their number, by the span of time that they are."""
SHORTEST_RATE_S = 60.0  # the first seconds say little of the hours to come

Counts = NDArray[np.float64]
"""What was counted so far: a number for each column."""


class History:
    """The counts at the start of each interval of the last hour and day; where none was counted, no snapshot is kept.

    ``read`` gives the counts as they are, ``clock`` the time in seconds, at first when it ``started``. A clock that is
    set back begins no interval.
    """

    def __init__(self, read: Callable[[], Counts], clock: Callable[[], float]) -> None:
        self._read, self.clock, self.started = read, clock, clock()
        self._rings = {span: deque[tuple[int, Counts]](maxlen=size + 1) for span, (_, size) in RESOLUTIONS.items()}
        self.keep()

    def keep(self) -> None:
        """Keep a snapshot where an interval has begun; before anything is counted in it."""
        now, counts = self.clock(), None
        for span, ring in self._rings.items():
            number = int(now // RESOLUTIONS[span][0])
            if not ring or number > ring[-1][0]:
                counts = self._read() if counts is None else counts
                ring.append((number, counts))

    def increases(self, span: str, counts: Counts) -> tuple[list[int], Counts]:
        """When each interval began, the present one last, and what was counted in it until ``counts``: a row each."""
        (seconds, size), ring = RESOLUTIONS[span], self._rings[span]
        last = max(int(self.clock() // seconds), ring[-1][0])
        snapshots = [*ring, (last + 1, counts)]
        numbers = np.arange(last + 1 - size, last + 2)
        # An interval without a snapshot began with the counts of the next one that has one.
        rows = np.searchsorted([number for number, _ in snapshots], numbers)
        at_starts = np.stack([counts for _, counts in snapshots])[rows]
        return [int(number) * seconds for number in numbers[:-1]], np.diff(at_starts, axis=0)

    def per_second(self, column: int, counts: Counts) -> float:
        """How fast a column that others move, too, grew until ``counts``: in the last hour, or since it is known.

        It is not known where it is NaN.
        """
        now, (seconds, size) = self.clock(), RESOLUTIONS["hour"]
        starts = [(number * seconds, float(at_start[column])) for number, at_start in self._rings["hour"]]
        known = [(start, count) for start, count in starts if not math.isnan(count)]
        if not known or math.isnan(latest := float(counts[column])):
            return 0.0
        since, before = next((row for row in reversed(known) if row[0] <= now - size * seconds), known[0])
        return max(0.0, latest - before) / max(SHORTEST_RATE_S, now - since)


def quantiles(cumulative: Sequence[float] | Counts, bounds: Sequence[float]) -> list[float | None]:
    """p50 and p99 by the buckets of a histogram, linear within a bucket; None where nothing was observed.

    ``cumulative`` has a count for each of the upper ``bounds`` and one of all; what is over the last bound counts as
    that.

    >>> quantiles((0, 8, 10, 10), (0.1, 0.5, 1.0))
    [0.35, 0.975]
    """
    if not (total := cumulative[-1]):
        return [None, None]
    ranks = np.nextafter([0.5 * total, 0.99 * total], 0)  # each is in the first bucket that reaches it
    values: list[float | None] = np.interp(ranks, [0, *cumulative], [0, *bounds, bounds[-1]]).round(4).tolist()
    return values
