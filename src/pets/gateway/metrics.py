"""What a gateway counts, in all and for each key: a Prometheus registry each, read by ``/metrics`` and the dashboard.

The memory that it takes grows with the number of keys alone.
"""

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest

from pets.core.tally import NAMES
from pets.engine.submissions import Submissions
from pets.gateway.history import RESOLUTIONS, SHORTEST_RATE_S, Counts, History, quantiles
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_store import Charge, Reservation
from pets.gateway.recent_questions import RecentQuestions
from pets.gateway.responses import AnsweredVote
from pets.plans import Drift

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

LATEST_ROWS = 12
SHOWN_OF_AN_ERROR = ("id", "key", "model", "status", "seconds")
SAME = ("key", "model", "status", "reason")  # what errors have in common that are one row, the latest of them
REASON_CHARACTERS = 200  # it may quote what a client sent
MAX_MODELS = 64  # clients choose the names
MODEL_CHARACTERS = 200
OTHER_MODELS = "other models"
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "requests": ("Requests, by kind and status.", ("kind", "status")),
    "traces": ("Upstream traces of votes: delivered, lost or cancelled.", ("came",)),
    "tokens": ("Tokens of voted requests.", ("kind",)),
    "retries": ("Upstream requests of votes that failed.", ()),
    "usage_faults": (
        "Traces whose tokens no server told (estimated), or of which it claimed more than was asked for.",
        ("kind",),
    ),
    "stops": ("Why votes ended.", ("reason",)),
    "model_requests": ("Requests that were answered, by model.", ("model",)),
    "model_traces": ("Traces that were charged, of votes and plain requests, by model.", ("model",)),
    "model_prompt_tokens": ("Prompt tokens that were charged, by model.", ("model",)),
    "model_tokens": ("Output tokens that were charged, by model.", ("model",)),
    "model_spent": ("Spent, in traces, tokens or dollars, by model.", ("model",)),
    "key_spent": ("Spent, in traces, tokens or dollars, by key and model.", ("key", "model")),
}
"""What each counter ``pets_NAME_total`` counts, and its labels."""
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "request_seconds": ("Time of a request, by kind and outcome.", ("kind", "outcome"), REQUEST_SECONDS),
    "overhead_seconds": (
        "Time of a vote in which nothing was upstream.",
        (),
        (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    ),
    "certificate": ("Certificates of answers.", (), (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)),
}
"""What each histogram ``pets_NAME`` observes, its labels and the upper bounds of its buckets."""
GAUGES = {
    "open_questions": "Questions being voted on.",
    "traces_in_flight": "Traces of votes that are in flight.",
    "budget_spent": "Spent, in traces, tokens or dollars; NaN: not known yet.",
    "budget_held": "Held for requests under way.",
    "budget_limit": "The total budget; NaN: none.",
    "drift_alarm": "1: warm-ups no longer fit the plan.",
}
"""What each gauge ``pets_NAME`` says when it is read."""

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


