"""A store on a server: refused where it is somebody else's or newer, and silent about passwords."""

import psycopg
import pytest

from pets.errors import StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, RunRecord, Store, StoredTrace, postgres
from pets.store.database import RowError
from pets.store.postgres import connect, split_url
from pets.store.store import open_database

SETTINGS = RunRecord(10)


def test_a_store_that_is_not_there_is_not_made_by_looking(postgres_url):
    with pytest.raises(StateError, match="holds nothing of pets yet"):
        Store.open(postgres_url, create=False)
    with pytest.raises(StateError, match="holds nothing of pets yet"):
        Store.open(postgres_url, create=False)


def test_a_newer_store_is_refused_in_one_line_and_left_alone(postgres_url):
    Store.open(postgres_url).close()
    connection = connect(postgres_url)
    connection.execute("UPDATE pets_version SET version = 99")
    with pytest.raises(StateError, match=r"newer pets \(its version is 99") as error:
        Store.open(postgres_url)
    assert "\n" not in str(error.value)
    assert connection.execute("SELECT version FROM pets_version").fetchone() == (99,)
    connection.close()


def test_a_schema_of_something_else_is_refused(postgres_server, postgres_url):
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {split_url(postgres_url)[1]}")
        connection.execute(f"CREATE TABLE {split_url(postgres_url)[1]}.runs (miles real)")
    with pytest.raises(StateError, match="something else's"):
        Store.open(postgres_url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://alice:hunter2@127.0.0.1:1/pets",
        "postgresql://alice:hunter2@127.0.0.1:port/pets",
        "postgresql://alice:a/hunter2@127.0.0.1:1/pets",
        "postgresql://alice@127.0.0.1:1/pets?password=hunter2&nonsense=1",
        "POSTGRESQL://alice:hunter2@127.0.0.1:1/pets",
        "postgresql://alice:hunter2/a@127.0.0.1:1/pets",
        "postgresql://alice:[hunter2@127.0.0.1:1/pets",
        "postgresql://alice:℀hunter2@127.0.0.1:1/pets",
    ],
)
def test_a_server_that_cannot_be_reached_is_one_line_without_the_password(url):
    with pytest.raises(StateError, match="cannot be opened") as error:
        Store.open(url)
    assert "hunter2" not in str(error.value) and "\n" not in str(error.value)


def test_a_short_password_leaves_the_words_of_the_message_whole():
    with pytest.raises(StateError, match="connection failed"):
        Store.open("postgresql://alice:a@127.0.0.1:1/pets")


def test_parameters_reach_the_server_as_they_are_written(postgres_url):
    connection = connect(f"{postgres_url}&options=-c%20statement_timeout%3D5s&application_name=a+b")
    settings = connection.execute("SELECT current_setting('statement_timeout'), current_setting('application_name')")
    row = settings.fetchone()
    connection.close()
    assert row == ("5s", "a+b")


def test_a_value_that_no_column_takes_is_no_row_that_came_twice(postgres_url):
    database = open_database(postgres_url, create=True)
    with pytest.raises(StateError, match="NUL") as error, database.transaction() as transaction:
        transaction.execute("UPDATE runs SET settings = ?1", ("a\0",))
    database.close()
    assert not isinstance(error.value, RowError)


def test_a_schema_is_a_plain_name(postgres_url):
    with pytest.raises(StateError, match="schema's name"):
        Store.open(f"{postgres_url};DROP TABLE runs")


def test_a_run_whose_connection_is_lost_can_no_longer_be_written_and_is_free(postgres_server, postgres_url, problems):
    database = open_database(postgres_url, create=True)
    with Store(database) as store, Store.open(postgres_url) as other, store.create(SETTINGS, problems) as run:
        pid = database.one("SELECT pg_backend_pid()")[0]
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        with pytest.raises(StateError, match="What was written before is safe"):
            run.write([Launch("q0", 0)], [])
        with other.open_run(run.id) as again:
            again.write([Launch("q0", 0)], [])


def test_text_that_no_database_column_takes_is_kept_as_far_as_it_goes(postgres_url):
    with Store.open(postgres_url) as store, store.create(SETTINGS, [Problem("q", Prompt("p"))]) as run:
        run.write([Launch("q", 0)], [StoredTrace("q", 0, "4\0", "a\0b", "stop\0", tokens=1)])
        traces = [(trace.answer, trace.text, trace.finish) for trace in run.traces()]
        assert traces == [("4\ufffd", "a\ufffdb", "stop\ufffd")]
        run.write_jobs([BatchJob("key", "/v1/completions", ((1, 1),), 0.0, 0, file="f\0", id="j\0")])
        assert [(job.file, job.id) for job in run.jobs()] == [("f\ufffd", "j\ufffd")]


def test_sums_are_whole_numbers(postgres_url):
    database = open_database(postgres_url, create=True)
    (total,) = database.one("SELECT sum(x) FROM (VALUES (?1), (?2)) t (x)", 2**62, 2**62)
    database.close()
    assert total == 2**63 and isinstance(total, int)


def test_a_server_that_does_not_know_a_setting_is_left_without_a_connection(postgres_url, monkeypatch):
    connections = []
    make = psycopg.connect

    def note(*args, **options):
        connections.append(make(*args, **options))
        return connections[-1]

    with monkeypatch.context() as patch:
        patch.setattr(postgres, "SERVER_SETTINGS", {"no_such_setting": "1"})
        patch.setattr(psycopg, "connect", note)
        with pytest.raises(StateError, match="no_such_setting"):
            connect(postgres_url)
    assert [connection.closed for connection in connections] == [True]


def test_the_server_ends_connections_that_are_silent(postgres_url):
    connection = connect(postgres_url)
    sql = "SELECT name, source FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout' OR name LIKE $1"
    sources = dict(connection.execute(sql, ("tcp_keepalives_%",)).fetchall())
    connection.close()
    assert len(sources) == 4 and set(sources.values()) == {"session"}
