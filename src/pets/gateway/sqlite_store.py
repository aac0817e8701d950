"""``SQLiteStore``: the ledger of one gateway, in a file or in memory. Its balances are the ledger's sums."""

import math
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from os import PathLike

from pets.core.money import Currency
from pets.core.queues import ReplicaTotals
from pets.errors import StateError
from pets.gateway.auth import KeyStore
from pets.gateway.ledger_store import TOTAL, LedgerStore, Operation, SpendRateLimit, StoreSnapshot
from pets.gateway.telemetry import LOGGER
from pets.store.database import Durability
from pets.store.sqlite import SQLiteDatabase

INSERT = (
    "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held, tokens, prompt_tokens, day) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE = (
    "UPDATE ledger SET spent = ?, delivered = ?, tokens = ?, prompt_tokens = ?, estimated = ?, claimed_more = ?, "
    "cancelled = ? WHERE id = ? AND spent IS NULL"
)
PROBE = "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held) VALUES (-1, 0, '', ?, 'probe', '', 0, 0)"
REMOVE_PROBE = "DELETE FROM ledger WHERE id = -1"
CHARGE_OPEN = "UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL"

SETTLE_DELAY_S = 0.05
GATEWAY_LOCK = 0  # runs count from 1; the lock of number 0 is the gateway's
BUSY_TIMEOUT_MS = 60_000  # that the thread waits for another writer
READ_TIMEOUT_MS = 100  # in the event loop: a store that was just opened may be in repair
MAX_LOG_PAGES = 32_000  # of the write-ahead log, before a commit makes room by itself
PROBE_BYTES = 64 << 10  # that must fit into a store that failed before it is trusted again
SYNCHRONOUS_FULL = 2  # SQLite's "synchronous" that survives a power cut


class SQLiteStore(LedgerStore):
    """A store of one gateway at a time; what it had open when it died is charged in full by the next one.

    Commits survive the end of this process, with ``durability="machine"`` also a power cut: then the disk is waited
    for. Keys are read over a connection of their own, which sees what is committed, by whichever process.
    """

    database: SQLiteDatabase
    look_every_s = 1.0

    def __init__(
        self,
        path: str | PathLike[str] = ":memory:",
        durability: Durability = "process",
        clock: Callable[[], float] = time.time,
    ) -> None:
        database = SQLiteDatabase(path, create=True, durability=durability)
        if (release := database.lock_run(GATEWAY_LOCK)) is None:
            database.close()
            raise StateError(f"{database.name} is in use by another gateway. Stop it, or name another store.")
        self._release, self.reader = release, database  # a store in memory has but one connection
        if database.path is not None:
            self.reader = SQLiteDatabase(database.path, create=False, durability="process")
            self.reader.size_cache_for(0)
            self.reader.one(f"PRAGMA busy_timeout = {READ_TIMEOUT_MS}")
        super().__init__(database, KeyStore(self.reader), clock)
        self._waits_for_disk = database.one("PRAGMA synchronous") == (SYNCHRONOUS_FULL,)
        if not self._waits_for_disk:
            self.settle_delay_s = SETTLE_DELAY_S
        self._is_checkpointed = True

    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> tuple[int, StoreSnapshot]:
        database = self.database
        with database.transaction() as transaction:
            transaction.execute(CHARGE_OPEN)
        ((last_id, last_at),) = database.all("SELECT max(id), max(at) FROM ledger")
        self.latest = -math.inf if last_at is None else last_at  # a clock that was set back opens no window twice
        spent, converted = self._sums(currency, self.now(), rate_limit)
        if converted:
            words = currency.words(spent[TOTAL])
            LOGGER.warning("%d ledger entries are in another unit: with them, %s are spent.", converted, words)
        if rate_limit is not None and (ahead := self.latest - self.clock()) > 1:
            LOGGER.warning("the clock is %.0f seconds behind the store: its last window goes on until then.", ahead)
        database.size_cache_for(0)  # rows are written once and seldom read: little of the file need be in memory
        if not self._waits_for_disk:
            database.one(f"PRAGMA wal_autocheckpoint = {MAX_LOG_PAGES}")
        database.one("PRAGMA busy_timeout = 0")  # in the event loop, which never waits for another writer
        return 1 + (last_id or 0), StoreSnapshot({name: (amount, 0) for name, amount in spent.items()})

    def commit_at_once(self, operations: Sequence[Operation]) -> StoreSnapshot | None:
        """As :meth:`LedgerStore.commit_at_once`: unless the disk or another process is waited for."""
        if not self._waits_for_disk:
            with suppress(sqlite3.Error, OverflowError):  # the thread tries again, and says what is wrong
                return self._commit(operations)
        return None

    def commit(self, operations: Sequence[Operation]) -> StoreSnapshot:
        """As :meth:`LedgerStore.commit`: however long another process writes."""
        with self._patience():
            return self._commit(operations)

    def _commit(self, operations: Sequence[Operation]) -> StoreSnapshot:
        made, void, self._is_checkpointed = set(), [], False
        with self._transaction() as connection:
            for operation in operations:
                row, charge = operation.reservation, operation.charge
                if charge is None:
                    about = row.id, self.latest, row.key, row.request, row.kind, row.unit
                    connection.execute(INSERT, (*about, row.traces, row.held, row.tokens, row.prompt_tokens, row.day))
                    made.add(row.id)
                elif not connection.execute(UPDATE, (*charge, row.id)).rowcount:
                    void.append(operation)
        return StoreSnapshot(made=made, void=void)

    def look(self, names: Collection[str], share: ReplicaTotals) -> None:
        """Move the write-ahead log into the file, as far as nobody has to wait for it."""
        if self.database.path is not None and not self._is_checkpointed:
            self._is_checkpointed = True
            with suppress(sqlite3.Error), closing(sqlite3.connect(self.database.path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def recover(self) -> None:
        """Write and take away a row that needs some room: what comes after it will find room, too."""
        with self._patience(), self._transaction() as connection:
            connection.execute(PROBE, (" " * PROBE_BYTES,))
            connection.execute(REMOVE_PROBE)

    def close(self) -> None:
        self.reader.close()
        super().close()
        self._release()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self.database.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Wait for another process that writes; what fails all the same is a ``StateError``."""
        self.database.one(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        try:
            yield
        except sqlite3.Error as error:
            is_busy = getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
            words = f"in use by another process for {BUSY_TIMEOUT_MS // 1000} seconds" if is_busy else str(error)
            raise StateError(words) from None
        finally:
            self.database.one("PRAGMA busy_timeout = 0")  # the event loop never waits
