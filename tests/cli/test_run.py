"""What a run shows while it is under way; the first Ctrl-C drains, the second stops at once."""

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import signal
import sys
import termios
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console

from pets.cli._run import interruptible, outage_words, progress_table, watch_outages
from pets.cli.main import INTERRUPTED
from pets.engine import Snapshot
from pets.engine.fetch import Outage
from pets.engine.progress import ExpectedConsistency
from pets.errors import BusyError, UnreachableError
from pets.mock import MockModel, running, synthetic

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, wait_until

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
HALF_WAY = ExpectedConsistency(0.915, 0.9, (("q7", 0.41), ("q2", 0.5)), to_gain=0.085)


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


def test_any_time_left_is_shown_however_long():
    assert shown(replace(UNDER_WAY, rate=1.0, expected_left=93_784))["left"] == "left 26:03:04"
    assert shown(replace(UNDER_WAY, rate=1e-6, expected_left=10**12))["left"] == "left 277777777777777:46:40"


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
        async with interruptible(drained.set, "Waiting."):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(drained.wait(), 10)
        return "done"

    assert asyncio.run(main()) == "done"
    assert capsys.readouterr().err == "\nWaiting. Ctrl-C again stops at once.\n"


class Screen:
    """A terminal of 80 columns and 24 lines, as far as rich's live display steers one."""

    def __init__(self):
        self.rows, self.row, self.column = [" " * 80] * 24, 0, 0

    def write(self, text):
        for steer, parameter, final, plain in re.findall(r"(\x1b\[([?\d;]*)([A-Za-z]))|([^\x1b])", text):
            if not steer:
                self._print(plain)
            elif final == "A":
                self.row = max(0, self.row - int(parameter or 1))
            elif final == "K":
                self.rows[self.row] = " " * 80
            else:
                assert final in "mhl", steer  # colours, and whether the cursor is seen

    def _print(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n" or self.column == 80:
            if self.row == 23:
                self.rows = [*self.rows[1:], " " * 80]
            self.row, self.column = min(23, self.row + 1), 0
        if character not in "\r\n":
            line = self.rows[self.row]
            self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1


def test_the_words_of_ctrl_c_stay_on_a_terminal_under_its_live_figures(popen, tmp_path):
    questions = [{"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4"} for i in range(10)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    mock = MockModel(synthetic(10, strength=0.3, tokens=64), tokens_per_second=40)
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    seen = bytearray()
    with running(mock) as url:
        words = ["solve", "questions.jsonl", "--endpoint", url, "--model", "mock", "--budget", "30x", "-o", "a.jsonl"]
        command = [sys.executable, "-c", "from pets.cli.main import main; main()", *words, "--concurrency", "4"]
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        child = popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment | {"TERM": "xterm"})
        os.close(follower)
        reading = threading.Thread(target=read_all, args=(leader, seen))
        reading.start()
        wait_until(lambda: b"in flight" in seen or child.poll() is not None)
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE_S)
    reading.join(PATIENCE_S)
    os.close(leader)
    after = seen.partition(b"Ctrl-C again")[2]
    assert b"in flight, " in after  # figures were painted again
    screen = Screen()
    screen.write(seen.decode())
    lines = [line.rstrip() for line in screen.rows]
    assert "Waiting for the traces in flight. Ctrl-C again stops at once." in lines
    assert not any(line.startswith(("hardest", "spent  ")) for line in lines)  # and no part of them stays


def read_all(leader, seen):
    with contextlib.suppress(OSError):  # the last process at the other end is gone
        while part := os.read(leader, 65536):
            seen.extend(part)


def test_the_second_signal_cancels():
    async def main():
        drained = asyncio.Event()
        async with interruptible(drained.set, "Waiting."):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(drained.wait(), 10)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(asyncio.Event().wait(), 10)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_afterwards_signals_do_what_they_did():
    async def main():
        before = signal.getsignal(signal.SIGTERM)
        async with interruptible(lambda: None, ""):
            pass
        return signal.getsignal(signal.SIGTERM) == before

    assert asyncio.run(main())
    assert INTERRUPTED == 130
