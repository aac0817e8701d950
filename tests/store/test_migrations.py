"""Every step brings an older store one version further, whatever it holds."""

import sqlite3
from contextlib import closing

import pytest

from pets.store import RunSettings, Store, database, migrations
from pets.store.run import add_questions

SETTINGS = RunSettings("okg", 10)


def test_an_older_store_is_brought_up_to_date_step_by_step(path, problems, monkeypatch):
    with monkeypatch.context() as old:
        old.setattr(database, "MIGRATIONS", migrations.MIGRATIONS[:2])
        Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        connection.execute(row, (SETTINGS.to_json(),))
        add_questions(connection, 1, problems, first=0)
        connection.commit()
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
