"""What the dashboard shows: counts, and the latest of what happened, in fixed memory."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from pets.core.patterns import NAMES
from pets.gateway.ballots import Outcome
from pets.gateway.keys import Key
from pets.gateway.voting import Voter
from pets.plans import Drift

__all__ = ["Board"]

LATEST = 20  # questions shown
PRICES = 240  # points of the price's history
RECENT = 60.0  # seconds that a rate is taken over
BINS = 10  # of the certificates' histogram
SHOWN = 6  # answers in a question's vote bar
LETTERS = 120  # of an answer: that of a question in free text may be long


class Board:
    """Told of every vote and every request; tells browsers."""

    def __init__(self, voter: Voter, drift: Drift | None = None, clock: Callable[[], float] = time.time) -> None:
        self._voter, self.drift, self._clock = voter, drift, clock
        self._began = clock()
        self._spent_before = voter.ledger.total.spent
        self._traces_before = voter.ledger.delivered + voter.ledger.lost
        self._requests: deque[float] = deque(maxlen=100_000)
        self._latest: deque[tuple[str, dict[str, Any]]] = deque(maxlen=200)
        self._prices: deque[tuple[float, float]] = deque(maxlen=PRICES)
        self.grids: Counter[str] = Counter()
        self.certificates = [0] * BINS
        self.votes = self.requests = 0

    def request(self) -> None:
        """A request is over."""
        self.requests += 1
        self._requests.append(self._clock())

    def voted(self, outcome: Outcome, about: dict[str, Any]) -> None:
        """A vote is over."""
        self.votes += 1
        self.grids[about["grid"] or "none"] += about["traces"]
        if self.drift is not None and about["grid"] is not None:
            self.drift.see(NAMES.index(about["grid"]))
        if about["certificate"] is not None:
            self.certificates[min(BINS - 1, int(about["certificate"] * BINS))] += 1
        if about["price"]:
            self._prices.append((self._clock(), math.log10(about["price"])))
        row = {name: about[name] for name in ("certificate", "traces", "stopped", "grid")}
        row |= {"id": outcome.poll.id, "question": outcome.poll.asked.question, "at": self._clock()}
        row["answer"] = None if about["answer"] is None else about["answer"][:LETTERS]
        leading = sorted(about["votes"].items(), key=lambda one: -one[1])[:SHOWN]
        row["votes"] = [(answer[:LETTERS], votes) for answer, votes in leading]
        self._latest.append((outcome.poll.key.name, row))

    def rate(self) -> float:
        """Requests a second, lately."""
        now = self._clock()
        since = max(now - RECENT, self._began)
        while self._requests and self._requests[0] < now - RECENT:
            self._requests.popleft()
        return len(self._requests) / max(1.0, now - since)

    def shown(self, key: Key) -> dict[str, Any]:
        """All that a page needs; questions and answers only of its own key, or of all to an admin."""
        ledger, voter = self._voter.ledger, self._voter
        latest = [row for name, row in self._latest if key.admin or name == key.name][-LATEST:]
        elapsed = max(1.0, self._clock() - self._began)
        per_second = (ledger.total.spent - self._spent_before) / elapsed
        left = ledger.left(key)
        return {
            "unit": ledger.unit,
            "spent": ledger.total.spent,
            "held": ledger.total.held,
            "total": ledger.total.limit,
            "left": left,
            "lasts": left / per_second if left is not None and per_second > 0 else None,
            "per_second": per_second,
            "rate": self.rate(),
            "requests": self.requests,
            "votes": self.votes,
            "open": len(voter.polls),
            "in_flight": voter.in_flight,
            "mean_budget": voter.stream.mean_budget,
            "mean_spent": (ledger.delivered + ledger.lost - self._traces_before) / max(1, self.votes),
            "grids": dict(self.grids),
            "certificates": self.certificates,
            "prices": [(round(at, 1), round(price, 4)) for at, price in self._prices],
            "questions": latest[::-1],
            "drift": None if self.drift is None else self.drift.to_plain(),
            "lost": ledger.lost,
            "at": self._clock(),
        }
