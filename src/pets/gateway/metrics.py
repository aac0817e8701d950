"""What a gateway counts, in all and for each key: for Prometheus at ``/metrics``, and for its dashboard.

The memory that it takes grows with the number of keys alone.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as PrometheusCounter

from pets.core.patterns import NAMES
from pets.engine.driver import Driver, Submission
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import Balance, GatewayLedger, RequestAccount
from pets.gateway.responses import Vote
from pets.plans import Drift

__all__ = ["DashboardStats", "Metrics"]

REQUEST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
OVERHEAD_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
CERTIFICATES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)

SHOWN_QUESTIONS = 20
KEPT_PRICES = 240  # points of the price's history
RATE_WINDOW_S = 60
CERTIFICATE_BINS = 10
SHOWN_ANSWERS = 6  # in a question's vote bar
ANSWER_CHARACTERS = 120  # that of a question in free text may be long


class Share:
    """What of a gateway's work is that of the key ``name``; all of it for None."""

    def __init__(self, driver: Driver, ledger: GatewayLedger, name: str | None) -> None:
        self._driver, self.ledger, self.name = driver, ledger, name

    @property
    def submissions(self) -> list[Submission]:
        """Questions being voted on."""
        return [submission for submission in self._driver.submissions.values() if self._owns(submission)]

    @property
    def in_flight(self) -> int:
        """Their traces that are handed out and not told."""
        if self.name is None:
            return self._driver.in_flight
        return sum(submission.question.in_flight for submission in self.submissions if submission.question)

    @property
    def balance(self) -> Balance:
        """What may be spent, was spent and is held."""
        return self.ledger.total if self.name is None else self.ledger.balance_of(self.name)

    def _owns(self, submission: Submission) -> bool:
        account = submission.context
        return self.name is None or (isinstance(account, RequestAccount) and account.key.name == self.name)


