"""A store: the file, or the schema of a server, that holds runs; it makes them, opens them and lists them."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Self

from pets.errors import InputError, StateError
from pets.questions import Problem
from pets.store import sql
from pets.store.database import Database, Durability, Release, is_shared
from pets.store.records import DELETED, LOST, RunRecord, RunSummary
from pets.store.run import Run, RunView, add_questions, summary_of
from pets.store.sqlite import SQLiteDatabase

TEXTS_DELETED = "texts_deleted"  # the name of the state that says so
LOCK_TIMEOUT_S = 0.5  # `pets runs` holds a run's lock for a moment to see whether it is free


def open_database(location: str | os.PathLike[str], *, create: bool, durability: Durability = "process") -> Database:
    """The database at a path or URL, brought to this version; made where it is not there and ``create`` says so."""
    text = os.fspath(location)
    if not is_shared(text):
        return SQLiteDatabase(text, create=create, durability=durability)
    from pets.store.postgres import PostgresDatabase  # an extra

    return PostgresDatabase(text, create=create)


class Store:
    """Runs by number, in one place. Use it as ``with Store.open(path) as store:``.

    One store is for one thread at a time; any number of processes may open the same file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, location: str | os.PathLike[str], *, create: bool = True, durability: Durability = "process") -> Self:
        """Open a store by path or URL (``sqlite:///runs.db``, ``postgresql://...``).

        It is made if it is not there, and updated if it is older. ``durability="machine"`` flushes every write of a
        file to the disk: it then survives a power cut too.
        """
        return cls(open_database(location, create=create, durability=durability))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The store as messages call it."""
        return self._database.name

    def create(
        self,
        settings: RunRecord,
        problems: Iterable[Problem],
        *,
        stream: bool = False,
        identity: str | None = None,
        keys: Mapping[str, str] | None = None,
        is_rival: Callable[[RunSummary], bool] = lambda run: False,
    ) -> Run:
        """Make a run, which this process then holds. The questions are streamed in; if one is bad, there is no run.

        The questions of a ``stream`` are added as they arrive; every other run has at least one. By its ``identity``
        :meth:`runs_like` finds it again, by the ``keys`` of its questions others find their traces. Refused where a run
        of that identity ``is_rival``: of processes that begin the same at once, one makes it.
        """
        with ExitStack() as undo:
            with self._database.creating() as transaction:
                self._check_alone(identity, is_rival)
                plain = settings.to_json()
                id = int(transaction.execute(sql.NEW_RUN, (time.time(), plain, identity)).fetchone()[0])
                if not add_questions(transaction, id, problems, 0, keys) and not stream:
                    raise InputError("a run needs at least one question; there is none.")
                release = self._lock(id)  # before anybody can see the run
                undo.callback(release)
            undo.pop_all()
        return Run(self._database, id, settings, release)

    def open_run(self, run: int | str = "last", *, code: str | None = None) -> Run:
        """The run of that number, or the last, held by this process; refused while another process holds it.

        ``code`` is what the user named that reads its answers, ``python:...``.
        """
        id, _ = self._find(run)
        if self.view(id).load(TEXTS_DELETED):
            raise StateError(f"the prompts of run {id} of {self.name} were deleted: it can be read, and not go on.")
        if self._database.one(sql.SHARED_RUN, id):
            raise StateError(
                f"run {id} of {self.name} was shared by several processes (--join), which is no longer done: "
                f"`pets runs export {id}` gives its traces; it does not go on, and --new begins another."
            )
        with ExitStack() as undo:
            release = self._lock(id)
            undo.callback(release)
            _, settings = self._find(id)  # as the last holder left them
            undo.pop_all()
        return Run(self._database, id, settings, release, code)

    def view(self, run: int | str = "last", *, code: str | None = None) -> RunView:
        """The run of that number, or the last, to read alone: also while another process works on it.

        ``code`` as in :meth:`open_run`.
        """
        return RunView(self._database, *self._find(run), code)

    def runs(self) -> list[RunSummary]:
        """A summary of every run, oldest first."""
        return [summary_of(self._database, row) for row in self._database.all(sql.ALL_RUNS)]

    def runs_like(self, identity: str) -> list[RunSummary]:
        """The runs of that identity that can go on, the latest first."""
        rows = self._database.all(sql.RUNS_OF_IDENTITY, identity)
        return [summary_of(self._database, row) for row in rows if not self.view(row[0]).load(TEXTS_DELETED)]

    def delete(self, run: int | str, *, texts: bool = False) -> int:
        """Delete a run, or with ``texts`` only what was asked and said in it: texts, prompts and errors. Says which.

        What is deleted is overwritten in the file. Without its prompts a run can be read, and no longer resumed.
        """
        id, _ = self._find(run)
        release = self._lock(id)
        try:
            with self._database.erasing() as transaction:
                for statement in (sql.DELETE_TEXTS,) if texts else sql.DELETE_RUN:
                    transaction.execute(statement, (id,))
                if texts:
                    transaction.execute(sql.DELETE_PROMPTS, (id, DELETED))
                    transaction.execute(sql.DELETE_ERRORS, (id, DELETED, LOST))
                    transaction.execute(sql.SAVE_STATE, (id, TEXTS_DELETED, "true"))
        finally:
            release()
        return id

    def close(self) -> None:
        """Close the store; twice does no harm."""
        self._database.close()

    def _check_alone(self, identity: str | None, is_rival: Callable[[RunSummary], bool]) -> None:
        rival = None if identity is None else next(filter(is_rival, self.runs_like(identity)), None)
        if rival is not None:
            raise StateError(
                f"run {rival.id} of {self.name} asks the same, and another process has begun it. Wait for it or stop "
                "it; two would pay for the same answers twice."
            )

    def _lock(self, run: int) -> Release:
        release = self._database.lock_run(run, LOCK_TIMEOUT_S)
        if release is None:
            raise StateError(
                f"run {run} of {self.name} is at work in another process. Wait for it or stop it; "
                "two would spend its budget twice."
            )
        return release

    def _find(self, run: int | str) -> tuple[int, RunRecord]:
        last = (self._database.one(sql.LAST_RUN) or (None,))[0]
        if last is None:
            raise InputError(f"{self.name} holds no run yet.")
        text = str(last if run == "last" else run)
        if not text.isdecimal():
            raise InputError(f'a run is a number or "last"; got {text!r}. `pets runs` lists them.')
        row = self._database.one(sql.GET_RUN, min(int(text), 2**62))
        if row is None:
            raise InputError(f"{self.name} holds no run {text}; the last is {last}. `pets runs` lists them.")
        return row[0], RunRecord.from_json(row[5])
