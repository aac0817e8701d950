"""``LedgerStore``: what a gateway's ledger is kept in, its rows and its balances.

A row is a reservation, settled or not; a balance is what was spent and is held of one limit, by the name that rows and
replicas know it by: ``total``, ``key NAME``, ``window SECONDS NUMBER``, ``key-window NAME day NUMBER`` (and so of its
week and its month, whether or not the key's budget is for one: it may be at any time).

:class:`pets.gateway.sqlite_store.SQLiteStore` is a file or memory, of one gateway,
:class:`pets.gateway.shared_store.SharedStore` a server, of gateways that share one budget.
:class:`pets.gateway.ledger_backend.LedgerBackend` writes to either.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pets.arguments import Interval, check_fields, setting
from pets.core.money import Currency
from pets.core.queues import ReplicaTotals
from pets.gateway.auth import BUDGET_WINDOWS, DAY_S, KeyStore, window_number, window_start
from pets.store.database import Database

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
DAY_AT = "coalesce(day * 86400.0, at)"
STARTS = ("at", DAY_AT, DAY_AT, DAY_AT)  # what is compared with the beginning of the window, and of each of a key's
IN_WINDOWS = (f"sum(CASE WHEN {at} >= ?{n} THEN {COST_NOW} ELSE 0 END)" for n, at in enumerate(STARTS, 6))
TOTALS = (
    f"SELECT key, sum({COST_NOW}), sum(CASE WHEN unit != ?1 THEN 1 ELSE 0 END), {', '.join(IN_WINDOWS)} "
    "FROM ledger WHERE kind != 'fallback' AND spent IS NOT NULL GROUP BY key"
)


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

    amount: int = setting(within=Interval(0))
    seconds: float = setting(within=Interval(0, open="("))

    def __post_init__(self) -> None:
        check_fields(self)

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


class Reservation(NamedTuple):
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
    """What a reservation is settled with, or several are; nothing of it where the server did not sample."""

    spent: int = 0
    delivered: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    estimated: int = 0
    claimed_more: int = 0
    cancelled: int = 0


@dataclass(slots=True, eq=False)
class Operation:
    """A reservation to be made, whose future says whether it was, or one to be settled.

    ``is_counted`` says whether the balances of this gateway count it as on its way.
    """

    reservation: Reservation
    charge: Charge | None = None
    made: asyncio.Future[bool] | None = None
    is_counted: bool = True


@dataclass(slots=True)
class StoreSnapshot:
    """What a transaction has seen and done: amounts spent and held by balance, and the ids of reservations that were
    ``made``. ``void`` operations are no longer on their way: they changed nothing, or ``balances`` has them.

    ``others`` is what other replicas took of the common plan.
    """

    balances: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    made: Collection[int] = ()
    void: Sequence[Operation] = ()
    others: ReplicaTotals | None = None


class LedgerStore(ABC):
    """Rows and balances of ``database``: opened, used by one thread at a time, closed. ``keys`` are its API keys."""

    look_every_s: float  # between two calls of `look`
    settle_delay_s: float = 0.0  # for which settlements wait for others, to be committed with them
    stalled_after_s: float = math.inf  # of a transaction, after which requests are refused
    close_timeout_s: float | None = None  # of the end, which waits for a transaction
    failure_words: str | None = None  # which anybody may read where the store fails; without, the reason

    def __init__(self, database: Database, keys: KeyStore, clock: Callable[[], float]) -> None:
        self.database, self.keys, self.clock = database, keys, clock
        self.latest, self._clock_offset_s = -math.inf, 0.0

    @property
    def replicas(self) -> tuple[str, int] | None:
        """This gateway's name among those that share the store and how many these are; None where none can."""
        return None

    def now(self) -> float:
        """The store's time, which never goes back; for the event loop alone."""
        self.latest = max(self.latest, self._time())
        return self.latest

    def day(self) -> int:
        """The number of the present day, as :meth:`now`."""
        return int(self.now() // DAY_S)

    def _time(self) -> float:
        return self.clock() + self._clock_offset_s

    @abstractmethod
    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> tuple[int, StoreSnapshot]:
        """Read what was spent, in whichever unit, also in the present window.

        The value is the first id that is free for a reservation, and the balances.
        """

    def commit_at_once(self, operations: Sequence[Operation]) -> StoreSnapshot | None:
        """Commit in less time than it takes to wake a thread; None where that cannot be, and nothing was written."""
        return None

    @abstractmethod
    def commit(self, operations: Sequence[Operation]) -> StoreSnapshot:
        """Make and settle reservations in one transaction, durably; ``StateError`` where it cannot be written."""

    @abstractmethod
    def look(self, names: Collection[str], share: ReplicaTotals) -> StoreSnapshot | None:
        """Do what is due now and then; the value has the balances of these names, where others move them too.

        ``share`` is what this gateway took of the plan that it has in common with others.
        """

    @abstractmethod
    def recover(self) -> None:
        """Make a store that failed work again; an error where it does not."""

    def end(self) -> None:  # noqa: B027 (a file has nobody to tell)
        """Leave the store to others: all is written."""

    def close(self) -> None:
        """Release the store; twice does no harm."""
        self.database.close()

    def _sums(self, currency: Currency, now: float, rate_limit: SpendRateLimit | None) -> tuple[dict[str, int], int]:
        """What was spent of each balance that is of this time, and how many rows are in another unit."""
        day = int(now // DAY_S)
        window, since = ("", now) if rate_limit is None else rate_limit.window(now)
        starts = [since, *(float(window_start(window, day)) for window in BUDGET_WINDOWS)]
        prices = currency.unit, currency.hold, currency.per_trace, currency.per_token, currency.per_prompt_token
        spent, converted = {TOTAL: 0} | ({window: 0} if window else {}), 0
        for key, cost, foreign, in_window, *in_windows in self.database.all(TOTALS, *prices, *starts):
            spent[TOTAL] += int(cost)
            spent[KEY + key] = int(cost)
            spent |= zip(key_window_names(key, day), map(int, in_windows), strict=True)
            if window:
                spent[window] += int(in_window)
            converted += foreign
        return spent, converted
