"""The ledger: never over a limit, right after a crash, whatever is cancelled."""

import asyncio
import contextlib
import tempfile
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.money import Currency
from pets.engine.fetch import TraceRequest
from pets.errors import BudgetError
from pets.gateway.auth import ANYBODY, BUDGET_WINDOWS, DAY_S, ApiKey, window_number
from pets.gateway.ledger import RequestAccount
from pets.gateway.ledger_store import Charge, SpendRateLimit
from pets.samplers import Prompt, Sampling
from pets.store import StoredTrace
from pets.store.store import open_database
from pets.testing import check_ledger
from pets.types import Trace, Usage

from .conftest import open_ledger, reserve

ALICE, BOB = ApiKey("alice", budget=10), ApiKey("bob")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """Where the ledger is kept: in a file, or in a server that gateways share."""
    return str(tmp_path / "g.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def run(store, work, **options):
    with open_ledger(store, **options) as ledger:
        return ledger, asyncio.run(work(ledger))


def stored(store, sql):
    """A row as another connection sees it."""
    with contextlib.closing(open_database(store, create=False)) as database:
        return database.one(sql)


def attempt(size, key=BOB, **more):
    """An attempt of the driver's: a request with the account that pays."""
    account = RequestAccount(key, "r", **more)
    return account, TraceRequest("q", 0, size, Prompt("?"), 0, Sampling(), context=account)


def test_an_attempt_is_opened_and_closed_with_what_its_traces_cost(store):
    async def work(ledger):
        account, request = attempt(4)
        await ledger.opened(request)
        assert (ledger.total.held, ledger.total.spent) == (4, 0)
        traces = [StoredTrace("q", number, tokens=8) for number in range(3)]  # fewer than asked for
        await ledger.delivered(request, traces)
        await ledger.delivered(request, traces)
        assert (ledger.total.held, ledger.total.spent, request.entry) == (0, 3, None)
        assert (account.charged.delivered, account.lost) == (3, 0)

    run(store, work, total=5)


def test_a_gateway_s_ledger_keeps_the_laws(store):
    @contextlib.asynccontextmanager
    async def reopened():
        with open_ledger(store, total=60) as ledger:
            yield ledger

    def charged():
        return int((stored(store, "SELECT sum(coalesce(spent, held)) FROM ledger") or (0,))[0] or 0)

    check_ledger(reopened, charged, context=lambda: RequestAccount(BOB, "r"), total=60)


def test_a_ledger_in_memory_keeps_the_laws():
    with open_ledger(":memory:", total=60) as ledger:
        check_ledger(
            lambda: contextlib.nullcontext(ledger),
            lambda: ledger.total.spent + ledger.total.held,
            context=lambda: RequestAccount(BOB, "r"),
            total=60,
            survives=False,
        )


def test_choices_that_came_unasked_are_charged(store):
    async def work(ledger):
        account, request = attempt(1)
        await ledger.opened(request)
        request.surplus = 3
        await ledger.delivered(request, [StoredTrace("q", 0, tokens=8)])
        assert (ledger.total.held, ledger.total.spent, account.charged.spent, account.charged.delivered) == (0, 4, 4, 4)

    run(store, work, total=5)


def test_an_attempt_that_may_have_been_sampled_costs_what_was_held_and_one_that_was_not_nothing(store):
    async def work(ledger):
        account, request = attempt(2)
        await ledger.opened(request)
        ledger.released(request)
        assert (ledger.total.spent, account.lost, ledger.total.held) == (0, 0, 0)
        await ledger.opened(request)
        ledger.lost(request, Usage())
        await ledger.given_up([StoredTrace("q", 0, error="broken")])
        assert (ledger.total.spent, account.lost, ledger.total.held) == (2, 2, 0)
        account, request = attempt(3)
        await ledger.opened(request)
        ledger.abandoned(request, ())
        assert (ledger.total.spent, account.lost) == (5, 3)
        account, request = attempt(3)
        await ledger.opened(request)
        ledger.abandoned(request, [StoredTrace("q", number) for number in range(3)])  # they came, and nobody waits
        assert (ledger.total.spent, account.charged.delivered, account.lost) == (8, 3, 0)

    run(store, work)


def test_an_attempt_that_cannot_be_paid_for_is_not_opened(store):
    async def work(ledger):
        _, request = attempt(6)
        with pytest.raises(BudgetError, match="this gateway's budget"):
            await ledger.opened(request)
        assert request.entry is None and stored(store, "SELECT count(*) FROM ledger") == (0,)

    run(store, work, total=5)


def test_time_upstream_counts_once_however_many_attempts_are_out():
    account, _ = attempt(1)
    for now, change in [(1, 1), (2, 1), (4, -1), (5, -1), (9, 1), (10, -1)]:
        account.count_attempts(change, now)
    assert account.upstream_s == 5


def test_held_then_settled(store):
    async def work(ledger):
        reservation = await reserve(ledger, ANYBODY, 4)
        assert (ledger.total.held, ledger.total.spent) == (4, 0)
        assert stored(store, "SELECT held, spent FROM ledger") == (4, None)  # durable before anything is sent
        ledger.settle(reservation, Charge(3, 3))
        ledger.settle(reservation, Charge(3, 3))

    ledger, _ = run(store, work, total=5)
    assert (ledger.total.held, ledger.total.spent, ledger.left(ANYBODY)) == (0, 3, 2)


def test_every_limit_holds_at_once(store):
    async def work(ledger):
        assert await reserve(ledger, ALICE, 11) is None  # the key's own
        assert await reserve(ledger, BOB, 21) is None  # the total
        assert await reserve(ledger, BOB, 16) is None  # the window
        assert await reserve(ledger, ALICE, 10) is not None
        assert (ledger.left(ALICE), ledger.left(BOB)) == (0, 5)

    run(store, work, total=20, rate_limit=SpendRateLimit(15, 60))


def test_fallbacks_are_written_down_and_not_counted(store):
    async def work(ledger):
        reservation = await reserve(ledger, BOB, 1, kind="fallback")
        ledger.settle(reservation, Charge(1, 1))

    ledger, _ = run(store, work, total=0)
    assert ledger.total.spent == 0 and stored(store, "SELECT kind, traces FROM ledger") == ("fallback", 1)


LONGEST = {"max_tokens": 100, "prompt_tokens": 50}


def test_tokens_are_held_at_their_most_and_settled_at_what_they_were(store):
    async def work(ledger):
        reservation = await reserve(ledger, BOB, 2, **LONGEST)
        assert ledger.total.held == 300
        ledger.settle_traces(reservation, [Trace("", 0, tokens=40, prompt_tokens=10), Trace("", 1, tokens=30)])

    ledger, _ = run(store, work, currency=Currency.tokens(1), total=1000)
    assert ledger.total.spent == 80


MONEY = Currency.money(2.0, 10.0, prompt_tokens=0, max_tokens=100)  # 2 and 10 microdollars a token


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2**53), st.integers(0, 2**53)), min_size=1, max_size=12))
def test_no_claim_costs_more_than_was_held_and_the_ledger_says_so(claims):
    async def work(ledger):
        over = 0
        for size, tokens, prompt_tokens in claims:
            account, request = attempt(size, **LONGEST)
            request.estimated = 1
            await ledger.opened(request)
            before, held = ledger.total.spent, ledger.total.held
            await ledger.delivered(request, [StoredTrace("q", 0, tokens=tokens, prompt_tokens=prompt_tokens)])
            claimed = ledger.currency.cost(Trace("", 0, tokens=tokens, prompt_tokens=prompt_tokens))
            assert ledger.total.spent - before == min(claimed, held)
            assert account.charged.claimed_more == (claimed > held)
            over += account.charged.claimed_more
        assert ledger.backend.failure is None
        return over

    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/g.db"
        ledger, over = run(store, work, currency=MONEY)
        row = stored(store, "SELECT sum(spent), sum(estimated), sum(claimed_more) FROM ledger")
    assert row == (ledger.total.spent, len(claims), over)


