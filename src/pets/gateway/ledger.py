"""The budget of a gateway: reserved in the store before a request goes upstream, settled when it comes back.

It is the driver's ledger, and keeps the laws of :class:`pets.engine.ledger.Ledger`.

Limits apply at once: a total, a rate per window of time, and one for each key, of its life or of a calendar window. At
every moment

    spent + held <= limit          for each of them,

whatever a server claims: no attempt costs more than was held for it (its longest possible length, in tokens or money),
and where one is said to, or where its tokens are not told, its row says so. Choices that come though nobody asked for
them are charged, too: for these alone a limit may be passed. A request that was upstream when the process died counts
as spent in full: nobody knows what became of it.

Rows keep the tokens that were charged, so that what was spent counts in another unit too. The ledger's time never goes
back, whatever the clock does.
"""

import asyncio
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Literal, NamedTuple

from pets.core.budget import whole_traces
from pets.core.money import Currency
from pets.engine.fetch import TraceRequest
from pets.engine.ledger import Ledger
from pets.errors import BudgetError, StateError
from pets.gateway.auth import ANYBODY, BUDGET_WINDOWS, ApiKey, utc_words, window_start
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.ledger_store import (
    KEY,
    KEY_WINDOW,
    TOTAL,
    WINDOW,
    Balance,
    Charge,
    Reservation,
    SpendRateLimit,
    key_window_names,
)
from pets.gateway.paid_traces import PaidTraces
from pets.openai.errors import ApiError
from pets.store import StoredTrace
from pets.types import Usage

NO_REFILL_RETRY_AFTER_S = 3600.0  # what a client is told of a budget that does not come back by itself
HELD_RETRY_AFTER_S = 1.0  # where requests under way hold what is left, most of which comes back
MAX_AMOUNT = (1 << 63) - 1  # that a store keeps
NOT_SAMPLED = Charge()
FEWER_TRACES = "fewer traces ('pets.max_traces', or 'n' of a plain request)"
RETRY_WITHIN_S = 60.0  # that clients wait for the next window of a key; they would not wait for days
WHOSE = {"total": "this gateway's", "key": "this key's", "window": "this window's"}


class BudgetLimit(NamedTuple):
    """A ``balance`` that has a limit: the ``total``, that of a ``window``, or a ``key``'s; for good, or for a window of
    so many ``seconds`` that ends in ``refills_in_s``."""

    name: Literal["total", "key", "window"]
    balance: Balance
    seconds: float | None = None
    refills_in_s: float | None = None


@dataclass(slots=True, eq=False)
class RequestAccount:
    """Who pays for one request, the most that a trace of it may take, and what came of it so far.

    ``max_tokens`` and ``prompt_tokens`` are the most that a trace and its prompt may take. ``charged`` is the sum of
    what was settled; ``lost`` traces were paid for and did not come. ``upstream_s`` are the seconds in which an attempt
    was out. A ``fallback`` is written down and not counted: the budget is used up. ``question`` is the digest under
    which its traces are kept, where they are; ``reused`` ones were paid for before.
    """

    key: ApiKey
    request: str
    model: str = ""
    kind: Literal["vote", "plain", "fallback"] = "vote"
    max_tokens: int = 0
    prompt_tokens: int = 0
    charged: Charge = NOT_SAMPLED
    lost: int = 0
    upstream_s: float = 0.0
    question: str = ""
    reused: int = 0
    _attempts: int = 0
    _since: float = 0.0

    def count_attempts(self, change: int, now: float) -> None:
        """Note that one attempt more is out, or one less; several may be at once."""
        self.upstream_s += now - self._since if self._attempts else 0.0
        self._attempts, self._since = self._attempts + change, now


