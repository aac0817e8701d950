"""A small run, and other processes to share it with."""

import os
from contextlib import suppress
from multiprocessing import get_context

import pytest

from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import RunRecord, Store
from pets.store.store import open_database

# One process imports the store, and every child is forked from it.
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["pets.store", "pets.store.postgres"])
SPEAKING = "import sys; sys.argv, sys.stdin, sys.stdout = words, open(stdin.fileno()), open(stdout.fileno(), 'w')\n"


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


class Child:
    """A forked process that runs a source text; ``stdin`` and ``stdout`` are the ends of its pipes."""

    def __init__(self, source, words):
        (its_stdin, stdin), (stdout, its_stdout) = (FORKS.Pipe(duplex=False) for _ in range(2))
        names = {"__name__": "__main__", "words": words, "stdin": its_stdin, "stdout": its_stdout}
        self.process = FORKS.Process(target=exec, args=(SPEAKING + source, names))
        self.process.start()
        self.stdin, self.stdout = (os.fdopen(os.dup(end.fileno()), mode) for end, mode in ((stdin, "w"), (stdout, "r")))
        for end in (its_stdin, stdin, stdout, its_stdout):
            end.close()

    def communicate(self, line):
        """Its last line; then it ends."""
        self.stdin.write(line)
        self.stdin.close()
        self.process.join()
        assert self.process.exitcode == 0

    def kill(self):
        """Kill -9, and wait for the end."""
        self.process.kill()
        self.process.join()


@pytest.fixture
def child():
    """``child(source, *args)`` runs Python; it says a line when it is ready. What still runs is killed at the end."""
    started = []

    def start(source, *args):
        started.append(Child(source, ["-c", *map(str, args)]))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        with suppress(BrokenPipeError):  # it did not read what it was told
            child.stdin.close()
        child.stdout.close()
