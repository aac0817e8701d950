"""The ledger of one gateway in a file: what the next gateway finds in it, and what holds it up."""

import asyncio
import contextlib
import random
import sqlite3
from types import SimpleNamespace

import pytest

from pets.core.money import Currency
from pets.errors import StateError
from pets.gateway import ledger_backend, sqlite_store
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.ledger_store import Charge, Reservation, SpendRateLimit
from pets.gateway.sqlite_store import SQLiteStore
from pets.openai.errors import ApiError
from pets.store.store import open_database
from pets.types import Trace

from ..waiting import PATIENCE_S, until, wait_until
from .conftest import open_ledger, reserve

ALICE, BOB = ApiKey("alice", budget=10), ApiKey("bob")


@pytest.fixture
def clock():
    return SimpleNamespace(now=1000.0)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "g.db"


def run(store, work, **options):
    with open_ledger(store, **options) as ledger:
        return asyncio.run(work(ledger))


def test_a_new_window_brings_a_new_allowance_and_says_when(store, clock):
    async def work(ledger):
        reservation = await reserve(ledger, BOB, 5)
        refusal = ledger.refusal(BOB)
        assert (refusal.status, refusal.retry_after, refusal.should_retry) == (429, 20.0, True)  # 1000 = 16 * 60 + 40
        clock.now += 21
        assert ledger.left(BOB) == 5
        ledger.settle(reservation, Charge(5, 5))  # counts where it was held
        assert ledger.left(BOB) == 5

    run(store, work, rate_limit=SpendRateLimit(5, 60), clock=lambda: clock.now)


@pytest.mark.parametrize("windows_later", [1, 2, 7])
def test_a_reservation_that_stalls_for_windows_is_held_in_the_present_one(store, clock, windows_later):
    async def work(ledger):
        with contextlib.closing(sqlite3.connect(store)) as other:
            other.execute("BEGIN IMMEDIATE")  # as a backup, or another process, may for a while
            late = asyncio.create_task(reserve(ledger, BOB, 3, "late"))
            for _ in range(3):
                await asyncio.sleep(0)
            clock.now += 60 * windows_later
            assert ledger.left(BOB) == 5 and not late.done()  # of the present window
            other.rollback()
            reservation = await asyncio.wait_for(late, PATIENCE_S)
        assert reservation is not None and ledger.left(BOB) == 2
        ledger.settle(reservation, Charge(3, 3))
        assert await reserve(ledger, BOB, 3, "too much") is None
        assert (ledger.total.spent, ledger.total.held) == (3, 0)

    run(store, work, rate_limit=SpendRateLimit(5, 60), clock=lambda: clock.now)


def test_a_clock_that_steps_back_opens_no_window_twice(store, clock):
    spent, options = 0, {"rate_limit": SpendRateLimit(5, 60), "clock": lambda: clock.now}

    async def spend(ledger):
        if (reservation := await reserve(ledger, BOB, 5)) is None:
            return 0
        ledger.settle(reservation, Charge(5, 5))
        return 5

    async def spend_twice(ledger):
        once = await spend(ledger)
        clock.now -= 60
        twice = once + await spend(ledger)
        clock.now += 60
        return twice

    for step in (0, 60, -60, 60, -60, 59, -3600):  # each in a gateway of its own
        clock.now += step
        spent += run(store, spend_twice, **options)
    assert spent == 10  # of two windows
    clock.now += 3600 + 61
    assert run(store, spend, **options) == 5


def test_a_dead_gateways_dispatches_count_in_full(store):
    async def work(ledger):
        ledger.settle(await reserve(ledger, ALICE, 3), Charge(2, 2))
        await reserve(ledger, ALICE, 4)  # and nothing comes back

    run(store, work)
    with open_ledger(store, total=100) as ledger:
        assert ledger.total.spent == 6 and ledger.left(ALICE) == 4 and ledger.spenders == ["alice"]


MONEY = Currency.money(2.0, 10.0, prompt_tokens=0, max_tokens=100)  # 2 and 10 microdollars a token


def reopened(store, **options):
    """What a ledger that is opened again says was spent, in all and by alice."""
    with open_ledger(store, **options) as ledger:
        return ledger.total.spent, ledger.balance_of("alice").spent


