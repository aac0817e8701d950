"""The ledger: never over a limit, right after a crash, whatever is cancelled."""

import asyncio
import contextlib
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.budget import Currency
from pets.engine.fetch import TraceRequest
from pets.errors import BudgetError
from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.ledger import GatewayLedger, RequestAccount, SpendRateLimit
from pets.gateway.ledger_store import LedgerWriter
from pets.gateway.shared_ledger import SharedLedger, SharedWriter
from pets.openai.errors import ApiError
from pets.samplers import Prompt, Sampling
from pets.store import StoredTrace
from pets.store.store import open_database
from pets.types import Trace

from ..waiting import PATIENCE_S, until

ALICE, BOB = ApiKey("alice", budget=10), ApiKey("bob")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture(params=["sqlite", "postgres"])
def writer(request, tmp_path):
    """What the ledger writes with: in a file, or in a server that gateways share."""
    if request.param == "sqlite":
        writer = LedgerWriter(tmp_path / "g.db")
    else:
        writer = SharedWriter(request.getfixturevalue("postgres_url"))
    yield writer
    writer.close()


@pytest.fixture
def file_writer(tmp_path):
    writer = LedgerWriter(tmp_path / "g.db")
    yield writer
    writer.close()


def run(writer, work, **options):
    ledger = (GatewayLedger if isinstance(writer, LedgerWriter) else SharedLedger)(writer, **options)
    writer.start()
    return ledger, asyncio.run(work(ledger))


def stored(writer, sql):
    """A row as another connection sees it."""
    if isinstance(writer, LedgerWriter):
        return writer.reader.one(sql)
    with contextlib.closing(open_database(writer.database.url, create=False)) as database:
        return database.one(sql)


def attempt(size, key=BOB, kind="vote"):
    """An attempt of the driver's: a request with the account that pays."""
    account = RequestAccount(key, "r", 1, kind)
    return account, TraceRequest("q", 0, size, Prompt("?"), 0, Sampling(), context=account)


def test_an_attempt_is_opened_and_closed_with_what_its_traces_cost(writer):
    async def work(ledger):
        account, request = attempt(4)
        await ledger.open(request)
        assert (ledger.total.held, ledger.total.spent) == (4, 0)
        traces = [StoredTrace("q", number, tokens=8) for number in range(3)]  # fewer than asked for
        await ledger.close(request, traces)
        await ledger.close(request, traces)
        assert (ledger.total.held, ledger.total.spent, request.entry) == (0, 3, None)
        assert (account.delivered, account.lost) == (3, 0) == (ledger.delivered, ledger.lost)

    run(writer, work, total=5)


def test_choices_that_came_unasked_are_charged(writer):
    async def work(ledger):
        account, request = attempt(1)
        await ledger.open(request)
        request.surplus = 3
        await ledger.close(request, [StoredTrace("q", 0, tokens=8)])
        assert (ledger.total.held, ledger.total.spent, account.spent, account.delivered) == (0, 4, 4, 4)

    run(writer, work, total=5)


def test_an_attempt_that_may_have_been_sampled_costs_what_was_held_and_one_that_was_not_nothing(writer):
    async def work(ledger):
        for charged, spent, lost in [((), 0, 0), ([1, 1], 2, 2)]:
            account, request = attempt(2)
            await ledger.open(request)
            await ledger.close(request, [StoredTrace("q", 0, error="broken")] if charged else [], charged)
            assert (ledger.total.spent, account.lost, ledger.total.held) == (spent, lost, 0)
        account, request = attempt(3)
        await ledger.open(request)
        ledger.abandon(request)
        assert (ledger.total.spent, account.lost, ledger.lost) == (5, 3, 5)
        account, request = attempt(3)
        await ledger.open(request)
        ledger.abandon(request, [StoredTrace("q", number) for number in range(3)])  # they came, and nobody waits
        assert (ledger.total.spent, account.delivered, account.lost) == (8, 3, 0)

    run(writer, work)


def test_an_attempt_that_cannot_be_paid_for_is_not_opened(writer):
    async def work(ledger):
        _, request = attempt(6)
        with pytest.raises(BudgetError, match="this gateway's budget"):
            await ledger.open(request)
        assert request.entry is None and stored(writer, "SELECT count(*) FROM ledger") == (0,)

    run(writer, work, total=5)


def test_time_upstream_counts_once_however_many_attempts_are_out():
    account, _ = attempt(1)
    for now, change in [(1, "begins"), (2, "begins"), (4, "ends"), (5, "ends"), (9, "begins"), (10, "ends")]:
        getattr(account, f"attempt_{change}")(now)
    assert account.upstream_s == 5


