"""What a run shows while it is under way; the first Ctrl-C drains, the second stops at once."""

import asyncio
import io
import os
import re
import signal
import time
from dataclasses import replace

import pytest
from rich.console import Console

from pets.cli._run import INTERRUPTED, interruptible, outage_words, progress_table, watch_outages
from pets.engine import Snapshot
from pets.engine.fetch import Outage
from pets.engine.progress import ExpectedConsistency
from pets.errors import BusyError, UnreachableError

from ..simulated_time import run_simulated

UNDER_WAY = Snapshot(
    questions=10,
    traces=40,
    failed=2,
    in_flight=8,
    spent=48,
    total=160,
    unit="traces",
    seconds=20.0,
    rate=2.0,
    expected_left=112,
    faults={"BusyError": 3},
    outage=None,
    expected=None,
)
HALF_WAY = ExpectedConsistency(0.915, 0.9, (("q7", 0.41), ("q2", 0.5)))


def shown(snapshot, latest=None):
    console = Console(file=io.StringIO(), width=120, markup=False)
    console.print(progress_table(snapshot, latest))
    return {row.split("  ")[0]: " ".join(row.split()) for row in console.file.getvalue().splitlines()}


def test_a_run_under_way_shows_spend_traces_and_the_time_left():
    rows = shown(UNDER_WAY, HALF_WAY)
    assert rows["spent"] == "spent 48 traces of 160 traces (30%)"
    assert rows["traces"] == "traces 40 (2 failed), 8 in flight, 2.0/s"
    assert rows["left"] == "left 0:00:56"
    assert rows["self-consistency"] == "self-consistency 0.915 expected, 90% answered"
    assert rows["hardest"] == "hardest q7 0.41 q2 0.50"
    assert rows["faults"] == "faults BusyError 3"


def test_the_time_left_is_unknown_before_the_first_trace():
    assert shown(replace(UNDER_WAY, traces=0, rate=0.0))["left"] == "left ..."


def test_an_outage_is_shown_instead_of_the_time_left():
    error = UnreachableError("http://localhost:1/v1 [Errno 111] refused the connection.")
    rows = shown(replace(UNDER_WAY, outage=Outage(error, since_s=60.0, next_try_s=1.0, gives_up_s=240.0)))
    times = r"unreachable since \d\d:\d\d:\d\d, trying again until \d\d:\d\d:\d\d: "
    assert re.match(times + re.escape(str(error)), rows["unreachable"])
    assert "left" not in rows


def test_the_times_of_an_outage_follow_from_now():
    noon = time.mktime((2026, 11, 16, 12, 0, 0, 0, 0, -1))
    outage = Outage(UnreachableError("gone."), since_s=65.0, next_try_s=1.0, gives_up_s=235.0)
    assert outage_words(outage, noon) == "since 11:58:55, trying again until 12:03:55: gone."
    assert outage_words(replace(outage, gives_up_s=None), noon) == "since 11:58:55, trying again: gone."


def test_an_outage_and_its_end_are_told_once_where_there_is_no_terminal(capsys):
    outage = Outage(UnreachableError("gone."), 1.0, 1.0, None)
    states = iter([None, outage, outage, None, None])

    async def watch():
        with pytest.raises(RuntimeError):  # when the states are used up
            await watch_outages(lambda: next(states))

    run_simulated(watch())
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("Unreachable since ") and first.endswith("trying again: gone.")
    assert second == "Reachable again."


def test_servers_that_answer_with_errors_alone_are_not_called_unreachable(capsys):
    failing = Outage(BusyError("the server says 500.", status=500), 6.0, 1.0, None)
    states = iter([failing, failing, None])

    async def watch():
        with pytest.raises(RuntimeError):
            await watch_outages(lambda: next(states))

    run_simulated(watch())
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("Nothing but errors since ") and first.endswith("trying again: the server says 500.")
    assert second == "The servers serve again."
    assert "errors" in shown(replace(UNDER_WAY, outage=failing))


def test_the_first_signal_drains_and_the_block_ends_as_it_likes(capsys):
    async def main():
        drained = asyncio.Event()
        with interruptible(drained.set, "Waiting."):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(drained.wait(), 10)
        return "done"

    assert asyncio.run(main()) == "done"
    assert capsys.readouterr().err == "\nWaiting. Ctrl-C again stops at once.\n"


def test_the_second_signal_cancels():
    async def main():
        drained = asyncio.Event()
        with interruptible(drained.set, "Waiting."):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(drained.wait(), 10)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(asyncio.Event().wait(), 10)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_afterwards_signals_do_what_they_did():
    async def main():
        before = signal.getsignal(signal.SIGTERM)
        with interruptible(lambda: None, ""):
            pass
        return signal.getsignal(signal.SIGTERM) == before

    assert asyncio.run(main())
    assert INTERRUPTED == 130
