"""``SharedWriter``: the ledger's transactions on a PostgreSQL that gateway replicas share.

A thread takes all that is waiting, reservations and settlements, into one transaction, which is one call of a function
of the connection's own (:mod:`pets.gateway.ledger_function`):

    own row of ``replicas``     FOR SHARE: as long as it is there, nobody else settles this replica's entries
    own rows of ``ledger``      settled where they are still open
    rows of ``balances``        FOR UPDATE in the order of their names; what does not fit is refused
    new rows of ``ledger``      then the balances are moved, and the transaction committed

New balances are begun before it, one replica at a time; an old window's, which may have been dropped, is not: a
reservation that was on its way for so long is refused, and tried again in the present window.

The server decides what fits, first come, first served: while the balances are locked, nobody waits for a client. Every
transaction takes its locks in this order, so none waits for another in a circle. It commits without waiting for the
disk, which frees the balances for the other replicas at once; the beat that follows waits for the disk, and with it
everything before it is durable. Only then a reservation counts as made.

A replica's ``beat`` goes up with every transaction, at least every BEAT_S. One whose beat stands for DEAD_AFTER_S,
while this replica's own goes on, is dead: what it had open is charged in full, for nobody knows what became of it, and
its row is ended. Should it live after all, it goes on under a new row, and what was charged stays charged.

When the server cannot be reached, ``failure`` says why; reservations fail at once, settlements wait, and every RETRY_S
the thread tries again, at the end for CLOSE_TIMEOUT_S. A reservation whose transaction broke off may have been made: it
is taken back with the first transaction that follows. A process that freezes within a transaction of several messages
loses its connection (``IDLE_TRANSACTION_TIMEOUT_S`` of the store), and with it the locks for which the others wait.
"""

import asyncio
import json
import os
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields

from pets.core.budget import Currency
from pets.core.queues import ReplicaTotals
from pets.errors import PetsError, StateError
from pets.gateway.auth import CachedKeyStore
from pets.gateway.ledger import SPENT_SINCE, TOTALS, prices_of
from pets.gateway.ledger_function import CALL_WRITE, NOW, VOID, WRITE, Operation, call_values
from pets.gateway.telemetry import LOGGER
from pets.store.database import Transaction
from pets.store.postgres import PostgresDatabase, PostgresError, to_postgres

__all__ = ["TOTAL", "WINDOW", "SharedWriter", "StoreSnapshot"]

BEAT_S = 0.25  # between two looks at the store, so that replicas see each other's spend within a second
DEAD_AFTER_S = 30.0
RETRY_S = 1.0  # between two tries to reach a server
STALLED_AFTER_S = 5.0  # that a transaction may take before requests are refused
CLOSE_TIMEOUT_S = 10.0  # that the end waits for a server
MAX_BATCH = 500  # operations in one transaction
TOTAL = "total"
WINDOW = "window "  # how the names of windows' balances begin
FAILURE = "its PostgreSQL fails; the gateway's log says why"

REPLICA_LOCK = "SELECT pg_advisory_xact_lock(hashtext('pets gateway ' || current_schema()))"
BEAT = "UPDATE replicas SET beat = beat + 1 WHERE id = $1"
LOCK_BALANCES = "SELECT name, spent, held FROM balances WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE"
# By a replica that has not ended: one that has may not begin a window again. Nor is a window begun that may have been
# dropped: one that another follows by two or more ($2: the next of each that is a window's). Longer names are of later
# windows.
MAKE_BALANCES = (
    "INSERT INTO balances SELECT name, 0, 0 FROM unnest($1::text[], $2::text[]) AS t (name, next) "
    "WHERE EXISTS (SELECT 1 FROM replicas WHERE id = $3 AND ended IS NULL FOR SHARE) "
    "AND NOT EXISTS (SELECT 1 FROM balances b WHERE starts_with(b.name, regexp_replace(t.next, '[0-9]+$', '')) "
    'AND (length(b.name), b.name COLLATE "C") > (length(t.next), t.next COLLATE "C")) '
    "ORDER BY name ON CONFLICT DO NOTHING"
)
DROP_WINDOWS = (  # $1: their prefix; $2: the first that stays. Longer names are of later windows
    "DELETE FROM balances WHERE name IN (SELECT name FROM balances WHERE name LIKE $1 || '%' AND held = 0 "
    'AND (length(name), name COLLATE "C") < (length($2), $2 COLLATE "C") FOR UPDATE SKIP LOCKED)'
)
MOVE_BALANCES = (
    "UPDATE balances b SET spent = b.spent + t.spent, held = b.held + t.held "
    "FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS t (name, spent, held) WHERE b.name = t.name "
    "RETURNING b.name, b.spent, b.held"
)
CHARGE = (
    "UPDATE ledger SET spent = held, delivered = 0 WHERE replica = $1 AND spent IS NULL "
    "RETURNING key, kind, rate_window, held"
)
OTHERS = "SELECT id, beat, share FROM replicas WHERE ended IS NULL AND id <> $1"


