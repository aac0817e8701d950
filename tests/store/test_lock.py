"""Two processes on one run: the second is refused, however the first ends."""

import os
from pathlib import Path

import pytest

from pets.errors import StateError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunRecord, Store
from pets.store.database import locked_file

HOLD = """
import sys
from pets.store import Store
with Store.open(sys.argv[1]) as store, store.open_run(1) as run:
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def made(location, problems):
    with Store.open(location) as store:
        store.create(RunRecord(10), problems).close()
    return location


@pytest.fixture
def made_file(path, problems):
    with Store.open(path) as store:
        store.create(RunRecord(10), problems).close()
    return path


def held(child, path):
    process = child(HOLD, path)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_and_may_read(made, child):
    held(child, made)
    with Store.open(made) as store:
        with pytest.raises(StateError, match=r"run 1 .* at work in another process") as error:
            store.open_run(1)
        assert "\n" not in str(error.value)
        assert store.runs()[0].state == "running" and len(list(store.view(1).problems())) == 3


def test_the_lock_goes_with_a_clean_end(made, child, path):
    process = held(child, made)
    process.communicate("done\n")
    with Store.open(made) as store:
        assert store.runs()[0].state == "stopped"
        store.open_run(1).close()
    assert not list(path.parent.glob("*.lock"))


def test_the_lock_goes_with_kill_9(made, child):
    held(child, made).kill()
    with Store.open(made) as store:
        assert store.runs()[0].state == "stopped"
        with store.open_run(1) as run:
            run.write([Launch("q0", 0)], [])


def test_two_openings_in_one_process_are_two(made):
    with Store.open(made) as store, Store.open(made) as other, store.open_run(1):
        assert other.runs()[0].state == "running"  # and looking does not take it away:
        with pytest.raises(StateError, match="at work"):
            other.open_run(1)
        with pytest.raises(StateError, match="at work"):
            store.open_run("last")


def test_two_runs_of_one_store_are_worked_on_at_once(made, child):
    held(child, made)
    with Store.open(made) as store, store.create(RunRecord(10), [Problem("q", Prompt("p"))]) as run:
        run.write([Launch("q", 0)], [])
        assert [row.state for row in store.runs()] == ["running", "running"]


RACE = """
import sys
from pets.errors import StateError
from pets.store import Store
with Store.open(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    for _ in range(60):
        try:
            run = store.open_run(1)
        except StateError:
            continue
        before = run.load("holders") or 0
        run.save("holders", before + 1)
        run.close()
        won += 1
    print(won, flush=True)
"""


def total_won(racers):
    """Let them go at once; how often one of them had the lock."""
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return sum(int(racer.stdout.readline()) for racer in racers)


def test_nobody_writes_between_a_holders_read_and_write(made, child):
    """A counter that is read and written under the lock loses no step, whoever removes the lock's file when."""
    won = total_won([child(RACE, made) for _ in range(2)])
    with Store.open(made) as store:
        assert store.view(1).load("holders") == won > 0


BARE_RACE = """
import sys
from pathlib import Path
from pets.store.database import take_lock
counter = Path(sys.argv[1]).with_name("counter")
print("ready", flush=True)
sys.stdin.readline()
won = 0
for _ in range(3000):
    release = take_lock(Path(sys.argv[1] + ".lock"))
    if release is not None:
        counter.write_text(str(int(counter.read_text()) + 1))
        release()
        won += 1
print(won, flush=True)
"""


def test_one_process_at_a_time_has_the_lock_however_often_its_file_is_made_anew(path, child):
    counter = path.with_name("counter")
    counter.write_text("0")
    won = total_won([child(BARE_RACE, path) for _ in range(3)])
    assert int(counter.read_text()) == won > 0


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
@pytest.mark.parametrize("name", ["another.db", "zebra.db"])
def test_a_store_by_another_name_is_the_same_store(made_file, child, link, name):
    other = made_file.with_name(name)
    getattr(other, link)(made_file)
    process = held(child, made_file)
    with Store.open(other) as store:
        assert store.runs()[0].state == "running"
        with pytest.raises(StateError, match="at work in another process"):
            store.open_run(1)
    process.communicate("done\n")
    with Store.open(other) as store, store.open_run(1) as run:
        run.write([Launch("q0", 0)], [])
    with Store.open(made_file) as store:
        assert [lost.question for lost in store.view(1).lost()] == ["q0"]


def test_a_hard_link_that_was_made_while_a_store_is_in_use_is_the_same_store(made_file, child):
    held(child, made_file)
    made_file.with_name("another.db").hardlink_to(made_file)
    with Store.open(made_file.with_name("another.db")) as store, pytest.raises(StateError, match="at work"):
        store.open_run(1)


def test_a_hard_link_in_another_folder_is_refused(made_file, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "runs.db").hardlink_to(made_file)
    for path in (made_file, folder / "runs.db"):
        with pytest.raises(StateError, match="hard link") as error:
            Store.open(path)
        assert "\n" not in str(error.value)


def test_a_file_is_held_by_whatever_name_it_has(tmp_path):
    pool, link = tmp_path / "pool.jsonl", tmp_path / "link.jsonl"
    pool.touch()
    link.symlink_to(pool)
    with locked_file(pool):
        for name in (pool, link):
            with pytest.raises(StateError, match="is being written by another process") as error, locked_file(name):
                pass
            assert "\n" not in str(error.value)
        with locked_file(tmp_path / "other.jsonl"):
            pass
    with locked_file(link):
        pass
    assert sorted(tmp_path.iterdir()) == [link, pool]


def test_what_is_no_plain_file_is_shared():
    with locked_file(Path(os.devnull)), locked_file(Path(os.devnull)):
        pass
