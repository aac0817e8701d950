"""``ShareStats``: what the dashboard shows of one share of a gateway's work, read from its Prometheus registry."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from pets.gateway.timeseries import RESOLUTIONS, SHORTEST_RATE_S, Counts, History, quantile

__all__ = ["CLIENT_GONE", "COLUMNS", "REQUEST_SECONDS", "ShareStats", "outcome_of"]

CLIENT_GONE = 499
REQUEST_SECONDS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 3.5, 5, 7.5,
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


class ShareStats:
    """One reading of a share's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._samples: defaultdict[str, dict[tuple[str, ...], float]] = defaultdict(dict)  # by name, by labels' values
        for family in registry.collect():
            for sample in family.samples:
                self._samples[sample.name][tuple(sample.labels.values())] = sample.value

    @property
    def counts(self) -> Counts:
        """What a history keeps: COLUMNS, the balance, and the buckets of LATENCIES."""
        outcomes = dict.fromkeys(OUTCOMES, 0.0)
        for (_, status), number in self._samples["pets_requests_total"].items():
            outcomes[outcome_of(int(status))] += number
        lost = self._samples["pets_traces_total"].get(("lost",), 0.0)
        names = ("stops", "traces", "model_prompt_tokens", "model_tokens", "model_spent")
        return np.array([
            *(*outcomes.values(), self._sum("retries"), lost, *map(self._sum, names)),
            self._samples["pets_budget_spent"][()],
            *(*self._buckets("vote"), *self._buckets("passthrough")),
        ])  # fmt: skip

    def now(self, history: History) -> dict[str, Any]:
        """The dashboard's numbers: since the start, and the latest."""
        counts = self.counts
        starts, increases = history.increases("hour", counts)
        last_hour = increases.sum(axis=0)
        requests = float(increases[-RATE_INTERVALS:, : len(OUTCOMES)].sum())
        certificates = [(float(bound), number) for (bound,), number in self._samples["pets_certificate_bucket"].items()]
        traces = self._samples["pets_question_traces_sum"]
        return {
            "totals": dict(zip(COLUMNS, map(_number, counts), strict=False)),
            "requests_per_second": requests / max(SHORTEST_RATE_S, history.clock() - starts[-RATE_INTERVALS]),
            "spent_per_second": history.per_second(BALANCE, counts),
            "latency": {kind: _quantiles(last_hour[buckets]) for kind, buckets in LATENCIES.items()},
            "open": int(self._samples["pets_open_questions"][()]),
            "in_flight": int(self._samples["pets_traces_in_flight"][()]),
            "first_answers": {
                pattern: {"questions": int(number), "traces": int(traces[pattern,])}
                for (pattern,), number in self._samples["pets_question_traces_count"].items()
            },
            "certificates": [
                (bound, int(number - below)) for (_, below), (bound, number) in pairwise([(0, 0), *certificates[:-1]])
            ],
            "models": self._models(),
        }

    def columns(self, history: History, span: str, started: float) -> dict[str, Any]:
        """The history of the last ``hour`` or ``day``: a column per quantity, None in intervals before ``started``."""
        starts, increases = history.increases(span, self.counts)
        seconds, _ = RESOLUTIONS[span]
        columns: dict[str, list[Any]] = {
            name: [_number(count) for count in increases[:, place]] for place, name in enumerate(COLUMNS)
        }
        for kind, buckets in LATENCIES.items():
            quantiles = [_quantiles(row) for row in increases[:, buckets]]
            columns[f"{kind}_p50"], columns[f"{kind}_p99"] = map(list, zip(*quantiles, strict=True))
        before = sum(start + seconds <= started for start in starts)
        known = {name: [None] * before + column[before:] for name, column in columns.items()}
        return {"span": span, "seconds": seconds, "start": starts, **known}

    def _models(self) -> list[dict[str, Any]]:
        """What each model was asked and has cost, the dearest first."""
        rows: dict[str, dict[str, Any]] = {}
        for name in MODEL_COLUMNS:
            for (model,), amount in self._samples[f"pets_model_{name}_total"].items():
                row = rows.setdefault(model, {"model": model} | dict.fromkeys(MODEL_COLUMNS, 0))
                row[name] = _number(amount)
        return sorted(rows.values(), key=lambda row: (-row["spent"], -row["requests"]))

    def _sum(self, name: str) -> float:
        return sum(self._samples[f"pets_{name}_total"].values())

    def _buckets(self, kind: str) -> list[float]:
        """The cumulative buckets of the time that requests of a kind took which were answered."""
        seconds = self._samples["pets_request_seconds_bucket"].items()
        own = [number for labels, number in seconds if labels[:2] == (kind, "answered")]
        return own or [0.0] * BUCKETS


def _quantiles(buckets: Counts) -> list[float | None]:
    """p50 and p99."""
    return [quantile(REQUEST_SECONDS, buckets.tolist(), share) for share in (0.5, 0.99)]


def _number(count: float) -> int | float:
    """A count as a whole number; amounts of money have parts of one."""
    return int(count) if float(count).is_integer() else float(count)
