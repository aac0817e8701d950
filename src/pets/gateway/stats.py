"""``ShareStats``: what the dashboard shows of one share of a gateway's work, all of it or that of one key.

Its memory is bounded: counts of the last hour and day by interval, the latest votes and errors, and sums by model.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pets.gateway.ledger import Reservation, Settlement
from pets.gateway.recent_questions import ANSWER_CHARACTERS, last_characters, vote_parts
from pets.gateway.responses import Vote
from pets.gateway.timeseries import History, TimeSeries

__all__ = ["CLIENT_GONE", "FinishedRequest", "ShareStats", "SpendPace", "question_row"]

LATEST_ROWS = 12
SAME = ("key", "model", "status", "reason")  # what errors have in common that are one row, the latest of them
PREVIEW_CHARACTERS = 160
REASON_CHARACTERS = 200  # it may quote what a client sent
CERTIFICATE_BINS = 10
MAX_MODELS = 64  # clients choose the names
OTHER_MODELS = "other models"
CLIENT_GONE = 499
PACE_WINDOW_S = 3600.0
PACE_STEP_S = 30.0
SHORTEST_PACE_S = 60.0  # the first seconds say little of the hours to come
COLUMNS = (
    "answered", "refused", "failed", "gone", "retries", "lost", "votes", "traces", "prompt_tokens", "tokens", "spent",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """A request that is over: ``kind`` is vote, passthrough or refused, ``reason`` why it was not answered."""

    id: str
    key: str | None
    kind: str
    status: int
    seconds: float
    model: str | None = None
    reason: str | None = None
    retries: int = 0

    @property
    def outcome(self) -> str:
        """
        >>> [FinishedRequest("id", None, "vote", status, 0.1).outcome for status in (200, 429, 499, 503, 0)]
        ['answered', 'refused', 'gone', 'failed', 'failed']
        """
        if self.status == CLIENT_GONE:
            return "gone"
        if not self.status or self.status >= 500:  # none: it was broken off before its response began
            return "failed"
        return "answered" if self.status < 400 else "refused"


class SpendPace:
    """How fast a balance is spent, by what it was at most an hour ago: also by other replicas, and while nobody looks.

    What is not known yet (None) is left out, so that what was spent long ago does not look as if it were spent now.

    >>> pace = SpendPace(now=0.0, spent=100)
    >>> pace.per_second(now=60.0, spent=160)
    1.0
    """

    def __init__(self, now: float, spent: int | None) -> None:
        self._samples: deque[tuple[float, int]] = deque()
        self.sample(now, spent)

    def sample(self, now: float, spent: int | None) -> None:
        """Remember a balance, every PACE_STEP_S."""
        if spent is not None and (not self._samples or now - self._samples[-1][0] >= PACE_STEP_S):
            self._samples.append((now, spent))
        while len(self._samples) > 1 and self._samples[1][0] <= now - PACE_WINDOW_S:
            self._samples.popleft()

    def per_second(self, now: float, spent: int | None) -> float:
        """What is spent per second, over the last hour or since the beginning."""
        self.sample(now, spent)
        if spent is None or not self._samples:
            return 0.0
        since, before = self._samples[0]
        return max(0, spent - before) / max(SHORTEST_PACE_S, now - since)


class ShareStats:
    """Counts of one share of a gateway's work since it started, and their history; ``spent`` reads its balance."""

    def __init__(self, spent: Callable[[], int | None], clock: Callable[[], float] = time.time) -> None:
        self.clock, self._spent = clock, spent
        self.started = clock()
        self.history = History()
        self.totals: Counter[str] = Counter()
        self.questions: deque[dict[str, Any]] = deque(maxlen=LATEST_ROWS)
        self.errors: deque[dict[str, Any]] = deque(maxlen=LATEST_ROWS)
        self.by_model: dict[str, Counter[str]] = {}
        self.first_answers: dict[str, Counter[str]] = {}  # by the pattern of the first four
        self.certificates = [0] * CERTIFICATE_BINS
        self._last_minute = TimeSeries(1, 60)
        self._pace = SpendPace(self.started, spent())

    def record_request(self, request: FinishedRequest) -> None:
        """Count a request that is over."""
        now = self.clock()
        self._count(now, **{request.outcome: 1}, retries=request.retries)
        self._last_minute.add(now, {"requests": 1})
        if request.outcome == "answered":
            self.history.observe(now, "vote" if request.kind == "vote" else "plain", request.seconds)
            self._model(request.model)["requests"] += 1
        else:
            row = {
                "at": now,
                "id": request.id,
                "key": request.key,
                "model": request.model,
                "status": request.status,
                "reason": (request.reason or "returned by the upstream server")[:REASON_CHARACTERS],
                "seconds": request.seconds,
            }
            earlier = next((error for error in self.errors if all(error[name] == row[name] for name in SAME)), None)
            if earlier is not None:
                self.errors.remove(earlier)
            self.errors.append(row | {"times": 1 + (earlier["times"] if earlier is not None else 0)})
        self._pace.sample(now, self._spent())

    def record_vote(self, metadata: dict[str, Any], row: dict[str, Any]) -> None:
        """Count a vote that is over; ``metadata`` is the ``pets`` object of its response, ``row`` is shown of it."""
        self._count(self.clock(), votes=1, traces=metadata["traces"], lost=metadata["lost"])
        pattern = self.first_answers.setdefault(metadata["warmup"] or "fewer", Counter())
        pattern["questions"] += 1
        pattern["traces"] += metadata["traces"]
        self.certificates[min(CERTIFICATE_BINS - 1, int(metadata["certificate"] * CERTIFICATE_BINS))] += 1
        self.questions.append(row)

    def record_settlement(self, reservation: Reservation, settlement: Settlement) -> None:
        """Count what an upstream request has cost."""
        cost, delivered, tokens, prompt_tokens, *_ = settlement
        if not cost:
            return
        spent = cost if reservation.balances else 0  # what is given beyond the budget costs it nothing
        self._count(self.clock(), tokens=tokens, prompt_tokens=prompt_tokens, spent=spent)
        model = self._model(reservation.model)
        model["traces"] += delivered or reservation.traces
        model["tokens"] += tokens
        model["prompt_tokens"] += prompt_tokens
        model["spent"] += spent

    def requests_per_second(self) -> float:
        """Over the last minute, or since the start."""
        now = self.clock()
        return self._last_minute.total("requests", now) / min(60.0, max(1.0, now - self.started))

    def spent_per_second(self) -> float:
        """Over the last hour, or since the start."""
        return self._pace.per_second(self.clock(), self._spent())

    def columns(self, span: str) -> dict[str, Any]:
        """The history of the last ``hour`` or ``day``: a column per quantity, None before the gateway started."""
        series, now = self.history.series[span], self.clock()
        starts = series.starts(now)
        columns: dict[str, list[Any]] = {name: series.column(name, now) for name in COLUMNS}
        for kind in ("vote", "plain"):
            columns[f"{kind}_p50"], columns[f"{kind}_p99"] = series.latencies(kind, now)
        before = sum(start + series.seconds <= self.started for start in starts)
        known = {name: [None] * before + column[before:] for name, column in columns.items()}
        return {"span": span, "seconds": series.seconds, "start": starts, **known}

    def latency(self, kind: str) -> list[float | None]:
        """p50 and p99 of the last hour, of votes or of plain requests."""
        return self.history.latency(kind, self.clock())

    def _count(self, now: float, **counts: int) -> None:
        counts = {name: amount for name, amount in counts.items() if amount}
        self.history.add(now, counts)
        for name, amount in counts.items():
            self.totals[name] += amount

    def _model(self, name: str | None) -> Counter[str]:
        name = name or "unknown"
        if name not in self.by_model and len(self.by_model) >= MAX_MODELS:
            name = OTHER_MODELS
        return self.by_model.setdefault(name, Counter())


def question_row(
    vote: Vote, metadata: dict[str, Any], *, spent: float, now: float, texts: bool = True
) -> dict[str, Any]:
    """What lists of votes show of one; its cost is ``spent``, in the unit in which amounts are shown."""
    names = ("certificate", "traces", "stopped", "warmup", "weighted", "seconds", "retries", "lost", "tokens")
    row = {name: metadata[name] for name in (*names, "prompt_tokens", "upstream_seconds", "rounds")}
    message = " ".join(vote.request.last_user_message.split())
    return row | {
        "id": vote.answer.id,
        "at": now,
        "key": vote.account.key.name,
        "model": vote.request.model,
        "question": last_characters(message, PREVIEW_CHARACTERS if texts else 0),
        "answer": None if metadata["answer"] is None else metadata["answer"][:ANSWER_CHARACTERS],
        "parts": vote_parts(metadata),
        "spent": spent,
    }