class Share:
    """A registry of one share of a gateway's work, all of it or that of one key, and the latest questions and errors.

    ``gauges`` say what each of GAUGES is now. :meth:`now` and :meth:`columns` read the registry for the dashboard.
    """

    def __init__(self, gauges: Mapping[str, Callable[[], float]], clock: Callable[[], float] = time.time) -> None:
        self.questions: deque[dict[str, Any]] = deque(maxlen=LATEST_ROWS)
        self.errors: deque[dict[str, Any]] = deque(maxlen=LATEST_ROWS)
        self._registry = registry = CollectorRegistry()
        counters = {name: Counter(f"pets_{name}", *about, registry=registry) for name, about in COUNTERS.items()}
        # By labels, of which a counter looks for its own more slowly.
        self._counter = cache(lambda name, *labels: counters[name].labels(*labels) if labels else counters[name])
        self._histograms = dict[str, Histogram]()
        for name, (words, labels, buckets) in HISTOGRAMS.items():
            self._histograms[name] = Histogram(f"pets_{name}", words, labels, buckets=buckets, registry=registry)
        words = "Traces of a question, by the pattern of its first four answers."
        self._question_traces = Summary("pets_question_traces", words, ["pattern"], registry=registry)
        for name, words in GAUGES.items():
            Gauge(f"pets_{name}", words, registry=registry).set_function(gauges[name])
        self._models: set[str] = set()
        self.history = History(lambda: _counts(self._samples()), clock)

    def record_vote(self, vote: AnsweredVote, metadata: dict[str, Any], row: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response, ``row`` is shown of it."""
        self.history.keep()
        answer, account, charged = vote.answer, vote.account, vote.account.charged
        self._count("traces", charged.delivered, "delivered")
        self._count("traces", account.lost, "lost")
        self._count("traces", charged.cancelled, "cancelled")
        self._count("usage_faults", charged.estimated, "estimated")
        self._count("usage_faults", charged.claimed_more, "claimed_more")
        self._count("tokens", answer.tokens, "completion")
        self._count("tokens", answer.prompt_tokens, "prompt")
        self._count("stops", 1, metadata["stopped"])
        self._histograms["overhead_seconds"].observe(max(0.0, vote.seconds - account.upstream_s))
        self._histograms["certificate"].observe(answer.certificate)
        self._question_traces.labels(metadata["warmup"] or "fewer").observe(charged.delivered + account.lost)
        self.questions.append(row)

    def record_request(self, request: dict[str, Any]) -> None:
        """Count a request that is over: its id, key, model, kind (vote, passthrough or refused), status, seconds,
        retries, and the reason why it was not answered."""
        self.history.keep()
        outcome = outcome_of(request["status"])
        self._count("requests", 1, request["kind"], str(request["status"]))
        self._count("retries", request["retries"])
        self._histograms["request_seconds"].labels(request["kind"], outcome).observe(request["seconds"])
        if outcome == "answered":
            self._count("model_requests", 1, self._model(request["model"]))
            return
        reason = (request["reason"] or "returned by the upstream server")[:REASON_CHARACTERS]
        row = {name: request[name] for name in SHOWN_OF_AN_ERROR} | {"at": self.history.clock(), "reason": reason}
        same = [error for error in self.errors if all(error[name] == row[name] for name in SAME)]
        for earlier in same:
            self.errors.remove(earlier)
        self.errors.append(row | {"times": 1 + sum(earlier["times"] for earlier in same)})

    def record_settlement(self, reservation: Reservation, charge: Charge, spent: float) -> None:
        """Count an upstream request that was charged; it took ``spent`` of the budget."""
        self.history.keep()
        model = self._model(reservation.model)
        self._count("model_traces", charge.delivered or reservation.traces, model)
        self._count("model_tokens", charge.tokens, model)
        self._count("model_prompt_tokens", charge.prompt_tokens, model)
        self._count("model_spent", spent, model)
        self._count("key_spent", spent, reservation.key, model)

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return generate_latest(self._registry)

    def now(self) -> dict[str, Any]:
        """Read the sums since the start, the rates and the latencies of late."""
        self.history.keep()
        samples = self._samples()
        counts = _counts(samples)
        starts, increases = self.history.increases("hour", counts)
        last_hour = increases.sum(axis=0)
        requests = float(increases[-RATE_INTERVALS:, : len(OUTCOMES)].sum())
        buckets = samples["pets_certificate_bucket"].items()
        bounds = [(0.0, 0.0), *((float(bound), number) for (bound,), number in buckets)][:-1]  # the last is infinite
        traces = samples["pets_question_traces_sum"]
        models: dict[str, dict[str, Any]] = {}  # what each was asked and has cost
        for name in MODEL_COLUMNS:
            for (model,), amount in samples[f"pets_model_{name}_total"].items():
                row = models.setdefault(model, {"model": model} | dict.fromkeys(MODEL_COLUMNS, 0))
                row[name] = _number(amount)
        return {
            "totals": dict(zip(COLUMNS, map(_number, counts), strict=False)),
            "requests_per_second": requests / max(SHORTEST_RATE_S, self.history.clock() - starts[-RATE_INTERVALS]),
            "spent_per_second": self.history.per_second(BALANCE, counts),
            "latency": {kind: quantiles(last_hour[buckets], REQUEST_SECONDS) for kind, buckets in LATENCIES.items()},
            "open": int(samples["pets_open_questions"][()]),
            "in_flight": int(samples["pets_traces_in_flight"][()]),
            "first_answers": {
                pattern: {"questions": int(number), "traces": int(traces[pattern,])}
                for (pattern,), number in samples["pets_question_traces_count"].items()
            },
            "certificates": [(bound, int(number - below)) for (_, below), (bound, number) in pairwise(bounds)],
            "models": sorted(models.values(), key=lambda row: (-row["spent"], -row["requests"])),
        }

    def columns(self, span: str) -> dict[str, Any]:
        """Read the last ``hour`` or ``day``: a column per quantity, None in intervals before the start."""
        starts, increases = self.history.increases(span, _counts(self._samples()))
        seconds, _ = RESOLUTIONS[span]
        columns: dict[str, list[Any]] = {}
        for name, counted in zip(COLUMNS, increases.T, strict=False):
            columns[name] = list(map(_number, counted))
        for kind, buckets in LATENCIES.items():
            rows = [quantiles(row, REQUEST_SECONDS) for row in increases[:, buckets]]
            columns[f"{kind}_p50"], columns[f"{kind}_p99"] = map(list, zip(*rows, strict=True))
        before = sum(start + seconds <= self.history.started for start in starts)
        known = {name: [None] * before + column[before:] for name, column in columns.items()}
        return {"span": span, "seconds": seconds, "start": starts, **known}

    def _samples(self) -> Samples:
        samples: Samples = defaultdict(dict)
        for family in self._registry.collect():
            for sample in family.samples:
                samples[sample.name][tuple(sample.labels.values())] = sample.value
        return samples

    def _count(self, name: str, amount: float, *labels: str) -> None:
        counter = self._counter(name, *labels)  # which is shown from now on, with 0 too
        if amount:
            counter.inc(amount)

    def _model(self, name: str | None) -> str:
        """A model's name as a label, which is UTF-8; those beyond MAX_MODELS are counted together."""
        name = (name or "unknown")[:MODEL_CHARACTERS].encode("utf-8", "replace").decode()
        if name not in self._models and len(self._models) >= MAX_MODELS:
            return OTHER_MODELS
        self._models.add(name)
        return name


def _counts(samples: Samples) -> Counts:
    """What a history keeps: COLUMNS, the balance, and the buckets of LATENCIES, of requests that were answered."""
    outcomes = dict.fromkeys(OUTCOMES, 0.0)
    for (_, status), number in samples["pets_requests_total"].items():
        outcomes[outcome_of(int(status))] += number
    names = ("retries", "stops", "traces", "model_prompt_tokens", "model_tokens", "model_spent")
    retries, *others = (sum(samples[f"pets_{name}_total"].values()) for name in names)
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


class Metrics:
    """The metrics of one gateway: a key is shown its own, an admin all. Two in one process do not share them.

    ``recent`` keeps the latest votes, to be looked into.
    """

    def __init__(
        self, submissions: Submissions, ledger: GatewayLedger, drift: Drift | None, recent: RecentQuestions
    ) -> None:
        self._submissions, self._ledger, self.drift, self.recent = submissions, ledger, drift, recent
        self._shares: dict[str | None, Share] = {}
        self.share_of(None)
        ledger.on_settled = self._record_settlement

    def record_vote(self, vote: AnsweredVote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response."""
        if self.drift is not None and metadata["warmup"] is not None:
            self.drift.see(NAMES.index(metadata["warmup"]))
        spent = 0 if vote.account.kind == "fallback" else vote.account.charged.spent
        row = self.recent.add(vote, metadata, spent=self._ledger.shown(spent), now=self.share_of(None).history.clock())
        for share in self.shares_of(vote.account.key.name):
            share.record_vote(vote, metadata, row)

    def share_of(self, name: str | None) -> Share:
        """What was counted for the key of this name; all for None."""
        if name not in self._shares:
            self._shares[name] = Share(self._gauges(name))
        return self._shares[name]

    def _record_settlement(self, reservation: Reservation, charge: Charge) -> None:
        if charge.spent:
            spent = self._ledger.shown(charge.spent) if reservation.limits else 0  # beyond the budget it costs nothing
            for share in self.shares_of(reservation.key):
                share.record_settlement(reservation, charge, spent)

    def shares_of(self, key: str | None) -> list[Share]:
        """Where it is counted what the key of this name does: its own share, and that of all."""
        return [self.share_of(name) for name in {None: None, key: None}]

    def _gauges(self, name: str | None) -> dict[str, Callable[[], float]]:
        """What each of GAUGES is for the key of this name."""
        votes, places, shown = self._submissions.votes, self._submissions.places, self._ledger.shown
        balance = self._ledger.total if name is None else self._ledger.balance_of(name)
        return {
            "open_questions": lambda: sum(name in (None, vote.limits.payer) for vote in votes.values()),
            "traces_in_flight": lambda: places.taken if name is None else places.taken_by(name),
            "budget_spent": lambda: shown(balance.spent) if balance.is_known else math.nan,
            "budget_held": lambda: shown(balance.held),
            "budget_limit": lambda: shown(math.nan if balance.limit is None else balance.limit),
            "drift_alarm": lambda: self.drift is not None and self.drift.alarm,
        }