def test_held_then_settled(writer):
    async def work(ledger):
        reservation = await ledger.reserve(ANYBODY, 4, 1, "r")
        assert (ledger.total.held, ledger.total.spent) == (4, 0)
        assert stored(writer, "SELECT held, spent FROM ledger") == (4, None)  # durable before anything is sent
        ledger.settle(reservation, cost=3, delivered=3)
        ledger.settle(reservation, cost=3, delivered=3)

    ledger, _ = run(writer, work, total=5)
    assert (ledger.total.held, ledger.total.spent, ledger.left(ANYBODY)) == (0, 3, 2)


def test_every_limit_holds_at_once(writer):
    async def work(ledger):
        assert await ledger.reserve(ALICE, 11, 1, "r") is None  # the key's own
        assert await ledger.reserve(BOB, 21, 1, "r") is None  # the total
        assert await ledger.reserve(BOB, 16, 1, "r") is None  # the window
        assert await ledger.reserve(ALICE, 10, 1, "r") is not None
        assert ledger.affordable_traces(ALICE, 1) == 0 and ledger.affordable_traces(BOB, 1) == 5

    run(writer, work, total=20, rate_limit=SpendRateLimit(15, 60))


def test_a_new_window_brings_a_new_allowance_and_says_when(file_writer):
    clock = Clock()

    async def work(ledger):
        reservation = await ledger.reserve(BOB, 5, 1, "r")
        refusal = ledger.refusal(BOB)
        assert (refusal.status, refusal.retry_after, refusal.should_retry) == (429, 20.0, True)  # 1000 = 16 * 60 + 40
        clock.now += 21
        assert ledger.affordable_traces(BOB, 1) == 5
        ledger.settle(reservation, cost=5, delivered=5)  # counts where it was held
        assert ledger.affordable_traces(BOB, 1) == 5

    run(file_writer, work, rate_limit=SpendRateLimit(5, 60), clock=clock)


@pytest.mark.parametrize("windows_later", [1, 2, 7])
def test_a_reservation_that_stalls_for_windows_is_held_in_the_present_one(file_writer, windows_later):
    clock = Clock()

    async def work(ledger):
        with contextlib.closing(sqlite3.connect(file_writer.database.path)) as other:
            other.execute("BEGIN IMMEDIATE")  # as a backup, or another process, may for a while
            late = asyncio.create_task(ledger.reserve(BOB, 3, 1, "late"))
            await until(lambda: file_writer._queued)
            clock.now += 60 * windows_later
            assert ledger.left(BOB) == 5  # of the present window
            other.rollback()
            reservation = await asyncio.wait_for(late, PATIENCE_S)
        assert reservation is not None and ledger.left(BOB) == 2
        ledger.settle(reservation, cost=3, delivered=3)
        assert await ledger.reserve(BOB, 3, 1, "too much") is None
        assert (ledger.total.spent, ledger.total.held) == (3, 0)

    run(file_writer, work, rate_limit=SpendRateLimit(5, 60), clock=clock)


def test_a_dead_gateways_dispatches_count_in_full(tmp_path):
    async def work(ledger):
        ledger.settle(await ledger.reserve(ALICE, 3, 1, "r"), cost=2, delivered=2)
        await ledger.reserve(ALICE, 4, 1, "r")  # and nothing comes back

    writer = LedgerWriter(tmp_path / "g.db")
    run(writer, work)
    writer.close()
    again = LedgerWriter(tmp_path / "g.db")
    ledger = GatewayLedger(again, total=100)
    assert ledger.total.spent == 6 and ledger.left(ALICE) == 4 and (ledger.delivered, ledger.lost) == (2, 4)
    again.close()


def test_fallbacks_are_written_down_and_not_counted(writer):
    async def work(ledger):
        reservation = await ledger.reserve(BOB, 1, 1, "r", "fallback")
        ledger.settle(reservation, cost=1, delivered=1)

    ledger, _ = run(writer, work, total=0)
    assert ledger.total.spent == 0 and stored(writer, "SELECT kind, traces FROM ledger") == ("fallback", 1)


def test_tokens_are_held_at_their_most_and_settled_at_what_they_were(writer):
    async def work(ledger):
        hold = ledger.max_trace_cost(prompt_tokens=50, max_tokens=100)
        reservation = await ledger.reserve(BOB, 2, hold, "r")
        assert ledger.total.held == 300
        ledger.settle_traces(reservation, [Trace("", 0, tokens=40, prompt_tokens=10), Trace("", 1, tokens=30)])

    ledger, _ = run(writer, work, currency=Currency.tokens(1), total=1000)
    assert ledger.total.spent == 80


