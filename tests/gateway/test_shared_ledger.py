"""Gateways that share a PostgreSQL: one budget, one price, whoever dies and whatever breaks."""

import asyncio
import contextlib
import logging
import threading
import time

import psycopg
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget, Currency
from pets.errors import StateError
from pets.gateway import shared_store
from pets.gateway.auth import ApiKey, KeyStore
from pets.gateway.ledger import SpendRateLimit
from pets.gateway.shared_ledger import SharedLedger, SharedWriter
from pets.openai.errors import ApiError
from pets.policies.price import Price
from pets.store import postgres
from pets.store.store import open_database
from pets.types import Question

from ..waiting import PATIENCE_S, until

ALICE, BOB = ApiKey("alice", budget=10), ApiKey("bob")


@pytest.fixture
def replica(postgres_url):
    """``replica(**options)`` is the ledger of one more gateway on the same store; all end with the test."""
    writers = []

    def start(**options):
        writer = SharedWriter(postgres_url, f"replica {len(writers)}")
        writers.append(writer)
        ledger = SharedLedger(writer, **options)
        writer.start()
        return ledger

    yield start
    for writer in writers:
        writer.close()


@pytest.fixture
def rows(postgres_url):
    """Query the store over a connection of its own."""
    database = open_database(postgres_url, create=True)
    yield database.all
    database.close()


def kill(ledger):
    """As kill -9 would: it writes nothing any more, and its row stays as it is."""
    writer = ledger._shared_writer
    writer._charge = lambda replica, beat: None
    writer.close()


def check_sums(rows):
    """Balances are the sums of the ledger's rows."""
    entries = rows("SELECT key, held, spent FROM ledger WHERE kind <> 'fallback'")
    balances = {name: (spent, held) for name, spent, held in rows("SELECT name, spent, held FROM balances")}
    for name, own in [("total", entries)] + [
        (f"key {key}", [row for row in entries if row[0] == key]) for key in {row[0] for row in entries}
    ]:
        spent = sum(row[2] or 0 for row in own)
        held = sum(row[1] for row in own if row[2] is None)
        assert balances[name] == (spent, held), name


def test_a_budget_holds_under_parallel_requests_of_all_replicas(replica, rows):
    replicas = [replica(total=60) for _ in range(3)]

    async def ask(ledger, key):
        reservation = await ledger.reserve(key, 2, 1, "r")
        if reservation is not None:
            ledger.settle(reservation, 1, delivered=1)
        return reservation

    async def work():
        made = await asyncio.gather(*(ask(replicas[n % 3], ALICE if n % 2 else BOB) for n in range(300)))
        await asyncio.gather(*(ledger.release() for ledger in replicas))
        return made

    made = [reservation for reservation in asyncio.run(work()) if reservation]
    by_key = {key: sum(reservation.key == key for reservation in made) for key in ("alice", "bob")}
    assert 5 <= by_key["alice"] <= 10 and len(made) <= 60  # those that were asked while others held were refused
    check_sums(rows)
    ((total,),) = rows("SELECT spent FROM balances WHERE name = 'total'")
    assert total == len(made)


def test_what_one_spends_the_others_see(replica):
    first, second = replica(total=20), replica(total=20)

    async def work():
        await second.begin()
        reservation = await first.reserve(ALICE, 4, 1, "r")
        await until(lambda: second.total.held == 4 and second.left(ALICE) == 6)
        first.settle(reservation, 3, delivered=3)
        await until(lambda: (second.total.spent, second.total.held) == (3, 0))
        assert second.left(BOB) == 17 == first.left(BOB)

    asyncio.run(work())


def test_a_window_is_one_for_all(replica):
    first, second = (replica(rate_limit=SpendRateLimit(5, 1e9)) for _ in range(2))

    async def work():
        assert await first.reserve(BOB, 4, 1, "r") is not None
        assert await second.reserve(BOB, 2, 1, "r") is None
        assert "this window's" in second.refusal(BOB).message

    asyncio.run(work())
    third = replica(rate_limit=SpendRateLimit(5, 1e9))
    assert third.left(BOB) == 1


