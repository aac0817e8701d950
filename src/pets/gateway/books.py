"""The ledger's rows in a store: many in one transaction, durable when awaited.

What is safe from the end of this process is a few microseconds' work, less than it takes to wake a thread: the event
loop writes it itself, at the end of its turn, for all requests of that turn. What waits for the disk or for another
process goes to a thread of its own: a power-cut-safe commit, a store that somebody else is writing to, and SQLite's
checkpoints.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from pets.errors import StateError
from pets.store.database import Database, Durability
from pets.store.lock import RunLock

__all__ = ["Books"]

SOON = 0.05  # seconds
GATEWAY = 0  # runs count from 1; the lock of number 0 is the gateway's
PATIENCE = 60_000  # milliseconds that the thread waits for another writer
READING = 100  # milliseconds that a read waits, in the event loop: a store that was just opened may be in repair
CHECKPOINT = 1000  # transactions from one checkpoint to the next
MOST_PAGES = 32_000  # of the write-ahead log, before a commit makes room by itself
FULL = 2  # SQLite's "synchronous" that outlives a power cut
BUSY = "SQLITE_BUSY"


@dataclass(slots=True)
class _Write:
    sql: str
    values: Sequence[Any]
    done: asyncio.Future[None] | None = field(default=None)


class Books:
    """A store (or ``:memory:``) with a gateway's tables; one gateway at a time.

    ``write`` returns at once and is done soon; ``durable`` is over when its row, and all that was written before it, is
    safe from the end of this process (with ``durability="machine"`` also from a power cut). After a failure nothing
    more is promised: ``broken`` says why. ``reader`` reads what is committed, by whichever process, while the thread
    has the connection that writes.
    """

    def __init__(self, place: str | PathLike[str] = ":memory:", durability: Durability = "process") -> None:
        self.database = Database(place, create=True, durability=durability)
        self.reader = self._second()
        self._lock = RunLock(self.database.path, GATEWAY)
        if not self._lock.take():
            self.reader.close()
            self.database.close()
            raise StateError(f"{self.database.name} is in use by another gateway. Stop it, or name another store.")
        self.broken: StateError | None = None
        self._later: list[_Write] = []  # waits for company
        self._timer: asyncio.Handle | None = None
        self._now = False  # whether that is the end of this turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: queue.SimpleQueue[list[_Write] | None] = queue.SimpleQueue()
        self._away = 0  # batches that the thread has
        self._written = 0  # transactions of the event loop
        self._thread: threading.Thread | None = None
        self._at_once = self._pragma("synchronous") != FULL

    def start(self) -> None:
        """Begin to write; before that, the database may be read and written directly."""
        self.database.indexes(0)  # rows are written once and seldom read: little of the file need be in memory
        if self._at_once:
            self._pragma(f"wal_autocheckpoint = {MOST_PAGES}")
        self._pragma(f"busy_timeout = {0 if self._at_once else PATIENCE}")
        self._thread = threading.Thread(target=self._work, name="pets-books", daemon=True)
        self._thread.start()

    def write(self, sql: str, *values: Any) -> None:
        """Write soon."""
        self._later.append(_Write(sql, values))
        if self._timer is None:
            self._loop = asyncio.get_running_loop()
            self._timer = self._loop.call_later(SOON, self._flush)

    async def durable(self, sql: str, *values: Any) -> None:
        """Write, and wait until it is safe."""
        self._loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = self._loop.create_future()
        self._later.append(_Write(sql, values, done))
        if not self._now:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._now = self._loop.call_soon(self._flush), True
        await done

    def close(self) -> None:
        """Write what is left and give the store back; twice does no harm."""
        if self._thread is not None:
            if batch := self._taken():
                self._queue.put(batch)
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self.reader.close()
        self.database.close()
        self._lock.give_back()

    def _second(self) -> Database:
        """Another connection to the same store; one in memory has but one."""
        if self.database.path is None:
            return self.database
        reader = Database(self.database.path, create=False, durability="process")
        reader.indexes(0)
        reader.one(f"PRAGMA busy_timeout = {READING}")
        return reader

    def _taken(self) -> list[_Write]:
        """What waits, which waits no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._now = None, False
        batch, self._later = self._later, []
        return batch

    def _flush(self) -> None:
        """To the store, or to the thread; behind what the thread has already."""
        batch = self._taken()
        if not self._at_once or self._away or not self._commit(batch):
            self._away += 1
            self._queue.put(batch)
            return
        self._tell(batch)
        self._written += 1
        if self._written % CHECKPOINT == 0:
            self._queue.put([])

    def _commit(self, batch: Sequence[_Write]) -> bool:
        """All of it in one transaction; False if somebody else is writing and this connection does not wait."""
        connection = self.database.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for one in batch:
                connection.execute(one.sql, one.values)
            connection.execute("COMMIT")
        except (sqlite3.Error, OverflowError) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if getattr(error, "sqlite_errorname", "").startswith(BUSY) and self.broken is None:
                return False
            self.broken = StateError(f"{self.database.name} failed ({error}). Free the file or the disk.")
        return True

    def _tell(self, batch: Sequence[_Write], back: bool = False) -> None:
        """Those who wait for it; ``back``: it comes from the thread."""
        self._away -= back
        for one in batch:
            if one.done is None or one.done.done():  # nobody waits, or its request has gone
                continue
            if self.broken is None:
                one.done.set_result(None)
            else:
                one.done.set_exception(self.broken)

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            if not batch:
                self._checkpoint()
                continue
            self._patiently(batch)
            assert self._loop is not None  # whoever wrote is in it
            with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                self._loop.call_soon_threadsafe(self._tell, batch, True)

    def _patiently(self, batch: Sequence[_Write]) -> None:
        """Commit, however long another process writes."""
        self._pragma(f"busy_timeout = {PATIENCE}")
        if not self._commit(batch):
            self.broken = StateError(f"{self.database.name} was in use for {PATIENCE // 1000} seconds. Free the file.")
        self._pragma(f"busy_timeout = {0 if self._at_once else PATIENCE}")

    def _checkpoint(self) -> None:
        """From the write-ahead log into the file, as far as nobody has to wait for it."""
        if self.database.path is not None:
            with suppress(sqlite3.Error), closing(sqlite3.connect(self.database.path)) as own:
                own.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _pragma(self, words: str) -> Any:
        row = self.database.connection.execute(f"PRAGMA {words}").fetchone()
        return None if row is None else row[0]
