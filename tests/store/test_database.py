"""A location is a file's path or a server's URL, and is shown without its password."""

import pytest

from pets.errors import StateError
from pets.store.database import is_shared, shown_location
from pets.store.sqlite import SQLiteDatabase
from pets.store.store import open_database


@pytest.mark.parametrize("location", ["runs.db", "sqlite:///runs.db", "postgresql", "postgresql.db"])
def test_whatever_is_no_url_of_a_server_is_a_file(location, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not is_shared(location)
    database = open_database(location, create=True)
    database.close()
    assert isinstance(database, SQLiteDatabase)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://alice:hunter2@db/pets",
        "postgres://alice:hunter2@db/pets?sslmode=require",
        "postgresql://alice@db/pets?password=hunter2",
        "postgresql://alice:a@hunter2@db/pets",
        "postgresql://alice:a/hunter2@db/pets",
        "postgresql://alice:a?hunter2@db/pets",
        "postgresql://alice:a#hunter2@db/pets",
        "postgresql://alice:hunter2@[db/pets",
        "postgresql://alice:hunter2/pets",
        "postgresql://alice:[hunter2@db/pets",
        "postgresql://alice:℀hunter2@db/pets",
        "postgresql+psycopg://alice:hunter2@db/pets",
        "POSTGRES://alice:hunter2@db/pets",
    ],
)
def test_no_password_is_shown(url):
    assert "hunter2" not in shown_location(url) and shown_location(url).lower().startswith("postgres")


@pytest.mark.parametrize("url", ["postgresql+psycopg://alice:hunter2@db/pets", " postgresql://alice:hunter2@db/pets"])
def test_an_unknown_scheme_is_refused_without_the_password(url):
    with pytest.raises(StateError, match="no store that pets knows") as error:
        open_database(url, create=True)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("start", ["postgresql:/", "postgresql:", "POSTGRES:/", "postgresql//", "postgres;//"])
def test_a_mistyped_url_is_no_file_and_is_refused_without_the_password(start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    location = f"{start}alice:hunter2@db/pets"
    assert "hunter2" not in shown_location(location)
    with pytest.raises(StateError, match="postgresql://USER@SERVER/DATABASE") as error:
        open_database(location, create=True)
    assert "hunter2" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_schemes_are_known_in_any_case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_shared("PostgreSQL://db/pets")
    open_database("SQLite:///runs.db", create=True).close()
    assert (tmp_path / "runs.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://alice@db:5433/pets?host=/run/postgresql&schema=staging",
        "postgresql:///pets?options=-c%20statement_timeout%3D5s&application_name=a+b",
        "postgresql://db1:5432,[::1]:5433/pets",
    ],
)
def test_what_is_shown_can_be_opened_again(url):
    assert shown_location(url) == url