def test_replicas_have_one_price(replica):
    ledgers = [replica() for _ in range(2)]
    allocators = [Allocator(Price(), Budget.per_window(10, 160, cap=64)) for _ in ledgers]

    async def work():
        for ledger, allocator in zip(ledgers, allocators, strict=True):
            ledger.steer(allocator)
            await ledger.begin()
            allocator.add(Question(f"q{id(ledger)}", options=4))
        allocators[0].ask(4)

        def means():
            views = [allocator.view(f"q{id(ledger)}") for ledger, allocator in zip(ledgers, allocators, strict=True)]
            return {(view.budget_left, view.questions_left) for view in views}

        await until(lambda: len(means()) == 1 and allocators[1].budget.reserved == 4)

    asyncio.run(work())


def test_only_what_the_dead_one_had_open_is_charged(replica, rows, monkeypatch):
    dead, alive = replica(total=100), replica(total=100)

    async def work():
        await alive.begin()
        await dead.reserve(ALICE, 4, 1, "lost")
        kept = await alive.reserve(BOB, 3, 1, "kept")
        await asyncio.to_thread(kill, dead)
        another = replica(total=100)  # its start charges nothing
        assert (another.total.spent, another.total.held) == (0, 7)
        monkeypatch.setattr(shared_store, "DEAD_AFTER_S", 0.6)
        await until(lambda: (alive.total.spent, alive.total.held) == (4, 3))
        alive.settle(kept, 2, delivered=2)
        await until(lambda: not alive._operations)

    asyncio.run(work())
    assert sorted(rows("SELECT request, spent, delivered FROM ledger")) == [("kept", 2, 2), ("lost", 4, 0)]
    assert rows("SELECT count(*) FROM replicas WHERE ended IS NOT NULL") == [(1,)]
    check_sums(rows)


def take_for_dead(url, replica):
    """Charge what a replica has open; one that holds its row at this moment is tried again."""
    with contextlib.closing(SharedWriter(url)) as other:  # whose connection no thread uses
        while other.database.one("SELECT 1 FROM replicas WHERE id = ?1 AND ended IS NULL", replica):
            other._charge(replica, beat=None)


def test_one_that_was_taken_for_dead_goes_on_and_what_was_charged_stays_charged(replica, rows, postgres_url):
    silent, _ = replica(total=100), replica(total=100)

    async def work():
        reservation = await silent.reserve(ALICE, 4, 1, "charged")
        before = silent._shared_writer.replica
        await asyncio.to_thread(take_for_dead, postgres_url, before)
        again = await silent.reserve(ALICE, 3, 1, "later")
        assert silent._shared_writer.replica != before
        silent.settle(reservation, 1, delivered=1)
        silent.settle(again, 2, delivered=2)
        await until(lambda: not silent._operations)
        assert (silent.total.spent, silent.total.held) == (6, 0)

    asyncio.run(work())
    assert sorted(rows("SELECT request, spent FROM ledger")) == [("charged", 4), ("later", 2)]
    check_sums(rows)


