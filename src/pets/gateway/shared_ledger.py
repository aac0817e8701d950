"""The budget of gateways that share a PostgreSQL: one set of limits over all replicas.

The law is that of :mod:`pets.gateway.ledger`, at every moment and for all replicas together. The store decides what is
free; the balances here are what it said last, with what is on its way to it, so that most requests that cannot be paid
for are refused without asking. Replicas also plan as one: each sees within a second how many questions the others took
in and what they spent, and so all have one price.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pets.core.allocator import Allocator
from pets.core.budget import Currency
from pets.errors import StateError
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import TOTALS, Balance, GatewayLedger, Reservation, Settlement, SpendRateLimit, prices_of
from pets.gateway.ledger_function import Entry, Operation
from pets.gateway.ledger_store import LedgerWriter
from pets.gateway.shared_store import TOTAL, WINDOW, SharedWriter, StoreSnapshot
from pets.gateway.telemetry import LOGGER

__all__ = ["SharedBalance", "SharedLedger", "SharedWriter"]

IDS_PER_REPLICA = 1 << 32


@dataclass(slots=True)
class SharedBalance(Balance):
    """A balance as the store has it, with what is on its way there."""

    name: str = ""
    moving_spent: int = 0
    moving_held: int = 0
    is_known: bool = False

    def move(self, spent: int, held: int) -> None:
        """Something is on its way (or, negative, no longer)."""
        self.moving_spent += spent
        self.moving_held += held
        self.spent += spent
        self.held += held

    def stored(self, spent: int, held: int) -> None:
        """The store has so much."""
        self.spent, self.held = spent + self.moving_spent, held + self.moving_held
        self.is_known = True


class SharedLedger(GatewayLedger):
    """Reserves and settles in a store that other gateways use at the same time."""

    def __init__(
        self,
        writer: SharedWriter,
        currency: Currency | None = None,
        *,
        total: int | None = None,
        rate_limit: SpendRateLimit | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shared_writer = writer
        self._operations: dict[Operation, Sequence[SharedBalance]] = {}  # on their way to the store
        self._entries: dict[int, Entry] = {}  # that are to be settled
        self._by_name: dict[str, SharedBalance] = {}
        self._allocator: Allocator | None = None
        self._clock_offset_s = 0.0
        super().__init__(cast("LedgerWriter", writer), currency, total=total, rate_limit=rate_limit, clock=clock)

    def steer(self, allocator: Allocator) -> None:
        """Let the allocator plan as one with those of the other replicas."""
        self._allocator = allocator
        self._shared_writer.share = lambda: allocator.totals

    async def begin(self) -> None:
        """As :meth:`GatewayLedger.begin`."""
        self._shared_writer.begin(asyncio.get_running_loop())

    async def _write_reservation(self, reservation: Reservation, request: str, kind: str) -> bool:
        writer = self._shared_writer
        loop = asyncio.get_running_loop()
        writer.begin(loop)
        balances = self._shared(reservation)
        if (failure := writer.failure) is not None:
            for balance in balances:
                balance.held -= reservation.held
            raise StateError(failure)
        for balance in balances:  # counted by the caller; here as on its way
            balance.moving_held += reservation.held
        entry = Entry(
            reservation.id,
            reservation.key,
            request,
            kind,
            self.unit,
            reservation.traces,
            reservation.held,
            reservation.tokens,
            reservation.prompt_tokens,
            next((balance.name for balance in balances if balance.name.startswith(WINDOW)), None),
            tuple((balance.name, balance.limit) for balance in balances),
        )
        operation = Operation(entry, made=loop.create_future())
        assert operation.made is not None
        self._operations[operation] = balances
        self._entries[reservation.id] = entry
        writer.put(operation)
        made = await operation.made
        if not made:
            reservation.open = False
            del self._entries[reservation.id]
        return made

    def _write_settlement(self, reservation: Reservation, settlement: Settlement) -> None:
        entry = self._entries.pop(reservation.id, None)
        if entry is None:  # it was never made
            return
        balances = self._shared(reservation)
        for balance in balances:  # counted by the caller; here as on its way
            balance.moving_held -= reservation.held
            balance.moving_spent += settlement[0]
        operation = Operation(entry, settlement)
        self._operations[operation] = balances
        self._shared_writer.put(operation)

    def _on_end(self, operations: Sequence[Operation], snapshot: StoreSnapshot) -> None:
        """A transaction is over: balances are what the store says, and who waits goes on."""
        for operation in operations:
            self._forget(operation)
        for name, (spent, held) in snapshot.balances.items():
            if (balance := self._by_name.get(name)) is not None:
                balance.stored(spent, held)
        if snapshot.clock_offset_s is not None:
            self._clock_offset_s = snapshot.clock_offset_s
        if snapshot.others is not None and self._allocator is not None:
            self._allocator.sync_replicas(snapshot.others)
        for operation in operations:
            if operation.made is None or operation.made.done():
                continue
            if snapshot.error is not None:
                self._entries.pop(operation.entry.id, None)
                operation.made.set_exception(StateError(snapshot.error))
            else:
                operation.made.set_result(operation.entry.id in snapshot.made)

    def _forget(self, operation: Operation) -> None:
        """An operation is no longer on its way."""
        spent, held = operation.moves
        for balance in self._operations.pop(operation, ()):
            balance.move(-spent, -held)

    @staticmethod
    def _shared(reservation: Reservation) -> list[SharedBalance]:
        return [balance for balance in reservation.balances if isinstance(balance, SharedBalance)]

    def _balances(self, key: ApiKey) -> tuple[Balance, Balance, Balance]:
        limit = self._rate_limit
        if limit is not None and (number := limit.window(self._now())) > self._window_number:
            self._begin_window(limit, number)
        own = self._by_key.get(key.name)
        if own is None:
            own = self._by_key[key.name] = self._balance(f"key {key.name}")
        own.limit = key.budget
        return self.total, self._window, own

    def _begin_window(self, limit: SpendRateLimit, number: int) -> None:
        self._window_number = number
        self._by_name.pop(getattr(self._window, "name", ""), None)
        self._window = window = self._balance(f"{WINDOW}{limit.seconds:g} {number}", limit.amount)
        self._shared_writer.window = (window.name, number * limit.seconds)

    def balance_of(self, name: str) -> Balance:
        """As :meth:`GatewayLedger.balance_of`."""
        if name not in self._by_key:
            self._by_key[name] = self._balance(f"key {name}")
        return self._by_key[name]

    @property
    def replica(self) -> tuple[str, int]:
        """As :attr:`GatewayLedger.replica`."""
        return self._shared_writer.name, 1 + self._shared_writer.other_replicas

    def _balance(self, name: str, limit: int | None = None) -> SharedBalance:
        balance = self._by_name.get(name)
        if balance is None:
            balance = self._by_name[name] = SharedBalance(limit, name=name)
            self._shared_writer.watch(self._by_name)
        return balance

    def _now(self) -> float:
        """The server's time, which all replicas go by."""
        self._latest = max(self._latest, self._clock() + self._clock_offset_s)
        return self._latest

    def _load(self) -> None:
        """Become a replica, and read what was spent."""
        writer, database = self._shared_writer, self._shared_writer.database
        writer.register(self.currency)
        writer.on_end = self._on_end
        self._next_id = writer.replica * IDS_PER_REPLICA
        for name, _, delivered, lost, estimated, claimed_more, _ in database.all(TOTALS, *prices_of(self.currency)):
            self._by_key[name] = self._balance(f"key {name}")
            self.delivered += delivered
            self.lost += lost
            self.estimated += estimated
            self.claimed_more += claimed_more
        limit, total = self.total.limit, self._balance(TOTAL)
        total.limit = limit
        self.total = total
        row = database.one("SELECT extract(epoch FROM clock_timestamp())::double precision")
        self._clock_offset_s = (row[0] if row else self._clock()) - self._clock()
        self._latest = -math.inf
        if (rate := self._rate_limit) is not None:
            self._begin_window(rate, rate.window(self._now()))
            writer.open_window()
        for name, spent, held in database.all("SELECT name, spent, held FROM balances"):
            if (balance := self._by_name.get(name)) is not None:
                balance.stored(spent, held)
        LOGGER.info("replica", extra={"fields": {"replica": writer.replica, "name": writer.name}})
