"""The ledger of one gateway in a file: what the next gateway finds in it, and what holds it up."""

import asyncio
import contextlib
import sqlite3
from types import SimpleNamespace

import pytest

from pets.core.money import Currency
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger
from pets.gateway.ledger_backend import Charge, SpendRateLimit
from pets.gateway.sqlite_backend import SQLiteBackend
from pets.openai.errors import ApiError
from pets.store.store import open_database
from pets.types import Trace

from ..waiting import PATIENCE_S
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
        assert error.value.status == 503 and ledger.failure is not None and ledger.total.held == 0

    run(store, work)


def test_memory_is_a_store_too():
    async def work():
        with contextlib.closing(SQLiteBackend()) as backend:
            ledger = GatewayLedger(backend, total=5)
            ledger.settle(await reserve(ledger, BOB, 4), Charge(3, 3))
            return ledger.left(BOB), ledger.replica

    assert asyncio.run(work()) == (2, None)