@pytest.mark.parametrize("other_lives", [False, True])
@pytest.mark.parametrize("reconnects", [False, True])
def test_one_that_joins_again_after_the_ledger_was_added_up_goes_on_in_its_window(
    replica, rows, postgres_url, other_lives, reconnects
):
    silent = replica(total=100, rate_limit=SpendRateLimit(50, 1e9))
    writer = silent._shared_writer

    def end_and_add_up():
        take_for_dead(postgres_url, writer.replica)
        if other_lives:
            replica(total=100)  # it adds up the ledger, and knows of no window
        if reconnects:
            writer._known.clear()

    async def work():
        reservation = await silent.reserve(BOB, 30, 1, "before")
        silent.settle(reservation, 30, delivered=30)
        await until(lambda: not silent._operations)
        look, paused, resumed = writer._look, threading.Event(), threading.Event()

        def pause(snapshot):
            paused.set()
            assert resumed.wait(PATIENCE_S)
            writer._look = look

        writer._look = pause  # so that the reservation, not the look, learns of the end
        assert await asyncio.to_thread(paused.wait, PATIENCE_S)
        await asyncio.to_thread(end_and_add_up)
        asks = asyncio.create_task(silent.reserve(BOB, 5, 1, "after"))
        await asyncio.sleep(0)
        resumed.set()
        assert await asyncio.wait_for(asks, PATIENCE_S) is not None
        assert (silent._window.spent, silent._window.held) == (30, 5)
        assert await silent.reserve(BOB, 16, 1, "too much") is None

    asyncio.run(work())
    check_sums(rows)


def test_a_fault_of_the_program_is_a_503_and_logged_and_nothing_hangs(replica, rows, monkeypatch, caplog):
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    ledger = replica(total=100)

    def fails(names, operations):
        monkeypatch.undo()
        raise KeyError("key bob")

    monkeypatch.setattr(shared_store, "call_values", fails)

    async def work():
        with caplog.at_level(logging.ERROR), pytest.raises(ApiError, match="PostgreSQL fails") as error:
            await asyncio.wait_for(ledger.reserve(BOB, 5, 1, "r"), PATIENCE_S)
        assert error.value.status == 503
        await until(lambda: ledger.failure is None)
        assert await ledger.reserve(BOB, 5, 1, "r") is not None

    asyncio.run(work())
    assert any(record.exc_info for record in caplog.records)
    check_sums(rows)


def test_old_windows_go_when_another_opens(replica, rows):
    hours = [0.0]
    ledger = replica(rate_limit=SpendRateLimit(9, 3600), clock=lambda: time.time() + hours[0] * 3600)
    start = ledger._window_number

    def windows():
        names = [name for (name,) in rows("SELECT name FROM balances WHERE name LIKE 'window%'")]
        return sorted(int(name.split()[2]) - start for name in names)

    async def work():
        held = await ledger.reserve(ApiKey("window 3600 1"), 1, 1, "held")
        for hours[0] in range(1, 5):
            reservation = await ledger.reserve(BOB, 1, 1, "r")
            ledger.settle(reservation, 1, delivered=1)
            await until(lambda: not ledger._operations)
        assert windows() == [0, 3, 4]  # the first is in use
        ledger.settle(held, 1, delivered=1)
        hours[0] = 5
        await until(lambda: not ledger._operations)
        assert await ledger.reserve(BOB, 1, 1, "r") is not None
        assert windows() == [4, 5]

    asyncio.run(work())


@contextlib.contextmanager
def stalled_before_the_server(ledger, url):
    """No transaction of the ledger reaches its server."""
    writer, resumed = ledger._shared_writer, threading.Event()
    commit = writer.commit

    def wait(operations, snapshot):
        assert resumed.wait(PATIENCE_S)
        commit(operations, snapshot)

    writer.commit = wait
    try:
        yield
    finally:
        writer.commit = commit
        resumed.set()


@contextlib.contextmanager
def stalled_in_the_server(ledger, url):
    """Every transaction of the ledger waits for its first lock."""
    with contextlib.closing(open_database(url, create=True)) as database, database.transaction() as transaction:
        transaction.execute("SELECT 1 FROM replicas WHERE id = ? FOR UPDATE", (ledger._shared_writer.replica,))
        yield


