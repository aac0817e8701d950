"""``TimeSeries``: what a gateway counted in each of the latest intervals of time, and how long requests took in them.

A ring of at most ``size`` intervals, of which those in which nothing happened take no room. Times of requests are kept
as counts of bins whose ends grow by a fixed factor, so that a quantile is off by LATENCY_ERROR at most; of all but the
latest intervals only the quantiles are kept.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
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
INTERVALS_WITH_BINS = 5  # of the day they are the last hour

Bins = dict[int, int]
Quantiles = list[float | None]
NO_LATENCY: Quantiles = [None] * len(SHOWN_QUANTILES)


@dataclass(slots=True)
class Interval:
    """What was counted between ``number`` times the interval's length and the next; times by kind of request."""

    number: int
    counts: dict[str, int] = field(default_factory=dict)
    bins: dict[str, Bins] = field(default_factory=dict)
    frozen: dict[str, Quantiles] | None = None

    def freeze(self) -> None:
        """Keep quantiles instead of bins."""
        self.frozen, self.bins = {kind: quantiles(bins) for kind, bins in self.bins.items()}, {}

    def latency(self, kind: str) -> Quantiles:
        """The :data:`SHOWN_QUANTILES` of how long requests of a kind took; None where none ended."""
        if self.frozen is not None:
            return self.frozen.get(kind, NO_LATENCY)
        return quantiles(self.bins.get(kind, {}))


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

    def add(self, now: float, counts: Mapping[str, int]) -> None:
        """Count these amounts now."""
        present = self._present(now).counts
        for name, amount in counts.items():
            present[name] = present.get(name, 0) + amount

    def observe(self, now: float, kind: str, seconds: float) -> None:
        """Count a request of this kind that took so long."""
        bins, place = self._present(now).bins.setdefault(kind, {}), _bin(seconds)
        bins[place] = bins.get(place, 0) + 1

    def starts(self, now: float) -> list[int]:
        """When each interval begins, the oldest first; the last is the present one."""
        return [number * self.seconds for number in self._numbers(now)]

    def column(self, name: str, now: float) -> list[int]:
        """The amount of each interval."""
        counts = {interval.number: interval.counts.get(name, 0) for interval in self._intervals}
        return [counts.get(number, 0) for number in self._numbers(now)]

    def total(self, name: str, now: float) -> int:
        """The amount of all intervals."""
        return sum(self.column(name, now))

    def latencies(self, kind: str, now: float) -> list[Quantiles]:
        """A column for each of :data:`SHOWN_QUANTILES` of how long requests of a kind took; None where none ended."""
        by_number = {interval.number: interval.latency(kind) for interval in self._intervals}
        rows = [by_number.get(number, NO_LATENCY) for number in self._numbers(now)]
        return [list(column) for column in zip(*rows, strict=True)]

    def latency(self, kind: str, now: float) -> Quantiles:
        """The same of the latest INTERVALS_WITH_BINS together, the present one among them."""
        together: Bins = {}
        for interval in self._intervals:
            if interval.number > self._numbers(now)[-1] - INTERVALS_WITH_BINS:
                for place, count in interval.bins.get(kind, {}).items():
                    together[place] = together.get(place, 0) + count
        return quantiles(together)

    def _present(self, now: float) -> Interval:
        """The interval of this time; the latest, where the clock was set back."""
        intervals = self._intervals
        if not intervals or intervals[-1].number < now // self.seconds:
            intervals.append(Interval(int(now // self.seconds)))
            if len(intervals) > INTERVALS_WITH_BINS:
                intervals[-1 - INTERVALS_WITH_BINS].freeze()
        return intervals[-1]

    def _numbers(self, now: float) -> range:
        """The numbers of the intervals that are shown at this time."""
        last = int(now // self.seconds)
        if self._intervals:
            last = max(last, self._intervals[-1].number)
        return range(last + 1 - self.size, last + 1)


class History:
    """The last hour and the last day of one share of a gateway's work, each as a time series."""

    def __init__(self) -> None:
        self.series = {span: TimeSeries(seconds, size) for span, (seconds, size) in RESOLUTIONS.items()}

    def add(self, now: float, counts: Mapping[str, int]) -> None:
        """Count these amounts now."""
        for series in self.series.values():
            series.add(now, counts)

    def observe(self, now: float, kind: str, seconds: float) -> None:
        """Count a request of this kind that took so long."""
        for series in self.series.values():
            series.observe(now, kind, seconds)

    def latency(self, kind: str, now: float) -> Quantiles:
        """p50 and p99 of the last hour."""
        return self.series["day"].latency(kind, now)


def quantiles(bins: Mapping[int, int], shares: Sequence[float] = SHOWN_QUANTILES) -> Quantiles:
    """The seconds that these shares of requests took at most, within LATENCY_ERROR.

    >>> quantiles({_bin(0.1): 98, _bin(8.0): 2})
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
