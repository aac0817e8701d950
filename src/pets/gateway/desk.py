"""What the endpoints of one gateway share."""

import logging
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pets.errors import StateError
from pets.gateway.ballots import Outcome
from pets.gateway.board import Board
from pets.gateway.keys import Key, Keys
from pets.gateway.logs import LOGGER
from pets.gateway.metrics import Metrics
from pets.gateway.refusals import RefusalError
from pets.gateway.settings import Settings
from pets.gateway.voting import Voter
from pets.plans import Drift

__all__ = ["Desk"]


class Desk:
    """Admits requests, counts them, and writes them down."""

    def __init__(self, voter: Voter, keys: Keys, settings: Settings, drift: Drift | None = None) -> None:
        self.voter, self.keys, self.settings = voter, keys, settings
        self.metrics, self.board = Metrics(), Board(voter, drift)
        self.requests = 0  # under way
        self.stopping = False
        self._gauges()

    def admit(self, headers: Mapping[str, str], *, browser: bool = False) -> Key:
        """Whose request this is. A browser's password counts only where it can spend nothing."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        secret = given.strip() if scheme.lower() == "bearer" else None
        if browser and scheme.lower() == "basic":
            secret = _password(given)
        try:
            key = self.keys.find(secret)
        except StateError as error:
            raise RefusalError("The keys cannot be read now.", status=503, retry_after=1) from error
        if key is None:
            raise RefusalError("Incorrect API key provided.", status=401, code="invalid_api_key")
        return key

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a request for as long as it lasts; none begins once the gateway is stopping."""
        if self.stopping:
            raise RefusalError("The gateway is stopping.", status=503, code="stopping", retry_after=1)
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def voted(self, outcome: Outcome, about: dict[str, Any]) -> None:
        """A vote is over."""
        metrics, poll = self.metrics, outcome.poll
        metrics.traces.labels("delivered").inc(poll.delivered)
        metrics.traces.labels("lost").inc(poll.lost)
        metrics.tokens.labels("completion").inc(poll.tokens)
        metrics.tokens.labels("prompt").inc(poll.prompt_tokens)
        metrics.stops.labels(poll.stopped).inc()
        metrics.overhead.observe(max(0.0, outcome.seconds - poll.waited))
        if about["certificate"] is not None:
            metrics.certificates.observe(about["certificate"])
        self.board.voted(outcome, about)

    def over(self, said: dict[str, Any], status: int, seconds: float) -> None:
        """A request is over."""
        kind = "vote" if said.get("voted") else "passthrough" if "voted" in said else "refused"
        self.metrics.requests.labels(kind, str(status)).inc()
        self.metrics.seconds.labels(kind).observe(seconds)
        self.board.request()
        if LOGGER.isEnabledFor(logging.INFO):
            row = said | {"status": status, "seconds": round(seconds, 4)}
            LOGGER.info("request", extra={"said": row})

    def _gauges(self) -> None:
        voter, ledger = self.voter, self.voter.ledger
        gauge = self.metrics.gauge
        gauge("pets_open_questions", "Questions being voted on.", lambda: float(len(voter.polls)))
        gauge("pets_traces_in_flight", "Traces handed out and not told.", lambda: float(voter.in_flight))
        gauge("pets_budget_spent", "Spent, in the ledger's unit.", lambda: float(ledger.total.spent))
        gauge("pets_budget_held", "Held for requests under way.", lambda: float(ledger.total.held))
        drift = self.board.drift
        gauge("pets_drift_alarm", "1: warm-ups no longer fit the plan.", lambda: float(bool(drift and drift.alarm)))
        gauge("pets_budget_limit", "The total budget; NaN: none.", lambda: float(_or_nan(ledger.total.limit)))


def _or_nan(value: int | None) -> float:
    return float("nan") if value is None else value


def _password(given: str) -> str | None:
    try:
        return b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return None