@pytest.mark.parametrize("windows_later", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("stalled", "known"),
    [(stalled_before_the_server, True), (stalled_before_the_server, False), (stalled_in_the_server, True)],
)
def test_a_reservation_that_stalls_for_windows_is_held_in_the_present_one(
    replica, rows, postgres_url, stalled, known, windows_later
):
    hours = [0.0]
    limits = {"rate_limit": SpendRateLimit(50, 3600), "clock": lambda: time.time() + hours[0] * 3600}
    slow, quick = replica(**limits), replica(**limits)

    async def spend(ledger, amount):
        if (reservation := await ledger.reserve(BOB, amount, 1, "r")) is not None:
            ledger.settle(reservation, amount, delivered=amount)
        await until(lambda: not ledger._operations)
        return 0 if reservation is None else amount

    async def work():
        await slow.begin()
        if known:
            await spend(slow, 1)
        with stalled(slow, postgres_url):
            late = asyncio.create_task(spend(slow, 20))
            await asyncio.sleep(0)
            for hours[0] in range(windows_later + 1):
                assert await spend(quick, 49 if hours[0] < windows_later else 25) > 0
        assert await asyncio.wait_for(late, PATIENCE_S) == 20  # of the 25 that the present window has left
        assert await spend(slow, 6) == 0 and await spend(slow, 5) == 5 and await spend(quick, 1) == 0
        hours[0] += 1
        assert await spend(slow, 30) == 30

    asyncio.run(work())
    by_window = dict(rows("SELECT rate_window, sum(spent) FROM ledger GROUP BY rate_window"))
    assert len(by_window) == windows_later + 2 and max(by_window.values()) <= 50
    assert rows("SELECT sum(held) FROM balances") == [(0,)]
    check_sums(rows)


def test_a_lost_connection_refuses_and_nothing_is_lost(replica, rows, monkeypatch):
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    ledger = replica(total=100)

    async def work():
        held = await ledger.reserve(BOB, 4, 1, "held")
        rows("SELECT pg_terminate_backend(?1::int, 10000)", ledger._shared_writer.database.connection.info.backend_pid)
        with pytest.raises(ApiError, match="nothing was spent") as error:
            await ledger.reserve(BOB, 5, 1, "refused")
        assert (error.value.status, error.value.code) == (503, "ledger_unavailable")
        ledger.settle(held, 3, delivered=3)  # waits for the server
        assert (ledger.total.spent, ledger.total.held) == (3, 0)
        await until(lambda: ledger.failure is None)
        again = await ledger.reserve(BOB, 6, 1, "again")
        ledger.settle(again, 6, delivered=6)
        await ledger.release()

    asyncio.run(work())
    assert [(request, spent) for request, spent in rows("SELECT request, spent FROM ledger ORDER BY id") if spent] == [
        ("held", 3),
        ("again", 6),
    ]
    check_sums(rows)


def test_a_transaction_that_breaks_off_after_its_commit_is_taken_back(replica, rows, monkeypatch):
    """The reservation was made and nobody was told so: it costs nothing, for it was never sent."""
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    ledger = replica(total=100)
    writer = ledger._shared_writer
    commit = writer.commit

    def breaks_off(operations, snapshot):
        commit(operations, snapshot)
        writer.commit = commit
        writer.database.connection.close()
        raise StateError("broken off")

    async def work():
        writer.commit = breaks_off
        with pytest.raises(ApiError, match="PostgreSQL fails"):
            await ledger.reserve(BOB, 5, 1, "unknown")
        await until(lambda: ledger.failure is None)
        await ledger.release()

    asyncio.run(work())
    assert rows("SELECT request, spent, delivered FROM ledger") == [("unknown", 0, 0)]
    check_sums(rows)


def test_a_reservation_that_broke_off_and_whose_client_has_gone_is_taken_back_once(replica, rows, monkeypatch):
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    ledger = replica(total=100)
    writer = ledger._shared_writer
    commit = writer.commit
    committed, cancelled = threading.Event(), threading.Event()

    def breaks_off(operations, snapshot):
        commit(operations, snapshot)
        writer.commit = commit
        committed.set()
        assert cancelled.wait(PATIENCE_S)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    async def work():
        await ledger.reserve(BOB, 5, 1, "other")
        writer.commit = breaks_off
        asks = asyncio.create_task(ledger.reserve(BOB, 20, 1, "gone"))
        assert await asyncio.to_thread(committed.wait, PATIENCE_S)
        asks.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asks
        cancelled.set()
        await until(lambda: not ledger._operations and ledger.failure is None)
        assert (ledger.total.spent, ledger.total.held) == (0, 5)

    asyncio.run(work())
    check_sums(rows)


