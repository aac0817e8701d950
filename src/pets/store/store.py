"""A store: the file, or the schema of a server, that holds runs; it makes them, opens them and lists them.

A run is there to read, also while another process works on it (:class:`RunView`), or to hold and write (:class:`Run`).
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from pets.core.budget import whole_traces
from pets.errors import InputError, StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.store.database import SQL, Database, Durability, Release, RowError, is_shared
from pets.store.records import (
    DELETED,
    LOST,
    LostLaunch,
    ModelTotals,
    RunRecord,
    RunState,
    RunSummary,
    StoredTrace,
    job_of,
    job_row,
    problem_of,
    question_row,
    read_rows,
    storable,
    trace_of,
    trace_row,
)
from pets.store.sqlite import SQLiteDatabase
from pets.types import Launch, Usage

QUESTIONS_PER_PAGE = 2_000
TRACES_PER_PAGE = 500  # a text may be long
# What holds rows of a run, in the order in which one points at the other.
TABLES_OF_RUN = ("texts", "traces", "launches", "questions", "batch_jobs", "states", "tasks", "workers")
TEXTS_DELETED = "texts_deleted"  # the name of the state that says so
LOCK_TIMEOUT_S = 0.5  # `pets runs` holds a run's lock for a moment to see whether it is free


def open_database(location: str | os.PathLike[str], *, create: bool, durability: Durability = "process") -> Database:
    """The database at a path or URL, brought to this version; made where it is not there and ``create`` says so."""
    text = os.fspath(location)
    if not is_shared(text):
        return SQLiteDatabase(text, create=create, durability=durability)
    from pets.store.postgres import PostgresDatabase  # an extra

    return PostgresDatabase(text, create=create)


class RunView:
    """A run as it stands, to read; what another process adds meanwhile is seen.

    Reading goes page by page, so memory is flat and nothing is held open in between. ``code`` is what the user named
    again that reads its answers, ``python:...``: a store alone names no code.
    """

    def __init__(self, database: Database, id: int, settings: RunRecord, code: str | None = None) -> None:
        self.id = id
        self.settings = settings
        self.code = code
        self._database = database

    @property
    def location(self) -> str:
        """The path or URL of its store, without any password."""
        return self._database.location

    def problems(self) -> Iterator[Problem]:
        """The questions of the run, in their order."""
        last = -1
        while rows := self._database.all(SQL.QUESTIONS, self.id, last, QUESTIONS_PER_PAGE):
            yield from read_rows("a question", partial(problem_of, code=self.code), rows)
            last = rows[-1][0]

    def traces(self, *, texts: bool = True, first: int = 0) -> Iterator[StoredTrace]:
        """The traces that came back: question by question in their order, each question's in launch order.

        Without ``texts`` far less is read. ``first`` is the place of the first question, from 0.
        """
        select = SQL.TRACES_WITH_TEXT if texts else SQL.TRACES
        page = TRACES_PER_PAGE if texts else QUESTIONS_PER_PAGE
        question, number = first, -1
        while rows := self._database.all(select, self.id, question, number, page):
            yield from read_rows("a trace", trace_of, rows)
            question, _, number = rows[-1][:3]

    def lost(self) -> Iterator[LostLaunch]:
        """Launches without a trace, in the same order: in flight now, or when the process died."""
        return (LostLaunch(*row) for row in self._database.all(SQL.LOST, self.id))

    def jobs(self) -> list[BatchJob]:
        """The batch jobs of the run, in the order in which they were written down."""
        return read_rows("a batch job", job_of, self._database.all(SQL.JOBS, self.id))

    def keys(self) -> dict[str, str]:
        """The cache key of each question, by its id; runs of earlier versions may have none."""
        return dict(self._database.all(SQL.KEYS, self.id))

    def reused(self) -> dict[int, int]:
        """How many of its traces other runs paid for, by run."""
        return dict(self._database.all(SQL.REUSED, self.id))

    def shared_with(self, other: "RunView") -> int:
        """How many traces of this run are another's too: paid for once, and counted in both."""
        [(traces,)] = self._database.all(SQL.SHARED_TRACES, self.id, other.id)
        return int(traces)

    def answered(self) -> set[str]:
        """The ids of the questions whose answers have been handed out."""
        return {id for (id,) in self._database.all(SQL.ANSWERED, self.id)}

    def summary(self) -> RunSummary:
        """The run in a few numbers."""
        row = self._database.one(SQL.GET_RUN, self.id)
        if row is None:
            raise StateError(f"run {self.id} is no longer in {self._database.name}.")
        return summary_of(self._database, row)

    def by_model(self) -> list[ModelTotals]:
        """What each model of the run gave, in their order; one that gave nothing is left out."""
        return [ModelTotals(*row) for row in self._database.all(SQL.TOTALS_BY_MODEL, self.id)]

    def load(self, name: str) -> Any:
        """The plain data saved under that name; ``None`` if there is none."""
        rows = self._database.all(SQL.GET_STATE, self.id, name)
        return next(iter(read_rows("a state of a run", lambda row: json.loads(row[0]), rows)), None)