@pytest.mark.parametrize("first", [Currency(), Currency.tokens(100), MONEY])
def test_another_unit_does_not_forget_what_was_spent(store, first):
    async def work(ledger):
        most = {"max_tokens": 100, "prompt_tokens": 50}
        came, lost, _ = [await reserve(ledger, ApiKey("alice"), traces, **most) for traces in (4, 3, 5)]
        ledger.settle_traces(came, [Trace("", number, tokens=8, prompt_tokens=3) for number in range(2)])
        ledger.settle_lost(lost)
        ledger.settle(await reserve(ledger, BOB, 1, **most))  # nothing was sampled

    run(store, work, currency=first)
    # 2 came with 16 tokens and 6 of prompts; 3 were lost and 5 were on their way, each at its most.
    tokens, prompt_tokens = 16 + 8 * 100, 6 + 8 * 50
    for currency, spent in [
        (Currency.tokens(100), tokens + prompt_tokens),
        (MONEY, 10_000_000 * tokens + 2_000_000 * prompt_tokens),
        (Currency(), 10),
    ]:
        assert reopened(store, currency=currency, total=1) == (spent, spent)
    with open_ledger(store, currency=Currency.tokens(100), rate_limit=SpendRateLimit(10**6, 1e12)) as ledger:
        assert ledger.left(BOB) == 10**6 - tokens - prompt_tokens


def test_entries_of_older_versions_count_as_the_longest_traces_in_another_unit(store, caplog):
    with contextlib.closing(open_database(store, create=True)) as database, database.transaction() as transaction:
        for spent, delivered, tokens in [(None, None, None), (4, 0, 0), (4, 4, 90), (0, 0, 0)]:
            transaction.execute(
                "INSERT INTO ledger (at, key, request, kind, unit, traces, held, spent, delivered, tokens, "
                "prompt_tokens) VALUES (0, 'alice', 'r', 'vote', 'traces', 4, 4, ?, ?, ?, ?)",
                (spent, delivered, tokens, tokens and 10),
            )
    assert reopened(store, currency=Currency.tokens(100)) == (900, 900)
    assert "4 ledger entries are in another unit: with them, 900 tokens are spent" in caplog.text


def test_books_that_break_refuse(store):
    async def work(ledger):
        with contextlib.closing(sqlite3.connect(store)) as other:
            other.execute("DROP TABLE ledger")
        with pytest.raises(ApiError, match="nothing was spent") as error:
            await reserve(ledger, BOB, 1)
        assert error.value.status == 503 and ledger.backend.failure is not None and ledger.total.held == 0

    run(store, work)


def test_memory_is_a_store_too():
    async def work():
        with contextlib.closing(LedgerBackend(SQLiteStore())) as backend:
            ledger = GatewayLedger(backend, total=5)
            ledger.settle(await reserve(ledger, BOB, 4), Charge(3, 3))
            return ledger.left(BOB), ledger.backend.store.replicas

    assert asyncio.run(work()) == (2, None)


WAIT_S = 30


@pytest.fixture
def backend(store):
    backend = LedgerBackend(SQLiteStore(store))
    yield backend
    backend.close()


def entry(id, request="r", traces=1):
    return Reservation(id, "k", request, "vote", "m", "traces", traces, traces, 0, 0, 0, (("total", None),))


def write(backend, work):
    backend.open(Currency(), None)

    async def bounded():
        async with asyncio.timeout(WAIT_S):
            return await work()

    return asyncio.run(bounded())


def rows(backend):
    """The ids of the rows, and what was spent."""
    return dict(backend.store.reader.all("SELECT id, spent FROM ledger ORDER BY rowid"))


def stored(path):
    """The rows that the next gateway finds, before it charges what is open."""
    with contextlib.closing(SQLiteStore(path)) as store:
        return dict(store.reader.all("SELECT id, spent FROM ledger"))


def test_a_reservation_is_there_when_it_returns_with_all_that_was_settled_before(backend):
    async def work():
        assert await backend.reserve(entry(1))
        backend.settle(entry(1), Charge(1, 1))
        assert rows(backend) == {1: None}
        assert await backend.reserve(entry(2))
        assert rows(backend) == {1: 1, 2: None}

    write(backend, work)


def test_what_is_pending_is_written_at_the_end(backend, store):
    async def work():
        await backend.reserve(entry(1))
        backend.settle(entry(1), Charge(1, 1))

    write(backend, work)
    backend.close()
    assert stored(store) == {1: 1}


async def turns():
    """Let the event loop turn, a few times."""
    for _ in range(4):
        await asyncio.sleep(0)


