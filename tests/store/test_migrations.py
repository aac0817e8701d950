"""Every step brings an older store one version further, whatever it holds."""

import json
import sqlite3

import pytest

from pets.core.money import Currency
from pets.store import RunSettings, Store, migrations, postgres, sqlite
from pets.store.run import add_questions
from pets.store.store import open_database

SETTINGS = RunSettings("okg", 10)


@pytest.fixture
def older(monkeypatch):
    """Make a store of an older version at a location."""

    def make(location, version):
        with monkeypatch.context() as old:
            for module in (sqlite, postgres):
                old.setattr(module, "MIGRATIONS", migrations.MIGRATIONS[:version])
            return open_database(location, create=True)

    return make


def test_an_older_store_is_brought_up_to_date_step_by_step(location, problems, older):
    database = older(location, 2)
    with database.transaction() as transaction:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        transaction.execute(row, (SETTINGS.to_json(),))
        add_questions(transaction, 1, problems, first=0)
    database.close()
    with Store.open(location) as store, store.open_run() as run:
        run.save("late", 1)  # a table of the third step
        assert run.load("late") == 1 and len(list(run.problems())) == 3


def test_traces_of_models_with_prices_of_their_own_keep_what_they_cost(location, problems, older):
    money = {"unit": "picodollars", "hold": 90, "per_trace": 0, "per_token": 1, "per_prompt_token": 0}
    settings = json.loads(SETTINGS.to_json()) | {"currency": money | {"rates": [[1, 0, 0], [10, 2, 1]]}}
    database = older(location, 15)
    with database.transaction() as transaction:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        for text in (json.dumps(settings), SETTINGS.to_json(), "{"):  # the last one is damaged
            transaction.execute(row, (text,))
        for run in (1, 2):
            add_questions(transaction, run, problems, first=0)
            for number, model in enumerate((0, 1)):
                transaction.execute("INSERT INTO launches VALUES (?, 0, ?, 1)", (run, number))
                transaction.execute(
                    "INSERT INTO traces (run, question, number, finish, tokens, prompt_tokens, endpoint, seconds, "
                    "tries, model, cached) VALUES (?, 0, ?, 'stop', 7, 5, 0, 0, 1, ?, 4)",
                    (run, number, model),
                )
    database.close()
    with Store.open(location) as store:
        view = store.view(1)
        assert [trace.cost for trace in view.traces()] == [7, 10 * 7 + 2 * 1 + 1 * 4]
        assert view.summary().spent == 7 + 76 and view.settings.currency == Currency("picodollars", 90, 0, 10, 2, 1)
        assert [trace.cost for trace in store.view(2).traces()] == [None, None]


@pytest.mark.parametrize("version", range(1, len(migrations.MIGRATIONS)))
def test_a_store_of_any_version_ends_with_the_tables_of_a_new_one(path, older, version):
    older(path, version).close()
    Store.open(path).close()
    Store.open(path.with_name("new.db")).close()
    assert tables(path) == tables(path.with_name("new.db")) and "plans" not in dict(tables(path))


def tables(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    finally:
        connection.close()


COLUMNS = (
    "SELECT table_name, column_name, is_nullable FROM information_schema.columns "
    "WHERE table_schema = current_schema() ORDER BY table_name, column_name"
)


def test_both_databases_have_the_same_tables_and_columns(path, postgres_url):
    Store.open(path).close()
    sqlite_columns = set()
    connection = sqlite3.connect(path)
    for name, _ in tables(path):
        sqlite_columns |= {(name, row[1]) for row in connection.execute(f"PRAGMA table_info({name})")}
    connection.close()
    database = open_database(postgres_url, create=True)
    columns = {(table, column) for table, column, _ in database.all(COLUMNS)}
    database.close()
    assert columns - sqlite_columns == {("pets_version", "version")} and sqlite_columns <= columns
