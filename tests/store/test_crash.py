"""kill -9 at random moments: every trace that was acknowledged is there once, and every launch that was."""

import sqlite3
from collections import Counter

import numpy as np
import pytest

from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunRecord, Store

pytestmark = pytest.mark.slow

WRITER = """
import sys
from pets.store import Launch, Store, StoredTrace
with Store.open(sys.argv[1]) as store, store.open_run("last") as run:
    lost = {(launch.question, launch.number) for launch in run.lost()}
    number = max([0, *(trace.number + 1 for trace in run.traces()), *(at + 1 for _, at in lost)])
    while True:
        launches = [Launch(f"q{n}", number) for n in range(20)]
        run.write(launches, [])
        print("launched", number, flush=True)
        run.write([], [StoredTrace(*launch, f"a{number}", "text " * 400) for launch in launches])
        print("told", number, flush=True)
        number += 1
"""


CREATOR = """
import sys
from itertools import count
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import RunRecord, Store

def endless():
    for n in count():
        if n == 20_000:
            print("in the middle", flush=True)
        yield Problem(f"q{n}", Prompt("x" * 500))

with Store.open(sys.argv[1]) as store:
    store.create(RunRecord(1), endless())
"""


def test_a_run_is_there_with_all_its_questions_or_not_at_all(location, child):
    process = child(CREATOR, location)
    assert process.stdout.readline() == "in the middle\n"
    process.kill()
    with Store.open(location) as store:
        assert store.runs() == []
        with store.create(RunRecord(1), [Problem("q", Prompt("p"))]) as run:
            assert [problem.id for problem in run.problems()] == ["q"]


def test_every_acknowledged_write_survives_kill_9(location, path, child):
    rng = np.random.default_rng(5)
    with Store.open(location) as store:
        store.create(RunRecord(10**6), [Problem(f"q{n}", Prompt("?")) for n in range(20)]).close()
    launched, told = set(), set()
    for _ in range(8):
        process = child(WRITER, location)
        acknowledged = [process.stdout.readline().split() for _ in range(int(rng.integers(1, 60)))]
        process.kill()
        acknowledged += [line.split() for line in process.stdout.read().splitlines()]
        launched |= {int(number) for word, number in acknowledged if word == "launched"}
        told |= {int(number) for word, number in acknowledged if word == "told"}
        with Store.open(location) as store:
            check(store.view(), launched, told)
    assert len(told) > 50
    if location == path:
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()


def check(view, launched, told):
    traces = Counter((trace.number, trace.answer, len(trace.text)) for trace in view.traces())
    assert set(traces.values()) == {20}  # a batch is whole
    kept = {number for number, answer, length in traces if answer == f"a{number}" and length == 2000}
    lost = Counter(Launch(launch.question, launch.number) for launch in view.lost())
    assert told <= kept and len(kept) == len(traces)
    assert launched <= kept | {launch.number for launch in lost}
    assert not lost.keys() & {Launch(f"q{n}", number) for n in range(20) for number in kept}