MONEY = Currency.money(2.0, 10.0, prompt_tokens=0, max_tokens=100)  # 2 and 10 microdollars a token


def reopened(path, **options):
    """What a ledger that is opened again says was spent, in all and by alice."""
    writer = LedgerWriter(path)
    ledger = GatewayLedger(writer, **options)
    spent = ledger.total.spent, ledger._by_key["alice"].spent
    writer.close()
    return spent


@pytest.mark.parametrize("first", [Currency(), Currency.tokens(100), MONEY])
def test_another_unit_does_not_forget_what_was_spent(tmp_path, first):
    async def work(ledger):
        cost = ledger.max_trace_cost(prompt_tokens=50, max_tokens=100)
        for size, came in [(4, [StoredTrace("q", n, tokens=8, prompt_tokens=3) for n in range(2)]), (3, []), (5, None)]:
            account = RequestAccount(ApiKey("alice"), "r", cost, max_tokens=100, prompt_tokens=50)
            request = attempt(size)[1]
            request.context = account
            await ledger.open(request)
            if came is not None:
                await ledger.close(request, came, charged=() if came else [1] * size)
        free = attempt(1)[1]
        await ledger.open(free)
        await ledger.close(free)  # bob's, and nothing was sampled

    writer = LedgerWriter(tmp_path / "g.db")
    run(writer, work, currency=first)
    writer.close()
    # 2 came with 16 tokens and 6 of prompts; 3 were lost and 5 were on their way, each at its most.
    tokens, prompt_tokens = 16 + 8 * 100, 6 + 8 * 50
    for currency, spent in [
        (Currency.tokens(100), tokens + prompt_tokens),
        (MONEY, 10_000_000 * tokens + 2_000_000 * prompt_tokens),
        (Currency(), 10),
    ]:
        assert reopened(tmp_path / "g.db", currency=currency, total=1) == (spent, spent)
    window = {"rate_limit": SpendRateLimit(10**6, 1e12), "currency": Currency.tokens(100)}
    writer = LedgerWriter(tmp_path / "g.db")
    assert GatewayLedger(writer, **window).left(BOB) == 10**6 - tokens - prompt_tokens
    writer.close()


def test_entries_of_older_versions_count_as_the_longest_traces_in_another_unit(tmp_path, caplog):
    writer = LedgerWriter(tmp_path / "g.db")
    with writer.database.transaction() as connection:
        for spent, delivered, tokens in [(None, None, None), (4, 0, 0), (4, 4, 90), (0, 0, 0)]:
            connection.execute(
                "INSERT INTO ledger (at, key, request, kind, unit, traces, held, spent, delivered, tokens, "
                "prompt_tokens) VALUES (0, 'alice', 'r', 'vote', 'traces', 4, 4, ?, ?, ?, ?)",
                (spent, delivered, tokens, tokens and 10),
            )
    writer.close()
    assert reopened(tmp_path / "g.db", currency=Currency.tokens(100)) == (900, 900)
    assert "4 ledger entries are in another unit: with them, 900 tokens are spent" in caplog.text


def test_a_clock_that_steps_back_opens_no_window_twice(tmp_path):
    clock, spent = Clock(), 0
    options = {"rate_limit": SpendRateLimit(5, 60), "clock": clock}

    async def spend(ledger):
        if (reservation := await ledger.reserve(BOB, 5, 1, "r")) is None:
            return 0
        ledger.settle(reservation, cost=5, delivered=5)
        return 5

    for step in (0, 60, -60, 60, -60, 59, -3600):  # each in a gateway of its own, and twice in each
        clock.now += step
        writer = LedgerWriter(tmp_path / "g.db")
        ledger, once = run(writer, spend, **options)
        clock.now -= 60
        spent += once + asyncio.run(spend(ledger))
        clock.now += 60
        writer.close()
    assert spent == 10  # of two windows
    clock.now += 3600 + 61
    writer = LedgerWriter(tmp_path / "g.db")
    assert run(writer, spend, **options)[1] == 5
    writer.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2**53), st.integers(0, 2**53)), min_size=1, max_size=12))
