"""The ledger: never over a limit, right after a crash, whatever is cancelled."""

import asyncio
import sqlite3
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.budget import Currency
from pets.errors import StateError
from pets.gateway import books as module
from pets.gateway.books import Books
from pets.gateway.keys import ANYBODY, Key
from pets.gateway.ledger import Allowance, Ledger
from pets.gateway.refusals import RefusalError

ALICE, BOB = Key("alice", budget=10), Key("bob")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def books(tmp_path):
    books = Books(tmp_path / "g.db")
    yield books
    books.close()


def run(books, work, **options):
    ledger = Ledger(books, **options)
    books.start()
    return ledger, asyncio.run(work(ledger))


def test_held_then_settled(books):
    async def work(ledger):
        entry = await ledger.reserve(ANYBODY, 4, 1, "r")
        assert (ledger.total.held, ledger.total.spent) == (4, 0)
        assert books.database.one("SELECT held, spent FROM ledger") == (4, None)  # durable before anything is sent
        ledger.settle(entry, cost=3, delivered=3)
        ledger.settle(entry, cost=3, delivered=3)

    ledger, _ = run(books, work, total=5)
    assert (ledger.total.held, ledger.total.spent, ledger.left(ANYBODY)) == (0, 3, 2)


def test_every_limit_holds_at_once(books):
    async def work(ledger):
        assert await ledger.reserve(ALICE, 11, 1, "r") is None  # the key's own
        assert await ledger.reserve(BOB, 21, 1, "r") is None  # the total
        assert await ledger.reserve(BOB, 16, 1, "r") is None  # the window
        assert await ledger.reserve(ALICE, 10, 1, "r") is not None
        assert ledger.affordable(ALICE, 1) == 0 and ledger.affordable(BOB, 1) == 5

    run(books, work, total=20, allowance=Allowance(15, 60))


def test_a_new_window_brings_a_new_allowance_and_says_when(books):
    clock = Clock()

    async def work(ledger):
        entry = await ledger.reserve(BOB, 5, 1, "r")
        refusal = ledger.refusal(BOB)
        assert (refusal.status, refusal.retry_after, refusal.again) == (429, 20.0, True)  # 1000 = 16 * 60 + 40
        clock.now += 21
        assert ledger.affordable(BOB, 1) == 5
        ledger.settle(entry, cost=5, delivered=5)  # counts where it was held
        assert ledger.affordable(BOB, 1) == 5

    run(books, work, allowance=Allowance(5, 60), clock=clock)


def test_a_dead_gateways_dispatches_count_in_full(tmp_path):
    async def work(ledger):
        ledger.settle(await ledger.reserve(ALICE, 3, 1, "r"), cost=2, delivered=2)
        await ledger.reserve(ALICE, 4, 1, "r")  # and nothing comes back

    books = Books(tmp_path / "g.db")
    run(books, work)
    books.close()
    again = Books(tmp_path / "g.db")
    ledger = Ledger(again, total=100)
    assert ledger.total.spent == 6 and ledger.left(ALICE) == 4 and (ledger.delivered, ledger.lost) == (2, 4)
    again.close()


def test_fallbacks_are_written_down_and_not_counted(books):
    async def work(ledger):
        entry = await ledger.reserve(BOB, 1, 1, "r", "fallback")
        ledger.settle(entry, cost=1, delivered=1)

    ledger, _ = run(books, work, total=0)
    assert ledger.total.spent == 0 and books.database.one("SELECT kind, traces FROM ledger") == ("fallback", 1)


def test_tokens_are_held_at_their_most_and_settled_at_what_they_were(books):
    async def work(ledger):
        hold = ledger.hold(prompt=50, max_tokens=100)
        entry = await ledger.reserve(BOB, 2, hold, "r")
        assert ledger.total.held == 300
        ledger.settle(entry, ledger.cost(2, 70, 10), delivered=2)

    ledger, _ = run(books, work, currency=Currency.tokens(1), total=1000)
    assert ledger.total.spent == 80


