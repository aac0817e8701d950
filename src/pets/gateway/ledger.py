"""The budget of a gateway: held in the store before a request goes upstream, settled when it comes back.

Three limits apply at once: a total, an allowance per window of time, and a total for each key. At every moment

    spent + held <= limit          for each of the three,

as long as no trace costs more than was held for it (its longest possible length, in tokens or money). A dispatch that
was under way when the process died counts as spent in full: nobody knows what became of it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pets.core.budget import Currency
from pets.errors import InputError, StateError
from pets.gateway.books import Books
from pets.gateway.keys import Key
from pets.gateway.refusals import RefusalError

__all__ = ["Account", "Allowance", "Entry", "Ledger"]

NEVER = 3600.0  # seconds that a client is told to wait for a budget that will not come back by itself


@dataclass(frozen=True, slots=True)
class Allowance:
    """So much in every window of so many seconds, counted from the epoch."""

    amount: int
    seconds: float

    def __post_init__(self) -> None:
        if self.amount < 0 or self.seconds <= 0:
            raise InputError(f"an allowance is 0 or more in a window of more than 0 seconds; got {self}.")


@dataclass(slots=True)
class Account:
    """One limit (``None``: no limit) and what was taken from it."""

    limit: int | None = None
    spent: int = 0
    held: int = 0

    @property
    def free(self) -> float:
        """What may still be held."""
        return float("inf") if self.limit is None else self.limit - self.spent - self.held


@dataclass(slots=True)
class Entry:
    """One upstream request in the books."""

    id: int
    key: str
    traces: int
    held: int
    accounts: tuple[Account, ...]
    open: bool = True


class Ledger:
    """Holds and settles, in ``currency``; see the module's docstring."""

    def __init__(
        self,
        books: Books,
        currency: Currency | None = None,
        *,
        total: int | None = None,
        allowance: Allowance | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.currency = currency or Currency()
        self._books, self._allowance, self._clock = books, allowance, clock
        self.total = Account(total)
        self._keys: dict[str, Account] = {}
        self._window = Account()
        self._window_number = -1
        self.delivered = self.lost = 0  # traces, since the books were begun
        self._next = 1
        self._load()

    @property
    def unit(self) -> str:
        """Of every amount."""
        return self.currency.unit

    def hold(self, prompt: int, max_tokens: int) -> int:
        """What a trace may cost at most."""
        money = self.currency
        return max(1, money.per_trace + money.per_token * max_tokens + money.per_prompt_token * prompt)

    def affordable(self, key: Key, hold: int) -> int:
        """How many traces may be held for now."""
        free = min(account.free for account in self._accounts(key))
        return 1 << 30 if free == float("inf") else max(0, int(free) // hold)

    def left(self, key: Key) -> int | None:
        """What this key may still spend in all; None where nothing limits it."""
        free = min(account.free for account in self._accounts(key))
        return None if free == float("inf") else max(0, int(free))

    def refusal(self, key: Key) -> RefusalError:
        """The 429 of a request that cannot be paid for."""
        total, window, own = self._accounts(key)
        found = {"this gateway's": total.free, "this window's": window.free, "this key's": own.free}
        whose = min(found, key=found.__getitem__)
        waits = self._window_ends if whose == "this window's" else NEVER
        return RefusalError(
            f"You have used up {whose} budget ({self.unit}).",
            status=429,
            code="insufficient_quota",
            retry_after=waits,
            again=whose == "this window's",
        )

    async def reserve(
        self, key: Key, traces: int, hold: int, request: str, kind: Literal["vote", "fallback"] = "vote"
    ) -> Entry | None:
        """Hold the most that so many traces may cost; None where that is not there. Durable when it returns."""
        accounts = self._accounts(key) if kind == "vote" else ()
        amount = traces * hold
        if accounts and amount > min(account.free for account in accounts):
            return None
        for account in accounts:
            account.held += amount
        entry = Entry(self._next, key.name, traces, amount, accounts)
        self._next += 1
        try:
            await self._books.durable(
                "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                *(entry.id, self._clock(), key.name, request, kind, self.unit, traces, amount),
            )
        except (asyncio.CancelledError, StateError) as error:
            self.settle(entry, cost=0)
            if isinstance(error, StateError):
                found = "The ledger cannot be written; nothing was spent."
                raise RefusalError(found, status=503, retry_after=5) from error
            raise
        return entry

    def settle(self, entry: Entry, cost: int, delivered: int = 0, tokens: int = 0, prompt_tokens: int = 0) -> None:
        """What was held becomes what it cost; the rest is free again. Twice does no harm."""
        if not entry.open:
            return
        entry.open = False
        for account in entry.accounts:
            account.held -= entry.held
            account.spent += cost
        self.delivered += delivered
        self.lost += entry.traces if cost and not delivered else 0
        self._books.write(
            "UPDATE ledger SET spent = ?, delivered = ?, tokens = ?, prompt_tokens = ? WHERE id = ?",
            *(cost, delivered, tokens, prompt_tokens, entry.id),
        )

    def cost(self, traces: int, tokens: int, prompt_tokens: int) -> int:
        """What so many traces came to."""
        money = self.currency
        return money.per_trace * traces + money.per_token * tokens + money.per_prompt_token * prompt_tokens

    @property
    def ready(self) -> bool:
        """Whether the books can be written."""
        return self._books.broken is None

    def close(self) -> None:
        """Write what is left and give the store back."""
        self._books.close()

    @property
    def _window_ends(self) -> float:
        seconds = self._allowance.seconds if self._allowance else NEVER
        return seconds - self._clock() % seconds

    def _accounts(self, key: Key) -> tuple[Account, Account, Account]:
        """The total, the present window's, the key's own."""
        if (
            self._allowance is not None
            and (now := int(self._clock() // self._allowance.seconds)) != self._window_number
        ):
            self._window_number, self._window = now, Account(self._allowance.amount)
        own = self._keys.setdefault(key.name, Account())
        own.limit = key.budget
        return self.total, self._window, own

    def _now(self, allowance: Allowance) -> int:
        """The number of the present window."""
        return int(self._clock() // allowance.seconds)

    def _load(self) -> None:
        """What the store says was spent; dispatches that nobody settled count in full."""
        database = self._books.database
        with database.transaction() as connection:
            connection.execute("UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL")
        rows = database.all(
            "SELECT key, sum(spent), sum(delivered), sum(CASE WHEN spent > 0 AND delivered = 0 THEN traces ELSE 0 END) "
            "FROM ledger WHERE kind = 'vote' AND unit = ? GROUP BY key",
            self.unit,
        )
        for name, spent, delivered, lost in rows:
            self._keys[name] = Account(None, spent)
            self.total.spent += spent
            self.delivered += delivered
            self.lost += lost
        found = database.one("SELECT coalesce(max(id), 0) FROM ledger")
        self._next = 1 + (found[0] if found else 0)
        if self._allowance is not None:
            number = self._now(self._allowance)
            row = database.one(
                "SELECT coalesce(sum(spent), 0) FROM ledger WHERE kind = 'vote' AND unit = ? AND at >= ?",
                *(self.unit, number * self._allowance.seconds),
            )
            self._window_number, self._window = number, Account(self._allowance.amount, row[0] if row else 0)