def test_what_others_hold_may_come_back_and_what_is_spent_does_not(store):
    async def work(ledger):
        reservation = await reserve(ledger, BOB, 1, max_tokens=900)
        refusal = ledger.refusal(BOB, 300)
        assert (refusal.status, refusal.code, refusal.should_retry) == (429, "rate_limit_exceeded", True)
        ledger.settle(reservation, Charge(800, 1))
        refusal = ledger.refusal(BOB, 300)
        assert (refusal.status, refusal.code, refusal.should_retry) == (429, "insufficient_quota", False)
        budget = "200 tokens of this gateway's budget of 1,000 tokens are left"
        assert refusal.message == f"{budget}; this request may take 300 tokens: ask for fewer 'max_tokens'."
        refusal = ledger.refusal(BOB, 1300)
        assert (refusal.status, refusal.should_retry) == (429, False) and "fewer 'max_tokens'" in refusal.message

    run(store, work, currency=Currency.tokens(1), total=1000)


def test_an_amount_that_no_store_keeps_is_not_reserved(store):
    async def work(ledger):
        assert await reserve(ledger, BOB, 16, max_tokens=2**60) is None and ledger.backend.failure is None

    run(store, work, currency=Currency.tokens(1))


def test_cancelled_while_it_is_written_is_free_again(store):
    async def work(ledger):
        task = asyncio.create_task(reserve(ledger, BOB, 4))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and ledger.total.held == ledger.total.spent == 0

    run(store, work, total=5)
    with open_ledger(store, total=5) as again:
        assert again.total.spent == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.integers(1, 6), st.integers(0, 6)), max_size=30))
