"""A store by path, by URL and in memory; the runs in it are found by number, and a bad run leaves nothing."""

import contextlib
import sqlite3

import pytest

from pets.errors import InputError, StateError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunRecord, Store, StoredTrace
from pets.store.records import LOST
from pets.store.store import open_database

SETTINGS = RunRecord(10)


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_store_is_found_by_path_and_by_url(path, problems, form):
    with Store.open(form.format(path)) as store:
        store.create(SETTINGS, problems).close()
    with Store.open(path, create=False) as store:
        assert [run.questions for run in store.runs()] == [3]


@pytest.mark.parametrize("place", [":memory:", "sqlite://"])
def test_a_store_in_memory_leaves_nothing(place, problems, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.open(place) as store, store.create(SETTINGS, problems) as run:
        run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4")])
        assert store.view().summary().traces == 1
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_there_is_named(store, problems):
    with pytest.raises(InputError, match="no run yet"):
        store.open_run()
    store.create(SETTINGS, problems).close()
    with pytest.raises(InputError, match="no run 7; the last is 1"):
        store.view("7")
    with pytest.raises(InputError, match="a number or"):
        store.view("best")


def test_bad_questions_leave_no_run(store, problems):
    def breaks():
        yield problems[0]
        raise InputError("line 2 is bad")

    with pytest.raises(InputError, match="line 2"):
        store.create(SETTINGS, breaks())
    with pytest.raises(InputError, match="one id"):
        store.create(SETTINGS, [problems[0], problems[0]])
    with pytest.raises(InputError, match="at least one"):
        store.create(SETTINGS, [])
    with pytest.raises(InputError, match="no UTF-8"):
        store.create(SETTINGS, [Problem("half", Prompt("a pair: \ud83d"))])
    with pytest.raises(InputError, match="holds a NUL character"):
        store.create(SETTINGS, [Problem("nul", Prompt("a\0b"))])
    assert store.runs() == []
    with store.create(SETTINGS, [Problem("x", Prompt("y"))]) as run:
        assert [summary.id for summary in store.runs()] == [run.id]


SECRET, PROMPT = "what the trace said in confidence", "what was asked in confidence"


def bytes_of(path):
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


def said(store, settings=None):
    """A run with a text, an error and a trace that was lost."""
    problems = [Problem("q", Prompt(PROMPT), "text"), Problem("r", Prompt.chat(PROMPT, system=PROMPT), "text")]
    with store.create(settings or RunRecord(10), problems) as run:
        launches = [Launch("q", 0), Launch("q", 1), Launch("r", 0)]
        traces = [
            StoredTrace("q", 0, "4", SECRET, tokens=3),
            StoredTrace("q", 1, error=f"the server says 400: {SECRET}"),
            StoredTrace("r", 0, error=LOST),
        ]
        run.write(launches, traces)
    return run.id


def test_the_texts_of_a_run_can_be_deleted_and_are_gone_from_the_file(path):
    with Store.open(path) as store:
        first, second = said(store), said(store)
        before = store.view(first).summary()
        assert store.delete(first, texts=True) == first
        traces = list(store.view(first).traces())
        assert [(trace.answer, trace.text, trace.error) for trace in traces] == [
            ("4", "", None),
            (None, "", "(deleted)"),
            (None, "", LOST),
        ]
        assert [problem.prompt for problem in store.view(first).problems()] == [Prompt("(deleted)")] * 2
        assert store.view(first).summary().spent == before.spent
        with pytest.raises(StateError, match=r"prompts of run 1 .* were deleted"):
            store.open_run(first)
        assert next(trace.text for trace in store.view(second).traces()) == SECRET
        store.delete(second, texts=True)
        content = bytes_of(path)  # as long as the store is open, its log stands beside it
        assert SECRET.encode() not in content and PROMPT.encode() not in content


def test_a_run_can_be_deleted_and_is_gone_from_the_file(path):
    with Store.open(path) as store:
        first, second = said(store), said(store)
        store.delete(first)
        assert [run.id for run in store.runs()] == [second]
        assert len(list(store.view(second).traces())) == 3
        with pytest.raises(InputError, match="holds no run 1"):
            store.view(first)
        store.delete("last")
        assert store.runs() == [] and SECRET.encode() not in bytes_of(path)


def test_a_run_that_is_at_work_is_not_deleted(store, run):
    with pytest.raises(StateError, match="at work"):
        store.delete(run.id)
    assert [summary.id for summary in store.runs()] == [run.id]


def test_a_run_that_is_deleted_while_it_is_opened_is_let_go(path, problems, monkeypatch):
    database = open_database(path, create=True)
    with Store(database) as store, Store.open(path) as other:
        store.create(SETTINGS, problems).close()
        lock_run = database.lock_run

        def lock_later(run, timeout_s):
            other.delete(run)
            return lock_run(run, timeout_s)

        monkeypatch.setattr(database, "lock_run", lock_later)
        with pytest.raises(InputError, match="holds no run yet"):
            store.open_run(1)
        assert not database.is_locked(1)


def test_a_run_that_finishes_while_it_is_looked_at_is_not_called_stopped(store, database, run, monkeypatch):
    is_locked = database.is_locked

    def look_later(id):
        run.finish()
        run.close()
        return is_locked(id)

    monkeypatch.setattr(database, "is_locked", look_later)
    assert [summary.state for summary in store.runs()] == ["finished"]


def test_a_run_without_texts_never_writes_them(path):
    database = open_database(path, create=True)
    with Store(database) as store:
        id = said(store, RunRecord(10, spec={"keeping": {"keep_texts": False}}))
        assert next((trace.answer, trace.text) for trace in store.view(id).traces()) == ("4", "")
        texts = database.one("SELECT count(*) FROM texts")
        assert texts == (0,)


@pytest.mark.parametrize(
    "row", ["workers (run, name, width, beat) VALUES (1, 'a', 8, 0)", "tasks VALUES (1, 1, '{}', 1, NULL)"]
)
def test_a_run_that_processes_shared_is_read_and_does_not_go_on(path, problems, row):
    with Store.open(path) as store, store.create(SETTINGS, problems) as run:
        run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4")])
        store.create(SETTINGS, problems).close()
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(f"INSERT INTO {row}")
    with Store.open(path) as store:
        with pytest.raises(StateError, match=r"was shared by several processes.*runs export 1"):
            store.open_run(1)
        assert store.view(1).summary().traces == 1
        store.open_run(2).close()


def test_a_run_that_has_a_rival_is_not_made(store, problems):
    def is_running(run):
        return run.state == "running"

    with store.create(RunRecord(10), problems, identity="mine") as first:
        with pytest.raises(StateError, match=f"run {first.id} .* another process has begun it") as error:
            store.create(RunRecord(10), problems, identity="mine", is_rival=is_running)
        assert "\n" not in str(error.value)
        store.create(RunRecord(10), problems, identity="yours", is_rival=is_running).close()
    store.create(RunRecord(10), problems, identity="mine", is_rival=is_running).close()
    assert [run.id for run in store.runs()] == [1, 2, 3]


CREATOR = """
import sys
from pets.errors import StateError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import RunRecord, Store
with Store.open(sys.argv[1]) as store:
    print("ready", flush=True)
    made = 0
    for line in sys.stdin:
        problems = [Problem("q", Prompt("?"))]
        try:
            store.create(RunRecord(1), problems, identity=line, is_rival=lambda run: True).close()
            made += 1
        except StateError:
            pass
    print(made, flush=True)
"""


def test_of_processes_that_make_the_same_run_at_once_one_does(location, child):
    creators = [child(CREATOR, location) for _ in range(3)]
    for creator in creators:
        assert creator.stdout.readline() == "ready\n"
    for creator in creators:
        creator.stdin.write("".join(f"{number}\n" for number in range(40)))
        creator.stdin.close()
    assert sum(int(creator.stdout.readline()) for creator in creators) == 40
    with Store.open(location) as store:
        assert len(store.runs()) == 40
