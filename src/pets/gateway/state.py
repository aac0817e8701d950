"""``GatewayState``: what the endpoints of one gateway share, and the order in which it closes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pets.engine.driver import Driver
from pets.engine.fetch import TokenEstimator
from pets.engine.submissions import Places, Submissions
from pets.gateway.auth import ApiKey, RequestRates
from pets.gateway.ledger import GatewayLedger
from pets.gateway.metrics import Metrics
from pets.gateway.recent_questions import RecentQuestions
from pets.gateway.requests import FORMS, ApiRequest
from pets.gateway.settings import Settings
from pets.gateway.upstream import Upstream
from pets.openai.errors import ApiError
from pets.plans import Drift
from pets.prompts import Prompt


@dataclass(eq=False)
class GatewayState:
    """The parts of one gateway, and whether it is ``stopping``.

    ``questions`` are the places of open votes, ``plain_traces`` those of plain requests in flight, whose tokens
    ``plain_tokens`` estimates where no server tells.
    """

    settings: Settings
    ledger: GatewayLedger
    upstream: Upstream
    driver: Driver
    submissions: Submissions
    mean_budget: float
    drift: Drift | None = None
    stopping: bool = False

    def __post_init__(self) -> None:
        self.keys = self.ledger.backend.store.keys
        recent = RecentQuestions(texts=self.settings.texts)
        self.metrics = Metrics(self.submissions, self.ledger, self.drift, recent)
        self.least_traces = max(1, self.driver.allocator.policy.warmup)  # of a vote, where its request allows them
        self.rates = RequestRates()
        self.questions = Places(self.settings.spec.get("open_questions"), lambda: self.keys.several)
        self.plain_traces = Places(self.settings.spec.pacing.in_flight, lambda: self.keys.several)
        self.plain_tokens = TokenEstimator()

    @contextmanager
    def place(self, places: Places, key: ApiKey, number: int = 1, what: str = "requests") -> Iterator[None]:
        """Keep places while a request of this key is open; refused with 503 where the key finds no room."""
        if not places.take(key.name, number):
            raise ApiError(f"Too many {what} at once.", status=503, code="overloaded", retry_after=1)
        try:
            yield
        finally:
            places.give_back(key.name, number)

    def token_limit(self, request: ApiRequest) -> int:
        """The most tokens that each trace of a request may have; where tokens are paid for, what fits into the model's
        context if the client does not say."""
        limit = request.max_tokens or self.settings.limits.max_tokens
        if not FORMS[request.path].token_limits:
            return 0
        if self.ledger.currency.counts_traces or request.max_tokens is not None:
            return limit
        longest = Prompt(request.path, request.sent_fields(limit)).max_tokens
        return self.upstream.fitting_tokens(request.model, limit, longest)

    def readiness(self) -> dict[str, bool]:
        """What must hold for requests to be sent here: a ledger that can be written, room in the queue, no stop."""
        room = self.questions.taken < self.questions.size
        return {"ledger": self.ledger.backend.failure is None, "queue": room, "running": not self.stopping}

    async def close(self) -> None:
        """Close the upstream connections, then the ledger, in which by then everything is settled."""
        self.stopping = True
        await self.upstream.close()
        await self.ledger.close()
