"""The budget of a gateway: reserved in the store before a request goes upstream, settled when it comes back.

It is the driver's ledger (:class:`pets.engine.ledger.Ledger`): an attempt is opened before it is sent and closed with
what it cost; what a client leaves behind is abandoned, and charged.

Three limits apply at once: a total, a rate per window of time, and a total for each key. At every moment

    spent + held <= limit          for each of the three,

as long as no trace costs more than was held for it (its longest possible length, in tokens or money). A request that
was upstream when the process died counts as spent in full: nobody knows what became of it.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pets.core.budget import Currency
from pets.engine.fetch import Batch
from pets.engine.ledger import Ledger
from pets.errors import BudgetError, InputError, StateError
from pets.gateway.auth import ApiKey
from pets.gateway.ledger_store import LedgerWriter
from pets.openai.errors import ApiError
from pets.store import StoredTrace

__all__ = ["Balance", "GatewayLedger", "RequestAccount", "Reservation", "SpendRateLimit"]

NO_REFILL_RETRY_AFTER_S = 3600.0  # what a client is told of a budget that does not come back by itself
UNLIMITED_TRACES = 1 << 30


@dataclass(frozen=True, slots=True)
class SpendRateLimit:
    """At most ``amount`` in every window of ``seconds``; windows are counted from the epoch."""

    amount: int
    seconds: float

    def __post_init__(self) -> None:
        if self.amount < 0 or self.seconds <= 0:
            found = f"got {self.amount} in {self.seconds:g} seconds"
            raise InputError(f"an allowance is 0 or more in a window of more than 0 seconds; {found}.")

    def window(self, now: float) -> int:
        """The number of the window at this time."""
        return int(now // self.seconds)

    def seconds_left(self, now: float) -> float:
        """How long the window at this time still lasts."""
        return self.seconds - now % self.seconds


@dataclass(slots=True)
class Balance:
    """One limit (``None``: no limit), what was spent of it and what is held."""

    limit: int | None = None
    spent: int = 0
    held: int = 0

    @property
    def free(self) -> float:
        """What may still be held."""
        return math.inf if self.limit is None else self.limit - self.spent - self.held


@dataclass(slots=True)
class Reservation:
    """What is held for one upstream request, and the balances in which it is held."""

    id: int
    key: str
    traces: int
    held: int
    balances: tuple[Balance, ...]
    open: bool = True


@dataclass(slots=True, eq=False)
class RequestAccount:
    """Who pays for one voted request, the most that a trace of it may cost, and what came of it so far.

    ``delivered`` traces came back, ``lost`` ones were paid for and did not; ``upstream_s`` are the seconds in which an
    attempt was out. A ``fallback`` is written down and not counted: the budget is used up.
    """

    key: ApiKey
    request: str
    trace_cost: int
    kind: Literal["vote", "fallback"] = "vote"
    delivered: int = 0
    lost: int = 0
    upstream_s: float = 0.0
    _attempts: int = 0
    _busy_since: float = 0.0

    def attempt_begins(self, now: float) -> None:
        """An attempt goes out; several may be out at once."""
        if not self._attempts:
            self._busy_since = now
        self._attempts += 1

    def attempt_ends(self, now: float) -> None:
        """An attempt is over."""
        self._attempts -= 1
        if not self._attempts:
            self.upstream_s += now - self._busy_since


class GatewayLedger(Ledger):
    """Reserves and settles the cost of upstream requests, in ``currency``; the module's docstring has its law."""

    def __init__(
        self,
        writer: LedgerWriter,
        currency: Currency | None = None,
        *,
        total: int | None = None,
        rate_limit: SpendRateLimit | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.currency = currency or Currency()
        self._writer, self._rate_limit, self._clock = writer, rate_limit, clock
        self.total = Balance(total)
        self._by_key: dict[str, Balance] = {}
        self._window = Balance()
        self._window_number = -1
        self.delivered = self.lost = 0  # traces, since the store was created
        self._next_id = 1
        self._load()

    @property
    def unit(self) -> str:
        """The unit of every amount."""
        return self.currency.unit

    @property
    def failure(self) -> str | None:
        """Why the ledger cannot be written now; None where it can."""
        return self._writer.failure

    def max_trace_cost(self, prompt_tokens: int, max_tokens: int) -> int:
        """What one trace may cost at most."""
        currency = self.currency
        cost = currency.per_trace + currency.per_token * max_tokens + currency.per_prompt_token * prompt_tokens
        return max(1, cost)

    def cost(self, traces: int, tokens: int, prompt_tokens: int) -> int:
        """What these traces cost."""
        currency = self.currency
        return currency.per_trace * traces + currency.per_token * tokens + currency.per_prompt_token * prompt_tokens

    def affordable_traces(self, key: ApiKey, trace_cost: int) -> int:
        """How many traces may be reserved for now."""
        free = self._free(key)
        return UNLIMITED_TRACES if free == math.inf else max(0, int(free) // trace_cost)

    def left(self, key: ApiKey) -> int | None:
        """What this key may still spend; None where nothing limits it."""
        free = self._free(key)
        return None if free == math.inf else max(0, int(free))

    def balance_of(self, name: str) -> Balance:
        """What the key of this name may spend, has spent and holds."""
        return self._by_key.setdefault(name, Balance())

    def refusal(self, key: ApiKey) -> ApiError:
        """The 429 for a request that cannot be paid for."""
        total, window, own = self._balances(key)
        free = {"this gateway's": total.free, "this window's": window.free, "this key's": own.free}
        whose = min(free, key=free.__getitem__)
        refills = self._rate_limit if whose == "this window's" else None
        return ApiError(
            f"You have used up {whose} budget ({self.unit}).",
            status=429,
            code="insufficient_quota",
            retry_after=refills.seconds_left(self._clock()) if refills else NO_REFILL_RETRY_AFTER_S,
            should_retry=refills is not None,
        )

    async def open(self, batch: Batch) -> None:
        """Reserve what an attempt may cost, durably; ``BudgetError`` where that is not free."""
        account = _account(batch)
        reservation = await self.reserve(account.key, batch.size, account.trace_cost, account.request, account.kind)
        if reservation is None:
            raise BudgetError(self.refusal(account.key).message)
        batch.entry = reservation
        account.attempt_begins(asyncio.get_running_loop().time())

    async def close(self, batch: Batch, traces: Sequence[StoredTrace] = (), charged: Sequence[int] = ()) -> None:
        """Settle an attempt at the cost of its traces; at all that was held where none came but it is charged."""
        self._end_attempt(batch, [trace for trace in traces if trace.error is None], charged=bool(charged))

    def abandon(self, batch: Batch, traces: Sequence[StoredTrace] = ()) -> None:
        """Charge an attempt whose client has gone."""
        self._end_attempt(batch, traces, charged=True)

    def _end_attempt(self, batch: Batch, traces: Sequence[StoredTrace], *, charged: bool) -> None:
        reservation: Reservation | None = batch.entry
        if reservation is None:
            return
        batch.entry = None
        account = _account(batch)
        tokens, prompt_tokens = sum(trace.tokens for trace in traces), sum(trace.prompt_tokens for trace in traces)
        cost = self.cost(len(traces), tokens, prompt_tokens) if traces else reservation.held if charged else 0
        account.delivered += len(traces)
        account.lost += reservation.traces if charged and not traces else 0
        account.attempt_ends(asyncio.get_running_loop().time())
        self.settle(reservation, cost, len(traces), tokens, prompt_tokens)

    async def reserve(
        self, key: ApiKey, traces: int, trace_cost: int, request: str, kind: Literal["vote", "fallback"] = "vote"
    ) -> Reservation | None:
        """Hold the most that these traces may cost; None where that is not free. Durable when it returns."""
        balances = self._balances(key) if kind == "vote" else ()
        amount = traces * trace_cost
        if balances and amount > min(balance.free for balance in balances):
            return None
        for balance in balances:
            balance.held += amount
        reservation = Reservation(self._next_id, key.name, traces, amount, balances)
        self._next_id += 1
        try:
            await self._writer.durable(
                "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                *(reservation.id, self._clock(), key.name, request, kind, self.unit, traces, amount),
            )
        except asyncio.CancelledError:
            self.settle(reservation, cost=0)
            raise
        except StateError as error:
            reservation.open = False  # it has no row to settle
            for balance in balances:
                balance.held -= amount
            message = f"The ledger cannot be written ({error}); nothing was spent."
            raise ApiError(message, status=503, code="ledger_unavailable", retry_after=1) from error
        return reservation

    def settle(
        self, reservation: Reservation, cost: int, delivered: int = 0, tokens: int = 0, prompt_tokens: int = 0
    ) -> None:
        """Spend ``cost`` of what was held and free the rest. A second call does nothing."""
        if not reservation.open:
            return
        reservation.open = False
        for balance in reservation.balances:
            balance.held -= reservation.held
            balance.spent += cost
        self.delivered += delivered
        self.lost += reservation.traces if cost and not delivered else 0
        self._writer.write(
            "UPDATE ledger SET spent = ?, delivered = ?, tokens = ?, prompt_tokens = ? WHERE id = ?",
            *(cost, delivered, tokens, prompt_tokens, reservation.id),
        )

    async def release(self) -> None:
        """Write what is left and release the store; the disk is waited for in a thread."""
        self._writer.finish()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.close)

    def _free(self, key: ApiKey) -> float:
        return min(balance.free for balance in self._balances(key))

    def _balances(self, key: ApiKey) -> tuple[Balance, Balance, Balance]:
        """The total, that of the present window, and the key's own."""
        limit = self._rate_limit
        if limit is not None and (number := limit.window(self._clock())) != self._window_number:
            self._window_number, self._window = number, Balance(limit.amount)
        own = self._by_key.setdefault(key.name, Balance())
        own.limit = key.budget
        return self.total, self._window, own

    def _load(self) -> None:
        """Read what was spent; requests that nobody settled count in full."""
        database = self._writer.database
        with database.transaction() as connection:
            connection.execute("UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL")
        rows = database.all(
            "SELECT key, sum(spent), sum(delivered), sum(CASE WHEN spent > 0 AND delivered = 0 THEN traces ELSE 0 END) "
            "FROM ledger WHERE kind = 'vote' AND unit = ? GROUP BY key",
            self.unit,
        )
        for name, spent, delivered, lost in rows:
            self._by_key[name] = Balance(None, spent)
            self.total.spent += spent
            self.delivered += delivered
            self.lost += lost
        last = database.one("SELECT coalesce(max(id), 0) FROM ledger")
        self._next_id = 1 + (last[0] if last else 0)
        if (limit := self._rate_limit) is not None:
            number = limit.window(self._clock())
            row = database.one(
                "SELECT coalesce(sum(spent), 0) FROM ledger WHERE kind = 'vote' AND unit = ? AND at >= ?",
                *(self.unit, number * limit.seconds),
            )
            self._window_number, self._window = number, Balance(limit.amount, row[0] if row else 0)


def _account(batch: Batch) -> RequestAccount:
    account = batch.owner.submission.context
    assert isinstance(account, RequestAccount)  # every submission of a gateway brings one
    return account
