"""``PostgresBackend``: one budget over all gateways that share a PostgreSQL.

The law of :mod:`pets.gateway.ledger` holds at every moment and for all replicas together. The store decides what is
free; the balances here are what it said last, with what is on its way to it, so that most requests that cannot be paid
for are refused without asking. Replicas also plan as one: each sees within a second how many questions the others took
in and what they spent, and so all have one price.

A thread takes all that is waiting into one transaction of :class:`~pets.gateway.shared_store.SharedStore`. When the
server cannot be reached, ``failure`` says why; reservations fail at once, settlements wait, and every RETRY_S the
thread tries again, at the end for CLOSE_TIMEOUT_S. A reservation whose transaction broke off may have been made: it is
taken back with the first transaction that follows.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from pets.core.allocator import Allocator
from pets.core.budget import Currency
from pets.core.queues import ReplicaTotals
from pets.errors import PetsError, StateError
from pets.gateway.ledger_backend import WINDOW, Balance, Charge, LedgerBackend, Reservation, SpendRateLimit
from pets.gateway.shared_store import BEAT_S, Operation, SharedStore, StoreSnapshot
from pets.gateway.telemetry import LOGGER
from pets.store.postgres import PostgresError

RETRY_S = 1.0  # between two tries to reach a server
STALLED_AFTER_S = 5.0  # that a transaction may take before requests are refused
CLOSE_TIMEOUT_S = 10.0  # that the end waits for a server
MAX_BATCH = 500  # operations in one transaction
IDS_PER_REPLICA = 1 << 32
FAILURE = "its PostgreSQL fails; the gateway's log says why"


class PostgresBackend(LedgerBackend):
    """Reserves and settles in a store that other gateways use at the same time; ``allocator`` plans as one with theirs.

    The balances belong to the event loop, ``store`` to the thread; operations go from one to the other by a queue.
    """

    def __init__(
        self, store: SharedStore, allocator: Allocator | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(store.keys, clock)
        self.store, self._allocator = store, allocator
        self._reasons: list[str] = []  # why it cannot be written, since it could: with the server's address and user
        self._began: float | None = None  # when the transaction under way did
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._waiting: list[Operation] = []  # settlements that have to be tried again
        self._thread = threading.Thread(target=self._work, name="pets-ledger", daemon=True)
        self._deadline: float | None = None  # until when the end is tried

    @property
    def failure(self) -> str | None:
        """As :attr:`LedgerBackend.failure`."""
        if not self._reasons and (began := self._began) is not None and time.monotonic() - began > STALLED_AFTER_S:
            return f"PostgreSQL has not answered for {time.monotonic() - began:.0f} seconds"
        return FAILURE if self._reasons else None

    @property
    def replica(self) -> tuple[str, int]:
        """As :attr:`LedgerBackend.replica`."""
        return self.store.name, 1 + self.store.other_replicas

    # -- the event loop's side --------------------------------------------------------------------------------------

    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> int:
        """As :meth:`LedgerBackend.open`: become a replica."""
        self.store.register(currency)
        for name in self.store.balance_names():
            if not name.startswith(WINDOW):
                self.balance(name)
        self._end((), self._look())
        if rate_limit is not None:
            self.window(rate_limit)
            self.store.open_window()
            self._end((), self._look())
        self._thread.start()
        LOGGER.info("replica", extra={"fields": {"replica": self.store.replica, "name": self.store.name}})
        return self.store.replica * IDS_PER_REPLICA

    def balance(self, name: str) -> Balance:
        """As :meth:`LedgerBackend.balance`: not known before the store has told."""
        return self.balances.setdefault(name, Balance(is_known=False))

    def window(self, rate_limit: SpendRateLimit) -> str:
        """As :meth:`LedgerBackend.window`: the store is told of it, too."""
        self.store.window = rate_limit.window(self.now())
        return super().window(rate_limit)

    async def reserve(self, reservation: Reservation) -> bool:
        """As :meth:`LedgerBackend.reserve`."""
        await self.begin()
        if (failure := self.failure) is not None:
            raise StateError(failure)
        made: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._put(Operation(reservation, made=made))
        return await made

    def settle(self, reservation: Reservation, charge: Charge) -> None:
        """As :meth:`LedgerBackend.settle`."""
        self._put(Operation(reservation, charge))

    def finish(self) -> None:
        """As :meth:`LedgerBackend.finish`."""
        if self._deadline is None:
            self._deadline = time.monotonic() + CLOSE_TIMEOUT_S
            self._queue.put(None)

    def close(self) -> None:
        """As :meth:`LedgerBackend.close`: this replica ends."""
        self.finish()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)
        self.store.close()

    def _put(self, operation: Operation) -> None:
        self._count(operation, 1)
        self._queue.put(operation)

    def _count(self, operation: Operation, sign: int) -> None:
        """Count an operation as on its way to the store, or no longer."""
        reservation, charge = operation.reservation, operation.charge
        if charge is None:
            self._move(reservation, 0, sign * reservation.held)
        else:
            self._move(reservation, sign * charge.spent, -sign * reservation.held)

    def _end(self, operations: Sequence[Operation], snapshot: StoreSnapshot, error: str | None = None) -> None:
        """Take in what a transaction came to: the balances of the store, and which reservations were made."""
        for operation in operations:
            if operation.is_counted:
                self._count(operation, -1)
        for name, (spent, held) in snapshot.balances.items():
            if (balance := self.balances.get(name)) is not None:
                balance.stored(spent, held)
        if snapshot.clock_offset_s is not None:
            self._clock_offset_s = snapshot.clock_offset_s
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
        looked, ending = 0.0, False
        while not ending:
            operations, ending = self._take(looked + BEAT_S - time.monotonic())
            self._began = time.monotonic()
            try:
                if operations:
                    self._tell(operations, self.store.commit(operations))
                    operations = []
                if time.monotonic() - looked >= BEAT_S:
                    self._tell((), self._look())
                    if self._reasons:
                        LOGGER.warning("%s can be written again", self.store.database.name)
                        self._reasons = []
                    looked = time.monotonic()
                if ending:
                    self.store.end_replica(self.store.replica)
            except Exception as error:  # noqa: BLE001 - whoever waits for the thread must hear of it
                self._fail(error)
                self._take_back(operations)
                if self._deadline is not None and time.monotonic() + RETRY_S > self._deadline:
                    LOGGER.error("%d settlements are lost: what they held is charged in full", len(self._waiting))
                    return
                if ending:
                    ending = False
                    self._queue.put(None)
                looked = 0.0
                self._began = None
                time.sleep(RETRY_S)
                try:
                    self.store.reconnect()
                except (PostgresError, PetsError) as again:
                    self._fail(again)
            self._began = None

    def _fail(self, error: Exception) -> None:
        """Refuse requests, and log each reason once until the store can be written again."""
        reason = " ".join(str(error).split())
        if not isinstance(error, (PostgresError, PetsError)):
            reason = f"{type(error).__name__}: {reason}"
            if not self._reasons:
                LOGGER.error("the ledger's thread failed", exc_info=error)
        if reason not in self._reasons:
            LOGGER.error("%s; requests are refused until it can be written", reason)
            self._reasons.append(reason)

    def _look(self) -> StoreSnapshot:
        share = ReplicaTotals() if self._allocator is None else self._allocator.totals
        return self.store.look(list(self.balances), share)

    def _take(self, timeout_s: float) -> tuple[list[Operation], bool]:
        """Take all operations in the queue, or the first within the timeout; and whether they are the last."""
        operations, self._waiting = self._waiting, []
        ending = False
        with suppress(queue.Empty):
            wait_s = 0.0 if operations else max(0.0, timeout_s)
            while len(operations) < MAX_BATCH and not ending:
                operation = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
                wait_s = 0.0
                if operation is None:
                    ending = True
                else:
                    operations.append(operation)
        made = {operation.reservation.id for operation in operations if operation.charge is None}
        # What is made now is settled with the next transaction.
        self._waiting = [op for op in operations if op.charge is not None and op.reservation.id in made]
        if self._waiting:
            operations = [op for op in operations if op.charge is None or op.reservation.id not in made]
            if ending:
                self._queue.put(None)
        return operations, ending and not self._waiting

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
        self._tell(broken, StoreSnapshot(), FAILURE)
