"""The file: opened by path or URL, durable as asked, refused when it is newer, damaged or somebody else's."""

import sqlite3

import pytest

from pets.errors import StateError
from pets.store import RunSettings, Store, database, migrations

SETTINGS = RunSettings("okg", 10)


def test_a_relative_url_is_a_relative_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    Store.open("sqlite:///some%20runs.db").close()
    assert (path.parent / "some runs.db").exists()


def test_every_write_is_made_to_last(path):
    for durability, level in (("process", 1), ("machine", 2)):
        with Store.open(path, durability=durability) as store:
            connection = store._database.connection
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_a_url_may_ask_for_more_durability(path):
    with Store.open(f"sqlite:///{path}?durability=machine") as store:
        assert store._database.connection.execute("PRAGMA synchronous").fetchone() == (2,)
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
    with pytest.raises(StateError, match="postgresql"):
        Store.open("postgresql://somewhere/runs")


def test_a_damaged_file_is_one_line(path, problems):
    with Store.open(path) as store:
        store.create(SETTINGS, problems).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x99" * (len(whole) - 4096))
    with pytest.raises(StateError, match="malformed") as error, Store.open(path) as store:
        store.create(SETTINGS, problems)
    assert "\n" not in str(error.value)


def test_a_step_that_fails_leaves_the_store_as_it_was(path, monkeypatch):
    def fails(connection):
        connection.execute("CREATE TABLE half (x)")
        connection.execute("CREATE nonsense")

    Store.open(path).close()
    with monkeypatch.context() as new:
        new.setattr(database, "MIGRATIONS", (*migrations.MIGRATIONS, fails))
        with pytest.raises(StateError, match="nonsense"):
            Store.open(path)
    with Store.open(path) as store:
        assert store._database.one("SELECT count(*) FROM sqlite_master WHERE name = 'half'") == (0,)
