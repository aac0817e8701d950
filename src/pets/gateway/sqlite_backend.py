"""``SQLiteBackend``: the ledger of one gateway, in a file or in memory. Its balances are the ledger's sums.

``LedgerWriter`` writes many rows in one transaction, durable when awaited. What only has to survive the end of this
process takes a few microseconds to commit, less than it takes to wake a thread: the event loop commits it itself, at
the end of its turn, for all requests of that turn. What waits for the disk or for another process is handed to a
thread: a power-cut-safe commit, a store that somebody else is writing to, and SQLite's checkpoints.

A row's way (loop: the event loop; thread: the writer's own):

    write() ----> pending --FLUSH_DELAY_S later--+
    durable() --> pending --end of this turn-----+--> _flush (loop)
                                                        |
             thread idle, durability "process"          |  durability "machine", or batches queued before it
                     +----------------------------------+------------------+
                     v                                                     v
               _commit (loop) --store is busy--> queue ------> _work (thread)
                     |                                                     |
                     v                                                     v
                     +---------> _end (loop): durable() returns <----------+

A commit that fails (a full disk, another process that writes for a minute) sets ``failure``: the batch's durable rows
raise it, and so does every durable() from then on, at once. The batch's other rows settle what was reserved before;
they stay pending. Every RETRY_S the thread tries again, together with a row that needs some room; once that is
committed, ``failure`` is cleared, and the store has all that is in memory. A row that no store could hold fails alone.

While the thread has a batch (``_queued`` > 0) every later one goes behind it: rows are committed in the order in which
they were written, and only one of loop and thread uses the connection at a time.
"""

import asyncio
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any

from pets.core.budget import Currency
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
from pets.gateway.telemetry import LOGGER
from pets.store.database import Durability, run_lock
from pets.store.sqlite import SQLiteDatabase

INSERT = (
    "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held, tokens, prompt_tokens, day) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE = (
    "UPDATE ledger SET spent = ?, delivered = ?, tokens = ?, prompt_tokens = ?, estimated = ?, claimed_more = ?, "
    "cancelled = ? WHERE id = ?"
)
PROBE = "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held) VALUES (-1, 0, '', ?, 'probe', '', 0, 0)"
CHARGE_OPEN = "UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL"

FLUSH_DELAY_S = 0.05
GATEWAY_LOCK = 0  # runs count from 1; the lock of number 0 is the gateway's
BUSY_TIMEOUT_MS = 60_000  # that the thread waits for another writer
READ_TIMEOUT_MS = 100  # in the event loop: a store that was just opened may be in repair
CHECKPOINT_TRANSACTIONS = 1000
MAX_LOG_PAGES = 32_000  # of the write-ahead log, before a commit makes room by itself
RETRY_S = 1.0  # between two tries to write to a store that failed
PROBE_BYTES = 64 << 10  # that must fit into a store that failed before it is trusted again
SYNCHRONOUS_FULL = 2  # SQLite's "synchronous" that survives a power cut
BUSY = "SQLITE_BUSY"
BAD_ROW = (OverflowError, sqlite3.IntegrityError, sqlite3.DataError)  # the row's fault, not the store's


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


@dataclass(slots=True)
class _Row:
    sql: str
    values: Sequence[Any]
    done: asyncio.Future[None] | None = None
    error: str | None = None  # why this row alone was not written


@dataclass(slots=True)
class _Batch:
    """Rows of one transaction; ``probe``: also find out whether the store can be written again."""

    rows: list[_Row]
    probe: bool = False
    error: str | None = None  # why none of it was written


