"""The budget of a gateway: reserved in the store before a request goes upstream, settled when it comes back.

It is the driver's ledger (:class:`pets.engine.ledger.Ledger`): an attempt is opened before it is sent and closed with
what it cost; what a client leaves behind is abandoned, and charged.

Three limits apply at once: a total, a rate per window of time, and a total for each key. At every moment

    spent + held <= limit          for each of the three,

whatever a server claims: no attempt costs more than was held for it (its longest possible length, in tokens or money),
and where one is said to, or where its tokens are not told, its row says so. Choices that come though nobody asked for
them are charged, too: for these alone a limit may be passed. A request that was upstream when the process died counts
as spent in full: nobody knows what became of it.

Rows keep the tokens that were charged, so that what was spent counts in another unit too. The ledger's time never goes
back, whatever the clock does.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pets.core.budget import Currency, amount_words
from pets.engine.fetch import TraceRequest
from pets.engine.ledger import Ledger
from pets.errors import BudgetError, InputError, StateError
from pets.gateway.auth import ApiKey
from pets.gateway.ledger_store import LedgerWriter
from pets.gateway.telemetry import LOGGER
from pets.openai.errors import ApiError
from pets.store import StoredTrace
from pets.types import Trace

__all__ = [
    "SPENT_SINCE",
    "TOTALS",
    "Balance",
    "GatewayLedger",
    "RequestAccount",
    "Reservation",
    "Settlement",
    "SpendRateLimit",
    "prices_of",
]

NO_REFILL_RETRY_AFTER_S = 3600.0  # what a client is told of a budget that does not come back by itself
HELD_RETRY_AFTER_S = 1.0  # where requests under way hold what is left, most of which comes back
UNLIMITED_TRACES = 1 << 30
MAX_AMOUNT = (1 << 63) - 1  # that SQLite keeps

# What a row has cost in the present unit: as it was charged; by the tokens that were charged where that was another
# unit; as the longest trace where they were not kept.
COST_NOW = (
    "CASE WHEN unit = ?1 THEN spent WHEN spent = 0 AND delivered = 0 THEN 0 "
    "WHEN delivered = 0 AND coalesce(tokens, 0) = 0 THEN traces * ?2 "
    "ELSE ?3 * (CASE WHEN delivered = 0 THEN traces ELSE delivered END) + ?4 * tokens + ?5 * prompt_tokens END"
)
TOTALS = (
    f"SELECT key, sum({COST_NOW}), sum(delivered), "
    "sum(CASE WHEN spent > 0 AND delivered = 0 THEN traces ELSE 0 END), sum(estimated), sum(claimed_more), "
    "sum(CASE WHEN unit != ?1 THEN 1 ELSE 0 END) "
    "FROM ledger WHERE kind != 'fallback' AND spent IS NOT NULL GROUP BY key"
)
SPENT_SINCE = (
    f"SELECT coalesce(sum({COST_NOW}), 0) FROM ledger WHERE kind != 'fallback' AND spent IS NOT NULL AND at >= ?6"
)


Settlement = tuple[int, int, int, int, int, int]
"""A row's spent, delivered, tokens, prompt_tokens, estimated and claimed_more."""


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
    """One limit (``None``: no limit), what was spent of it and what is held.

    ``is_known`` says whether ``spent`` is all that was spent: not before a store that others share has told.
    """

    limit: int | None = None
    spent: int = 0
    held: int = 0
    is_known: bool = True

    @property
    def free(self) -> float:
        """What may still be held."""
        return math.inf if self.limit is None else self.limit - self.spent - self.held


@dataclass(slots=True)
class Reservation:
    """What is held for one upstream request, and the balances in which it is held; its tokens are the most."""

    id: int
    key: str
    traces: int
    held: int
    balances: tuple[Balance, ...]
    tokens: int = 0
    prompt_tokens: int = 0
    model: str = ""
    open: bool = True