def test_a_process_that_freezes_within_a_transaction_does_not_stop_the_others(replica, rows, postgres_url, monkeypatch):
    """One that was about to end a dead replica, for example: the balances are locked, and nothing comes any more."""
    alive = replica(total=100)
    monkeypatch.setattr(postgres, "IDLE_TRANSACTION_TIMEOUT_S", 0.5)  # of the frozen one alone

    async def work():
        await alive.reserve(BOB, 4, 1, "before")
        with contextlib.closing(open_database(postgres_url, create=False)) as frozen:
            frozen.connection.execute("BEGIN")
            frozen.all("SELECT name FROM balances ORDER BY name FOR UPDATE")
            assert await asyncio.wait_for(alive.reserve(BOB, 3, 1, "r"), PATIENCE_S / 4) is not None

    asyncio.run(work())
    check_sums(rows)


def test_a_connection_that_is_lost_at_the_end_loses_no_settlement(replica, rows, monkeypatch):
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    ledger = replica(total=100)

    async def work():
        reservation = await ledger.reserve(BOB, 20, 1, "r")
        ledger._shared_writer._look = lambda snapshot: None  # so that the end is the first to learn of it
        rows("SELECT pg_terminate_backend(?1::int, 10000)", ledger._shared_writer.database.connection.info.backend_pid)
        ledger.settle(reservation, 1, delivered=1)
        await ledger.release()

    asyncio.run(work())
    assert rows("SELECT spent, delivered FROM ledger") == [(1, 1)]
    assert rows("SELECT count(*) FROM replicas WHERE ended IS NULL") == [(0,)]
    check_sums(rows)


def test_the_end_waits_for_a_server_only_so_long(replica, rows, monkeypatch, caplog):
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    monkeypatch.setattr(shared_store, "CLOSE_TIMEOUT_S", 0.5)
    ledger = replica(total=100)
    writer = ledger._shared_writer
    thread = writer._thread

    async def work():
        reservation = await ledger.reserve(BOB, 20, 1, "r")
        writer._url = "postgresql://127.0.0.1:1/none"
        writer.database.connection.close()
        ledger.settle(reservation, 1, delivered=1)
        await ledger.release()

    asyncio.run(work())
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert "1 settlements are lost" in caplog.text


def test_requests_that_are_refused_while_the_server_is_away_leave_nothing_behind(replica, monkeypatch):
    ledger = replica(total=100)
    monkeypatch.setattr(SharedWriter, "failure", "away")

    async def work():
        for _ in range(3):
            with pytest.raises(ApiError, match="away"):
                await ledger.reserve(BOB, 4, 1, "r")

    asyncio.run(work())
    assert (ledger._entries, ledger._operations) == ({}, {})
    assert (ledger.total.held, ledger.total.moving_held) == (0, 0)


def test_a_server_that_does_not_answer_is_a_failure(replica, rows, monkeypatch):
    ledger = replica(total=100)
    monkeypatch.setattr(shared_store, "STALLED_AFTER_S", 0.0)

    async def work():
        with contextlib.closing(open_database(ledger._shared_writer._url, create=False)) as other:
            await ledger.begin()
            with other.transaction() as transaction:
                transaction.execute("LOCK TABLE replicas")
                await until(lambda: ledger.failure is not None)
                assert "has not answered" in ledger.failure
                with pytest.raises(ApiError, match="has not answered"):
                    await ledger.reserve(BOB, 1, 1, "r")
                monkeypatch.undo()
        await until(lambda: ledger.failure is None)

    asyncio.run(work())


