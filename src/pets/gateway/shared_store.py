"""``SharedStore``: the transactions of one gateway on a PostgreSQL that replicas share.

All that is waiting, reservations and settlements, goes into one transaction, which is one call of a function of the
connection's own (:data:`WRITE`):

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
its row is ended. Should it live after all, it goes on under a new row, and what was charged stays charged. A process
that freezes within a transaction of several messages loses its connection (``IDLE_TRANSACTION_TIMEOUT_S`` of the
store), and with it the locks for which the others wait.
"""

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from importlib.resources import files

from pets.core.money import Currency
from pets.core.queues import ReplicaTotals
from pets.errors import StateError
from pets.gateway.auth import CachedKeyStore
from pets.gateway.ledger_store import (
    KEY,
    KEY_WINDOW,
    TOTAL,
    WINDOW,
    LedgerStore,
    Operation,
    SpendRateLimit,
    StoreSnapshot,
    key_window_names,
)
from pets.gateway.telemetry import LOGGER
from pets.store.database import Database
from pets.store.postgres import PostgresDatabase, PostgresError

BEAT_S = 0.25  # between two looks at the store, so that replicas see each other's spend within a second
DEAD_AFTER_S = 30.0
IDS_PER_REPLICA = 1 << 32
MAX_BALANCE = 1 << 62  # the sum of two is a BIGINT

NOW = "extract(epoch FROM clock_timestamp())::double precision"
REPLICA_LOCK = "SELECT pg_advisory_xact_lock(hashtext('pets gateway ' || current_schema()))"
JOIN = f"INSERT INTO replicas (name, started, beat, settings, share) VALUES ($1, {NOW}, 0, $2, '{{}}') RETURNING id"
BEAT = "UPDATE replicas SET beat = beat + 1 WHERE id = $1"
BALANCES = "SELECT name, spent, held FROM balances WHERE name = ANY($1::text[])"
BEAT_AND_SHARE = f"UPDATE replicas SET beat = beat + 1, share = $2 WHERE id = $1 AND ended IS NULL RETURNING {NOW}"
LOCK_BALANCES = f"{BALANCES} ORDER BY name FOR UPDATE"
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
DROP_WINDOWS = (  # $1: their prefixes; $2: of each the first that stays. Longer names are of later windows
    "DELETE FROM balances WHERE name IN (SELECT b.name FROM balances b "
    "JOIN unnest($1::text[], $2::text[]) AS t (prefix, first) ON starts_with(b.name, t.prefix) WHERE b.held = 0 "
    'AND (length(b.name), b.name COLLATE "C") < (length(t.first), t.first COLLATE "C") FOR UPDATE OF b SKIP LOCKED)'
)
BEGIN_BALANCE = "INSERT INTO balances VALUES ($1, $2, 0) ON CONFLICT DO NOTHING"
MOVE_BALANCES = (
    "UPDATE balances b SET spent = b.spent + t.spent, held = b.held + t.held "
    "FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS t (name, spent, held) WHERE b.name = t.name"
)
CHARGE = (
    "UPDATE ledger SET spent = held, delivered = 0 WHERE replica = $1 AND spent IS NULL "
    "RETURNING key, kind, rate_window, held, day"
)
RIVALS = "SELECT id, beat, name, settings FROM replicas WHERE ended IS NULL AND settings <> $1"
OTHERS = "SELECT id, beat, share FROM replicas WHERE ended IS NULL AND id <> $1"
WRITE = files(__package__).joinpath("write_ledger.sql").read_text("utf-8")
CALL_WRITE = "SELECT * FROM pg_temp.write_ledger($1::bigint, $2::text[], $3::jsonb, $4::jsonb)"