@dataclass(slots=True, eq=False)
class RequestAccount:
    """Who pays for one voted request, the most that a trace of it may cost, and what came of it so far.

    ``max_tokens`` and ``prompt_tokens`` are the most that a trace and its prompt may take. ``delivered`` traces came
    back, ``lost`` ones were paid for and did not; ``estimated`` ones came without their tokens, ``claimed_more`` with
    more than they may have. All this has ``spent`` so much. ``upstream_s`` are the seconds in which an attempt was out.
    A ``fallback`` is written down and not counted: the budget is used up.
    """

    key: ApiKey
    request: str
    trace_cost: int
    kind: Literal["vote", "plain", "fallback"] = "vote"
    max_tokens: int = 0
    prompt_tokens: int = 0
    model: str = ""
    delivered: int = 0
    lost: int = 0
    estimated: int = 0
    claimed_more: int = 0
    spent: int = 0
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
        self.estimated = self.claimed_more = 0  # of these
        self.on_settled: Callable[[Reservation, Settlement], None] = lambda reservation, settlement: None
        self._latest = -math.inf
        self._next_id = 1
        self._load()

    @property
    def unit(self) -> str:
        """The unit of every amount."""
        return self.currency.unit

    @property
    def shown_unit(self) -> str:
        """The unit in which amounts are shown: dollars are, their smallest parts are not."""
        return self.currency.shown(0)[1]

    def shown(self, amount: float) -> float:
        """An amount in the unit in which it is shown."""
        return self.currency.shown(amount)[0]

    def words(self, amount: int) -> str:
        """An amount with its unit, for messages."""
        return amount_words(amount, self.unit)

    @property
    def limited(self) -> bool:
        """Whether there is a limit for all keys together."""
        return self.total.limit is not None or self._rate_limit is not None

    @property
    def failure(self) -> str | None:
        """Why the ledger cannot be written now; None where it can."""
        return self._writer.failure

    def max_trace_cost(self, prompt_tokens: int, max_tokens: int) -> int:
        """What one trace may cost at most."""
        return max(1, self.currency.cost(Trace("", 0, tokens=max_tokens, prompt_tokens=prompt_tokens)))

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

    @property
    def spenders(self) -> list[str]:
        """The names of the keys that have spent or hold anything, who has spent most first."""
        spent = {name: balance.spent for name, balance in self._by_key.items() if balance.spent or balance.held}
        return sorted(spent, key=lambda name: -spent[name])

    def window(self, key: ApiKey) -> tuple[Balance, SpendRateLimit, float] | None:
        """The balance of the present window of time, its limit, and the seconds until it ends; None without windows."""
        if (limit := self._rate_limit) is None:
            return None
        window = self._balances(key)[1]
        return window, limit, limit.seconds_left(self._now())

    @property
    def replica(self) -> tuple[str, int] | None:
        """This gateway's name among those that share its store and how many these are; None where none can."""
        return None

    def refusal(self, key: ApiKey, amount: int = 1) -> ApiError:
        """The 429 for a request that cannot be paid for: it takes ``amount`` to begin."""
        total, window, own = self._balances(key)
        balances = {"this gateway's": total, "this window's": window, "this key's": own}
        whose = min(balances, key=lambda name: balances[name].free)
        limit, free = balances[whose].limit, balances[whose].free
        if not self.currency.flat and limit is not None and amount > limit:
            return ApiError(
                f"The request may take {self.words(amount)}, {whose} budget is {self.words(limit)}: ask for fewer "
                "'max_tokens'.",
                status=429,
                code="insufficient_quota",
                should_retry=False,
            )
        if not self.currency.flat and free + balances[whose].held >= amount:
            return ApiError(
                f"What is left of {whose} budget of {self.words(limit or 0)} is held for requests under way.",
                status=429,
                code="rate_limit_exceeded",
                retry_after=HELD_RETRY_AFTER_S,
                should_retry=True,
            )
        refills = self._rate_limit if whose == "this window's" else None
        return ApiError(
            f"You have used up {whose} budget of {self.words(limit or 0)}.",
            status=429,
            code="insufficient_quota",
            retry_after=refills.seconds_left(self._now()) if refills else NO_REFILL_RETRY_AFTER_S,
            should_retry=refills is not None,
        )

    async def open(self, request: TraceRequest) -> None:
        """Reserve what an attempt may cost, durably; ``BudgetError`` where that is not free."""
        account = _account(request)
        reservation = await self.reserve(
            account.key,
            request.size,
            account.trace_cost,
            account.request,
            account.kind,
            max_tokens=account.max_tokens,
            prompt_tokens=account.prompt_tokens,
            model=account.model,
        )
        if reservation is None:
            raise BudgetError(self.refusal(account.key, account.trace_cost).message)
        request.entry = reservation
        account.attempt_begins(asyncio.get_running_loop().time())

    async def close(
        self, request: TraceRequest, traces: Sequence[StoredTrace] = (), charged: Sequence[int] = ()
    ) -> None:
        """Settle an attempt at the cost of its traces; at all that was held where none came but it is charged."""
        self._end_attempt(request, [trace for trace in traces if trace.error is None], charged=bool(charged))

    def abandon(self, request: TraceRequest, traces: Sequence[StoredTrace] = ()) -> None:
        """Charge an attempt whose client has gone."""
        self._end_attempt(request, traces, charged=True)

    def _end_attempt(self, request: TraceRequest, traces: Sequence[StoredTrace], *, charged: bool) -> None:
        reservation: Reservation | None = request.entry
        if reservation is None:
            return
        request.entry = None
        account = _account(request)
        account.attempt_ends(asyncio.get_running_loop().time())
        if traces:
            counted = [trace.trace() for trace in traces] + [Trace("", 0)] * request.surplus
            claimed_more = max(request.claimed_more, int(sum(map(self.currency.cost, counted)) > reservation.held))
            account.delivered += len(counted)
            account.estimated += request.estimated
            account.claimed_more += claimed_more
            account.spent += self.settle_traces(reservation, counted, request.estimated, claimed_more)
        elif charged:
            account.lost += reservation.traces
            account.spent += reservation.held
            self.settle(reservation, reservation.held, 0, reservation.tokens, reservation.prompt_tokens)
        else:
            self.settle(reservation, cost=0)

    async def reserve(
        self,
        key: ApiKey,
        traces: int,
        trace_cost: int,
        request: str,
        kind: Literal["vote", "plain", "fallback"] = "vote",
        *,
        max_tokens: int = 0,
        prompt_tokens: int = 0,
        model: str = "",
    ) -> Reservation | None:
        """Hold the most that these traces may cost; None where that is not free. Durable when it returns.

        What took so long to write that its window is over is taken back, and held in the present one.
        """
        amount, most = traces * trace_cost, (traces * max_tokens, traces * prompt_tokens)
        while True:
            balances = () if kind == "fallback" else self._balances(key)
            if amount > min((balance.free for balance in balances), default=MAX_AMOUNT) or amount > MAX_AMOUNT:
                return None
            for balance in balances:
                balance.held += amount
            reservation = Reservation(self._next_id, key.name, traces, amount, balances, *most, model)
            self._next_id += 1
            try:
                made = await self._write_reservation(reservation, request, kind)
            except asyncio.CancelledError:
                self.settle(reservation, cost=0)
                raise
            except StateError as error:
                reservation.open = False  # it has no row to settle
                message = f"The ledger cannot be written ({error}); nothing was spent."
                raise ApiError(message, status=503, code="ledger_unavailable", retry_after=1) from error
            if not balances or self._balances(key)[1] is balances[1]:
                return reservation if made else None
            if made:
                self.settle(reservation, cost=0)

    def settle_traces(
        self, reservation: Reservation, traces: Sequence[Trace], estimated: int = 0, claimed_more: int = 0
    ) -> int:
        """Spend what these traces cost, each at most what was held for one, and free the rest; what was spent."""
        surplus = max(0, len(traces) - reservation.traces)  # that nobody asked for, and that were sampled
        most = reservation.held + surplus * reservation.held // reservation.traces
        cost = min(sum(map(self.currency.cost, traces)), most)
        tokens, prompt_tokens = sum(trace.tokens for trace in traces), sum(trace.prompt_tokens for trace in traces)
        self.settle(reservation, cost, len(traces), tokens, prompt_tokens, estimated, claimed_more)
        return cost

    def settle(
        self,
        reservation: Reservation,
        cost: int,
        delivered: int = 0,
        tokens: int = 0,
        prompt_tokens: int = 0,
        estimated: int = 0,
        claimed_more: int = 0,
    ) -> None:
        """Spend ``cost``, free the rest of what was held. A second call does nothing."""
        if not reservation.open:
            return
        reservation.open = False
        for balance in reservation.balances:
            balance.held -= reservation.held
            balance.spent += cost
        self.delivered += delivered
        self.lost += reservation.traces if cost and not delivered else 0
        self.estimated += estimated
        self.claimed_more += claimed_more
        used = min(tokens, MAX_AMOUNT), min(prompt_tokens, MAX_AMOUNT)
        settlement = (cost, delivered, *used, estimated, claimed_more)
        self._write_settlement(reservation, settlement)
        self.on_settled(reservation, settlement)

    async def _write_reservation(self, reservation: Reservation, request: str, kind: str) -> bool:
        """Write what is held, durably; False where the store knows that it is not free."""
        most = reservation.tokens, reservation.prompt_tokens
        try:
            await self._writer.durable(
                "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held, tokens, prompt_tokens) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                *(reservation.id, self._now(), reservation.key, request, kind, self.unit),
                *(reservation.traces, reservation.held, *most),
            )
        except StateError:
            for balance in reservation.balances:
                balance.held -= reservation.held
            raise
        return True

    def _write_settlement(self, reservation: Reservation, settlement: Settlement) -> None:
        """Write what became of a reservation, soon."""
        self._writer.write(
            "UPDATE ledger SET spent = ?, delivered = ?, tokens = ?, prompt_tokens = ?, estimated = ?, "
            "claimed_more = ? WHERE id = ?",
            *(*settlement, reservation.id),
        )

    async def begin(self) -> None:
        """The gateway's event loop runs; requests come."""

    async def release(self) -> None:
        """Write what is left and release the store; the disk is waited for in a thread."""
        self._writer.finish()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.close)

    def _free(self, key: ApiKey) -> float:
        return min(balance.free for balance in self._balances(key))

    def _balances(self, key: ApiKey) -> tuple[Balance, Balance, Balance]:
        """The total, that of the present window, and the key's own."""
        limit = self._rate_limit
        if limit is not None and (number := limit.window(self._now())) > self._window_number:
            self._window_number, self._window = number, Balance(limit.amount)
        own = self._by_key.setdefault(key.name, Balance())
        own.limit = key.budget
        return self.total, self._window, own

    def _now(self) -> float:
        """The clock's time, or that of the latest entry where the clock was set back: no window opens twice."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _load(self) -> None:
        """Read what was spent, in whichever unit; requests that nobody settled count in full."""
        database, currency = self._writer.database, self.currency
        with database.transaction() as transaction:
            transaction.execute("UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL")
        prices = prices_of(currency)
        converted = 0
        for name, spent, delivered, lost, estimated, claimed_more, foreign in database.all(TOTALS, *prices):
            self._by_key[name] = Balance(None, int(spent))
            self.total.spent += int(spent)
            self.delivered += delivered
            self.lost += lost
            self.estimated += estimated
            self.claimed_more += claimed_more
            converted += foreign
        if converted:
            LOGGER.warning(
                "%d ledger entries are in another unit: with them, %s are spent.",
                *(converted, self.words(self.total.spent)),
            )
        last_id, last_at = database.one("SELECT coalesce(max(id), 0), max(at) FROM ledger") or (0, None)
        self._next_id = 1 + last_id
        self._latest = -math.inf if last_at is None else last_at
        if (limit := self._rate_limit) is not None:
            number = limit.window(self._now())
            row = database.one(SPENT_SINCE, *prices, number * limit.seconds)
            self._window_number, self._window = number, Balance(limit.amount, int(row[0]) if row else 0)
            if (ahead := self._latest - self._clock()) > 1:
                LOGGER.warning("the clock is %.0f seconds behind the store: its last window goes on until then.", ahead)


def prices_of(currency: Currency) -> tuple[str, int, int, int, int]:
    """The values that the sums over the ledger take."""
    return (currency.unit, currency.hold, currency.per_trace, currency.per_token, currency.per_prompt_token)


def _account(request: TraceRequest) -> RequestAccount:
    account = request.context
    assert isinstance(account, RequestAccount)  # every submission of a gateway brings one
    return account