def test_never_over_a_limit(steps):
    async def work(ledger):
        waiting = []
        for key, traces, cost in steps:
            reservation = await reserve(ledger, key, traces)
            if reservation is not None:
                waiting.append((reservation, Charge(min(cost, traces))))
            for balance in (ledger.total, ledger.balance_of(key.name)):
                assert balance.limit is None or balance.spent + balance.held <= balance.limit
            if len(waiting) > 3:
                ledger.settle(*waiting.pop(0))
        for reservation, charge in waiting:
            ledger.settle(reservation, charge)
        assert ledger.total.held == 0

    with tempfile.TemporaryDirectory() as folder:
        ledger, _ = run(f"{folder}/g.db", work, total=25)
        assert stored(f"{folder}/g.db", "SELECT coalesce(sum(spent), 0) FROM ledger") == (ledger.total.spent,)


def test_where_nothing_is_limited_a_refusal_says_to_try_again(store):
    async def work(ledger):
        refusal = ledger.refusal(ANYBODY, 1)
        assert refusal.status == 429 and "promised to questions under way" in refusal.message

    run(store, work)


def test_dollars_are_shown_as_dollars(store):
    key = ApiKey("bob", budget=5 * 10**12)
    with open_ledger(store, currency=MONEY, total=10**12 // 4) as ledger:
        messages = [ledger.refusal(key, amount).message for amount in (10**12, 1)]
    assert messages[0] == "The request may take $1, this gateway's budget is $0.25: ask for fewer 'max_tokens'."
    assert not any("picodollars" in message for message in messages)


def at(text):
    """The seconds since 1970 of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


async def spend(ledger, key, traces):
    """Spend so many traces, or none where they are not free."""
    if (reservation := await reserve(ledger, key, traces)) is None:
        return 0
    ledger.settle(reservation, Charge(traces, traces))
    return traces


@pytest.mark.parametrize(
    ("window", "before", "end"),
    [
        ("day", "2026-11-18T23:59:57", "2026-11-19"),
        ("week", "2026-11-22T23:59:57", "2026-11-23"),
        ("week", "2027-01-03T12:00:00", "2027-01-04"),  # over the end of a year
        ("month", "2026-11-30T23:59:57", "2026-12-01"),
        ("month", "2026-12-31T23:59:57", "2027-01-01"),
        ("month", "2028-02-29T12:00:00", "2028-03-01"),
    ],
)
def test_a_key_s_budget_begins_anew_with_each_window(store, window, before, end):
    now, key = [at(before)], ApiKey("carol", budget=10, window=window)

    async def work(ledger):
        assert await spend(ledger, key, 6) == 6 and await spend(ledger, key, 5) == 0
        refused = ledger.refusal(key, 5)
        assert refused.message == (
            f"4 traces of this key's budget of 10 traces per {window} are left; this request may take 5 traces: ask "
            f"for fewer traces ('pets.max_traces', or 'n' of a plain request). It begins anew at {end} 00:00 UTC."
        )
        assert refused.retry_after == pytest.approx(at(end) - at(before), abs=1)
        assert refused.should_retry is (at(end) - at(before) < 60)
        across = await reserve(ledger, key, 4)
        assert await reserve(ledger, key, 1) is None
        now[0] = at(end) + 1  # a server's clock may be a little behind
        assert ledger.left(key) == 10  # what is held counts in the window before
        ledger.settle(across, Charge(4, 4))
        assert await spend(ledger, key, 10) == 10 and await spend(ledger, key, 1) == 0
        assert f"used up this key's budget of 10 traces per {window}. This request" in ledger.refusal(key, 1).message
        assert ledger.balance_of("carol").spent == ledger.total.spent == 20

    run(store, work, clock=lambda: now[0])


def test_a_budget_may_change_its_window_and_its_amount_at_any_time(store):
    async def work(ledger):
        key = ApiKey("carol", budget=10)
        assert await spend(ledger, key, 6) == 6
        held = await reserve(ledger, key, 2)
        for window in BUDGET_WINDOWS:  # what was spent before counts in each
            assert ledger.left(ApiKey("carol", budget=10, window=window)) == 2
        below = ApiKey("carol", budget=3, window="month")
        assert await reserve(ledger, below, 1) is None and ledger.left(below) == 0
        assert "used up this key's budget of 3 traces per month" in ledger.refusal(below, 1).message
        ledger.settle(held, Charge(1, 1))
        more = ApiKey("carol", budget=9, window="day")
        assert await spend(ledger, more, 3) == 0 and await spend(ledger, more, 2) == 2
        assert ledger.left(ApiKey("carol")) is None and await spend(ledger, ApiKey("carol"), 5) == 5
        assert ledger.left(ApiKey("carol", budget=20)) == ledger.left(ApiKey("carol", budget=20, window="week")) == 6

    run(store, work)


def test_after_a_restart_a_window_s_spend_is_the_ledger_s(store):
    key, bob = ApiKey("carol", budget=100, window="month"), ApiKey("bob", budget=100, window="month")

    async def work(ledger):
        for traces in (7, 8, 9):
            assert await spend(ledger, key, traces) == traces
        assert await reserve(ledger, key, 4) is not None  # in flight when the process dies: spent in full
        assert await spend(ledger, bob, 2) == 2

    def left():
        async def look(ledger):
            names = ("day", "week", "month", None)
            return [ledger.left(ApiKey("carol", budget=100, window=name)) for name in names] + [ledger.left(bob)]

        return run(store, look)[1]

    run(store, work)
    assert left() == [72, 72, 72, 72, 98]
    with contextlib.closing(open_database(store, create=False)) as database, database.transaction() as rows:
        rows.execute("UPDATE ledger SET day = day - 40, at = at - 3456000 WHERE traces = 7")
        rows.execute("UPDATE ledger SET day = NULL, at = at - 3456000 WHERE traces = 8")  # of an earlier version
        rows.execute("UPDATE ledger SET day = NULL WHERE traces = 9")
    assert left() == [87, 87, 87, 72, 98]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(BUDGET_WINDOWS),
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 6), st.sampled_from([0, 0, 3600, 80_000, 600_000])), max_size=40
    ),
)
def test_no_window_of_a_key_is_ever_passed_and_a_restart_finds_the_same(window, steps):
    now, key = [at("2026-12-27T22:00")], ApiKey("carol", budget=9, window=window)

    async def work(ledger):
        waiting = []
        for traces, cost, later in steps:
            if (reservation := await reserve(ledger, key, traces)) is not None:
                waiting.append((reservation, Charge(min(cost, traces))))
            if len(waiting) > 2:
                ledger.settle(*waiting.pop(0))
            now[0] += later
        for reservation, charge in waiting:
            ledger.settle(reservation, charge)
        return ledger.left(key)

    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/g.db"
        _, left = run(store, work, clock=lambda: now[0])
        with contextlib.closing(open_database(store, create=False)) as database:
            days = database.all("SELECT day, at, spent FROM ledger")
        with open_ledger(store, clock=lambda: now[0]) as ledger:
            assert ledger.left(key) == left
    by_window = dict.fromkeys((window_number(window, day) for day, _, _ in days), 0)
    for day, then, spent in days:
        assert day == then // DAY_S
        by_window[window_number(window, day)] += spent
    assert all(amount <= 9 for amount in by_window.values())
    assert left == 9 - by_window.get(window_number(window, int(now[0] // DAY_S)), 0)


def test_a_gateway_s_ledger_keeps_the_laws_with_windows_of_keys(store):
    carol = ApiKey("carol", budget=60, window="month")

    @contextlib.asynccontextmanager
    async def reopened():
        with open_ledger(store) as ledger:
            yield ledger

    def charged():
        return int((stored(store, "SELECT sum(coalesce(spent, held)) FROM ledger") or (0,))[0] or 0)

    check_ledger(reopened, charged, context=lambda: RequestAccount(carol, "r"), total=60)