class LedgerWriter:
    """A store (or ``:memory:``) with a gateway's tables; one gateway at a time.

    ``write`` returns at once and is committed soon; ``durable`` returns when its row, and all that was written before
    it, survives the end of this process (with ``durability="machine"`` also a power cut). While the store cannot be
    written, ``failure`` says why and ``durable`` raises it. ``reader`` reads what is committed, by whichever process,
    while the thread has the connection that writes.
    """

    def __init__(self, path: str | PathLike[str] = ":memory:", durability: Durability = "process") -> None:
        self.database = SQLiteDatabase(path, create=True, durability=durability)
        self.reader = self.database  # a store in memory has but one connection
        if self.database.path is not None:
            self.reader = SQLiteDatabase(self.database.path, create=False, durability="process")
            self.reader.size_cache_for(0)
            self.reader.one(f"PRAGMA busy_timeout = {READ_TIMEOUT_MS}")
        self._lock = run_lock(self.database.path, GATEWAY_LOCK)
        if not self._lock.take():
            self.reader.close()
            self.database.close()
            raise StateError(f"{self.database.name} is in use by another gateway. Stop it, or name another store.")
        self.failure: str | None = None
        self._pending: list[_Row] = []
        self._flush_handle: asyncio.Handle | None = None
        self._flush_this_turn = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()  # without rows: checkpoint; None: the end
        self._queued = 0  # batches that the thread has
        self._loop_transactions = 0
        self._thread: threading.Thread | None = None
        self._finished = False
        self._commits_in_loop = self._pragma("synchronous") != SYNCHRONOUS_FULL

    def start(self) -> None:
        """Begin to write; before that, the database may be read and written directly."""
        self.database.size_cache_for(0)  # rows are written once and seldom read: little of the file need be in memory
        if self._commits_in_loop:
            self._pragma(f"wal_autocheckpoint = {MAX_LOG_PAGES}")
        self._set_busy_timeout()
        self._thread = threading.Thread(target=self._work, name="pets-ledger", daemon=True)
        self._thread.start()

    def write(self, sql: str, *values: Any) -> None:
        """Write soon, or as soon as the store can be written again."""
        self._pending.append(_Row(sql, values))
        if self._flush_handle is None and self.failure is None:
            self._loop = asyncio.get_running_loop()
            self._flush_handle = self._loop.call_later(FLUSH_DELAY_S, self._flush)

    async def durable(self, sql: str, *values: Any) -> None:
        """Write, and return when it is durable; a store that cannot be written raises ``StateError``."""
        if self.failure is not None:
            raise StateError(self.failure)
        self._loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = self._loop.create_future()
        self._pending.append(_Row(sql, values, done))
        if not self._flush_this_turn:
            if self._flush_handle is not None:
                self._flush_handle.cancel()
            self._flush_handle, self._flush_this_turn = self._loop.call_soon(self._flush), True
        await done

    def finish(self) -> None:
        """Hand what is pending to the thread as its last batch. Call it in the loop that writes, before ``close``."""
        if self._finished:
            return
        self._finished = True
        if rows := self._take_pending():
            self._enqueue(_Batch(rows))
        self._queue.put(None)

    def close(self) -> None:
        """Wait until all is written and release the store; a second call does nothing."""
        self.finish()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.reader.close()
        self.database.close()
        self._lock.release()

    def _take_pending(self) -> list[_Row]:
        if self._flush_handle is not None:
            self._flush_handle.cancel()
        self._flush_handle, self._flush_this_turn = None, False
        rows, self._pending = self._pending, []
        return rows

    def _flush(self) -> None:
        """Commit what is pending, or queue it for the thread, behind what the thread has already."""
        batch = _Batch(self._take_pending(), probe=self.failure is not None)
        if batch.probe or self._queued or not self._commits_in_loop or not self._commit(batch):
            self._enqueue(batch)
            return
        self._end(batch)
        self._loop_transactions += 1
        if self._loop_transactions % CHECKPOINT_TRANSACTIONS == 0:
            self._queue.put(_Batch([]))

    def _enqueue(self, batch: _Batch) -> None:
        self._queued += 1
        self._queue.put(batch)

    def _commit(self, batch: _Batch) -> bool:
        """Try to commit the batch in one transaction; False if another process writes for longer than the timeout."""
        connection = self.database.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            if batch.probe:
                # A row that needs some room, written and taken away: what comes after it will find room, too.
                connection.execute(PROBE, (" " * PROBE_BYTES,))
                connection.execute("DELETE FROM ledger WHERE id = -1")
            for row in batch.rows:
                try:
                    connection.execute(row.sql, row.values)
                except BAD_ROW as error:
                    row.error = f"a row that no store can hold ({error})"
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:  # SQLite has rolled back by itself after some errors
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if getattr(error, "sqlite_errorname", "").startswith(BUSY):
                return False
            batch.error = str(error)
        return True

    def _end(self, batch: _Batch) -> None:
        """Wake those who wait for a row of the batch, and notice a store that fails or works again."""
        for row in batch.rows:
            error = batch.error or row.error
            if row.done is None:
                if row.error is not None:  # what it settles counts as held at the next start
                    LOGGER.error("the ledger has %s", row.error)
            elif not row.done.done():  # its request has not gone
                row.done.set_exception(StateError(error)) if error else row.done.set_result(None)
        if batch.error is not None:  # keep what has to be written, and try again in a while
            self._pending[:0] = [row for row in batch.rows if row.done is None]
            if self.failure is None:
                words = "%s cannot be written (%s); requests are refused until it can"
                LOGGER.error(words, self.database.name, batch.error)
            self.failure = batch.error
            if self._flush_handle is None and not self._finished and self._loop is not None:
                self._flush_handle = self._loop.call_later(RETRY_S, self._flush)
        elif batch.probe and self.failure is not None:
            LOGGER.warning("%s can be written again", self.database.name)
            self.failure = None

    def _work(self) -> None:
        def done(batch: _Batch) -> None:
            self._queued -= 1
            self._end(batch)

        while (batch := self._queue.get()) is not None:
            if not (batch.rows or batch.probe):
                self._checkpoint()
                continue
            self._pragma(f"busy_timeout = {BUSY_TIMEOUT_MS}")  # however long another process writes
            if not self._commit(batch):
                batch.error = f"in use by another process for {BUSY_TIMEOUT_MS // 1000} seconds"
            self._set_busy_timeout()
            assert self._loop is not None  # whoever wrote is in it
            with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                self._loop.call_soon_threadsafe(done, batch)

    def _set_busy_timeout(self) -> None:
        """The event loop never waits for another writer."""
        self._pragma(f"busy_timeout = {0 if self._commits_in_loop else BUSY_TIMEOUT_MS}")

    def _checkpoint(self) -> None:
        """Move the write-ahead log into the file, as far as nobody has to wait for it."""
        if self.database.path is not None:
            with suppress(sqlite3.Error), closing(sqlite3.connect(self.database.path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _pragma(self, text: str) -> Any:
        row = self.database.connection.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]