class SharedStore(LedgerStore):
    """The store as one replica sees it: see the module's docstring. ``keys`` are never older than a moment."""

    database: PostgresDatabase
    keys: CachedKeyStore
    look_every_s = BEAT_S
    stalled_after_s = 5.0
    close_timeout_s = 10.0
    failure_words = "its PostgreSQL fails; the gateway's log says why"  # which has the server's address and user

    def __init__(self, url: str, name: str = "", clock: Callable[[], float] = time.time) -> None:
        database = PostgresDatabase(url, create=True)
        super().__init__(database, CachedKeyStore(database), clock)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.replica = 0
        self._currency = Currency()
        self._rate_limit: SpendRateLimit | None = None
        self._known: set[str] = set()  # balances that are there
        self._beats: dict[int, tuple[int, float]] = {}  # of other replicas, and since when each stands

    @property
    def replicas(self) -> tuple[str, int]:
        """As :attr:`LedgerStore.replicas`: as many as there were at the last look."""
        return self.name, 1 + len(self._beats)

    def open(self, currency: Currency, rate_limit: SpendRateLimit | None) -> tuple[int, StoreSnapshot]:
        """As :meth:`LedgerStore.open`: become a replica."""
        ((server_time,),) = self.database.all(f"SELECT {NOW}")
        self._clock_offset_s = server_time - time.time()
        self._rate_limit = rate_limit
        self.register(currency)
        window = self._window()
        names = [name for name in self.balance_names() if name == window or not name.startswith(WINDOW)]
        LOGGER.info("replica", extra={"fields": {"replica": self.replica, "name": self.name}})
        return self.replica * IDS_PER_REPLICA, self.look(names, ReplicaTotals())

    def register(self, currency: Currency) -> None:
        """Become a replica; refused where another counts in other prices. The first of all adds up the ledger."""
        self._currency = currency
        self._prepare()  # a server that does not let us is heard of at the start, not at the first request
        self._known.clear()  # the balances may have been added up anew
        self._end_dead_rivals()
        with self.database.transaction() as transaction:
            transaction.execute(REPLICA_LOCK)
            rows = transaction.execute("SELECT name, settings FROM replicas WHERE ended IS NULL").fetchall()
            for name, settings in rows:
                if settings != self.settings:
                    raise self._refusal(name, settings)
            if not rows:
                transaction.execute("UPDATE ledger SET spent = held, delivered = 0 WHERE spent IS NULL")
                transaction.execute("DELETE FROM balances")
            self._add_up(transaction)
            (self.replica,) = transaction.execute(JOIN, (self.name, self.settings)).fetchone()

    @property
    def settings(self) -> str:
        """What all replicas of a store have in common: unit and prices."""
        names = ("unit", "per_trace", "per_token", "per_prompt_token", "per_cached_token")
        prices = {name: getattr(self._currency, name) for name in names}
        return json.dumps(prices | {"rates": []}, sort_keys=True)  # as earlier versions write it: an upgrade may roll

    def _end_dead_rivals(self) -> None:
        """Charge what gateways that count in other prices had open, if their beat stands still; refused if not."""
        before = self.database.all(RIVALS, self.settings)
        if before:
            words = "a gateway that counts in another unit or at another price was not stopped; it counts as gone if"
            LOGGER.warning("%s: %s nothing is heard of it for %g seconds.", self.database.name, words, DEAD_AFTER_S)
        while rivals := self.database.all(RIVALS, self.settings):
            for row in rivals:
                if row not in before:  # it has just begun, or its beat goes on
                    raise self._refusal(*row[2:])
            self._end_dead_replicas([(id, beat) for id, beat, *_ in rivals])
            time.sleep(BEAT_S)

    def _refusal(self, name: str, settings: str) -> StateError:
        owner = f"the gateway {name}, which counts in {json.loads(settings)['unit']} or at another price"
        return StateError(f"{self.database.name} is in use by {owner}. Start all alike, or stop that one first.")

    def balance_names(self) -> list[str]:
        return [name for (name,) in self.database.all("SELECT name FROM balances")]

    def commit(self, operations: Sequence[Operation]) -> StoreSnapshot:
        """One transaction, as the module's docstring has it."""
        connection = self.database.connection
        names = sorted({name for operation in operations for name, _ in operation.reservation.limits})
        if missing := [name for name in names if name not in self._known]:
            self._make_balances(missing)
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute("SET LOCAL synchronous_commit TO off")
            written = connection.execute(CALL_WRITE, (self.replica, names, *_rows(names, operations)))
            connection.execute("COMMIT")
            connection.execute(BEAT, (self.replica,))  # waits for the disk, and so for the commit before it
        made, spents, helds = written.fetchone() or (None,) * 3
        if spents is None:  # others have ended this replica
            self._rejoin()
            return self.commit(operations)
        moved = zip(names, spents, helds, strict=True)
        balances = {name: (spent, held) for name, spent, held in moved if spent is not None}
        self._known.difference_update(name for name in names if name not in balances)
        return StoreSnapshot(balances, set(made), operations)

    def look(self, names: Collection[str], share: ReplicaTotals) -> StoreSnapshot:
        """Beat, say what this replica took of the common plan, and see what others did."""
        connection = self.database.connection
        with connection.pipeline():
            beat = connection.execute(BEAT_AND_SHARE, (self.replica, json.dumps(asdict(share))))
            balances = connection.execute(BALANCES, (list(names),))
            others = connection.execute(OTHERS, (self.replica,))
        row = beat.fetchone()
        if row is None:
            self._rejoin()
            return StoreSnapshot()
        self._clock_offset_s = row[0] - time.time()
        self.keys.refresh()
        replicas = others.fetchall()
        self._end_dead_replicas([(id, beat) for id, beat, _ in replicas])
        shares = sum((_share_of(share) for _, _, share in replicas), ReplicaTotals())
        return StoreSnapshot({name: (spent, held) for name, spent, held in balances.fetchall()}, others=shares)

    def end(self) -> None:
        self.end_replica(self.replica)

    def end_replica(self, replica: int, beat: int | None = None) -> None:
        """End a replica: what it has open is charged in full. One that has another ``beat`` by now is left alone."""
        with self.database.transaction() as transaction:
            mine = "SELECT name FROM replicas WHERE id = $1 AND ended IS NULL AND ($2::bigint IS NULL OR beat = $2) "
            row = transaction.execute(mine + "FOR UPDATE SKIP LOCKED", (replica, beat)).fetchone()
            if row is None:
                return
            charged = transaction.execute(CHARGE, (replica,)).fetchall()
            held: Counter[str] = Counter()
            for key, kind, window, amount, day in charged:
                if kind != "fallback":
                    windows = () if day is None else key_window_names(key, day)
                    held.update(dict.fromkeys(filter(None, (KEY + key, TOTAL, window, *windows)), amount))
            if held:
                transaction.execute(LOCK_BALANCES, (sorted(held),))
                transaction.execute(MOVE_BALANCES, (list(held), list(held.values()), [-n for n in held.values()]))
            transaction.execute(f"UPDATE replicas SET ended = {NOW} WHERE id = $1", (replica,))
        if charged:
            words = "%d requests of the gateway %s ended with it: they are charged in full."
            LOGGER.warning(words, len(charged), row[0])

    def recover(self) -> None:
        """Open another connection in place of the one that failed; others may have been cut off as this one was."""
        self._beats.clear()
        fresh = PostgresDatabase(self.database.url, create=True)
        with suppress(PostgresError):
            self.database.connection.close()
        self.database.connection = fresh.connection
        self._known.clear()
        self._prepare()

    def _prepare(self) -> None:
        with self.database.transaction() as transaction:
            transaction.execute(WRITE)

    def _end_dead_replicas(self, replicas: Sequence[tuple[int, int]]) -> None:
        """Charge what replicas have open whose beat stands still."""
        now = time.monotonic()
        self._beats = {
            id: self._beats[id] if self._beats.get(id, (None,))[0] == beat else (beat, now) for id, beat in replicas
        }
        for id, (beat, since) in list(self._beats.items()):
            if now - since > DEAD_AFTER_S:
                self.end_replica(id, beat)

    def _rejoin(self) -> None:
        """Others took this replica for dead: go on under a new row."""
        LOGGER.warning("%s: this gateway was silent for so long that what it had open was charged.", self.database.name)
        self.register(self._currency)

    def _window(self) -> str:
        """The name of the present window's balance; none without windows."""
        return "" if self._rate_limit is None else self._rate_limit.window(self._time())[0]

    def _add_up(self, transaction: Database) -> None:
        """Begin balances that are missing with what the ledger has in its present unit.

        Of keys' windows there are none where the other replicas are of an earlier version.
        """
        names, window = self.balance_names(), self._window()
        if any(name.startswith(KEY_WINDOW) for name in names) and (not window or window in names):
            return
        spent, _ = self._sums(self._currency, self._time(), self._rate_limit)
        for name, amount in spent.items():
            if amount or not name.startswith(KEY_WINDOW):
                transaction.execute(BEGIN_BALANCE, (name, amount))

    def _make_balances(self, names: list[str]) -> None:
        """Begin balances that may not be there; with a window, those before the one before it go.

        One replica at a time: what others have dropped is seen, however long this transaction was on its way.
        """
        windows = {name: name.startswith((WINDOW, KEY_WINDOW)) for name in names}
        later = [_window_name(name, 1) if is_window else None for name, is_window in windows.items()]
        first = [_window_name(name, -1) for name, is_window in windows.items() if is_window]  # of those that stay
        with self.database.transaction() as transaction:
            transaction.execute(REPLICA_LOCK)
            transaction.execute(MAKE_BALANCES, (names, later, self.replica))
            if first:
                transaction.execute(DROP_WINDOWS, ([name.rpartition(" ")[0] + " " for name in first], first))
        self._known.update(names)