class Run(RunView, AbstractContextManager["Run"]):
    """A run that this process holds: nobody else can write to it. Use it as ``with run:``.

    A write is durable when it returns, and is whole or not at all. Calls may come from any thread, one at a time.
    """

    def __init__(
        self, database: Database, id: int, settings: RunRecord, release: Release, code: str | None = None
    ) -> None:
        super().__init__(database, id, settings, code)
        self._release = release
        [(*_, questions, _)] = database.all(SQL.GET_RUN, id)
        database.size_cache_for(questions)

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(
        self,
        launched: Sequence[Launch],
        traces: Sequence[StoredTrace],
        *,
        dropped: Sequence[Launch] = (),
        charged: Sequence[tuple[Launch, int]] = (),
        held: int | Sequence[int] = 1,
    ) -> None:
        """Write launches, for each of which ``held`` was reserved (one number for all, or one per launch), and traces.

        A launch is written before it is dispatched, a trace before it is counted: what a dead process leaves is
        every trace that was counted, once, and every launch that may have been paid for. ``dropped`` launches were
        given up free of charge; their numbers are not used again, so a question's numbers may have gaps. ``charged``
        launches will be tried again after a try that was paid for: so much more is held for each.
        """
        try:
            with self._database.transaction() as transaction:
                holds = [held] * len(launched) if isinstance(held, int) else held
                launches = [(self.id, *launch, hold) for launch, hold in zip(launched, holds, strict=True)]
                self._put(transaction, SQL.ADD_LAUNCH, launches)
                self._put(transaction, SQL.ADD_TRACE, list(map(partial(trace_row, self.id), traces)))
                if self.settings.keeps_texts:
                    texts = [(self.id, t.question, t.number, storable(t.text)) for t in traces if t.text]
                    transaction.executemany(SQL.ADD_TEXT, texts)
                if charged:
                    rows = [(self.id, *launch, amount) for launch, amount in charged]
                    if transaction.executemany(SQL.CHARGE_LAUNCH, rows) != len(rows):
                        raise StateError(f"run {self.id}: a launch was charged that is not there; nothing was written.")
                if dropped:
                    transaction.executemany(SQL.DROP_LAUNCH, [(self.id, *launch) for launch in dropped])
                transaction.execute(SQL.TOUCH, (self.id, time.time()))
        except RowError as error:
            wrong = "a trace came without a launch" if error.orphan else "a launch or a trace came twice"
            rule = "Write the launch first." if error.orphan else "Each is written once."
            raise StateError(f"run {self.id}: {wrong}; nothing was written. {rule}") from None

    def set_answers(self, traces: Iterable[StoredTrace]) -> None:
        """Write the answers of traces that were read again."""
        rows = [(self.id, t.question, t.number, t.answer, t.finish, t.spelling) for t in traces]
        with self._database.transaction() as transaction:
            transaction.executemany(SQL.SET_ANSWER, rows)

    def set_answer_types(self, chosen: Iterable[tuple[str, str]]) -> None:
        """Write the answer types of questions, by their ids."""
        with self._database.transaction() as transaction:
            self._put(transaction, SQL.SET_ANSWER_TYPE, [(self.id, *choice) for choice in chosen])

    @staticmethod
    def check(problem: Problem) -> None:
        """Refuse a question that cannot be kept."""
        question_row(0, 0, problem)

    def add(self, problems: Iterable[Problem]) -> int:
        """Append questions, streamed, and say how many."""
        with self._database.transaction() as transaction:
            return add_questions(transaction, self.id, problems, {})

    def change(self, settings: RunRecord) -> None:
        """Change the run's settings; a top-up is a larger total."""
        with self._database.transaction() as transaction:
            transaction.execute(SQL.CHANGE, (self.id, time.time(), settings.to_json()))
        self.settings = settings

    def save(self, name: str, plain: Any) -> None:
        """Keep plain data (allocator state, a learned prior, a fault log) under a name; the last one counts."""
        with self._database.transaction() as transaction:
            transaction.execute(SQL.SAVE_STATE, (self.id, name, json.dumps(plain)))

    def write_jobs(self, jobs: Sequence[BatchJob], dropped: Sequence[BatchJob] = ()) -> None:
        """Write down batch jobs, or what is new about them; forget those that were ``dropped``."""
        with self._database.transaction() as connection:
            connection.executemany(SQL.SAVE_JOB, [job_row(self.id, job) for job in jobs])
            connection.executemany(SQL.DROP_JOB, [(self.id, job.key) for job in dropped])

    def mark_answered(self, questions: Iterable[str]) -> None:
        """Note that the answers to these questions have been handed out, now."""
        with self._database.transaction() as transaction:
            self._put(transaction, SQL.MARK_ANSWERED, [(self.id, id, time.time()) for id in questions])

    def finish(self) -> None:
        """Mark the run as complete. It stays readable, and whatever is written later opens it again."""
        with self._database.transaction() as transaction:
            transaction.execute(SQL.FINISH, (self.id, time.time()))

    def close(self) -> None:
        """Release the run; twice does no harm."""
        self._release()

    def _put(self, transaction: Database, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write one row for each question, whose id is the second value."""
        if rows and transaction.executemany(statement, rows) != len(rows):
            has = (transaction.execute(SQL.HAS_QUESTION, row[:2]).fetchone() for row in rows)
            missing = next(row[1] for row, there in zip(rows, has, strict=True) if there is None)
            raise InputError(f"run {self.id} has no question {missing!r}; write only what was launched in it.")


def add_questions(transaction: Database, run: int, problems: Iterable[Problem], keys: Mapping[str, str]) -> int:
    """Append questions to a run, streamed, and say how many; ``keys`` tell their traces apart."""
    [(*_, first, _)] = transaction.all(SQL.GET_RUN, run)
    rows = (
        (*question_row(run, position, problem), problem.prompt.instruction or None, keys.get(problem.id))
        for position, problem in enumerate(problems, first)
    )
    try:
        count = transaction.executemany(SQL.ADD_QUESTION, rows)
    except transaction.integrity_error:
        raise InputError(f"two questions of run {run} have one id; give each its own.") from None
    transaction.execute(SQL.COUNT, (run, first + count))
    return count


def summary_of(database: Database, row: tuple[Any, ...]) -> RunSummary:
    """The summary of a row of ``runs``."""
    id, created, updated, _, questions, plain = row
    settings = RunRecord.from_json(plain)
    locked = database.is_locked(id)  # looked at first: whoever finishes a run releases its lock afterwards
    finished = (database.one(SQL.GET_RUN, id) or row)[3]
    state: RunState = "running" if locked else "stopped" if finished is None else "finished"
    [totals] = database.all(SQL.TOTALS, id)
    traces, answered, tokens, prompt_tokens, wasted, cached, reused, cancelled, parts = totals
    [(lost, held)] = database.all(SQL.COUNT_LOST, id)
    price, cost, own = settings.currency, 0, [0, 0, 0]
    if price.unit == "picodollars":  # traces that have a cost of their own cost that
        [(cost, *own)] = database.all(SQL.OWN_COSTS, id)
    usage = Usage(tokens=tokens - own[0], prompt_tokens=prompt_tokens - own[1], cached_tokens=cached - own[2])
    paid = price.per_trace * (traces + wasted + whole_traces(parts)) + cost + price.cost(usage) - price.per_trace
    counts = (questions, traces, answered, lost, tokens, prompt_tokens, paid + held)
    return RunSummary(id, state, created, updated, *counts, settings, reused, cancelled, parts)


class Store(AbstractContextManager["Store"]):
    """Runs by number, in one place. Use it as ``with Store.open(path) as store:``.

    One store is for one thread at a time; any number of processes may open the same file.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, location: str | os.PathLike[str], *, create: bool = True, durability: Durability = "process") -> Self:
        """Open a store by path or URL (``sqlite:///runs.db``, ``postgresql://...``).

        It is made if it is not there, and updated if it is older. A write to a file survives a power cut, too, with
        ``durability="machine"``.
        """
        return cls(open_database(location, create=create, durability=durability))

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The store as messages call it."""
        return self._database.name

    @property
    def has_traces(self) -> bool:
        """Whether any run has traces."""
        return self._database.one(SQL.ANY_TRACE) is not None

    def create(
        self,
        settings: RunRecord,
        problems: Iterable[Problem],
        *,
        stream: bool = False,
        identity: str | None = None,
        keys: Mapping[str, str] = MappingProxyType({}),
        is_rival: Callable[[RunSummary], bool] = lambda run: False,
    ) -> Run:
        """Make a run, which this process then holds. The questions are streamed in; if one is bad, there is no run.

        The questions of a ``stream`` are added as they arrive; every other run has at least one. By its ``identity``
        :meth:`runs_like` finds it again, by the ``keys`` of its questions others find their traces. Refused where a run
        of that identity ``is_rival``: of processes that begin the same at once, one makes it.
        """
        with ExitStack() as undo:
            with self._database.creating() as transaction:
                rival = None if identity is None else next(filter(is_rival, self.runs_like(identity)), None)
                if rival is not None:
                    raise StateError(
                        f"run {rival.id} of {self.name} asks the same, and another process has begun it. Wait for it "
                        "or stop it; two would pay for the same answers twice."
                    )
                plain = settings.to_json()
                id = int(transaction.execute(SQL.NEW_RUN, (time.time(), plain, identity)).fetchone()[0])
                if not add_questions(transaction, id, problems, keys) and not stream:
                    raise InputError("a run needs at least one question; there is none.")
                release = self._lock(id)  # before anybody can see the run
                undo.callback(release)
            undo.pop_all()
        return Run(self._database, id, settings, release)

    def open_run(self, run: int | str = "last", *, code: str | None = None) -> Run:
        """The run of that number, or the last, held by this process; refused while another process holds it. ``code``
        is what the user named that reads its answers, ``python:...``."""
        id, _ = self._find(run)
        if self.view(id).load(TEXTS_DELETED):
            raise StateError(f"the prompts of run {id} of {self.name} were deleted: it can be read, and not go on.")
        if self._database.one(SQL.SHARED_RUN, id):
            raise StateError(
                f"run {id} of {self.name} was shared by several processes (--join), which is no longer done: "
                f"`pets runs export {id}` gives its traces; it does not go on, and --new begins another."
            )
        release = self._lock(id)
        try:
            return Run(self._database, *self._find(id), release, code)  # as the last holder left it
        except BaseException:
            release()
            raise

    def view(self, run: int | str = "last", *, code: str | None = None) -> RunView:
        """The run of that number, or the last, to read alone, also while another process works on it; ``code`` as in
        :meth:`open_run`."""
        return RunView(self._database, *self._find(run), code)

    def runs(self) -> list[RunSummary]:
        """A summary of every run, oldest first."""
        return list(map(partial(summary_of, self._database), self._database.all(SQL.ALL_RUNS)))

    def runs_like(self, identity: str) -> Iterator[RunSummary]:
        """The runs of that identity that can go on, the latest first."""
        return map(partial(summary_of, self._database), self._database.all(SQL.RUNS_OF_IDENTITY, identity))

    def delete(self, run: int | str, *, texts: bool = False) -> int:
        """Delete a run, or with ``texts`` only what was asked and said in it: texts, prompts and errors. Says which.

        What is deleted is overwritten in the file. Without its prompts a run can be read, and no longer resumed.
        """
        id, _ = self._find(run)
        with ExitStack() as stack:
            stack.callback(self._lock(id))
            transaction = stack.enter_context(self._database.erasing())
            for table in TABLES_OF_RUN[: 1 if texts else None]:
                transaction.execute(f"DELETE FROM {table} WHERE run = ?1", (id,))
            if not texts:
                transaction.execute("DELETE FROM runs WHERE id = ?1", (id,))
            else:
                transaction.execute(SQL.DELETE_PROMPTS, (id, DELETED))
                transaction.execute(SQL.DELETE_ERRORS, (id, DELETED, LOST))
                transaction.execute(SQL.SAVE_STATE, (id, TEXTS_DELETED, "true"))
        return id

    def close(self) -> None:
        """Close the store; twice does no harm."""
        self._database.close()

    def _lock(self, run: int) -> Release:
        release = self._database.lock_run(run, LOCK_TIMEOUT_S)
        if release is None:
            raise StateError(
                f"run {run} of {self.name} is at work in another process. Wait for it or stop it; "
                "two would spend its budget twice."
            )
        return release

    def _find(self, run: int | str) -> tuple[int, RunRecord]:
        last = (self._database.one(SQL.LAST_RUN) or (None,))[0]
        if last is None:
            raise InputError(f"{self.name} holds no run yet.")
        text = str(last if run == "last" else run)
        if not text.isdecimal():
            raise InputError(f'a run is a number or "last"; got {text!r}. `pets runs` lists them.')
        row = self._database.one(SQL.GET_RUN, min(int(text), 2**62))
        if row is None:
            raise InputError(f"{self.name} holds no run {text}; the last is {last}. `pets runs` lists them.")
        return row[0], RunRecord.from_json(row[5])
