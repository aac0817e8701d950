"""The ledger of one gateway in a file: what the next gateway finds in it, and what holds it up."""

import asyncio
import contextlib
import sqlite3
from types import SimpleNamespace

import pytest

from pets.core.budget import Currency
from pets.errors import StateError
from pets.gateway import sqlite_backend
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_backend import Charge, SpendRateLimit
from pets.gateway.sqlite_backend import LedgerWriter, SQLiteBackend
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
        with contextlib.closing(SQLiteBackend()) as backend:
            ledger = GatewayLedger(backend, total=5)
            ledger.settle(await reserve(ledger, BOB, 4), Charge(3, 3))
            return ledger.left(BOB), ledger.backend.replica

    assert asyncio.run(work()) == (2, None)


INSERT = (
    "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held) VALUES (?, 0, 'k', 'r', 'vote', 't', 1, 1)"
)
WAIT_S = 30


@pytest.fixture
def writer(tmp_path):
    writer = LedgerWriter(tmp_path / "g.db")
    yield writer
    writer.close()


def write(writer, work):
    writer.start()

    async def bounded():
        async with asyncio.timeout(WAIT_S):
            return await work()

    return asyncio.run(bounded())


def rows(writer):
    return [id for (id,) in writer.reader.all("SELECT id FROM ledger ORDER BY rowid")]


def test_durable_rows_are_there_when_it_returns_with_all_that_was_written_before(writer):
    async def work():
        writer.write(INSERT, 1)
        assert rows(writer) == []
        await writer.durable(INSERT, 2)
        assert rows(writer) == [1, 2]

    write(writer, work)


def test_what_is_pending_is_written_at_the_end(writer):
    async def work():
        writer.write(INSERT, 1)

    write(writer, work)
    writer.close()
    again = LedgerWriter(writer.database.path)
    assert rows(again) == [1]
    again.close()


async def turns():
    """Let the event loop turn, a few times."""
    for _ in range(4):
        await asyncio.sleep(0)


def test_another_writer_is_waited_for_and_holds_up_nobody_else(writer):
    async def work():
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(writer.durable(INSERT, id)) for id in (1, 2)]
        await turns()  # the loop goes on
        waiting.append(asyncio.create_task(writer.durable(INSERT, 3)))
        await turns()
        assert not any(task.done() for task in waiting)
        other.execute("COMMIT")
        await asyncio.gather(*waiting)
        assert rows(writer) == [1, 2, 3] and writer.failure is None
        last = asyncio.create_task(writer.durable(INSERT, 4))
        await turns()
        assert last.done()  # the loop commits by itself again, and waits for no thread

    with contextlib.closing(sqlite3.connect(writer.database.path, isolation_level=None)) as other:
        write(writer, work)


def test_rows_survive_with_power_cut_safety_too(tmp_path):
    writer = LedgerWriter(tmp_path / "g.db", durability="machine")

    async def work():
        await writer.durable(INSERT, 1)
        return writer.database.one("PRAGMA wal_autocheckpoint")

    assert write(writer, work) == (1000,)  # here SQLite checkpoints by itself
    writer.close()
    again = LedgerWriter(tmp_path / "g.db")
    assert rows(again) == [1]
    again.close()


def test_the_write_ahead_log_is_checkpointed(writer, monkeypatch):
    monkeypatch.setattr(sqlite_backend, "CHECKPOINT_TRANSACTIONS", 3)

    async def work():
        for id in range(4):
            await writer.durable(INSERT, id)

    def in_the_file():
        file = f"file:{writer.database.path}?immutable=1"  # the file alone, without the log
        with (
            contextlib.suppress(sqlite3.DatabaseError),  # no table yet, or half of it
            contextlib.closing(sqlite3.connect(file, uri=True)) as reader,
        ):
            return reader.execute("SELECT count(*) FROM ledger").fetchone()[0]
        return 0

    write(writer, work)
    wait_until(lambda: in_the_file() >= 3)


def test_a_number_that_the_store_cannot_hold_fails_alone_and_hangs_nobody(writer):
    async def work():
        waiting = [asyncio.create_task(writer.durable(INSERT, id)) for id in (1, 10**19, 2)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), StateError, type(None)]
        assert writer.failure is None and rows(writer) == [1, 2]

    write(writer, work)


def limit_pages(writer, pages):
    """A disk that has room for so many more pages of the store, as SQLite sees it."""
    (count,) = writer.database.one("PRAGMA page_count")
    writer.database.one(f"PRAGMA max_page_count = {count + pages}")


UPDATE = "UPDATE ledger SET spent = 1 WHERE id = ?"
LONG_ROW = INSERT.replace("'r'", f"'{'r' * 20_000}'")  # takes pages of its own


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_a_full_disk_refuses_what_cannot_be_durable_and_heals_by_itself(tmp_path, monkeypatch, caplog, durability):
    monkeypatch.setattr(sqlite_backend, "RETRY_S", 0.01)
    writer = LedgerWriter(tmp_path / "g.db", durability)

    async def work():
        await writer.durable(INSERT, 1)
        limit_pages(writer, 1)
        writer.write(UPDATE, 1)
        with pytest.raises(StateError, match="full"):
            await writer.durable(LONG_ROW, 2)
        assert "full" in writer.failure
        with pytest.raises(StateError, match="full"):
            await writer.durable(INSERT, 3)  # at once, however small
        await until(lambda: sum("probe" in statement for statement in statements) > 2)
        assert writer.failure is not None
        limit_pages(writer, 10_000)
        await until(lambda: writer.failure is None)
        assert writer.reader.all("SELECT id, spent FROM ledger") == [(1, 1)]  # what was in memory is written
        await writer.durable(INSERT, 4)

    statements = []
    writer.database.connection.set_trace_callback(statements.append)
    with caplog.at_level("WARNING", "pets.gateway"):
        write(writer, work)
    writer.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]  # one line each
    assert "g.db" in caplog.text and "full" in caplog.text


def test_a_store_that_another_process_kept_for_too_long_heals_too(writer, monkeypatch):
    monkeypatch.setattr(sqlite_backend, "BUSY_TIMEOUT_MS", 10)
    monkeypatch.setattr(sqlite_backend, "RETRY_S", 0.01)

    async def work():
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="in use by another process"):
            await writer.durable(INSERT, 1)
        other.execute("COMMIT")
        await until(lambda: writer.failure is None)
        await writer.durable(INSERT, 2)
        assert rows(writer) == [2]

    with contextlib.closing(sqlite3.connect(writer.database.path, isolation_level=None)) as other:
        write(writer, work)


def test_what_a_failed_store_has_not_settled_is_tried_once_more_at_the_end(writer):
    async def work():
        await writer.durable(INSERT, 1)
        limit_pages(writer, 1)
        writer.write(UPDATE, 1)
        with pytest.raises(StateError):
            await writer.durable(LONG_ROW, 2)
        limit_pages(writer, 10_000)

    write(writer, work)
    writer.close()
    again = LedgerWriter(writer.database.path)
    assert again.reader.all("SELECT id, spent FROM ledger") == [(1, 1)]
    again.close()


def test_a_store_has_one_gateway(writer):
    with pytest.raises(StateError, match="another gateway"):
        LedgerWriter(writer.database.path)
