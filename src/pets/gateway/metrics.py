"""What a gateway counts, in all and for each key: for Prometheus at ``/metrics``, and for its dashboard.

The memory that it takes grows with the number of keys alone.
"""

import math
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as PrometheusCounter

from pets.core.patterns import NAMES
from pets.engine.driver import Driver, Submission
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import Balance, GatewayLedger, RequestAccount, Reservation, Settlement
from pets.gateway.recent_questions import RecentQuestions
from pets.gateway.responses import Vote
from pets.gateway.stats import FinishedRequest, ShareStats, question_row
from pets.plans import Drift

__all__ = ["Metrics", "Share"]

REQUEST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
OVERHEAD_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
CERTIFICATES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class Share:
    """What of a gateway's work is that of the key ``name``; all of it for None. ``stats`` are for its dashboard."""

    def __init__(self, driver: Driver, ledger: GatewayLedger, name: str | None, drift: Drift | None = None) -> None:
        self._driver, self.ledger, self.name = driver, ledger, name
        self.stats = ShareStats(self._spent)
        self.prometheus = PrometheusMetrics(self, drift)

    @property
    def submissions(self) -> list[Submission]:
        """Questions being voted on."""
        return [submission for submission in self._driver.submissions.values() if self._owns(submission)]

    @property
    def in_flight(self) -> int:
        """Their traces that are in flight."""
        places = self._driver.places
        return places.taken if self.name is None else places.taken_by(self.name)

    @property
    def balance(self) -> Balance:
        """What may be spent, was spent and is held."""
        return self.ledger.total if self.name is None else self.ledger.balance_of(self.name)

    def _spent(self) -> int | None:
        balance = self.balance
        return balance.spent if balance.is_known else None

    def _owns(self, submission: Submission) -> bool:
        account = submission.context
        return self.name is None or (isinstance(account, RequestAccount) and account.key.name == self.name)


class Metrics:
    """The metrics of one gateway: a key is shown its own, an admin all. Two in one process do not share them.

    ``recent`` keeps the latest votes, to be looked into.
    """

    def __init__(
        self,
        driver: Driver,
        ledger: GatewayLedger,
        drift: Drift | None = None,
        recent: RecentQuestions | None = None,
    ) -> None:
        self._driver, self._ledger, self.drift = driver, ledger, drift
        self.recent = recent or RecentQuestions()
        self._all = Share(driver, ledger, None, drift)
        self._by_key: dict[str, Share] = {}
        ledger.on_settled = self._record_settlement

    def record_vote(self, vote: Vote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response."""
        if self.drift is not None and metadata["warmup"] is not None:
            self.drift.see(NAMES.index(metadata["warmup"]))
        spent = 0 if vote.account.kind == "fallback" else vote.account.spent
        row = question_row(
            vote,
            metadata,
            spent=self._ledger.shown(spent),
            now=self._all.stats.clock(),
            texts=self.recent.texts,
        )
        self.recent.add(vote, metadata, row)
        for share in self._shares(vote.account.key.name):
            share.prometheus.record_vote(vote, metadata)
            share.stats.record_vote(metadata, row)

    def record_request(self, request: FinishedRequest) -> None:
        """Count a request that is over."""
        for share in self._shares(request.key):
            share.prometheus.record_request(request)
            share.stats.record_request(request)

    def text(self, key: ApiKey) -> bytes:
        """The metrics that a key may see, in Prometheus' text format."""
        return self.share_of(None if key.admin else key.name).prometheus.text()

    def share_of(self, name: str | None) -> Share:
        """What was counted for the key of this name; all for None."""
        if name is None:
            return self._all
        if name not in self._by_key:
            self._by_key[name] = Share(self._driver, self._ledger, name, self.drift)
        return self._by_key[name]

    def _record_settlement(self, reservation: Reservation, settlement: Settlement) -> None:
        for share in self._shares(reservation.key):
            share.stats.record_settlement(reservation, settlement)

    def _shares(self, key: str | None) -> list[Share]:
        return [self._all] if key is None else [self._all, self.share_of(key)]


class PrometheusMetrics:
    """The Prometheus metrics of one share of a gateway's work."""

    def __init__(self, share: Share, drift: Drift | None = None) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = PrometheusCounter(
            "pets_requests", "Requests, by kind and status.", ["kind", "status"], registry=registry
        )
        self._traces = PrometheusCounter(
            "pets_traces", "Upstream traces of votes: delivered or lost.", ["came"], registry=registry
        )
        self._tokens = PrometheusCounter("pets_tokens", "Tokens of voted requests.", ["kind"], registry=registry)
        self._retries = PrometheusCounter("pets_retries", "Upstream requests of votes that failed.", registry=registry)
        self._usage_faults = PrometheusCounter(
            "pets_usage_faults",
            "Traces whose tokens no server told (estimated), or of which it claimed more than was asked for.",
            ["kind"],
            registry=registry,
        )
        self._stops = PrometheusCounter("pets_stops", "Why votes ended.", ["reason"], registry=registry)
        self._request_seconds = Histogram(
            "pets_request_seconds", "Time of a request.", ["kind"], buckets=REQUEST_SECONDS, registry=registry
        )
        self._overhead_seconds = Histogram(
            "pets_overhead_seconds",
            "Time of a vote in which nothing was upstream.",
            buckets=OVERHEAD_SECONDS,
            registry=registry,
        )
        self._certificates = Histogram(
            "pets_certificate", "Certificates of answers.", buckets=CERTIFICATES, registry=registry
        )
        shown = share.ledger.shown
        self._gauge("pets_open_questions", "Questions being voted on.", lambda: len(share.submissions))
        self._gauge("pets_traces_in_flight", "Traces of votes that are in flight.", lambda: share.in_flight)
        self._gauge("pets_budget_spent", "Spent, in traces, tokens or dollars.", lambda: shown(share.balance.spent))
        self._gauge("pets_budget_held", "Held for requests under way.", lambda: shown(share.balance.held))
        self._gauge(
            "pets_drift_alarm", "1: warm-ups no longer fit the plan.", lambda: drift is not None and drift.alarm
        )
        self._gauge(
            "pets_budget_limit",
            "The total budget; NaN: none.",
            lambda: math.nan if share.balance.limit is None else shown(share.balance.limit),
        )

    def record_vote(self, vote: Vote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response."""
        answer, account = vote.answer, vote.account
        self._traces.labels("delivered").inc(account.delivered)
        self._traces.labels("lost").inc(account.lost)
        self._usage_faults.labels("estimated").inc(account.estimated)
        self._usage_faults.labels("claimed_more").inc(account.claimed_more)
        self._tokens.labels("completion").inc(answer.tokens)
        self._tokens.labels("prompt").inc(answer.prompt_tokens)
        self._stops.labels(metadata["stopped"]).inc()
        self._overhead_seconds.observe(max(0.0, vote.seconds - account.upstream_s))
        self._certificates.observe(answer.certificate)

    def record_request(self, request: FinishedRequest) -> None:
        """Count a request that is over."""
        self._requests.labels(request.kind, str(request.status)).inc()
        self._request_seconds.labels(request.kind).observe(request.seconds)
        self._retries.inc(request.retries)

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A gauge whose value is looked up when it is read."""
        Gauge(name, description, registry=self._registry).set_function(lambda: float(value()))
