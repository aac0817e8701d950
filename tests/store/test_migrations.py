"""Every step brings an older store one version further, whatever it holds."""

import json
import sqlite3

import pytest

from pets.core.money import Currency
from pets.prompts import Prompt, Sampling
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.store import Store, migrations
from pets.store.cache import trace_keys
from pets.store.records import question_row
from pets.store.store import open_database

CURRENCY = {"unit": "traces", "hold": 1, "per_trace": 1, "per_token": 0, "per_prompt_token": 0}
BEFORE = {
    "policy": "okg", "total": 10, "currency": CURRENCY, "budget": "", "cap": None, "seed": 0, "model": "",
    "endpoints": [], "confidence": None, "concurrency": 1, "name": "", "version": "", "more": {},
}  # fmt: skip
"""The settings of a run, before they were a spec in sections."""


def put_questions(transaction, run, problems):
    """Write questions as the first version did."""
    columns = "run, position, id, prompt, form, answer, gold, level, options"
    rows = [question_row(run, position, problem) for position, problem in enumerate(problems)]
    transaction.executemany(f"INSERT INTO questions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    transaction.execute("UPDATE runs SET questions = ? WHERE id = ?", (len(rows), run))


@pytest.fixture
def older(monkeypatch):
    """Make a store of an older version at a location."""

    def make(location, version):
        with monkeypatch.context() as old:
            old.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:version])
            return open_database(location, create=True)

    return make


def test_an_older_store_is_brought_up_to_date_step_by_step(location, problems, older):
    database = older(location, 2)
    with database.transaction() as transaction:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        transaction.execute(row, (json.dumps(BEFORE),))
        put_questions(transaction, 1, problems)
    database.close()
    with Store.open(location) as store, store.open_run() as run:
        run.save("late", 1)  # a table of the third step
        assert run.load("late") == 1 and len(list(run.problems())) == 3


def test_traces_of_models_with_prices_of_their_own_keep_what_they_cost(location, problems, older):
    money = {"unit": "picodollars", "hold": 90, "per_trace": 0, "per_token": 1, "per_prompt_token": 0}
    settings = BEFORE | {"currency": money | {"rates": [[1, 0, 0], [10, 2, 1]]}}
    database = older(location, 15)
    with database.transaction() as transaction:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        for text in (json.dumps(settings), json.dumps(BEFORE), "{"):  # the last one is damaged
            transaction.execute(row, (text,))
        for run in (1, 2):
            put_questions(transaction, run, problems)
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


def settings_of(location, older, settings):
    """The record that the settings of a run of before become."""
    database = older(location, 16)
    with database.transaction() as transaction:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        transaction.execute(row, (json.dumps(settings),))
    database.close()
    with Store.open(location) as store:
        return store.view(1).settings


PLAN = {
    "budget": "6x", "policy": "okg:zone=0.1", "max_per_question": 9, "concurrency": 8, "answer": "number",
    "sampling": {"max_tokens": 40, "stop": ["END"]}, "system": "Be brief.", "confidence": "tail", "tries": 3,
    "price": {"prompt": 1, "output": 2}, "seed": 5, "keep_texts": False, "dialect": "vllm",
}  # fmt: skip


def test_what_a_run_of_before_was_told_stands_in_the_sections_of_its_spec(path, older):
    more = {"plan": PLAN, "worst": 1, "answer_type": "number"}
    record = settings_of(path, older, BEFORE | {"model": "m", "endpoints": ["u"], "more": more})
    assert (record.verb, record.total, record.model, record.endpoints) == ("solve", 10, "m", ("u",))
    assert (record.answer_type, record.budget, record.policy) == ("number", "6x", "okg:zone=0.1")
    assert not record.keeps_texts and record.confidence == "tail" and not record.batch_api
    assert record.spec["spending"]["max_traces"] == 9 and record.spec["serving"] == {"tries": 3, "seed": 5}
    assert record.spec["sampling"] == PLAN["sampling"] and not record.spec["reading"]["instruct"]
    assert "dialect" not in str(record.spec)


def test_a_stream_of_before_keeps_its_fitted_policy_and_its_windows(path, older):
    policy = {"name": "price", "options": {"rounds": 2, "cold": True}}
    budget = {"total": 0, "cap": 7, "window": [20, 240]}
    stream = {"policy": policy, "budget": budget, "horizon": None, "open_questions": 3, "options": {"text": 4}}
    record = settings_of(path, older, BEFORE | {"more": {"plan": PLAN, "stream": stream}})
    assert (record.verb, record.window, record.policy) == ("stream", (20, 240), "price")
    spending = record.spec["spending"]
    assert spending["policy"] == policy and (spending["max_traces"], spending["budget_window"]) == (7, 20)
    assert record.spec["pacing"]["open_questions"] == 3 and record.spec["reading"]["answer_sizes"] == {"text": 4}


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


def test_the_questions_of_a_run_of_before_get_the_keys_that_a_run_of_today_looks_for(location, older):
    bare = [Problem(id, Prompt.question(f"What is {id}?"), "number") for id in "ab"]
    asked = [Problem(p.id, p.prompt.instructed(make_answer_type("number").instruction), "number") for p in bare]
    database = older(location, 16)
    settings = BEFORE | {"model": "m", "endpoints": ["http://one/v1/"]}
    with database.transaction() as transaction:
        row = "INSERT INTO runs (created, updated, questions, settings) VALUES (0, 0, 0, ?)"
        for text in (json.dumps(settings), "{"):  # the last one is damaged
            transaction.execute(row, (text,))
        put_questions(transaction, 1, asked)
    database.close()
    with Store.open(location) as store:
        view = store.view(1)
        assert view.keys() == trace_keys(bare, Sampling(), None, 0)
        assert [problem.prompt.own for problem in view.problems()] == [problem.prompt for problem in bare]
        assert view.settings.trace_sources == ("m at http://one/v1",) and view.settings.seeds_by == "place"
