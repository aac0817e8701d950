"""The ledger's writer: durable when awaited, in order, and never in the way of the event loop."""

import asyncio
import contextlib
import sqlite3

import pytest

from pets.errors import StateError
from pets.gateway import ledger_store
from pets.gateway.ledger_store import LedgerWriter

from ..waiting import until, wait_until

INSERT = (
    "INSERT INTO ledger (id, at, key, request, kind, unit, traces, held) VALUES (?, 0, 'k', 'r', 'vote', 't', 1, 1)"
)
WAIT_S = 30


@pytest.fixture
def writer(tmp_path):
    writer = LedgerWriter(tmp_path / "g.db")
    yield writer
    writer.close()


def run(writer, work):
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

    run(writer, work)


def test_what_is_pending_is_written_at_the_end(writer):
    async def work():
        writer.write(INSERT, 1)

    run(writer, work)
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
        run(writer, work)


def test_rows_survive_with_power_cut_safety_too(tmp_path):
    writer = LedgerWriter(tmp_path / "g.db", durability="machine")

    async def work():
        await writer.durable(INSERT, 1)
        return writer.database.one("PRAGMA wal_autocheckpoint")

    assert run(writer, work) == (1000,)  # here SQLite checkpoints by itself
    writer.close()
    again = LedgerWriter(tmp_path / "g.db")
    assert rows(again) == [1]
    again.close()


def test_the_write_ahead_log_is_checkpointed(writer, monkeypatch):
    monkeypatch.setattr(ledger_store, "CHECKPOINT_TRANSACTIONS", 3)

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

    run(writer, work)
    wait_until(lambda: in_the_file() >= 3)


def test_a_number_that_the_store_cannot_hold_fails_alone_and_hangs_nobody(writer):
    async def work():
        waiting = [asyncio.create_task(writer.durable(INSERT, id)) for id in (1, 10**19, 2)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), StateError, type(None)]
        assert writer.failure is None and rows(writer) == [1, 2]

    run(writer, work)


def limit_pages(writer, pages):
    """A disk that has room for so many more pages of the store, as SQLite sees it."""
    (count,) = writer.database.one("PRAGMA page_count")
    writer.database.one(f"PRAGMA max_page_count = {count + pages}")


UPDATE = "UPDATE ledger SET spent = 1 WHERE id = ?"
LONG_ROW = INSERT.replace("'r'", f"'{'r' * 20_000}'")  # takes pages of its own


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_a_full_disk_refuses_what_cannot_be_durable_and_heals_by_itself(tmp_path, monkeypatch, caplog, durability):
    monkeypatch.setattr(ledger_store, "RETRY_S", 0.01)
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
        run(writer, work)
    writer.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]  # one line each
    assert "g.db" in caplog.text and "full" in caplog.text


def test_a_store_that_another_process_kept_for_too_long_heals_too(writer, monkeypatch):
    monkeypatch.setattr(ledger_store, "BUSY_TIMEOUT_MS", 10)
    monkeypatch.setattr(ledger_store, "RETRY_S", 0.01)

    async def work():
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="in use by another process"):
            await writer.durable(INSERT, 1)
        other.execute("COMMIT")
        await until(lambda: writer.failure is None)
        await writer.durable(INSERT, 2)
        assert rows(writer) == [2]

    with contextlib.closing(sqlite3.connect(writer.database.path, isolation_level=None)) as other:
        run(writer, work)


def test_what_a_failed_store_has_not_settled_is_tried_once_more_at_the_end(writer):
    async def work():
        await writer.durable(INSERT, 1)
        limit_pages(writer, 1)
        writer.write(UPDATE, 1)
        with pytest.raises(StateError):
            await writer.durable(LONG_ROW, 2)
        limit_pages(writer, 10_000)

    run(writer, work)
    writer.close()
    again = LedgerWriter(writer.database.path)
    assert again.reader.all("SELECT id, spent FROM ledger") == [(1, 1)]
    again.close()


def test_a_store_has_one_gateway(writer):
    with pytest.raises(StateError, match="another gateway"):
        LedgerWriter(writer.database.path)
