"""``TimeSeries``: what a gateway counted in each of the latest intervals of time, and how long requests took in them.

A ring of at most ``size`` intervals, of which those in which nothing happened take no room. Times of requests are kept
as counts of bins whose ends grow by a fixed factor, so that a quantile is off by LATENCY_ERROR at most.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

__all__ = ["History", "Interval", "TimeSeries", "quantiles"]

BINS_PER_DOUBLING = 4
SHORTEST_S = 0.001  # of a request; shorter ones count as that long
LONGEST_BIN = 4 * 24  # about 4 hours and a half
LATENCY_ERROR = 2 ** (0.5 / BINS_PER_DOUBLING) - 1  # 9 %
SHOWN_QUANTILES = (0.5, 0.99)
RESOLUTIONS = {"hour": (30, 120), "day": (720, 120)}
"""Seconds of an interval and their number, by the span of time that they are."""

Bins = Counter[int]


@dataclass(slots=True)
class Interval:
    """What was counted between ``number`` times the interval's length and the next."""

    number: int
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, Bins] = field(default_factory=dict)


class TimeSeries:
    """Counts and times of the latest ``size`` intervals of ``seconds`` each.

    >>> series = TimeSeries(seconds=10, size=3)
    >>> for now in (5.0, 12.0, 14.0, 31.0):
    ...     series.add(now, {"requests": 1})
    >>> series.column("requests", now=31.0)
    [2, 0, 1]
    """

    def __init__(self, seconds: int, size: int) -> None:
        self.seconds, self.size = seconds, size
        self._intervals: deque[Interval] = deque(maxlen=size)

    def add(self, now: float, counts: dict[str, int]) -> None:
        """Count these amounts now."""
        self._present(now).counts.update(counts)

    def observe(self, now: float, kind: str, seconds: float) -> None:
        """Count a request of this kind that took so long."""
        self._present(now).seconds.setdefault(kind, Counter())[_bin(seconds)] += 1

    def starts(self, now: float) -> list[int]:
        """When each interval begins, the oldest first; the last is the present one."""
        last = self._number(now)
        return [number * self.seconds for number in range(last + 1 - self.size, last + 1)]

    def column(self, name: str, now: float) -> list[int]:
        """The amount of each interval."""
        counts = {interval.number: interval.counts[name] for interval in self._intervals}
        last = self._number(now)
        return [counts.get(number, 0) for number in range(last + 1 - self.size, last + 1)]

    def total(self, name: str, now: float) -> int:
        """The amount of all intervals."""
        return sum(self.column(name, now))

    def latencies(self, kind: str, now: float) -> list[list[float | None]]:
        """A column for each of :data:`SHOWN_QUANTILES` of how long requests of a kind took; None where none ended."""
        bins = {interval.number: interval.seconds.get(kind) for interval in self._intervals}
        last = self._number(now)
        rows = [quantiles(bins.get(number) or Counter()) for number in range(last + 1 - self.size, last + 1)]
        return [list(column) for column in zip(*rows, strict=True)]

    def latency(self, kind: str, now: float) -> list[float | None]:
        """The same of all intervals together."""
        oldest = self._number(now) + 1 - self.size
        together: Bins = Counter()
        for interval in self._intervals:
            if interval.number >= oldest:
                together.update(interval.seconds.get(kind, {}))
        return quantiles(together)

    def _present(self, now: float) -> Interval:
        """The interval of this time; the latest, where the clock was set back."""
        if not self._intervals or self._intervals[-1].number < now // self.seconds:
            self._intervals.append(Interval(self._number(now)))
        return self._intervals[-1]

    def _number(self, now: float) -> int:
        number = int(now // self.seconds)
        return max(number, self._intervals[-1].number) if self._intervals else number


class History:
    """The last hour and the last day of one share of a gateway's work, each as a time series."""

    def __init__(self) -> None:
        self.series = {span: TimeSeries(seconds, size) for span, (seconds, size) in RESOLUTIONS.items()}

    def add(self, now: float, **counts: int) -> None:
        """Count these amounts now."""
        for series in self.series.values():
            series.add(now, counts)

    def observe(self, now: float, kind: str, seconds: float) -> None:
        """Count a request of this kind that took so long."""
        for series in self.series.values():
            series.observe(now, kind, seconds)


def quantiles(bins: Bins, shares: Sequence[float] = SHOWN_QUANTILES) -> list[float | None]:
    """The seconds that these shares of requests took at most, within LATENCY_ERROR.

    >>> quantiles(Counter({_bin(0.1): 98, _bin(8.0): 2}))
    [0.0987, 7.512]
    """
    total = sum(bins.values())
    if not total:
        return [None] * len(shares)
    return [_seconds(_at(sorted(bins.items()), share * total)) for share in shares]


def _at(bins: Sequence[tuple[int, int]], rank: float) -> int:
    """The bin of the request at this rank."""
    passed = accumulate(count for _, count in bins)
    return next(number for (number, _), end in zip(bins, passed, strict=True) if end >= rank)


def _bin(seconds: float) -> int:
    return min(LONGEST_BIN, max(0, math.floor(BINS_PER_DOUBLING * math.log2(max(seconds, SHORTEST_S) / SHORTEST_S))))


def _seconds(number: int) -> float:
    """The middle of a bin."""
    return float(f"{SHORTEST_S * 2 ** ((number + 0.5) / BINS_PER_DOUBLING):.4g}")
