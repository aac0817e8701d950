"""A small run, and other processes to share it with."""

import subprocess
import sys

import pytest

from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import RunRecord, Store
from pets.store.store import open_database


@pytest.fixture
def problems():
    chat = Prompt.chat("Which is it?", system="Be brief.")
    return [
        Problem("q0", Prompt("2 + 2 ="), "number", "4", "easy"),
        Problem("q1", chat, "choice", "B", options=4),
        Problem("q2", Prompt("naïve ☃ ="), "text"),
    ]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request, path):
    """Where a store may be: a file, a server's schema."""
    return path if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def database(location):
    """The database of ``store``, which closes it."""
    return open_database(location, create=True)


@pytest.fixture
def store(database):
    with Store(database) as store:
        yield store


@pytest.fixture
def run(store, problems):
    with store.create(RunRecord(100, name="mine", model="m"), problems) as run:
        yield run


@pytest.fixture
def child():
    """Start Python on a source text; it says a line when it is ready. Whatever still runs is killed at the end."""
    started = []

    def start(source, *args):
        process = subprocess.Popen(
            [sys.executable, "-c", source, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
