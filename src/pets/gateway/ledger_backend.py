"""``LedgerBackend``: writes a gateway's reservations and settlements to its store, many in one transaction.

The law of :mod:`pets.gateway.ledger` holds at every moment, for all gateways that share a store together. The store
decides what is free; the balances here are what it said last, with what is on its way to it, so that most requests that
cannot be paid for are refused without asking.

What only has to survive the end of this process takes a few microseconds to commit to a file, less than it takes to
wake a thread: the event loop commits it itself, at the end of its turn, for all requests of that turn. What waits for a
disk, a server or another process is handed to a thread, which takes all that is waiting into one transaction.

An operation's way (loop: the event loop; thread: the backend's own):

    settle() ---> pending --settle_delay_s later--+
    reserve() --> pending --end of this turn------+--> _flush (loop)
                                                         |
             the store commits at once                   |  it does not, it fails, or the thread has others before it
                     +-----------------------------------+------------------+
                     v                                                      v
           _end (loop): reserve() returns <------------------------ _work (thread)

While the thread has anything (``_under_way`` > 0) all else goes behind it: operations are committed in order, and only
one of loop and thread uses the connection at a time.

A transaction that fails (a full disk, a server that is away) sets ``failure``: its reservations raise it, and so does
every reservation from then on, at once; settlements wait. Every RETRY_S the thread tries again, at the end for
CLOSE_TIMEOUT_S; once it succeeds, ``failure`` is cleared, and the store has all that is in memory. A reservation whose
transaction broke off may have been made: it is taken back with the first transaction that follows.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from pets.core.allocator import Allocator
from pets.core.money import Currency
from pets.core.queues import ReplicaTotals
from pets.errors import PetsError, StateError
from pets.gateway.ledger_store import (
    KEY_WINDOW,
    WINDOW,
    Balance,
    Charge,
    LedgerStore,
    Operation,
    Reservation,
    SpendRateLimit,
    StoreSnapshot,
)
from pets.gateway.telemetry import LOGGER

RETRY_S = 1.0  # between two tries to write to a store that failed
CLOSE_TIMEOUT_S = 10.0  # that the end tries to
MAX_BATCH = 500  # operations in one transaction, before more are added


class LedgerBackend:
    """Reserves and settles in a store: opened, used in one event loop, closed. ``allocator`` plans as one with those of
    other gateways on the same store: each sees within a second what the others took.

    The balances belong to the event loop; the store to the thread, while that has anything.
    """

    def __init__(self, store: LedgerStore, allocator: Allocator | None = None) -> None:
        self.store, self._allocator = store, allocator
        self.balances: dict[str, Balance] = {}
        self._windows: dict[str, str] = {}  # the latest of each series, which have one name but for the number
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: list[Operation] = []
        self._timer: asyncio.TimerHandle | None = None  # of the next flush, where settlements alone are pending
        self._under_way = 0  # operations that are being committed; between the loop's turns, by the thread
        self._queue: queue.SimpleQueue[list[Operation]] = queue.SimpleQueue()
        self._waiting: list[Operation] = []  # the thread's, to be tried again
        self._reasons: list[str] = []  # why the store cannot be written, since it could
        self._began: float | None = None  # when the transaction under way did
        self._thread = threading.Thread(target=self._work, name="pets-ledger", daemon=True)
        self._deadline: float | None = None  # until when the end is tried

    @property
    def failure(self) -> str | None:
        """Why nothing can be reserved now, as anybody may read it; None where it can."""
        if self._reasons:
            return self.store.failure_words or self._reasons[-1]
        if (began := self._began) is not None and time.monotonic() - began > self.store.stalled_after_s:
            return f"PostgreSQL has not answered for {time.monotonic() - began:.0f} seconds"
        return None

    # -- the event loop's side --------------------------------------------------------------------------------------

    def balance(self, name: str) -> Balance:
        """The balance of this name. It begins with nothing, and takes the place of the one of the window before; what
        others may have spent of it is not known before the store has told."""
        if (balance := self.balances.get(name)) is None:
            balance = self.balances[name] = Balance(is_known=self.store.replicas is None)
            if name.startswith((WINDOW, KEY_WINDOW)):
                series, _, _ = name.rpartition(" ")
                self.balances.pop(self._windows.get(series, ""), None)
                self._windows[series] = name
        return balance

    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> int:
        """Read what was spent and begin to write; the value is the first id that is free for a reservation."""
        first_id, snapshot = self.store.open(currency, rate_limit)
        for name in sorted(snapshot.balances, key=lambda name: (len(name), name)):  # of each series the latest last
            self.balance(name)
        self._end((), snapshot)
        self._thread.start()
        return first_id

    def begin(self) -> None:
        """Report to this event loop from now on, also what other gateways spend."""
        self._loop = asyncio.get_running_loop()

    async def reserve(self, reservation: Reservation) -> bool:
        """Hold and write a reservation, durably; False where the store knows that it is not free.

        ``StateError`` where the store cannot be written: then nothing is held.
        """
        if (failure := self.failure) is not None:
            raise StateError(failure)
        self._loop = asyncio.get_running_loop()
        made: asyncio.Future[bool] = self._loop.create_future()
        self._add(Operation(reservation, made=made))
        self._loop.call_soon(self._flush)  # the first of a turn takes all
        return await made

    def settle(self, reservation: Reservation, charge: Charge) -> None:
        """Move what was held to what was spent; written soon, or as soon as the store can be written again."""
        self._add(Operation(reservation, charge))
        if self._timer is None:
            self._loop = asyncio.get_running_loop()
            self._timer = self._loop.call_later(self.store.settle_delay_s, self._flush)

    def finish(self) -> None:
        """Accept no more; what was accepted is written. Call it in the event loop, before ``close``."""
        if self._deadline is None:
            self._queue.put(self._take_pending())
            self._deadline = time.monotonic() + CLOSE_TIMEOUT_S
            self._queue.put([])  # so that the thread sees it now

    def close(self) -> None:
        """Wait until all is written and release the store; twice does no harm."""
        self.finish()
        if self._thread.is_alive():
            self._thread.join(self.store.close_timeout_s)
        self.store.close()

    def _add(self, operation: Operation) -> None:
        self._count(operation, 1)
        self._pending.append(operation)

    def _count(self, operation: Operation, sign: int) -> None:
        """Count an operation as on its way to the store, or no longer."""
        charge, held = operation.charge, sign * operation.reservation.held
        spent, held = (0, held) if charge is None else (sign * charge.spent, -held)
        for name, _ in operation.reservation.limits:
            if (balance := self.balances.get(name)) is not None:  # else of a window that is over
                balance.move(spent, held)

    def _take_pending(self) -> list[Operation]:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        operations, self._pending = self._pending, []
        self._under_way += len(operations)
        return operations

    def _flush(self) -> None:
        """Commit what is pending, or hand it to the thread, behind what that has already."""
        at_once = not self._under_way and not self._reasons
        if operations := self._take_pending():
            snapshot = self.store.commit_at_once(operations) if at_once else None
            if snapshot is None:
                self._queue.put(operations)
            else:
                self._end(operations, snapshot)

    def _end(self, operations: Sequence[Operation], snapshot: StoreSnapshot, error: str | None = None) -> None:
        """Take in what a transaction came to: the balances of the store, and which reservations were made."""
        self._under_way -= sum(operation.is_counted for operation in operations)
        for operation in snapshot.void:
            if operation.is_counted:
                self._count(operation, -1)
        for name, (spent, held) in snapshot.balances.items():
            if (balance := self.balances.get(name)) is not None:
                balance.stored(spent, held)
        if snapshot.others is not None and self._allocator is not None:
            self._allocator.sync_replicas(snapshot.others)
        for operation in operations:
            if operation.made is None or operation.made.done():
                continue
            if error is not None:
                operation.made.set_exception(StateError(error))
            else:
                operation.made.set_result(operation.reservation.id in snapshot.made)

    # -- the thread's side ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        look_at, ending = 0.0, False
        while not ending:
            operations = self._take(look_at - time.monotonic())
            ending = self._deadline is not None and self._queue.empty() and not self._waiting
            self._began = time.monotonic()
            try:
                if self._reasons:
                    self.store.recover()
                if operations:
                    self._tell(operations, self.store.commit(operations))
                    operations = []
                if time.monotonic() >= look_at:
                    share = ReplicaTotals() if self._allocator is None else self._allocator.totals
                    if (snapshot := self.store.look(list(self.balances), share)) is not None:
                        self._tell((), snapshot)
                    look_at = time.monotonic() + self.store.look_every_s
                if ending:
                    self.store.end()
                if self._reasons:
                    LOGGER.warning("%s can be written again", self.store.database.name)
                    self._reasons = []
            except Exception as error:  # noqa: BLE001 - whoever waits for the thread must hear of it
                self._fail(error)
                self._take_back(operations)
                if self._deadline is not None and time.monotonic() + RETRY_S > self._deadline:
                    LOGGER.error("%d settlements are lost: what they held is charged in full", len(self._waiting))
                    return
                look_at, ending, self._began = 0.0, False, None
                time.sleep(RETRY_S)
            self._began = None

    def _fail(self, error: Exception) -> None:
        """Refuse requests, and log each reason once until the store can be written again."""
        reason = " ".join(str(error).split())
        if not isinstance(error, (self.store.database.driver_error, PetsError)):
            reason = f"{type(error).__name__}: {reason}"
            if not self._reasons:
                LOGGER.error("the ledger's thread failed", exc_info=error)
        if reason not in self._reasons:
            words = "%s cannot be written (%s); requests are refused until it can"
            LOGGER.error(words, self.store.database.name, reason)
            self._reasons.append(reason)

    def _take(self, timeout_s: float) -> list[Operation]:
        """Take all operations in the queue, or the first within the timeout."""
        operations, self._waiting = self._waiting, []
        with suppress(queue.Empty):
            wait_s = 0.0 if operations else max(0.0, timeout_s)
            while len(operations) < MAX_BATCH:
                operations += self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
                wait_s = 0.0
        made = {operation.reservation.id for operation in operations if operation.charge is None}
        # What is made now is settled with the next transaction.
        self._waiting = [op for op in operations if op.charge is not None and op.reservation.id in made]
        return [op for op in operations if op.charge is None or op.reservation.id not in made]

    def _tell(self, operations: Sequence[Operation], snapshot: StoreSnapshot, error: str | None = None) -> None:
        """Hand the outcome of a transaction to the event loop."""
        if self._loop is not None:
            with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                self._loop.call_soon_threadsafe(self._end, operations, snapshot, error)

    def _take_back(self, operations: Sequence[Operation]) -> None:
        """Try again what a broken transaction settled, and undo its reservations, which may have been made."""
        broken = [op for op in operations if op.charge is None]
        undone = [Operation(op.reservation, Charge(), is_counted=False) for op in broken]
        self._waiting = [op for op in operations if op.charge is not None] + undone + self._waiting
        self._tell(broken, StoreSnapshot(void=broken), self.failure)