def test_another_writer_is_waited_for_and_holds_up_nobody_else(backend, store):
    async def work():
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(backend.reserve(entry(id))) for id in (1, 2)]
        await turns()  # the loop goes on
        waiting.append(asyncio.create_task(backend.reserve(entry(3))))
        await turns()
        assert not any(task.done() for task in waiting)
        other.execute("COMMIT")
        await asyncio.gather(*waiting)
        assert list(rows(backend)) == [1, 2, 3] and backend.failure is None
        last = asyncio.create_task(backend.reserve(entry(4)))
        await turns()
        assert last.done()  # the loop commits by itself again, and waits for no thread

    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as other:
        write(backend, work)


def test_rows_survive_with_power_cut_safety_too(store):
    backend = LedgerBackend(SQLiteStore(store, durability="machine"))

    async def work():
        await backend.reserve(entry(1))
        return backend.store.database.one("PRAGMA wal_autocheckpoint")

    assert write(backend, work) == (1000,)  # here SQLite checkpoints by itself
    backend.close()
    assert stored(store) == {1: None}


def test_the_write_ahead_log_is_checkpointed(backend, store, monkeypatch):
    monkeypatch.setattr(SQLiteStore, "look_every_s", 0.01)

    async def work():
        for id in range(1, 5):
            await backend.reserve(entry(id))

    def in_the_file():
        file = f"file:{store}?immutable=1"  # the file alone, without the log
        with (
            contextlib.suppress(sqlite3.DatabaseError),  # no table yet, or half of it
            contextlib.closing(sqlite3.connect(file, uri=True)) as reader,
        ):
            return reader.execute("SELECT count(*) FROM ledger").fetchone()[0]
        return 0

    write(backend, work)
    wait_until(lambda: in_the_file() == 4)


def test_a_number_that_the_store_cannot_hold_is_refused_and_hangs_nobody(store):
    async def work(ledger):
        results = await asyncio.gather(*(reserve(ledger, BOB, 1, max_tokens=most) for most in (1, 10**19, 2)))
        assert [result is None for result in results] == [False, True, False] and ledger.backend.failure is None
        ledger.settle_traces(results[0], [Trace("", 0, tokens=10**19, prompt_tokens=10**19)])
        assert await reserve(ledger, BOB, 1) is not None
        return ledger.backend.store.reader.all("SELECT spent, tokens < 0 FROM ledger WHERE spent IS NOT NULL")

    assert run(store, work) == [(1, 0)]


def test_what_the_store_did_not_change_counts_no_longer(backend, store):
    async def work():
        backend.balance("total")
        await backend.reserve(entry(1, traces=4))
        backend.settle(entry(1, traces=4), Charge(3, 3))
        backend.settle(entry(1, traces=4), Charge(3, 3))
        backend.settle(entry(2, traces=2), Charge())  # which was never made
        await backend.reserve(entry(3))
        total = backend.balance("total")
        assert (total.spent, total.held) == (3, 1)

    write(backend, work)


def limit_pages(backend, pages):
    """A disk that has room for so many more pages of the store, as SQLite sees it."""
    (count,) = backend.store.database.one("PRAGMA page_count")
    backend.store.database.one(f"PRAGMA max_page_count = {count + pages}")


LONG = "r" * 20_000  # takes pages of its own


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_a_full_disk_refuses_what_cannot_be_durable_and_heals_by_itself(store, monkeypatch, caplog, durability):
    monkeypatch.setattr(ledger_backend, "RETRY_S", 0.01)
    backend = LedgerBackend(SQLiteStore(store, durability))

    async def work():
        await backend.reserve(entry(1))
        limit_pages(backend, 1)
        backend.settle(entry(1), Charge(1, 1))
        with pytest.raises(StateError, match="full"):
            await backend.reserve(entry(2, LONG))
        assert "full" in backend.failure
        with pytest.raises(StateError, match="full"):
            await backend.reserve(entry(3))  # at once, however small
        await until(lambda: sum("probe" in statement for statement in statements) > 2)
        assert backend.failure is not None
        limit_pages(backend, 10_000)
        await until(lambda: backend.failure is None)
        assert rows(backend) == {1: 1}  # what was in memory is written
        total = backend.balance("total")
        assert (total.spent, total.held) == (1, 0)
        await backend.reserve(entry(4))

    statements = []
    backend.store.database.connection.set_trace_callback(statements.append)
    with caplog.at_level("WARNING", "pets.gateway"):
        write(backend, work)
    backend.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]  # one line each
    assert "g.db" in caplog.text and "full" in caplog.text


