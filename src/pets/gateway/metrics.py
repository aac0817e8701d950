"""What a gateway counts, in all and for each key: a Prometheus registry each, read by ``/metrics`` and the dashboard.

The memory that it takes grows with the number of keys alone.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest

from pets.core.tally import NAMES
from pets.engine.submissions import Submissions
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_store import Charge, Reservation
from pets.gateway.recent_questions import RecentQuestions
from pets.gateway.responses import AnsweredVote
from pets.gateway.stats import REQUEST_SECONDS, ShareStats, outcome_of
from pets.plans import Drift

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


class Share:
    """A registry of one share of a gateway's work, all of it or that of one key, and the latest questions and errors.

    ``gauges`` say what each of GAUGES is now. ``stats`` reads the registry for the dashboard.
    """

    def __init__(self, gauges: Mapping[str, Callable[[], float]], clock: Callable[[], float] = time.time) -> None:
        self.questions: deque[dict[str, Any]] = deque(maxlen=LATEST_ROWS)
        self.errors: deque[dict[str, Any]] = deque(maxlen=LATEST_ROWS)
        self._registry = registry = CollectorRegistry()
        counters = {
            name: Counter(f"pets_{name}", words, labels, registry=registry)
            for name, (words, labels) in COUNTERS.items()
        }
        # By labels, of which a counter looks for its own more slowly.
        self._counter = cache(lambda name, *labels: counters[name].labels(*labels) if labels else counters[name])
        self._histograms = {
            name: Histogram(f"pets_{name}", words, labels, buckets=buckets, registry=registry)
            for name, (words, labels, buckets) in HISTOGRAMS.items()
        }
        words = "Traces of a question, by the pattern of its first four answers."
        self._question_traces = Summary("pets_question_traces", words, ["pattern"], registry=registry)
        for name, words in GAUGES.items():
            Gauge(f"pets_{name}", words, registry=registry).set_function(gauges[name])
        self._models: set[str] = set()
        self.stats = ShareStats(registry, clock)

    def record_vote(self, vote: AnsweredVote, metadata: dict[str, Any], row: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response, ``row`` is shown of it."""
        self.stats.keep()
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
        self.stats.keep()
        outcome = outcome_of(request["status"])
        self._count("requests", 1, request["kind"], str(request["status"]))
        self._count("retries", request["retries"])
        self._histograms["request_seconds"].labels(request["kind"], outcome).observe(request["seconds"])
        if outcome == "answered":
            self._count("model_requests", 1, self._model(request["model"]))
            return
        reason = (request["reason"] or "returned by the upstream server")[:REASON_CHARACTERS]
        row = {name: request[name] for name in SHOWN_OF_AN_ERROR} | {"at": self.stats.clock(), "reason": reason}
        earlier = next((error for error in self.errors if all(error[name] == row[name] for name in SAME)), None)
        if earlier is not None:
            self.errors.remove(earlier)
        self.errors.append(row | {"times": 1 + (earlier["times"] if earlier is not None else 0)})

    def record_settlement(self, reservation: Reservation, charge: Charge, spent: float) -> None:
        """Count an upstream request that was charged; it took ``spent`` of the budget."""
        self.stats.keep()
        model = self._model(reservation.model)
        self._count("model_traces", charge.delivered or reservation.traces, model)
        self._count("model_tokens", charge.tokens, model)
        self._count("model_prompt_tokens", charge.prompt_tokens, model)
        self._count("model_spent", spent, model)
        self._count("key_spent", spent, reservation.key, model)

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _count(self, name: str, amount: float, *labels: str) -> None:
        counter = self._counter(name, *labels)  # which is shown from now on, with 0 too
        if amount:
            counter.inc(amount)

    def _model(self, name: str | None) -> str:
        """A model's name as a label, which is UTF-8; those beyond MAX_MODELS are counted together."""
        if name in self._models:
            return name
        name = (name or "unknown")[:MODEL_CHARACTERS].encode("utf-8", "replace").decode()
        if name not in self._models and len(self._models) >= MAX_MODELS:
            return OTHER_MODELS
        self._models.add(name)
        return name


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
        row = self.recent.add(vote, metadata, spent=self._ledger.shown(spent), now=self.share_of(None).stats.clock())
        for share in self.shares_of(vote.account.key.name):
            share.record_vote(vote, metadata, row)

    def share_of(self, name: str | None) -> Share:
        """What was counted for the key of this name; all for None."""
        if name not in self._shares:
            self._shares[name] = Share(self._gauges(name))
        return self._shares[name]

    def _record_settlement(self, reservation: Reservation, charge: Charge) -> None:
        if cost := charge.spent:
            spent = self._ledger.shown(cost) if reservation.limits else 0  # beyond the budget it costs nothing
            for share in self.shares_of(reservation.key):
                share.record_settlement(reservation, charge, spent)

    def shares_of(self, key: str | None) -> list[Share]:
        """Where it is counted what the key of this name does: its own share, and that of all."""
        return [self.share_of(name) for name in {None: None, key: None}]

    def _gauges(self, name: str | None) -> dict[str, Callable[[], float]]:
        """What each of GAUGES is for the key of this name."""
        submissions, places = self._submissions, self._submissions.places
        shown, drift = self._ledger.shown, self.drift
        balance = self._ledger.total if name is None else self._ledger.balance_of(name)

        def open_questions() -> int:
            return sum(name is None or vote.limits.payer == name for vote in submissions.votes.values())

        return {
            "open_questions": open_questions,
            "traces_in_flight": lambda: places.taken if name is None else places.taken_by(name),
            "budget_spent": lambda: shown(balance.spent) if balance.is_known else math.nan,
            "budget_held": lambda: shown(balance.held),
            "budget_limit": lambda: shown(math.nan if balance.limit is None else balance.limit),
            "drift_alarm": lambda: drift is not None and drift.alarm,
        }
