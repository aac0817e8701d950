"""The file: opened by path or URL, durable as asked, refused when it is newer, damaged or somebody else's."""

import multiprocessing
import os
import sqlite3
from contextlib import closing

import pytest

from pets.errors import StateError
from pets.store import RunRecord, Store, migrations
from pets.store.store import open_database

SETTINGS = RunRecord(10)


def test_a_relative_url_is_a_relative_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    Store.open("sqlite:///some%20runs.db").close()
    assert (path.parent / "some runs.db").exists()


def test_every_write_is_made_to_last(path):
    for durability, level in (("process", 1), ("machine", 2)):
        with closing(open_database(path, create=True, durability=durability)) as database:
            connection = database.connection
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_a_url_may_ask_for_more_durability(path):
    with closing(open_database(f"sqlite:///{path}?durability=machine", create=True)) as database:
        assert database.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    with pytest.raises(StateError, match="durability=machine"):
        Store.open(f"sqlite:///{path}?speed=9")


def test_a_newer_store_is_refused_in_one_line_and_left_alone(path):
    Store.open(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"newer pets \(its version is 99") as error:
        Store.open(path)
    assert "\n" not in str(error.value) and path.read_bytes() == before


def test_what_is_no_store_is_refused(path, tmp_path):
    with pytest.raises(StateError, match="no such file"):
        Store.open(path, create=False)
    path.write_text("these are no runs, " * 100)
    with pytest.raises(StateError, match="not a database"):
        Store.open(path)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE songs (title)")
    other.close()
    with pytest.raises(StateError, match="something else"):
        Store.open(tmp_path / "other.db")
    with pytest.raises(StateError, match="cannot be opened"):
        Store.open(tmp_path / "no" / "such" / "folder.db")
    with pytest.raises(StateError, match="no store that pets knows"):
        Store.open("mysql://somewhere/runs")


def test_a_damaged_file_is_one_line(path, problems):
    with Store.open(path) as store:
        store.create(SETTINGS, problems).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x99" * (len(whole) - 4096))
    with pytest.raises(StateError, match="malformed") as error, Store.open(path) as store:
        store.create(SETTINGS, problems)
    assert "\n" not in str(error.value)


def test_a_step_that_fails_leaves_the_store_as_it_was(path, monkeypatch):
    fails = "CREATE TABLE half (x INTEGER); CREATE nonsense"
    Store.open(path).close()
    with monkeypatch.context() as new:
        new.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, fails))
        with pytest.raises(StateError, match="nonsense"):
            Store.open(path)
    with closing(open_database(path, create=False)) as database:
        assert database.one("SELECT count(*) FROM sqlite_master WHERE name = 'half'") == (0,)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_a_new_store_and_what_stands_beside_it_are_its_owners_alone(path, problems):
    mask = os.umask(0o022)
    try:
        with Store.open(path) as store, store.create(SETTINGS, problems):
            files = {file.name: mode(file) for file in path.parent.iterdir()}
            assert {"runs.db", "runs.db-wal", "runs.db-shm", "runs.db-run-1.lock"} <= files.keys()
            assert set(files.values()) == {0o600}
    finally:
        os.umask(mask)


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_a_store_that_was_shared_on_purpose_stays_shared(path):
    Store.open(path).close()
    path.chmod(0o640)
    Store.open(path).close()
    assert mode(path) == 0o640


def test_links_in_a_circle_are_one_line(path):
    path.symlink_to(path)
    with pytest.raises(StateError, match="cannot be opened") as error:
        Store.open(path)
    assert "\n" not in str(error.value)


def make_at_once(folder, barrier, failures):
    for number in range(60):
        barrier.wait()
        try:
            open_database(folder / f"{number}.db", create=True).close()
        except StateError as error:
            failures.put(str(error))


def test_many_processes_may_make_a_store_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, failures = context.Barrier(8), context.SimpleQueue()
    makers = [context.Process(target=make_at_once, args=(tmp_path, barrier, failures)) for _ in range(barrier.parties)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert failures.empty(), failures.get()
    assert [maker.exitcode for maker in makers] == [0] * barrier.parties
