"""What a gateway counts: for Prometheus at ``/metrics``, and for its dashboard, in fixed memory."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as PrometheusCounter

from pets.core.patterns import NAMES
from pets.engine.driver import Driver
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger
from pets.gateway.responses import Vote
from pets.plans import Drift

__all__ = ["DashboardStats", "Metrics"]

REQUEST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
OVERHEAD_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
CERTIFICATES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)

SHOWN_QUESTIONS = 20
KEPT_QUESTIONS = 200  # of all keys; each key is shown its own
KEPT_PRICES = 240  # points of the price's history
KEPT_REQUEST_TIMES = 100_000
RATE_WINDOW_S = 60.0
CERTIFICATE_BINS = 10
SHOWN_ANSWERS = 6  # in a question's vote bar
ANSWER_CHARACTERS = 120  # that of a question in free text may be long


class Metrics:
    """The Prometheus metrics and the dashboard statistics of one gateway; two in one process do not share them."""

    def __init__(self, driver: Driver, ledger: GatewayLedger, mean_budget: float, drift: Drift | None = None) -> None:
        self.dashboard = DashboardStats(driver, ledger, mean_budget, drift)
        self._registry = registry = CollectorRegistry()
        self._requests = PrometheusCounter(
            "pets_requests", "Requests, by kind and status.", ["kind", "status"], registry=registry
        )
        self._traces = PrometheusCounter(
            "pets_traces", "Upstream traces: delivered or lost.", ["came"], registry=registry
        )
        self._tokens = PrometheusCounter("pets_tokens", "Tokens of voted requests.", ["kind"], registry=registry)
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
        self._gauge("pets_open_questions", "Questions being voted on.", lambda: len(driver.submissions))
        self._gauge("pets_traces_in_flight", "Traces handed out and not told.", lambda: driver.in_flight)
        self._gauge("pets_budget_spent", "Spent, in the ledger's unit.", lambda: ledger.total.spent)
        self._gauge("pets_budget_held", "Held for requests under way.", lambda: ledger.total.held)
        self._gauge(
            "pets_drift_alarm", "1: warm-ups no longer fit the plan.", lambda: drift is not None and drift.alarm
        )
        self._gauge(
            "pets_budget_limit",
            "The total budget; NaN: none.",
            lambda: math.nan if ledger.total.limit is None else ledger.total.limit,
        )

    def record_vote(self, vote: Vote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response."""
        answer, account = vote.answer, vote.account
        self._traces.labels("delivered").inc(account.delivered)
        self._traces.labels("lost").inc(account.lost)
        self._tokens.labels("completion").inc(answer.tokens)
        self._tokens.labels("prompt").inc(answer.prompt_tokens)
        self._stops.labels(metadata["stopped"]).inc()
        self._overhead_seconds.observe(max(0.0, vote.seconds - account.upstream_s))
        if answer.certificate is not None:
            self._certificates.observe(answer.certificate)
        self.dashboard.record_vote(vote, metadata)

    def record_request(self, kind: str, status: int, seconds: float) -> None:
        """Count a request that is over; ``kind`` is vote, passthrough or refused."""
        self._requests.labels(kind, str(status)).inc()
        self._request_seconds.labels(kind).observe(seconds)
        self.dashboard.record_request()

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A gauge whose value is looked up when it is read."""
        Gauge(name, description, registry=self._registry).set_function(lambda: float(value()))


class DashboardStats:
    """Counts, rates and the latest votes, as the dashboard shows them."""

    def __init__(
        self,
        driver: Driver,
        ledger: GatewayLedger,
        mean_budget: float,
        drift: Drift | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._driver, self._ledger, self._mean_budget = driver, ledger, mean_budget
        self._drift, self._clock = drift, clock
        self._started = clock()
        self._spent_before = ledger.total.spent
        self._traces_before = ledger.delivered + ledger.lost
        self._request_times: deque[float] = deque(maxlen=KEPT_REQUEST_TIMES)
        self._latest: deque[tuple[str, dict[str, Any]]] = deque(maxlen=KEPT_QUESTIONS)
        self._prices: deque[tuple[float, float]] = deque(maxlen=KEPT_PRICES)
        self._traces_by_warmup: Counter[str] = Counter()
        self._certificates = [0] * CERTIFICATE_BINS
        self._votes = self._requests = 0

    def record_request(self) -> None:
        """Count a request that is over."""
        self._requests += 1
        self._request_times.append(self._clock())

    def record_vote(self, vote: Vote, metadata: dict[str, Any]) -> None:
        """Count a vote that is over and keep it to be shown."""
        self._votes += 1
        self._traces_by_warmup[metadata["warmup"] or "none"] += metadata["traces"]
        if self._drift is not None and metadata["warmup"] is not None:
            self._drift.see(NAMES.index(metadata["warmup"]))
        if metadata["certificate"] is not None:
            self._certificates[min(CERTIFICATE_BINS - 1, int(metadata["certificate"] * CERTIFICATE_BINS))] += 1
        if metadata["price"]:
            self._prices.append((self._clock(), math.log10(metadata["price"])))
        row = {name: metadata[name] for name in ("certificate", "traces", "stopped", "warmup")}
        row |= {"id": vote.answer.id, "question": vote.request.preview, "at": self._clock()}
        row["answer"] = None if metadata["answer"] is None else metadata["answer"][:ANSWER_CHARACTERS]
        leading = sorted(metadata["votes"].items(), key=lambda item: -item[1])[:SHOWN_ANSWERS]
        row["votes"] = [(answer[:ANSWER_CHARACTERS], votes) for answer, votes in leading]
        self._latest.append((vote.account.key.name, row))

    def request_rate(self) -> float:
        """Requests per second over the last minute."""
        now = self._clock()
        since = max(now - RATE_WINDOW_S, self._started)
        while self._request_times and self._request_times[0] < now - RATE_WINDOW_S:
            self._request_times.popleft()
        return len(self._request_times) / max(1.0, now - since)

    def snapshot(self, key: ApiKey) -> dict[str, Any]:
        """All that a page needs; questions and answers only of its own key, or of all keys for an admin."""
        ledger, driver = self._ledger, self._driver
        latest = [row for name, row in self._latest if key.admin or name == key.name][-SHOWN_QUESTIONS:]
        elapsed = max(1.0, self._clock() - self._started)
        spent_per_second = (ledger.total.spent - self._spent_before) / elapsed
        left = ledger.left(key)
        return {
            "unit": ledger.unit,
            "spent": ledger.total.spent,
            "held": ledger.total.held,
            "total": ledger.total.limit,
            "left": left,
            "lasts": left / spent_per_second if left is not None and spent_per_second > 0 else None,
            "per_second": spent_per_second,
            "rate": self.request_rate(),
            "requests": self._requests,
            "votes": self._votes,
            "open": len(driver.submissions),
            "in_flight": driver.in_flight,
            "mean_budget": self._mean_budget,
            "mean_spent": (ledger.delivered + ledger.lost - self._traces_before) / max(1, self._votes),
            "warmups": dict(self._traces_by_warmup),
            "certificates": self._certificates,
            "prices": [(round(at, 1), round(price, 4)) for at, price in self._prices],
            "questions": latest[::-1],
            "drift": None if self._drift is None else self._drift.to_plain(),
            "lost": ledger.lost,
            "at": self._clock(),
        }
