"""Every step brings an older store one version further, whatever it holds."""

import sqlite3

import pytest

from pets.store import RunSettings, Store, database, migrations

SETTINGS = RunSettings("okg", 10)


def test_an_older_store_is_brought_up_to_date_step_by_step(path, problems, monkeypatch):
    with monkeypatch.context() as old:
        old.setattr(database, "MIGRATIONS", migrations.MIGRATIONS[:2])
        with Store.open(path) as store:
            store.create(SETTINGS, problems).close()
    with Store.open(path) as store, store.open_run() as run:
        run.save("late", 1)  # a table of the third step
        assert run.load("late") == 1 and len(list(run.problems())) == 3


@pytest.mark.parametrize("version", range(1, len(migrations.MIGRATIONS)))
def test_a_store_of_any_version_ends_with_the_tables_of_a_new_one(path, monkeypatch, version):
    with monkeypatch.context() as old:
        old.setattr(database, "MIGRATIONS", migrations.MIGRATIONS[:version])
        Store.open(path).close()
    Store.open(path).close()
    Store.open(path.with_name("new.db")).close()
    assert tables(path) == tables(path.with_name("new.db")) and "plans" not in dict(tables(path))


def tables(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    finally:
        connection.close()
