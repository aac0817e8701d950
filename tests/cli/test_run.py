"""What a run shows while it is under way."""

import io
from dataclasses import replace

from rich.console import Console

from pets.cli._run import progress_table
from pets.engine import Snapshot
from pets.engine.progress import ExpectedConsistency

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
    rows = shown(replace(UNDER_WAY, outage="http://localhost:1/v1 [Errno 111] refused the connection."))
    assert rows["unreachable"] == "unreachable trying again: http://localhost:1/v1 [Errno 111] refused the connection."
    assert "left" not in rows