def test_no_claim_costs_more_than_was_held_and_the_ledger_says_so(claims):
    writer = LedgerWriter()

    async def work(ledger):
        cost = ledger.max_trace_cost(prompt_tokens=50, max_tokens=100)
        over = 0
        for size, tokens, prompt_tokens in claims:
            account, request = attempt(size)
            account.trace_cost, request.estimated = cost, 1
            await ledger.open(request)
            before, held = ledger.total.spent, size * cost
            await ledger.close(request, [StoredTrace("q", 0, tokens=tokens, prompt_tokens=prompt_tokens)])
            claimed = ledger.currency.cost(Trace("", 0, tokens=tokens, prompt_tokens=prompt_tokens))
            assert ledger.total.spent - before == min(claimed, held)
            assert account.claimed_more == (claimed > held)
            over += account.claimed_more
        await ledger.reserve(BOB, 1, 1, "r")  # durable: all before it is written
        assert ledger.failure is None and (ledger.estimated, ledger.claimed_more) == (len(claims), over)
        row = writer.database.one("SELECT sum(spent), sum(estimated), sum(claimed_more) FROM ledger")
        assert row == (ledger.total.spent, len(claims), over)

    run(writer, work, currency=MONEY)
    writer.close()


def test_what_others_hold_may_come_back_and_what_is_spent_does_not(writer):
    async def work(ledger):
        reservation = await ledger.reserve(BOB, 1, 900, "r")
        refusal = ledger.refusal(BOB, 300)
        assert (refusal.status, refusal.code, refusal.should_retry) == (429, "rate_limit_exceeded", True)
        ledger.settle(reservation, cost=800, delivered=1)
        refusal = ledger.refusal(BOB, 300)
        assert (refusal.status, refusal.code, refusal.should_retry) == (429, "insufficient_quota", False)
        refusal = ledger.refusal(BOB, 1300)
        assert (refusal.status, refusal.should_retry) == (429, False) and "fewer 'max_tokens'" in refusal.message

    run(writer, work, currency=Currency.tokens(1), total=1000)


def test_an_amount_that_no_store_keeps_is_not_reserved(writer):
    async def work(ledger):
        assert await ledger.reserve(BOB, 16, 2**60, "r") is None and ledger.failure is None

    run(writer, work)


def test_cancelled_while_it_is_written_is_free_again(writer, tmp_path):
    async def work(ledger):
        task = asyncio.create_task(ledger.reserve(BOB, 4, 1, "r"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and ledger.total.held == ledger.total.spent == 0

    run(writer, work, total=5)
    writer.close()
    shared = isinstance(writer, SharedWriter)
    again = SharedWriter(writer.database.url) if shared else LedgerWriter(tmp_path / "g.db")
    assert (SharedLedger if shared else GatewayLedger)(again, total=5).total.spent == 0
    again.close()


def test_books_that_break_refuse(file_writer):
    async def work(ledger):
        file_writer.database.connection.execute("DROP TABLE ledger")
        with pytest.raises(ApiError, match="nothing was spent") as error:
            await ledger.reserve(BOB, 1, 1, "r")
        assert error.value.status == 503 and ledger.failure is not None and ledger.total.held == 0

    run(file_writer, work)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.integers(1, 6), st.integers(0, 6)), max_size=30))
def test_never_over_a_limit(steps):
    writer = LedgerWriter()

    async def work(ledger):
        waiting = []
        for key, traces, cost in steps:
            reservation = await ledger.reserve(key, traces, 1, "r")
            if reservation is not None:
                waiting.append((reservation, min(cost, traces)))
            for balance in (ledger.total, ledger._by_key[key.name]):
                assert balance.limit is None or balance.spent + balance.held <= balance.limit
            if len(waiting) > 3:
                ledger.settle(waiting[0][0], waiting.pop(0)[1])
        for reservation, cost in waiting:
            ledger.settle(reservation, cost)
        assert ledger.total.held == 0

    ledger, _ = run(writer, work, total=25)
    written = []
    writer.database.close, close = lambda: None, writer.database.close
    writer.close()
    written.extend(writer.database.one("SELECT coalesce(sum(spent), 0) FROM ledger"))
    close()
    assert written == [ledger.total.spent]


def test_dollars_are_shown_as_dollars(file_writer):
    ledger = GatewayLedger(file_writer, Currency.money(1.0, 2.0, prompt_tokens=0, max_tokens=100), total=10**12 // 4)
    key = ApiKey("bob", budget=5 * 10**12)
    assert (ledger.shown_unit, ledger.shown(25 * 10**10), ledger.words(125 * 10**10)) == ("usd", 0.25, "$1.25")
    messages = [ledger.refusal(key, amount).message for amount in (10**12, 1)]
    assert messages[0] == "The request may take $1, this gateway's budget is $0.25: ask for fewer 'max_tokens'."
    assert not any("picodollars" in message for message in messages)