@pytest.mark.parametrize("early", [True, False])
def test_a_client_that_goes_while_the_disk_is_full_is_given_back_once(backend, monkeypatch, early):
    monkeypatch.setattr(ledger_backend, "RETRY_S", 0.01)

    async def work():
        await backend.reserve(entry(1))
        limit_pages(backend, 1)
        asks = asyncio.create_task(backend.reserve(entry(2, LONG, traces=7)))
        if early:
            await turns()
        else:
            await until(lambda: backend.failure is not None)
        asks.cancel()
        with contextlib.suppress(asyncio.CancelledError, StateError):
            await asks
        backend.settle(entry(2, LONG, traces=7), Charge())  # as the ledger does for whoever has gone
        limit_pages(backend, 10_000)
        await until(lambda: backend.failure is None)
        await backend.reserve(entry(3))
        await until(
            lambda: {2: 0} | rows(backend) == {1: None, 2: 0, 3: None}
        )  # soon: what was made just now comes after
        total = backend.balance("total")
        assert (total.spent, total.held) == (0, 2)

    write(backend, work)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("durability", ["process", "machine"])
def test_balances_are_the_sums_of_the_rows_whatever_fails_and_whoever_goes(store, monkeypatch, durability, seed):
    monkeypatch.setattr(ledger_backend, "RETRY_S", 0.001)
    rng, breaks = random.Random(seed), random.Random(seed)
    with open_ledger(store, durability=durability, total=200) as ledger:
        backend_store = ledger.backend.store
        at_once, commit = backend_store.commit_at_once, backend_store.commit

        def shaky(operations):
            if breaks.random() < 0.2:
                raise StateError("disk I/O error")
            return commit(operations)

        backend_store.commit_at_once = lambda operations: None if breaks.random() < 0.3 else at_once(operations)
        backend_store.commit = shaky

        async def ask():
            await asyncio.sleep(0.1 * rng.random())
            with contextlib.suppress(ApiError):
                if (reservation := await reserve(ledger, ApiKey("carol"), rng.randrange(1, 4))) is not None:
                    try:
                        await asyncio.sleep(0.1 * rng.random())
                    finally:
                        ledger.settle(reservation, Charge(rng.randrange(reservation.held + 1), 1))

        async def work():
            tasks = [asyncio.create_task(ask()) for _ in range(100)]
            for task in rng.sample(tasks, 30):
                await asyncio.sleep(0.003)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            backend_store.commit = commit
            await until(lambda: ledger.backend.failure is None and not rows("spent IS NULL"))
            assert await reserve(ledger, BOB, 1) is not None  # with it, all that was before
            spent = sum(amount for _, amount in rows("spent IS NOT NULL"))
            assert spent and (ledger.total.spent, ledger.total.held) == (spent, 1)
            assert (ledger.balance_of("carol").spent, ledger.balance_of("carol").held) == (spent, 0)

        def rows(where):
            return backend_store.reader.all(f"SELECT id, spent FROM ledger WHERE {where}")

        asyncio.run(work())


def test_a_store_that_another_process_kept_for_too_long_heals_too(backend, store, monkeypatch):
    monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_MS", 10)
    monkeypatch.setattr(ledger_backend, "RETRY_S", 0.01)

    async def work():
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="in use by another process"):
            await backend.reserve(entry(1))
        other.execute("COMMIT")
        await until(lambda: backend.failure is None)
        await backend.reserve(entry(2))
        assert list(rows(backend)) == [2]

    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as other:
        write(backend, work)


def test_what_a_failed_store_has_not_settled_is_tried_again_at_the_end(backend, store, monkeypatch):
    monkeypatch.setattr(ledger_backend, "RETRY_S", 0.01)

    async def work():
        await backend.reserve(entry(1))
        limit_pages(backend, 1)
        backend.settle(entry(1), Charge(1, 1))
        with pytest.raises(StateError):
            await backend.reserve(entry(2, LONG))
        limit_pages(backend, 10_000)

    write(backend, work)
    backend.close()
    assert stored(store) == {1: 1}


def test_a_store_has_one_gateway(backend, store):
    with pytest.raises(StateError, match="another gateway"):
        SQLiteStore(store)
