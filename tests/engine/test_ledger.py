"""The run store's ledger: many writes share a transaction, and whoever waits hears of a failure."""

import asyncio
import contextlib
import sqlite3
from collections import Counter

import pytest

from pets.core.money import Currency
from pets.engine.batch import JobLedger
from pets.engine.fetch import TraceRequest
from pets.engine.ledger import RunLedger
from pets.errors import InputError, StateError
from pets.questions import Problem
from pets.samplers import Prompt, Sampling
from pets.store import RunRecord, Store, StoredTrace
from pets.store.records import LOST
from pets.testing import check_ledger
from pets.types import Usage


def request(number, size=1):
    return TraceRequest("q", number, size, Prompt("?"), 0, Sampling(), (1,) * size)


class Recorder:
    """A run that keeps what is written; the third write fails."""

    def __init__(self):
        self.writes, self.answered = [], []
        self.settings = RunRecord(total=99)

    def write(self, launched, traces, *, held, charged, dropped):
        self.writes.append((list(launched), list(traces), list(charged), list(dropped)))
        if len(self.writes) == 3:
            raise sqlite3.OperationalError("disk full")

    def mark_answered(self, questions):
        self.answered += questions


def test_writes_share_transactions_and_failures_are_told():
    run = Recorder()

    async def write():
        async with RunLedger(run) as ledger:
            await asyncio.gather(*(ledger.opened(request(number)) for number in range(50)))
            await ledger.opened(request(50))
            with pytest.raises(sqlite3.OperationalError):
                await asyncio.gather(*(ledger.opened(request(number)) for number in (51, 52)))
            await ledger.opened(request(53))

    asyncio.run(write())
    assert sum(len(launched) for launched, *_ in run.writes) == 54
    assert len(run.writes) <= 5


def test_a_retry_is_not_a_second_launch_and_what_was_lost_is_charged():
    run = Recorder()
    run.writes.append(None)  # so that the failing write is far away
    run.writes += [None] * 3

    async def write():
        async with RunLedger(run) as ledger:
            attempt = request(0, size=2)
            await ledger.opened(attempt)
            ledger.lost(attempt, Usage())
            await ledger.opened(attempt)  # tried again
            await ledger.delivered(attempt, [StoredTrace("q", 0, "A"), StoredTrace("q", 1, "A")])
            other = request(2)
            await ledger.opened(other)
            ledger.released(other)
            ledger.answered("q")

    asyncio.run(write())
    written = run.writes[4:]
    assert [len(launched) for launched, *_ in written if launched] == [2, 1]
    held = Counter()
    for *_, charged, _ in written:
        for launch, amount in charged:
            held[launch] += amount
    assert held == {("q", 0): 1, ("q", 1): 1}
    assert [dropped for *_, dropped in written if dropped] == [[("q", 2)]]
    assert run.answered == ["q"]


def test_a_question_that_cannot_be_kept_is_refused_alone(tmp_path):
    async def write(run):
        async with RunLedger(run) as ledger:
            attempt = request(0)
            await ledger.opened(attempt)
            return await asyncio.gather(
                ledger.delivered(attempt, [StoredTrace("q", 0, "A")]),
                ledger.admit(Problem("other", Prompt("\ud800"))),
                return_exceptions=True,
            )

    settings, problems = RunRecord(total=9), [Problem("q", Prompt("?"))]
    with Store.open(tmp_path / "runs.db") as store, store.create(settings, problems) as run:
        written, refused = asyncio.run(write(run))
        assert written is None and isinstance(refused, InputError) and "no UTF-8" in str(refused)
        assert [trace.answer for trace in run.traces()] == ["A"]


def test_what_is_cut_off_before_it_is_sent_is_given_back_and_what_was_lost_before_stays_charged(tmp_path):
    async def write(run):
        waiting, retried, out = request(0), request(1), request(2)
        async with RunLedger(run) as ledger:
            for attempt in (retried, out):
                await ledger.opened(attempt)
            ledger.lost(retried, Usage())
            ledger.abandoned(out, ())
            for attempt in (waiting, retried):
                opening = asyncio.create_task(ledger.opened(attempt))
                await asyncio.sleep(0)
                opening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await opening

    settings, problems = RunRecord(total=9), [Problem("q", Prompt("?"))]
    with Store.open(tmp_path / "runs.db") as store, store.create(settings, problems) as run:
        asyncio.run(write(run))
        assert [(launch.number, launch.held) for launch in run.lost()] == [(1, 1), (2, 1)]


def test_traces_that_nobody_counts_any_more_are_kept_at_what_they_cost_without_a_vote(tmp_path):
    async def write(run):
        async with RunLedger(run) as ledger:
            attempt = TraceRequest("q", 0, 2, Prompt("?"), 0, Sampling(), (1000, 1000))
            await ledger.opened(attempt)
            ledger.released(attempt.part(1, 1))  # the reply left it out
            ledger.abandoned(attempt, [StoredTrace("q", 0, text="It is A.", tokens=9, prompt_tokens=5)])

    settings = RunRecord(total=9000, currency=Currency.tokens(1000))
    with Store.open(tmp_path / "runs.db") as store, store.create(settings, [Problem("q", Prompt("?"))]) as run:
        asyncio.run(write(run))
        kept = [(trace.text, trace.answer, trace.error, trace.tokens) for trace in run.traces()]
        assert kept == [("It is A.", None, LOST, 9)]
        assert run.summary().spent == settings.currency.cost(Usage(tokens=9, prompt_tokens=5))


def test_what_comes_when_the_run_has_ended_is_not_written_and_says_so():
    run = Recorder()

    async def late():
        async with RunLedger(run) as ledger:
            pass
        with pytest.raises(StateError, match="ended"):
            await ledger.opened(request(1))

    asyncio.run(late())
    assert run.writes == []


@pytest.mark.parametrize("kind", [RunLedger, lambda run: JobLedger(run, ())], ids=["run", "job"])
def test_a_run_s_ledger_keeps_the_laws(kind, tmp_path):
    path = tmp_path / "runs.db"
    jobs_are_left = kind is not RunLedger

    @contextlib.asynccontextmanager
    async def open_ledger():
        with Store.open(path) as store, store.open_run(1) as run:
            async with kind(run) as ledger:
                yield ledger

    def charged():
        with Store.open(path) as store:
            return store.view().summary().spent

    with Store.open(path) as store:
        store.create(RunRecord(total=99), [Problem("q", Prompt("?"))]).close()
    check_ledger(open_ledger, charged)
    with Store.open(path) as store:
        lost = [launch.number for launch in store.view().lost()]
    assert lost == [9, 10, *([11, 12] if jobs_are_left else []), 90, 91]