@dataclass(slots=True)
class StoreSnapshot:
    """What the store said after a transaction: balances by name, which entries were made, what other replicas took."""

    balances: dict[str, tuple[int, int]] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    others: ReplicaTotals | None = None
    clock_offset_s: float | None = None  # the server's clock is so far ahead
    error: str | None = None


class SharedWriter:
    """The one who talks to the store for a replica: see the module's docstring.

    ``keys`` are the store's, never older than a moment. ``share`` says what this replica has taken of the common plan.
    ``on_end`` is called in the event loop with the operations that a transaction ended, and what it found.
    """

    def __init__(self, url: str, name: str = "") -> None:
        self.database = PostgresDatabase(url, create=True)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.keys = CachedKeyStore(self.database)
        self.replica = 0
        self.share: Callable[[], ReplicaTotals] = ReplicaTotals
        self.on_end: Callable[[Sequence[Operation], StoreSnapshot], None] = lambda operations, snapshot: None
        self._url = url
        self._settings = ""
        self._currency = Currency()
        self._failure: str | None = None  # as the log has it: with the server's address and user
        self._logged: set[str] = set()  # failures since the store could last be written
        self._began: float | None = None  # of the transaction under way
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._waiting: list[Operation] = []  # settlements that have to be tried again
        self.window: tuple[str, float] | None = None  # the present one: the name of its balance, and when it began
        self._watched: frozenset[str] = frozenset()  # balances that are read with every look
        self._known: set[str] = set()  # balances that are there
        self._prepared: object = None  # the connection that has the function
        self._seen: dict[int, tuple[int, float]] = {}  # of other replicas: their beat, and since when it stands
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadline: float | None = None  # until when the end is tried

    @property
    def failure(self) -> str | None:
        """Why nothing can be reserved now, as anybody may read it; None where it can."""
        began = self._began
        if self._failure is None and began is not None and time.monotonic() - began > STALLED_AFTER_S:
            return f"PostgreSQL has not answered for {time.monotonic() - began:.0f} seconds"
        return None if self._failure is None else FAILURE

    @property
    def other_replicas(self) -> int:
        """How many other replicas were there at the last look."""
        return len(self._seen)

    # -- the event loop's side --------------------------------------------------------------------------------------

    def register(self, currency: Currency) -> None:
        """Become a replica; refused where another counts in other prices. The first of all adds up the ledger."""
        self._currency = currency
        prices = {name: value for name, value in asdict(currency).items() if name != "hold"}
        self._settings = json.dumps({**prices, "rates": []}, sort_keys=True)  # as gateways of before wrote them
        self._prepare()  # a server that does not let us is heard of at the start, not at the first request
        self._end_dead_rivals()
        with self.database.transaction() as transaction:
            transaction.execute(REPLICA_LOCK)
            rows = transaction.execute("SELECT name, settings FROM replicas WHERE ended IS NULL").fetchall()
            for name, settings in rows:
                if settings != self._settings:
                    raise self._refusal(name, settings)
            if not rows:
                self._add_up(currency)
            self._open_window(transaction)
            (self.replica,) = transaction.execute(
                f"INSERT INTO replicas (name, started, beat, settings, share) VALUES ($1, {NOW}, 0, $2, '{{}}') "
                "RETURNING id",
                (self.name, self._settings),
            ).fetchone()

    def _end_dead_rivals(self) -> None:
        """Charge what gateways that count in other prices had open, if their beat stands still; refused if not."""
        rivals = self._rivals()
        if rivals:
            LOGGER.warning(
                "%s: a gateway that counts in another unit or at another price was not stopped; it counts as gone if "
                "nothing is heard of it for %g seconds.",
                *(self.database.name, DEAD_AFTER_S),
            )
        until = time.monotonic() + DEAD_AFTER_S
        while rivals and time.monotonic() < until:
            time.sleep(BEAT_S)
            before, rivals = rivals, self._rivals()
            for id, (beat, name, settings) in rivals.items():
                if id not in before or beat != before[id][0]:
                    raise self._refusal(name, settings)
        for id, (beat, _, _) in rivals.items():
            self._charge(id, beat)

    def _rivals(self) -> dict[int, tuple[int, str, str]]:
        """The beat, name and settings of replicas that count in other prices."""
        sql = "SELECT id, beat, name, settings FROM replicas WHERE ended IS NULL AND settings <> ?1"
        return {id: (beat, name, settings) for id, beat, name, settings in self.database.all(sql, self._settings)}

    def _refusal(self, name: str, settings: str) -> StateError:
        return StateError(
            f"{self.database.name} is in use by the gateway {name}, which counts in {json.loads(settings)['unit']} "
            "or at another price. Start all alike, or stop that one first."
        )

    def start(self) -> None:
        """Begin to write; before that, the database may be read and written directly."""
        self._thread = threading.Thread(target=self._work, name="pets-ledger", daemon=True)
        self._thread.start()

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell this loop from now on what transactions ended in."""
        self._loop = loop

    def watch(self, names: Iterable[str]) -> None:
        """Read these balances with every look at the store."""
        self._watched = frozenset(names)

    def put(self, operation: Operation) -> None:
        """Have an operation written with the next transaction."""
        self._queue.put(operation)

    def finish(self) -> None:
        """Take no more operations; what is there is written."""
        if self._deadline is None:
            self._deadline = time.monotonic() + CLOSE_TIMEOUT_S
            self._queue.put(None)

    def close(self) -> None:
        """Wait until all is written, end this replica and release the store; a second call does nothing."""
        self.finish()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
            self._thread = None
        self.database.close()

    # -- the thread's side ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        looked = 0.0
        ending = False
        while not ending:
            operations, ending = self._take(looked + BEAT_S - time.monotonic())
            self._began = time.monotonic()
            snapshot = StoreSnapshot()
            try:
                if operations:
                    self.commit(operations, snapshot)
                if time.monotonic() - looked >= BEAT_S:
                    self._look(snapshot)
                    looked = time.monotonic()
                if ending:
                    self._charge(self.replica, beat=None)
            except (PostgresError, PetsError) as error:
                snapshot.error = _words(error)
            except Exception as error:  # noqa: BLE001 - whoever waits for the thread must hear of it
                snapshot.error = f"{type(error).__name__}: {_words(error)}"
                if self._failure is None:
                    LOGGER.exception("the ledger's thread failed")
            self._began = None
            self._end(operations, snapshot)
            if snapshot.error is not None:
                if self._deadline is not None and time.monotonic() + RETRY_S > self._deadline:
                    LOGGER.error("%d settlements are lost: what they held is charged in full", len(self._waiting))
                    return
                if ending:
                    ending = False
                    self._queue.put(None)
                time.sleep(RETRY_S)
                self._reconnect()
                looked = 0.0

    def _take(self, timeout_s: float) -> tuple[list[Operation], bool]:
        """All that waits, or what comes first within the timeout; and whether it is the last."""
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
        made = {operation.entry.id for operation in operations if operation.settlement is None}
        # What is made now is settled with the next transaction.
        self._waiting = [op for op in operations if op.settlement is not None and op.entry.id in made]
        if self._waiting:
            operations = [op for op in operations if op.settlement is None or op.entry.id not in made]
            if ending:
                self._queue.put(None)
        return operations, ending and not self._waiting

    def commit(self, operations: Sequence[Operation], snapshot: StoreSnapshot) -> None:
        """One transaction, as the module's docstring has it; by the thread, or before :meth:`start`."""
        connection = self.database.connection
        names = sorted({name for operation in operations for name, _ in operation.entry.limits})
        if missing := [name for name in names if name not in self._known]:
            self._make_balances(missing)
        self._prepare()
        values = call_values(names, operations)
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute("SET LOCAL synchronous_commit TO off")
            written = connection.execute(CALL_WRITE, (self.replica, *values))
            connection.execute("COMMIT")
            connection.execute(BEAT, (self.replica,))  # waits for the disk, and so for the commit before it
        made, known, spents, helds = written.fetchone() or (None,) * 4
        if known is None:  # others have ended this replica
            self._rejoin()
            self.commit(operations, snapshot)
            return
        snapshot.made.update(made)
        snapshot.balances.update(zip(known, zip(spents, helds, strict=True), strict=True))
        self._known.difference_update(name for name in names if name not in snapshot.balances)

    def _prepare(self) -> None:
        """Make the function of the connection, where it has none yet."""
        if self._prepared is not self.database.connection:
            with self.database.transaction() as transaction:
                transaction.execute(WRITE)
            self._prepared = self.database.connection

    def _make_balances(self, names: Sequence[str]) -> None:
        """Begin balances that may not be there; with the present window, those before the last one go.

        One replica at a time: what others have dropped is seen, however long this transaction was on its way.
        """
        later = [_window_name(name, 1) if name.startswith(WINDOW) else None for name in names]
        with self.database.transaction() as transaction:
            transaction.execute(REPLICA_LOCK)
            transaction.execute(MAKE_BALANCES, (names, later, self.replica))
            if self.window is not None and self.window[0] in names:
                last = _window_name(self.window[0], -1)
                transaction.execute(DROP_WINDOWS, (last.rpartition(" ")[0] + " ", last))
        self._known.update(names)

    def _look(self, snapshot: StoreSnapshot) -> None:
        """Beat, and see what others did: balances, keys, the common plan, replicas that are dead."""
        connection = self.database.connection
        share = json.dumps(asdict(self.share()))
        with connection.pipeline():
            beat = connection.execute(
                f"UPDATE replicas SET beat = beat + 1, share = $2 WHERE id = $1 AND ended IS NULL RETURNING {NOW}",
                (self.replica, share),
            )
            balances = connection.execute(
                "SELECT name, spent, held FROM balances WHERE name = ANY($1::text[])", (list(self._watched),)
            )
            others = connection.execute(OTHERS, (self.replica,))
        row = beat.fetchone()
        if row is None:
            self._rejoin()
            return
        snapshot.clock_offset_s = row[0] - time.time()
        snapshot.balances.update((name, (spent, held)) for name, spent, held in balances.fetchall())
        self.keys.refresh(self.database)
        replicas = others.fetchall()
        snapshot.others = sum((_share_of(share) for _, _, share in replicas), ReplicaTotals())
        self._end_dead_replicas([(id, beat) for id, beat, _ in replicas])
        if self._failure is not None:
            LOGGER.warning("%s can be written again", self.database.name)
            self._failure = None
            self._logged.clear()

    def _end_dead_replicas(self, replicas: Sequence[tuple[int, int]]) -> None:
        """Charge what replicas have open whose beat stands still."""
        now = time.monotonic()
        self._seen = {
            id: self._seen[id] if self._seen.get(id, (None,))[0] == beat else (beat, now) for id, beat in replicas
        }
        for id, (beat, since) in list(self._seen.items()):
            if now - since > DEAD_AFTER_S:
                self._charge(id, beat)

    def _charge(self, replica: int, beat: int | None) -> None:
        """End a replica: what it has open is charged in full. One that has beaten since is left alone."""
        with self.database.transaction() as transaction:
            mine = "SELECT name FROM replicas WHERE id = $1 AND ended IS NULL AND ($2::bigint IS NULL OR beat = $2) "
            row = transaction.execute(mine + "FOR UPDATE SKIP LOCKED", (replica, beat)).fetchone()
            if row is None:
                return
            charged = transaction.execute(CHARGE, (replica,)).fetchall()
            held: Counter[str] = Counter()
            for key, kind, window, amount in charged:
                for name in balance_names(key, window) if kind != "fallback" else ():
                    held[name] += amount
            if held:
                transaction.execute(LOCK_BALANCES, (sorted(held),))
                transaction.execute(MOVE_BALANCES, (list(held), list(held.values()), [-n for n in held.values()]))
            transaction.execute(f"UPDATE replicas SET ended = {NOW} WHERE id = $1", (replica,))
        if charged:
            LOGGER.warning(
                "%d requests of the gateway %s ended with it: they are charged in full.", len(charged), row[0]
            )

    def _rejoin(self) -> None:
        """Others took this replica for dead: go on under a new row."""
        LOGGER.warning("%s: this gateway was silent for so long that what it had open was charged.", self.database.name)
        self._known.clear()  # the balances may have been added up anew
        self.register(self._currency)

    def _end(self, operations: Sequence[Operation], snapshot: StoreSnapshot) -> None:
        """Hand the outcome to the event loop; keep what has to be tried again."""
        if snapshot.error is not None:
            self._fail(snapshot.error)
            snapshot.error = FAILURE
            self._seen.clear()  # others may have been cut off as this one was
            again = [op if op.settlement is not None else Operation(op.entry, VOID) for op in operations]
            self._waiting = again + self._waiting
            operations = [operation for operation in operations if operation.settlement is None]
        if self._loop is not None:
            with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                self._loop.call_soon_threadsafe(self.on_end, operations, snapshot)

    def _fail(self, reason: str) -> None:
        """Refuse requests, and log each reason once until the store can be written again."""
        if reason not in self._logged:
            LOGGER.error("%s; requests are refused until it can be written", reason)
            self._logged.add(reason)
        self._failure = reason

    def _reconnect(self) -> None:
        """Another connection in place of the one that failed."""
        try:
            fresh = PostgresDatabase(self._url, create=True)
        except (PostgresError, PetsError) as error:
            self._fail(_words(error))
            return
        with suppress(PostgresError):
            self.database.connection.close()
        self.database.connection = fresh.connection
        self._known.clear()

    def _add_up(self, currency: Currency) -> None:
        """Balances from the ledger, in its present unit; what nobody answers for is charged in full."""
        connection = self.database.connection
        connection.execute("UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL")
        connection.execute("DELETE FROM balances")
        rows = connection.execute(to_postgres(TOTALS), prices_of(currency)).fetchall()
        spent = {f"key {key}": int(cost) for key, cost, *_ in rows}
        spent[TOTAL] = sum(spent.values())
        for name, amount in spent.items():
            connection.execute("INSERT INTO balances VALUES ($1, $2, 0)", (name, amount))

    def open_window(self) -> None:
        """Make the balance of the present window from the ledger, where nobody has; before :meth:`start`."""
        with self.database.transaction() as transaction:
            transaction.execute(REPLICA_LOCK)
            self._open_window(transaction)

    def _open_window(self, transaction: Transaction) -> None:
        if self.window is None:
            return
        name, since = self.window
        if transaction.execute("SELECT 1 FROM balances WHERE name = $1", (name,)).fetchone() is None:
            (spent,) = transaction.execute(SPENT_SINCE, (*prices_of(self._currency), since)).fetchone()
            sql = "INSERT INTO balances VALUES ($1, $2, 0) ON CONFLICT DO NOTHING"
            transaction.execute(sql, (name, int(spent)))


def balance_names(key: str, window: str | None) -> tuple[str, ...]:
    """The balances that an entry moves.

    >>> balance_names("alice", "window 3600 4")
    ('key alice', 'total', 'window 3600 4')
    """
    return (f"key {key}", TOTAL) if window is None else (f"key {key}", TOTAL, window)


def _window_name(name: str, steps: int) -> str:
    """The name of the window so many after (or, negative, before) this one.

    >>> _window_name("window 3600 4", 1)
    'window 3600 5'
    """
    prefix, _, number = name.rpartition(" ")
    return f"{prefix} {int(number) + steps}"


def _share_of(text: str) -> ReplicaTotals:
    """What another replica has taken; what only a newer version counts is left out.

    >>> _share_of('{"arrived": 3, "cancelled": 1}').arrived
    3
    """
    known = {field.name for field in fields(ReplicaTotals)}
    return ReplicaTotals(**{name: amount for name, amount in json.loads(text).items() if name in known})


def _words(error: Exception) -> str:
    return " ".join(str(error).split())