def _rows(names: Sequence[str], operations: Sequence[Operation]) -> tuple[str, str]:
    """Settlements and reservations as :data:`WRITE` takes them."""
    places = {name: place for place, name in enumerate(names, 1)}
    settlements: dict[int, dict[str, object]] = {}  # one each: a client that has gone takes back what broke off, too
    reservations = []
    for operation in operations:
        row = operation.reservation
        moved = {"id": row.id, "held": row.held, "places": [places[name] for name, _ in row.limits]}
        if operation.charge is not None:
            settlements.setdefault(row.id, operation.charge._asdict() | moved)
        elif row.held <= MAX_BALANCE:
            limits = [MAX_BALANCE if limit is None else min(limit, MAX_BALANCE) for _, limit in row.limits]
            window = next((name for name, _ in row.limits if name.startswith(WINDOW)), None)
            # The model is a client's word, which may hold what the server's JSON refuses.
            fields = row._replace(model="")._asdict()
            reservations.append(fields | moved | {"limits": limits, "rate_window": window})
    return json.dumps(list(settlements.values())), json.dumps(reservations)


def _window_name(name: str, steps: int) -> str:
    """The name of the window so many after (or, negative, before) this one."""
    prefix, _, number = name.rpartition(" ")
    return f"{prefix} {int(number) + steps}"


def _share_of(text: str) -> ReplicaTotals:
    """What another replica has taken; what only a newer version counts is left out.

    >>> _share_of('{"arrived": 3, "cancelled": 1}').arrived
    3
    """
    known = {field.name for field in fields(ReplicaTotals)}
    return ReplicaTotals(**{name: amount for name, amount in json.loads(text).items() if name in known})