def test_cancelled_while_it_is_written_is_free_again(books):
    async def work(ledger):
        task = asyncio.create_task(ledger.reserve(BOB, 4, 1, "r"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and ledger.total.held == ledger.total.spent == 0

    run(books, work, total=5)
    books.close()
    again = Books(books.database.path)
    assert Ledger(again, total=5).total.spent == 0
    again.close()


def test_books_that_break_refuse(books):
    async def work(ledger):
        books.database.connection.execute("DROP TABLE ledger")
        with pytest.raises(RefusalError, match="nothing was spent") as error:
            await ledger.reserve(BOB, 1, 1, "r")
        assert error.value.status == 503 and not ledger.ready and ledger.total.held == 0

    run(books, work)


def test_another_writer_is_waited_for_and_holds_up_nobody_else(books):
    other = sqlite3.connect(books.database.path, isolation_level=None)

    async def work(ledger):
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(ledger.reserve(BOB, number, 1, "r")) for number in (1, 2)]
        while not books._away:
            await asyncio.sleep(0)  # the loop goes on
        waiting.append(asyncio.create_task(ledger.reserve(BOB, 3, 1, "r")))
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        other.execute("COMMIT")
        entries = await asyncio.gather(*waiting)
        assert [entry.traces for entry in entries] == [1, 2, 3] and ledger.ready
        assert books.database.all("SELECT traces FROM ledger ORDER BY id") == [(1,), (2,), (3,)]
        return await ledger.reserve(BOB, 4, 1, "r")

    assert run(books, work)[1].traces == 4 and books._away == 0  # and the loop writes by itself again
    other.close()


def test_safe_from_a_power_cut_too(tmp_path):
    books = Books(tmp_path / "g.db", durability="machine")

    async def work(ledger):
        ledger.settle(await ledger.reserve(BOB, 2, 1, "r"), cost=2, delivered=2)

    run(books, work)
    books.close()
    again = Books(tmp_path / "g.db")
    assert again.database.all("SELECT held, spent FROM ledger") == [(2, 2)]
    again.close()


def test_the_write_ahead_log_is_put_away(books, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT", 3)
    done, checkpoint = threading.Event(), books._checkpoint
    monkeypatch.setattr(books, "_checkpoint", lambda: (checkpoint(), done.set()))

    async def work(ledger):
        for _ in range(4):
            await ledger.reserve(BOB, 1, 1, "r")

    run(books, work)
    assert done.wait(10)
    seen = sqlite3.connect(f"file:{books.database.path}?immutable=1", uri=True)  # the file alone, without the log
    assert seen.execute("SELECT count(*) FROM ledger").fetchone()[0] >= 3
    seen.close()


def test_a_number_that_the_store_cannot_hold_breaks_the_books_and_hangs_nobody(books):
    async def work(ledger):
        with pytest.raises(RefusalError):
            await asyncio.wait_for(ledger.reserve(BOB, 1, 10**19, "r"), 10)
        assert not ledger.ready and not books.database.connection.in_transaction

    run(books, work)


def test_a_power_cut_safe_log_is_put_away_by_sqlite_itself(tmp_path):
    books = Books(tmp_path / "g.db", durability="machine")

    async def work(ledger):
        return books.database.one("PRAGMA wal_autocheckpoint")

    assert run(books, work)[1] == (1000,)
    books.close()


def test_one_gateway_a_store(books):
    with pytest.raises(StateError, match="another gateway"):
        Books(books.database.path)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.integers(1, 6), st.integers(0, 6)), max_size=30))
def test_never_over_a_limit(steps):
    books = Books()

    async def work(ledger):
        waiting = []
        for key, traces, cost in steps:
            entry = await ledger.reserve(key, traces, 1, "r")
            if entry is not None:
                waiting.append((entry, min(cost, traces)))
            for account in (ledger.total, ledger._keys[key.name]):
                assert account.limit is None or account.spent + account.held <= account.limit
            if len(waiting) > 3:
                ledger.settle(waiting[0][0], waiting.pop(0)[1])
        for entry, cost in waiting:
            ledger.settle(entry, cost)
        assert ledger.total.held == 0

    ledger, _ = run(books, work, total=25)
    written = []
    books.database.close, close = lambda: None, books.database.close
    books.close()
    written.extend(books.database.one("SELECT coalesce(sum(spent), 0) FROM ledger"))
    close()
    assert written == [ledger.total.spent]
