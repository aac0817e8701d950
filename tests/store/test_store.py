"""The file: by path or URL, brought up to date, refused when it is somebody else's."""

import sqlite3

import pytest

from pets.errors import InputError, StateError
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunSettings, Store, StoredTrace, database, migrations

SETTINGS = RunSettings("okg", 10)


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_store_is_found_by_path_and_by_url(path, problems, form):
    with Store.open(form.format(path)) as store:
        store.create(SETTINGS, problems).close()
    with Store.open(path, create=False) as store:
        assert [run.questions for run in store.runs()] == [3]


def test_a_relative_url_is_a_relative_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    Store.open("sqlite:///some%20runs.db").close()
    assert (path.parent / "some runs.db").exists()


@pytest.mark.parametrize("place", [":memory:", "sqlite://"])
def test_a_store_in_memory_leaves_nothing(place, problems, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Store.open(place) as store, store.create(SETTINGS, problems) as run:
        run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4")])
        assert store.view().summary().traces == 1
    assert not list(tmp_path.iterdir())


def test_every_write_is_made_to_last(path):
    for durability, level in (("process", 1), ("machine", 2)):
        with Store.open(path, durability=durability) as store:
            connection = store._database.connection
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_a_newer_store_is_refused_in_one_line_and_left_alone(path):
    Store.open(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"newer pets \(its version is 99") as error:
        Store.open(path)
    assert "\n" not in str(error.value) and path.read_bytes() == before


def test_an_older_store_is_brought_up_to_date_step_by_step(path, problems, monkeypatch):
    with monkeypatch.context() as old:
        old.setattr(database, "MIGRATIONS", migrations.MIGRATIONS[:2])
        with Store.open(path) as store:
            store.create(SETTINGS, problems).close()
    with Store.open(path) as store, store.open_run() as run:
        run.save("late", 1)  # a table of the third step
        assert run.load("late") == 1 and len(list(run.problems())) == 3


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
    assert store.runs() == []
    with store.create(SETTINGS, [Problem("x", Prompt("y"))]) as run:
        assert run.id == 1


def test_a_url_may_ask_for_more_durability(path):
    with Store.open(f"sqlite:///{path}?durability=machine") as store:
        assert store._database.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    with pytest.raises(StateError, match="durability=machine"):
        Store.open(f"sqlite:///{path}?speed=9")


def test_a_damaged_file_is_one_line(path, problems):
    with Store.open(path) as store:
        store.create(SETTINGS, problems).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x99" * (len(whole) - 4096))
    with pytest.raises(StateError, match="malformed") as error, Store.open(path) as store:
        store.create(SETTINGS, problems)
    assert "\n" not in str(error.value)


def test_damaged_settings_are_one_line(store, problems):
    store.create(SETTINGS, problems).close()
    store._database.connection.execute("""UPDATE runs SET settings = '{"policy": "okg"}'""")
    with pytest.raises(StateError, match="damaged"):
        store.view(1)
    store._database.connection.execute("UPDATE runs SET settings = '{'")
    with pytest.raises(StateError, match="damaged"):
        store.runs()