class Metrics:
    """The metrics of one gateway: a key is shown its own, an admin all. Two in one process do not share them."""

    def __init__(self, driver: Driver, ledger: GatewayLedger, mean_budget: float, drift: Drift | None = None) -> None:
        self._driver, self._ledger, self._mean_budget, self._drift = driver, ledger, mean_budget, drift
        self._all = self._make(None)
        self._by_key: dict[str, tuple[PrometheusMetrics, DashboardStats]] = {}

    def record_vote(self, vote: Vote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response."""
        if self._drift is not None and metadata["warmup"] is not None:
            self._drift.see(NAMES.index(metadata["warmup"]))
        for prometheus, dashboard in (self._all, self._of(vote.account.key.name)):
            prometheus.record_vote(vote, metadata)
            dashboard.record_vote(vote, metadata)

    def record_request(self, kind: str, status: int, seconds: float, key: str | None) -> None:
        """Count a request that is over, of the key of this name; ``kind`` is vote, passthrough or refused."""
        for prometheus, dashboard in [self._all] if key is None else [self._all, self._of(key)]:
            prometheus.record_request(kind, status, seconds)
            dashboard.record_request()

    def text(self, key: ApiKey) -> bytes:
        """The metrics that a key may see, in Prometheus' text format."""
        return (self._all if key.admin else self._of(key.name))[0].text()

    def snapshot(self, key: ApiKey) -> dict[str, Any]:
        """All that the dashboard of a key shows."""
        return (self._all if key.admin else self._of(key.name))[1].snapshot(key)

    def _of(self, name: str) -> "tuple[PrometheusMetrics, DashboardStats]":
        if name not in self._by_key:
            self._by_key[name] = self._make(name)
        return self._by_key[name]

    def _make(self, name: str | None) -> "tuple[PrometheusMetrics, DashboardStats]":
        share = Share(self._driver, self._ledger, name)
        return PrometheusMetrics(share, self._drift), DashboardStats(share, self._mean_budget, self._drift)


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
        self._gauge("pets_traces_in_flight", "Traces handed out and not told.", lambda: share.in_flight)
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
        if answer.certificate is not None:
            self._certificates.observe(answer.certificate)

    def record_request(self, kind: str, status: int, seconds: float) -> None:
        """Count a request that is over; ``kind`` is vote, passthrough or refused."""
        self._requests.labels(kind, str(status)).inc()
        self._request_seconds.labels(kind).observe(seconds)

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A gauge whose value is looked up when it is read."""
        Gauge(name, description, registry=self._registry).set_function(lambda: float(value()))


class DashboardStats:
    """Counts, rates and the latest votes of one share of a gateway's work, as the dashboard shows them."""

    def __init__(
        self, share: Share, mean_budget: float, drift: Drift | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._share, self._mean_budget = share, mean_budget
        self._drift, self._clock = drift, clock
        self._started = clock()
        self._spent_before = share.balance.spent
        self._requests_by_second: deque[list[int]] = deque()  # [second, requests] of the last minute
        self._latest: deque[dict[str, Any]] = deque(maxlen=SHOWN_QUESTIONS)
        self._prices: deque[tuple[float, float]] = deque(maxlen=KEPT_PRICES)
        self._traces_by_warmup: Counter[str] = Counter()
        self._certificates = [0] * CERTIFICATE_BINS
        self._votes = self._requests = self._traces = self._lost = 0

    def record_request(self) -> None:
        """Count a request that is over."""
        self._requests += 1
        second = int(self._clock())
        if not self._requests_by_second or self._requests_by_second[-1][0] != second:
            self._requests_by_second.append([second, 0])
            self._forget_requests()
        self._requests_by_second[-1][1] += 1

    def record_vote(self, vote: Vote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over and keep it to be shown."""
        self._votes += 1
        self._traces += vote.account.delivered + vote.account.lost
        self._lost += vote.account.lost
        self._traces_by_warmup[metadata["warmup"] or "none"] += metadata["traces"]
        if metadata["certificate"] is not None:
            self._certificates[min(CERTIFICATE_BINS - 1, int(metadata["certificate"] * CERTIFICATE_BINS))] += 1
        if metadata["price"]:
            self._prices.append((self._clock(), math.log10(metadata["price"])))
        row = {name: metadata[name] for name in ("certificate", "traces", "stopped", "warmup")}
        row |= {"id": vote.answer.id, "question": vote.request.preview, "at": self._clock()}
        row["answer"] = None if metadata["answer"] is None else metadata["answer"][:ANSWER_CHARACTERS]
        leading = sorted(metadata["votes"].items(), key=lambda item: -item[1])[:SHOWN_ANSWERS]
        row["votes"] = [(answer[:ANSWER_CHARACTERS], votes) for answer, votes in leading]
        self._latest.append(row)

    def request_rate(self) -> float:
        """Requests per second over the last minute."""
        now = self._clock()
        since = max(now - RATE_WINDOW_S, self._started)
        self._forget_requests()
        return sum(count for _, count in self._requests_by_second) / max(1.0, now - since)

    def _forget_requests(self) -> None:
        while self._requests_by_second and self._requests_by_second[0][0] < self._clock() - RATE_WINDOW_S:
            self._requests_by_second.popleft()

    def snapshot(self, key: ApiKey) -> dict[str, Any]:
        """All that a page of this key needs."""
        share, ledger = self._share, self._share.ledger
        left = ledger.left(key)
        balance = share.balance
        elapsed = max(1.0, self._clock() - self._started)
        spent_per_second = (balance.spent - self._spent_before) / elapsed
        return {
            "unit": ledger.shown_unit,
            "spent": ledger.shown(balance.spent),
            "held": ledger.shown(balance.held),
            "total": None if balance.limit is None else ledger.shown(balance.limit),
            "left": None if left is None else ledger.shown(left),
            "lasts": left / spent_per_second if left is not None and spent_per_second > 0 else None,
            "per_second": ledger.shown(spent_per_second),
            "rate": self.request_rate(),
            "requests": self._requests,
            "votes": self._votes,
            "open": len(share.submissions),
            "in_flight": share.in_flight,
            "mean_budget": self._mean_budget,
            "mean_spent": self._traces / max(1, self._votes),
            "warmups": dict(self._traces_by_warmup),
            "certificates": self._certificates,
            "prices": [(round(at, 1), round(price, 4)) for at, price in self._prices],
            "questions": list(self._latest)[::-1],
            "drift": None if self._drift is None else self._drift.to_plain(),
            "lost": ledger.lost if share.name is None else self._lost,
            "at": self._clock(),
        }
