"""``SQLiteBackend``: the ledger of one gateway, in a file or in memory. Its balances are the ledger's sums."""

import math
import time
from collections.abc import Callable
from os import PathLike

from pets.core.money import Currency
from pets.errors import StateError
from pets.gateway.auth import KeyStore
from pets.gateway.ledger_backend import (
    KEY,
    SPENT_SINCE,
    TOTAL,
    TOTALS,
    Charge,
    LedgerBackend,
    Reservation,
    SpendRateLimit,
    key_window_names,
    prices_of,
    window_starts,
)
from pets.gateway.ledger_store import LedgerWriter
from pets.gateway.telemetry import LOGGER
from pets.store.database import Durability

INSERT = (
    "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held, tokens, prompt_tokens, day) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE = (
    "UPDATE ledger SET spent = ?, delivered = ?, tokens = ?, prompt_tokens = ?, estimated = ?, claimed_more = ?, "
    "cancelled = ? WHERE id = ?"
)
CHARGE_OPEN = "UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL"


class SQLiteBackend(LedgerBackend):
    """A store of one gateway at a time; what it had open when it died is charged in full by the next one."""

    def __init__(
        self,
        path: str | PathLike[str] = ":memory:",
        durability: Durability = "process",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.writer = LedgerWriter(path, durability)
        super().__init__(KeyStore(self.writer.reader), clock)

    @property
    def failure(self) -> str | None:
        """As :attr:`LedgerBackend.failure`."""
        return self.writer.failure

    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> int:
        """As :meth:`LedgerBackend.open`."""
        database = self.writer.database
        with database.transaction() as transaction:
            transaction.execute(CHARGE_OPEN)
        last_id, last_at = database.one("SELECT max(id), max(at) FROM ledger") or (None, None)
        self._latest = -math.inf if last_at is None else last_at  # a clock that was set back opens no window twice
        total, converted, day = self.balance(TOTAL), 0, self.day()
        for key, spent, foreign, *in_windows in database.all(TOTALS, *prices_of(currency), *window_starts(day)):
            self.balance(KEY + key).spent = int(spent)
            for name, amount in zip(key_window_names(key, day), in_windows, strict=True):
                self.balance(name).spent = int(amount)
            total.spent += int(spent)
            converted += foreign
        if converted:
            words = currency.words(total.spent)
            LOGGER.warning("%d ledger entries are in another unit: with them, %s are spent.", converted, words)
        if rate_limit is not None:
            if (ahead := self._latest - self._clock()) > 1:
                LOGGER.warning("the clock is %.0f seconds behind the store: its last window goes on until then.", ahead)
            name, since = rate_limit.window(self.now())
            row = database.one(SPENT_SINCE, *prices_of(currency), since)
            self.balance(name).spent = int(row[0]) if row else 0
        self.writer.start()
        return 1 + (last_id or 0)

    async def reserve(self, reservation: Reservation) -> bool:
        """As :meth:`LedgerBackend.reserve`: what is free was known before."""
        self._move(reservation, 0, reservation.held)
        try:
            await self.writer.durable(
                INSERT,
                *(reservation.id, self.now(), reservation.key, reservation.request, reservation.kind),
                *(reservation.unit, reservation.traces, reservation.held),
                *(reservation.tokens, reservation.prompt_tokens, reservation.day),
            )
        except StateError:
            self._move(reservation, 0, -reservation.held)
            raise
        return True

    def settle(self, reservation: Reservation, charge: Charge) -> None:
        """As :meth:`LedgerBackend.settle`."""
        self._move(reservation, charge.spent, -reservation.held)
        self.writer.write(UPDATE, *charge, reservation.id)

    def finish(self) -> None:
        """As :meth:`LedgerBackend.finish`."""
        self.writer.finish()

    def close(self) -> None:
        """As :meth:`LedgerBackend.close`."""
        self.writer.close()
