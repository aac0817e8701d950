"""``LedgerBackend``: the store under a gateway's ledger, its rows and its balances.

A row is a reservation, settled or not; a balance is what was spent and is held of one limit, by the name that rows and
replicas know it by: ``total``, ``key NAME``, ``window SECONDS NUMBER``, ``key-window NAME day NUMBER`` (and so of its
week and its month, whether or not the key's budget is for one: it may be at any time).

:class:`pets.gateway.sqlite_backend.SQLiteBackend` keeps them in a file or in memory, for one gateway,
:class:`pets.gateway.postgres_backend.PostgresBackend` in a server, for gateways that share one budget.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pets.core.budget import Currency
from pets.errors import InputError
from pets.gateway.auth import BUDGET_WINDOWS, DAY_S, KeyStore, window_number, window_start

TOTAL = "total"
KEY = "key "  # how the names of keys' balances begin
WINDOW = "window "  # and those of windows'
KEY_WINDOW = "key-window "  # and those of keys' windows

# What a row has cost in the present unit: as it was charged; by the tokens that were charged where that was another
# unit; as the longest trace where they were not kept.
COST_NOW = (
    "CASE WHEN unit = ?1 THEN spent WHEN spent = 0 AND delivered + cancelled = 0 THEN 0 "
    "WHEN delivered = 0 AND coalesce(tokens, 0) = 0 THEN traces * ?2 "
    "ELSE ?3 * (CASE WHEN delivered = 0 THEN traces ELSE delivered END) + ?4 * tokens + ?5 * prompt_tokens END"
)
IN_WINDOWS = (f"sum(CASE WHEN coalesce(day * 86400.0, at) >= ?{n} THEN {COST_NOW} ELSE 0 END)" for n in (6, 7, 8))
TOTALS = (
    f"SELECT key, sum({COST_NOW}), sum(CASE WHEN unit != ?1 THEN 1 ELSE 0 END), {', '.join(IN_WINDOWS)} "
    "FROM ledger WHERE kind != 'fallback' AND spent IS NOT NULL GROUP BY key"
)
SPENT_SINCE = (
    f"SELECT coalesce(sum({COST_NOW}), 0) FROM ledger WHERE kind != 'fallback' AND spent IS NOT NULL AND at >= ?6"
)


def prices_of(currency: Currency) -> tuple[str, int, int, int, int]:
    """The values that TOTALS and SPENT_SINCE take first."""
    return (currency.unit, currency.hold, currency.per_trace, currency.per_token, currency.per_prompt_token)


def window_starts(day: int) -> tuple[float, ...]:
    """The values that TOTALS takes then: when the windows of a day began."""
    return tuple(float(window_start(window, day)) for window in BUDGET_WINDOWS)


@lru_cache(maxsize=4096)
def key_window_names(key: str, day: int) -> tuple[str, ...]:
    """The names of the balances of a key's windows on a day, in the order of BUDGET_WINDOWS.

    >>> key_window_names("alice", 20775)
    ('key-window alice day 20775', 'key-window alice week 2968', 'key-window alice month 24322')
    """
    return tuple(f"{KEY_WINDOW}{key} {window} {window_number(window, day)}" for window in BUDGET_WINDOWS)


@dataclass(frozen=True, slots=True)
class SpendRateLimit:
    """At most ``amount`` in every window of ``seconds``; windows are counted from the epoch."""

    amount: int
    seconds: float

    def __post_init__(self) -> None:
        if self.amount < 0 or self.seconds <= 0:
            found = f"got {self.amount} in {self.seconds:g} seconds"
            raise InputError(f"an allowance is 0 or more in a window of more than 0 seconds; {found}.")

    def window(self, now: float) -> tuple[str, float]:
        """The name of the balance of the window at this time, and when it began.

        >>> SpendRateLimit(5, 60).window(130.0)
        ('window 60 2', 120)
        """
        number = int(now // self.seconds)
        return f"{WINDOW}{self.seconds:g} {number}", number * self.seconds

    def seconds_left(self, now: float) -> float:
        """How long the window at this time still lasts."""
        return self.seconds - now % self.seconds


@dataclass(slots=True)
class Balance:
    """One limit (``None``: no limit), what was spent of it and what is held.

    ``is_known`` says whether ``spent`` is all that was spent: not before a store that others share has told. What such
    a store does not have yet is on its way to it.
    """

    limit: int | None = None
    spent: int = 0
    held: int = 0
    is_known: bool = True
    _spent_on_its_way: int = 0
    _held_on_its_way: int = 0

    @property
    def free(self) -> float:
        """What may still be held."""
        return math.inf if self.limit is None else self.limit - self.spent - self.held

    def move(self, spent: int, held: int) -> None:
        """Count amounts as on their way to the store; negative ones as no longer."""
        self._spent_on_its_way += spent
        self._held_on_its_way += held
        self.spent += spent
        self.held += held

    def stored(self, spent: int, held: int) -> None:
        """Take over what the store has; what is on its way is added."""
        self.spent, self.held = spent + self._spent_on_its_way, held + self._held_on_its_way
        self.is_known = True


@dataclass(frozen=True, slots=True)
class Reservation:
    """A row of the ledger: what is held for one upstream request, whose tokens are the most that it may take.

    ``limits`` are the names of the balances in which it is held, with their limits; none for what the budget does not
    pay for. ``day`` is the number of the day in whose windows it counts.
    """

    id: int
    key: str
    request: str
    kind: str
    model: str
    unit: str
    traces: int
    held: int
    tokens: int
    prompt_tokens: int
    day: int
    limits: tuple[tuple[str, int | None], ...]


class Charge(NamedTuple):
    """What a reservation is settled with; nothing of it where the server did not sample."""

    spent: int = 0
    delivered: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    estimated: int = 0
    claimed_more: int = 0
    cancelled: int = 0


class LedgerBackend(ABC):
    """Where a gateway's reservations and balances are kept: opened, used in one event loop, closed.

    ``keys`` are the store's API keys.
    """

    def __init__(self, keys: KeyStore, clock: Callable[[], float]) -> None:
        self.keys = keys
        self.balances: dict[str, Balance] = {}
        self._clock, self._clock_offset_s, self._latest = clock, 0.0, -math.inf
        self._loop: asyncio.AbstractEventLoop | None = None
        self._day = -1

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """Why nothing can be reserved now, as anybody may read it; None where it can."""

    @property
    def replica(self) -> tuple[str, int] | None:
        """This gateway's name among those that share the store and how many these are; None where none can."""
        return None

    def now(self) -> float:
        """The store's time, which never goes back."""
        self._latest = max(self._latest, self._clock() + self._clock_offset_s)
        return self._latest

    def day(self) -> int:
        """The number of the present day; when it begins, the balances of keys' windows that are over are forgotten."""
        day = int(self.now() // DAY_S)
        if day != self._day:
            self._day = day
            for name in [name for name in self.balances if name.startswith(KEY_WINDOW)]:
                key, _, _ = name.removeprefix(KEY_WINDOW).rsplit(" ", 2)
                if name not in key_window_names(key, day):
                    del self.balances[name]
        return day

    def balance(self, name: str) -> Balance:
        """The balance of this name, which begins with nothing where there is none."""
        return self.balances.setdefault(name, Balance())

    def window(self, rate_limit: SpendRateLimit) -> str:
        """The name of the balance of the present window, which may just have begun; those before it are forgotten."""
        name, _ = rate_limit.window(self.now())
        if name not in self.balances:
            for old in [other for other in self.balances if other.startswith(WINDOW)]:
                del self.balances[old]
            self.balance(name)
        return name

    @abstractmethod
    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> int:
        """Read what was spent, in whichever unit, also in the present window, and begin to write.

        The value is the first id that is free for a reservation.
        """

    async def begin(self) -> None:
        """Report to this event loop from now on."""
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def reserve(self, reservation: Reservation) -> bool:
        """Hold and write a reservation, durably; False where the store knows that it is not free.

        ``StateError`` where the store cannot be written: then nothing is held.
        """

    @abstractmethod
    def settle(self, reservation: Reservation, charge: Charge) -> None:
        """Move what was held to what was spent; written soon, or as soon as the store can be written again."""

    @abstractmethod
    def finish(self) -> None:
        """Accept no more; what was accepted is written. Call it in the event loop, before ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Wait until all is written and release the store; twice does no harm."""

    def _move(self, reservation: Reservation, spent: int, held: int) -> None:
        for name, _ in reservation.limits:
            if name in self.balances:  # else of a window that is over
                self.balances[name].move(spent, held)
