"""The ledger's rows in a store: written by a thread of its own, many in one transaction, durable when awaited."""

import asyncio
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from pets.errors import StateError
from pets.store.database import Database, Durability
from pets.store.lock import RunLock

__all__ = ["Books"]

BATCH = 512  # rows in one transaction, about
SOON = 0.05  # seconds
GATEWAY = 0  # runs count from 1; the lock of number 0 is the gateway's


@dataclass(slots=True)
class _Write:
    sql: str
    values: Sequence[Any]
    done: asyncio.Future[None] | None = field(default=None)


class Books:
    """A store (or ``:memory:``) with a gateway's tables; one gateway at a time.

    ``write`` returns at once and is done soon; ``durable`` is over when its row, and all that was written before it, is
    safe from the end of this process (with ``durability="machine"`` also from a power cut). After a failure nothing
    more is promised: ``broken`` says why.
    """

    def __init__(self, place: str | PathLike[str] = ":memory:", durability: Durability = "process") -> None:
        self.database = Database(place, create=True, durability=durability)
        self._lock = RunLock(self.database.path, GATEWAY)
        if not self._lock.take():
            self.database.close()
            raise StateError(f"{self.database.name} is in use by another gateway. Stop it, or name another store.")
        self.broken: StateError | None = None
        self._queue: queue.SimpleQueue[list[_Write] | None] = queue.SimpleQueue()
        self._later: list[_Write] = []  # waits for company: waking the thread costs more than a row
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write; before that, the database may be read and written directly."""
        self._thread = threading.Thread(target=self._work, name="pets-books", daemon=True)
        self._thread.start()

    def write(self, sql: str, *values: Any) -> None:
        """Write soon."""
        self._later.append(_Write(sql, values))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SOON, self._flush)

    async def durable(self, sql: str, *values: Any) -> None:
        """Write, and wait until it is safe."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._later.append(_Write(sql, values, done))
        self._flush()
        await done

    def close(self) -> None:
        """Write what is left and give the store back; twice does no harm."""
        if self._thread is not None:
            self._flush()
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self.database.close()
        self._lock.give_back()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._later:
            self._queue.put(self._later)
            self._later = []

    def _work(self) -> None:
        open_for_more = True
        while open_for_more:
            batch, open_for_more = self._next()
            if not batch:
                continue
            try:
                with self.database.transaction() as connection:
                    for one in batch:
                        connection.execute(one.sql, one.values)
            except StateError as error:
                self.broken = error
            for one in batch:
                if one.done is None:
                    continue
                with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                    one.done.get_loop().call_soon_threadsafe(_resolve, one.done, self.broken)

    def _next(self) -> tuple[list[_Write], bool]:
        """What waits to be written, and whether more may come."""
        batch: list[_Write] = []
        some = self._queue.get()
        while some is not None:
            batch += some
            if len(batch) >= BATCH or self._queue.empty():
                return batch, True
            some = self._queue.get()
        return batch, False


def _resolve(done: asyncio.Future[None], error: StateError | None) -> None:
    if done.done():  # its request has gone
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