def test_replicas_count_in_one_unit(replica):
    first = replica(total=100)
    with pytest.raises(StateError, match="counts in traces or at another price"):
        replica(currency=Currency.tokens(10))

    async def work():
        reservation = await first.reserve(BOB, 4, 1, "r", max_tokens=10, prompt_tokens=5)
        first.settle(reservation, 2, delivered=2, tokens=14, prompt_tokens=6)
        await first.release()

    asyncio.run(work())
    assert replica(currency=Currency.tokens(10)).total.spent == 20


def test_a_gateway_that_was_killed_does_not_keep_the_next_from_another_unit(replica, rows, monkeypatch):
    killed = replica(total=100)

    async def work():
        await killed.reserve(BOB, 4, 1, "lost", max_tokens=10, prompt_tokens=5)
        await asyncio.to_thread(kill, killed)

    asyncio.run(work())
    monkeypatch.setattr(shared_store, "DEAD_AFTER_S", 0.6)
    assert replica(currency=Currency.tokens(10)).total.spent == 4 * 15
    assert rows("SELECT count(*) FROM replicas WHERE ended IS NOT NULL") == [(1,)]
    assert rows("SELECT spent FROM ledger") == [(4,)]


def test_keys_of_the_store_are_seen_soon(replica, postgres_url):
    ledger = replica()
    keys = ledger._shared_writer.keys

    async def work():
        assert not keys.required and keys.find(None) is not None
        with contextlib.closing(open_database(postgres_url, create=False)) as database:
            secret = KeyStore(database).add("carol", budget=3)
            await until(lambda: keys.find(secret) == ApiKey("carol", budget=3))
            assert keys.required and keys.find(None) is None and keys.find("pets-guess") is None
            KeyStore(database).revoke("carol")
            await until(lambda: keys.find(secret) is None)

    asyncio.run(work())


def test_a_server_that_is_away_is_named_in_the_log_and_nowhere_else(replica, rows, monkeypatch, caplog):
    """/readyz shows the failure to whoever asks."""
    monkeypatch.setattr(shared_store, "RETRY_S", 0.05)
    ledger = replica(total=100)
    writer = ledger._shared_writer
    url, reconnect, tries = writer._url, writer._reconnect, []
    monkeypatch.setattr(writer, "_reconnect", lambda: tries.append(reconnect()))

    async def work():
        writer._url = "postgresql://operator:hunter2@127.0.0.1:1/secret_name"
        writer.database.connection.close()
        await until(lambda: len(tries) > 5)
        reasons = [record.message for record in caplog.records if record.name == "pets.gateway"]
        assert "secret_name" in caplog.text and len(reasons) == len(set(reasons))  # however often it is tried
        with pytest.raises(ApiError) as error:
            await ledger.reserve(BOB, 1, 1, "r")
        for text in (str(error.value), ledger.failure):
            assert "PostgreSQL fails" in text
            assert not any(word in text for word in ("operator", "hunter2", "127.0.0.1", "secret_name"))
        writer._url = url
        await until(lambda: ledger.failure is None)

    asyncio.run(work())
    assert "hunter2" not in caplog.text


def test_a_newer_replica_that_tells_more_is_understood(replica, rows):
    """While an upgrade rolls, versions are mixed."""
    ledger = replica(total=100)
    allocator = Allocator(Price(), Budget.per_window(10, 160))
    ledger.steer(allocator)
    seen = []
    allocator.sync_replicas = seen.append
    rows(
        "INSERT INTO replicas (name, started, beat, settings, share) VALUES ('newer', 0, 0, ?1, ?2) RETURNING id",
        ledger._shared_writer._settings,
        '{"arrived": 7, "invented": {"later": true}}',
    )

    async def work():
        await ledger.begin()
        await until(lambda: any(share.arrived == 7 for share in seen))

    asyncio.run(work())
    assert ledger.failure is None
