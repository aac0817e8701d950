"""``ShareStats``: what the dashboard shows of one share of a gateway's work, read from its Prometheus registry.

A ``History`` has snapshots of what was counted; two of them differ by what came between.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

CLIENT_GONE = 499
REQUEST_SECONDS = (
    0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 3.5, 5, 7.5,
    10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600,
)  # fmt: skip
OUTCOMES = ("answered", "refused", "failed", "gone")
COLUMNS = (*OUTCOMES, "retries", "lost", "votes", "traces", "prompt_tokens", "tokens", "spent")
MODEL_COLUMNS = ("requests", "traces", "prompt_tokens", "tokens", "spent")
BALANCE = len(COLUMNS)  # the column of what is spent of the budget, by all replicas
BUCKETS = 1 + len(REQUEST_SECONDS)
LATENCIES = {"vote": slice(BALANCE + 1, BALANCE + 1 + BUCKETS), "plain": slice(BALANCE + 1 + BUCKETS, None)}
"""The buckets of each kind of request among the columns of the history."""
RATE_INTERVALS = 3  # that the rate of requests is taken over: 60 to 90 seconds

RESOLUTIONS = {"hour": (30, 120), "day": (720, 120)}
"""Seconds of an interval and their number, by the span of time that they are."""
SHORTEST_RATE_S = 60.0  # the first seconds say little of the hours to come

Counts = NDArray[np.float64]
"""What was counted so far: a number for each column."""
Samples = defaultdict[str, dict[tuple[str, ...], float]]
"""The values of a registry, by the sample's name and the values of its labels."""


def outcome_of(status: int) -> str:
    """What became of a request that ended with this status; 0: it was broken off before its response began.

    >>> [outcome_of(status) for status in (200, 429, 499, 503, 0)]
    ['answered', 'refused', 'gone', 'failed', 'failed']
    """
    if status == CLIENT_GONE:
        return "gone"
    if not status or status >= 500:
        return "failed"
    return "answered" if status < 400 else "refused"


class History:
    """The counts at the start of each interval of the last hour and day; where none was counted, no snapshot is kept.

    ``read`` gives the counts as they are, ``clock`` the time in seconds, at first when it ``started``. A clock that is
    set back begins no interval.
    """

    def __init__(self, read: Callable[[], Counts], clock: Callable[[], float]) -> None:
        self._read, self.clock, self.started = read, clock, clock()
        self._rings: dict[str, deque[tuple[int, Counts]]] = {
            span: deque(maxlen=size + 1) for span, (_, size) in RESOLUTIONS.items()
        }
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


class ShareStats(History):
    """The dashboard's numbers of one registry: as they are, and over the last hour and day."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        super().__init__(lambda: _counts(self._samples()), clock)

    def now(self) -> dict[str, Any]:
        """Read the sums since the start, the rates and the latencies of late."""
        self.keep()
        samples = self._samples()
        counts = _counts(samples)
        starts, increases = self.increases("hour", counts)
        last_hour = increases.sum(axis=0)
        requests = float(increases[-RATE_INTERVALS:, : len(OUTCOMES)].sum())
        bounds = [(float(bound), number) for (bound,), number in samples["pets_certificate_bucket"].items()]
        traces = samples["pets_question_traces_sum"]
        models: dict[str, dict[str, Any]] = {}  # what each was asked and has cost
        for name in MODEL_COLUMNS:
            for (model,), amount in samples[f"pets_model_{name}_total"].items():
                row = models.setdefault(model, {"model": model} | dict.fromkeys(MODEL_COLUMNS, 0))
                row[name] = _number(amount)
        return {
            "totals": dict(zip(COLUMNS, map(_number, counts), strict=False)),
            "requests_per_second": requests / max(SHORTEST_RATE_S, self.clock() - starts[-RATE_INTERVALS]),
            "spent_per_second": self.per_second(BALANCE, counts),
            "latency": {kind: quantiles(last_hour[buckets]) for kind, buckets in LATENCIES.items()},
            "open": int(samples["pets_open_questions"][()]),
            "in_flight": int(samples["pets_traces_in_flight"][()]),
            "first_answers": {
                pattern: {"questions": int(number), "traces": int(traces[pattern,])}
                for (pattern,), number in samples["pets_question_traces_count"].items()
            },
            "certificates": [
                (bound, int(number - below)) for (_, below), (bound, number) in pairwise([(0, 0), *bounds[:-1]])
            ],
            "models": sorted(models.values(), key=lambda row: (-row["spent"], -row["requests"])),
        }

    def columns(self, span: str) -> dict[str, Any]:
        """Read the last ``hour`` or ``day``: a column per quantity, None in intervals before the start."""
        starts, increases = self.increases(span, self._read())
        seconds, _ = RESOLUTIONS[span]
        columns: dict[str, list[Any]] = {
            name: [_number(count) for count in increases[:, index]] for index, name in enumerate(COLUMNS)
        }
        for kind, buckets in LATENCIES.items():
            rows = [quantiles(row) for row in increases[:, buckets]]
            columns[f"{kind}_p50"], columns[f"{kind}_p99"] = map(list, zip(*rows, strict=True))
        before = sum(start + seconds <= self.started for start in starts)
        known = {name: [None] * before + column[before:] for name, column in columns.items()}
        return {"span": span, "seconds": seconds, "start": starts, **known}

    def _samples(self) -> Samples:
        samples: Samples = defaultdict(dict)
        for family in self._registry.collect():
            for sample in family.samples:
                samples[sample.name][tuple(sample.labels.values())] = sample.value
        return samples


def _counts(samples: Samples) -> Counts:
    """What a history keeps: COLUMNS, the balance, and the buckets of LATENCIES, of requests that were answered."""
    outcomes = dict.fromkeys(OUTCOMES, 0.0)
    for (_, status), number in samples["pets_requests_total"].items():
        outcomes[outcome_of(int(status))] += number
    retries, *others = (
        sum(samples[f"pets_{name}_total"].values())
        for name in ("retries", "stops", "traces", "model_prompt_tokens", "model_tokens", "model_spent")
    )
    lost, balance = samples["pets_traces_total"].get(("lost",), 0.0), samples["pets_budget_spent"][()]
    counts = [*outcomes.values(), retries, lost, *others, balance]
    for kind in ("vote", "passthrough"):
        seconds = samples["pets_request_seconds_bucket"].items()
        buckets = [number for labels, number in seconds if labels[:2] == (kind, "answered")]
        counts += buckets or [0.0] * BUCKETS
    return np.array(counts)


def _number(count: float) -> int | float:
    """A count as a whole number; amounts of money have parts of one."""
    return int(count) if float(count).is_integer() else float(count)


def quantiles(cumulative: Sequence[float] | Counts, bounds: Sequence[float] = REQUEST_SECONDS) -> list[float | None]:
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