class GatewayLedger(Ledger):
    """Reserves and settles the cost of upstream requests, in ``currency``; the module's docstring has its law.

    Traces that keys have paid for are kept in ``paid``, where they are reused.
    """

    def __init__(
        self,
        backend: LedgerBackend,
        currency: Currency | None = None,
        *,
        total: int | None = None,
        rate_limit: SpendRateLimit | None = None,
        paid: PaidTraces | None = None,
    ) -> None:
        self.currency, self.paid = currency or Currency(), paid
        self.backend, self._rate_limit = backend, rate_limit
        self._ids = count(backend.open(self.currency, rate_limit))
        self.total = backend.balance(TOTAL)
        self.total.limit = total
        self._open: dict[int, RequestAccount] = {}  # of each reservation that is not settled
        self._paid_parts: Counter[str] = Counter()  # by key: thousandths paid for, for its next cancelled ones
        self.on_settled: Callable[[Reservation, Charge], None] = lambda reservation, charge: None

    @property
    def limited(self) -> bool:
        """Whether there is a limit for all keys together."""
        return self.total.limit is not None or self._rate_limit is not None

    @property
    def spenders(self) -> list[str]:
        """The names of the keys that have spent or hold anything, who has spent most first."""
        by_spend = sorted(self.backend.balances.items(), key=lambda item: -item[1].spent)
        return [name.removeprefix(KEY) for name, own in by_spend if name.startswith(KEY) and (own.spent or own.held)]

    def balance_of(self, name: str) -> Balance:
        """What the key of this name may spend, has spent and holds."""
        return self.backend.balance(KEY + name)

    def budget_balance_of(self, key: ApiKey) -> Balance:
        """The balance that the key's budget is for: of its life, or of its present window."""
        if key.window is None:
            return self.balance_of(key.name)
        names = key_window_names(key.name, self.backend.store.day())
        return self.backend.balance(names[BUDGET_WINDOWS.index(key.window)])

    def limits(self, key: ApiKey) -> list[BudgetLimit]:
        """What limits the requests of a key now."""
        rate, now, day, limits = self._rate_limit, self.backend.store.now(), self.backend.store.day(), []
        for name, balance in self._balances(key, day).items():
            if balance.limit is None:
                continue
            if name.startswith(KEY_WINDOW) and key.window is not None:
                start, end = (window_start(key.window, day, later) for later in (0, 1))
                limits.append(BudgetLimit("key", balance, end - start, end - now))
            elif name.startswith(WINDOW) and rate is not None:
                limits.append(BudgetLimit("window", balance, rate.seconds, rate.seconds_left(now)))
            else:
                limits.append(BudgetLimit("total" if name == TOTAL else "key", balance))
        return limits

    def left(self, key: ApiKey) -> int | None:
        """What this key may still spend; None where nothing limits it."""
        free = [limit.balance.free for limit in self.limits(key)]
        return max(0, int(min(free))) if free else None

    def shown(self, amount: float) -> float:
        """An amount in the unit in which it is shown: dollars are, their smallest parts are not."""
        return self.currency.shown(amount)[0]

    def trace_cost(self, account: RequestAccount) -> int:
        """The most that one trace of a request may cost."""
        return self.currency.hold_for(Usage(tokens=account.max_tokens, prompt_tokens=account.prompt_tokens))

    def refusal(self, key: ApiKey, amount: int = 1) -> ApiError:
        """The 429 for a request that cannot be paid for: it takes ``amount`` to begin."""
        lowest = min(self.limits(key), key=lambda limit: limit.balance.free, default=None)
        if lowest is None:  # nothing but the plan of the stream, which other questions were promised
            message = "The budget per question is promised to questions under way: try again."
            return ApiError(message, status=429, code="rate_limit_exceeded", retry_after=HELD_RETRY_AFTER_S)
        whose, balance, _, refill_s = lowest
        limit, own_window = balance.limit or 0, whose == "key" and refill_s is not None
        counts_traces, words = self.currency.counts_traces, self.currency.words
        most, per = words(amount), f"{words(limit)} per {key.window}" if own_window else words(limit)
        budget, refuse = f"{WHOSE[whose]} budget of {per}", partial(ApiError, status=429, code="insufficient_quota")
        left = balance.free if counts_traces else balance.free + balance.held  # of other units most comes back
        if not counts_traces and amount > limit:
            message = f"The request may take {most}, {WHOSE[whose]} budget is {per}: ask for fewer 'max_tokens'."
            return refuse(message, should_retry=False)
        if not counts_traces and left >= amount:
            message = f"What is left of {budget} is held for requests under way."
            return refuse(message, code="rate_limit_exceeded", retry_after=HELD_RETRY_AFTER_S, should_retry=True)
        message = f"You have used up {budget}."
        if left > 0:
            fewer = FEWER_TRACES if counts_traces else "fewer 'max_tokens'"
            message = f"{words(int(left))} of {budget} are left; this request may take {most}: ask for {fewer}."
        elif own_window:
            message += f" This request may take {most}."
        if refill_s is None:
            return refuse(message, retry_after=NO_REFILL_RETRY_AFTER_S, should_retry=False)
        if own_window:
            message += f" It begins anew at {utc_words(self.backend.store.now() + refill_s)}."
        return refuse(message, retry_after=refill_s, should_retry=not own_window or refill_s <= RETRY_WITHIN_S)

    async def opened(self, request: TraceRequest) -> None:
        """Reserve what an attempt may cost, durably; ``BudgetError`` where that is not free."""
        account = _account(request)
        reservation = await self.reserve(account, request.size)
        if reservation is None:
            raise BudgetError(self.refusal(account.key, self.trace_cost(account)).message)
        request.entry = reservation
        account.count_attempts(1, asyncio.get_running_loop().time())

    async def delivered(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Settle an attempt at the cost of its traces; those that the key has paid for before cost nothing."""
        account = _account(request)
        self._settle_delivered(request, traces)
        if request.reused:
            account.reused += len(traces)
        elif self.paid is not None and account.question:
            self.paid.keep(account.key.name, account.question, traces, request.owner.raw)

    def lost(self, request: TraceRequest, usage: Usage) -> None:
        """Charge all that was held for an attempt: what it used is not known here."""
        if (reservation := self._ended(request)) is not None:
            self.settle_lost(reservation)

    def released(self, request: TraceRequest) -> None:
        """Free what was held for an attempt."""
        if (reservation := self._ended(request)) is not None:
            self.settle(reservation)

    def abandoned(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Charge an attempt whose client has gone."""
        self._settle_delivered(request, traces) if traces else self.lost(request, Usage())

    def cancelled(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Charge what was written of an attempt. Parts of traces are paid for by whole ones, of which the rest is for
        the key's next: what is left of one when the process ends is not given back."""
        if (reservation := self._ended(request)) is None:
            return
        cost = self._cost(traces)
        if self.currency.counts_traces:
            paid = self._paid_parts[reservation.key]
            parts = sum(1000 if trace.part is None else trace.part for trace in traces)
            cost = max(0, whole_traces(parts - paid))
            self._paid_parts[reservation.key] = paid + 1000 * cost - parts
        account = _account(request)
        if self.paid is not None and account.question:
            self.paid.keep(account.key.name, account.question, traces, {})
        charge = Charge(min(cost, reservation.held), 0, *_used(traces), request.estimated, 0, len(traces))
        self.settle(reservation, charge)

    def _settle_delivered(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        if (reservation := self._ended(request)) is not None:
            counted = [*traces, *[Usage()] * request.surplus]
            claimed_more = max(request.claimed_more, int(self._cost(counted) > reservation.held))
            self.settle_traces(reservation, counted, request.estimated, claimed_more)

    def _ended(self, request: TraceRequest) -> Reservation | None:
        """What is held for an attempt, which is over; None where none is in flight."""
        reservation: Reservation | None = request.entry
        if reservation is not None:
            request.entry = None
            _account(request).count_attempts(-1, asyncio.get_running_loop().time())
        return reservation

    async def reserve(self, account: RequestAccount, traces: int) -> Reservation | None:
        """Hold the most that so many traces may cost; None where that is not free. Durable when it returns.

        What took so long to write that its window is over is taken back, and held in the present one.
        """
        held = traces * self.trace_cost(account)
        most = traces, held, traces * account.max_tokens, traces * account.prompt_tokens
        if max(most) > MAX_AMOUNT:
            return None
        while True:
            day = self.backend.store.day()
            balances = {} if account.kind == "fallback" else self._balances(account.key, day)
            if any(held > balance.free for balance in balances.values()):
                return None
            about = account.key.name, account.request, account.kind, account.model, self.currency.unit
            limits = tuple((name, balance.limit) for name, balance in balances.items())
            reservation = Reservation(next(self._ids), *about, *most, day, limits)
            self._open[reservation.id] = account
            made = False
            try:
                made = await self.backend.reserve(reservation)
            except asyncio.CancelledError:
                self.settle(reservation)
                raise
            except StateError as error:
                message = f"The ledger cannot be written ({error}); nothing was spent."
                raise ApiError(message, status=503, code="ledger_unavailable", retry_after=1) from error
            finally:
                if not made:  # it has no row to settle
                    self._open.pop(reservation.id, None)
            today = self.backend.store.day()
            same_time = self._rate_limit is None and today == day
            if not balances or same_time or balances.keys() == self._balances(account.key, today).keys():
                return reservation if made else None
            self.settle(reservation)

    def settle_traces(
        self, reservation: Reservation, traces: Sequence[Usage], estimated: int = 0, claimed_more: int = 0
    ) -> None:
        """Spend what these traces cost, each at most what was held for one, and free the rest."""
        surplus = max(0, len(traces) - reservation.traces)  # that nobody asked for, and that were sampled
        most = reservation.held + surplus * reservation.held // reservation.traces
        cost = min(self._cost(traces), most)
        self.settle(reservation, Charge(cost, len(traces), *_used(traces), estimated, claimed_more))

    def settle_lost(self, reservation: Reservation) -> None:
        """Spend all that was held: the server may have sampled, and nobody knows how much."""
        if (account := self._open.get(reservation.id)) is not None:
            account.lost += reservation.traces
            self.settle(reservation, Charge(reservation.held, 0, reservation.tokens, reservation.prompt_tokens))

    def settle(self, reservation: Reservation, charge: Charge = NOT_SAMPLED) -> None:
        """Spend what the charge says, free the rest of what was held. A second call does nothing."""
        if (account := self._open.pop(reservation.id, None)) is not None:
            account.charged = Charge(*map(operator.add, account.charged, charge))
            self.backend.settle(reservation, charge)
            self.on_settled(reservation, charge)

    async def close(self) -> None:
        """Write what is left and release the store; the disk is waited for in a thread."""
        loop = asyncio.get_running_loop()
        self.backend.finish()
        await loop.run_in_executor(None, self.backend.close)
        if self.paid is not None:
            await loop.run_in_executor(None, self.paid.close)

    def _balances(self, key: ApiKey, day: int) -> dict[str, Balance]:
        """What a key's request is held in on a day, by name: the total, the present window where there is one, the
        key's own and those of its windows, for one of which its budget may be."""
        balances = {TOTAL: self.total}
        if (rate := self._rate_limit) is not None:
            window, _ = rate.window(self.backend.store.now())
            balances[window] = self.backend.balance(window)
            balances[window].limit = rate.amount
        own = balances[KEY + key.name] = self.balance_of(key.name)
        own.limit = key.budget if key.window is None else None
        names = () if key is ANYBODY else key_window_names(key.name, day)
        for kind, name in zip(BUDGET_WINDOWS, names, strict=False):
            balances[name] = self.backend.balance(name)
            balances[name].limit = key.budget if kind == key.window else None
        return balances

    def _cost(self, traces: Sequence[Usage]) -> int:
        return sum(map(self.currency.cost, traces))


def _used(traces: Sequence[Usage]) -> tuple[int, int]:
    """The tokens of traces, and of their prompts, as a store keeps them."""
    tokens, prompt_tokens = sum(trace.tokens for trace in traces), sum(trace.prompt_tokens for trace in traces)
    return min(tokens, MAX_AMOUNT), min(prompt_tokens, MAX_AMOUNT)


def _account(request: TraceRequest) -> RequestAccount:
    account = request.context
    assert isinstance(account, RequestAccount)  # every submission of a gateway brings one
    return account
