"""One run of a store: to read, also while another process works on it, or to hold and write."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from pets.core.budget import whole_traces
from pets.errors import InputError, StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.store import sql
from pets.store.database import Database, Release, RowError
from pets.store.records import (
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
    state_of,
    text_rows,
    trace_of,
    trace_row,
)
from pets.types import Launch, Usage

QUESTIONS_PER_PAGE = 2_000
TRACES_PER_PAGE = 500  # a text may be long


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
        while rows := self._database.all(sql.QUESTIONS, self.id, last, QUESTIONS_PER_PAGE):
            yield from (problem_of(row, self.code) for row in rows)
            last = rows[-1][0]

    def traces(self, *, texts: bool = True, first: int = 0) -> Iterator[StoredTrace]:
        """The traces that came back: question by question in their order, each question's in launch order.

        Without ``texts``, which counting does not need, far less is read. ``first`` is the place of the question, from
        0, with which to begin.
        """
        select = sql.TRACES_WITH_TEXT if texts else sql.TRACES
        page = TRACES_PER_PAGE if texts else QUESTIONS_PER_PAGE
        question, number = first, -1
        while rows := self._database.all(select, self.id, question, number, page):
            yield from map(trace_of, rows)
            question, _, number = rows[-1][:3]

    def lost(self) -> Iterator[LostLaunch]:
        """Launches without a trace, in the same order: in flight now, or when the process died."""
        return (LostLaunch(*row) for row in self._database.all(sql.LOST, self.id))

    def jobs(self) -> list[BatchJob]:
        """The batch jobs of the run, in the order in which they were written down."""
        return [job_of(row) for row in self._database.all(sql.JOBS, self.id)]

    def keys(self) -> dict[str, str]:
        """What tells the traces of each question from all others, by its id; runs of before may have none."""
        return dict(self._database.all(sql.KEYS, self.id))

    def reused(self) -> dict[int, int]:
        """How many of its traces other runs paid for, by run."""
        return dict(self._database.all(sql.REUSED, self.id))

    def shared_with(self, other: "RunView") -> int:
        """How many traces of this run are another's too: paid for once, and counted in both."""
        row = self._database.one(sql.SHARED_TRACES, self.id, other.id)
        return 0 if row is None else int(row[0])

    def answered(self) -> set[str]:
        """The ids of the questions whose answers have been handed out."""
        return {id for (id,) in self._database.all(sql.ANSWERED, self.id)}

    def summary(self) -> RunSummary:
        """The run in a few numbers."""
        row = self._database.one(sql.GET_RUN, self.id)
        if row is None:
            raise StateError(f"run {self.id} is no longer in {self._database.name}.")
        return summary_of(self._database, row)

    def by_model(self) -> list[ModelTotals]:
        """What each model of the run gave, in their order; one that gave nothing is left out."""
        return [ModelTotals(*row) for row in self._database.all(sql.TOTALS_BY_MODEL, self.id)]

    def load(self, name: str) -> Any:
        """The plain data saved under that name; ``None`` if there is none."""
        row = self._database.one(sql.GET_STATE, self.id, name)
        return None if row is None else state_of(row)


class Run(RunView):
    """A run that this process holds: nobody else can write to it. Use it as ``with run:``.

    A write is durable when it returns, and is whole or not at all. Calls may come from any thread, one at a time.
    """

    def __init__(
        self, database: Database, id: int, settings: RunRecord, release: Release, code: str | None = None
    ) -> None:
        super().__init__(database, id, settings, code)
        self._release = release
        row = database.one(sql.GET_RUN, id)
        database.size_cache_for(0 if row is None else row[4])

    def __enter__(self) -> Self:
        return self

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
        """Write launches, traces that came back, and launches that cost nothing.

        ``held`` was reserved for each launch: one number for all, or one per launch.

        A launch is written before it is dispatched, a trace before it is counted: what a dead process leaves is
        every trace that was counted, once, and every launch that may have been paid for. ``dropped`` launches were
        given up free of charge; their numbers are not used again, so a question's numbers may have gaps. ``charged``
        launches had a try that was paid for and came to nothing, and will be tried again: so much more is held for
        each.
        """
        try:
            with self._database.transaction() as transaction:
                holds = [held] * len(launched) if isinstance(held, int) else held
                launches = ((self.id, *launch, hold) for launch, hold in zip(launched, holds, strict=True))
                self._put(transaction, sql.ADD_LAUNCH, launches, [launch.question for launch in launched])
                rows = (trace_row(self.id, trace) for trace in traces)
                self._put(transaction, sql.ADD_TRACE, rows, [trace.question for trace in traces])
                if self.settings.keeps_texts:
                    transaction.executemany(sql.ADD_TEXT, text_rows(self.id, traces))
                self._charge(transaction, charged)
                transaction.executemany(sql.DROP_LAUNCH, ((self.id, *launch) for launch in dropped))
                transaction.execute(sql.TOUCH, (self.id, time.time()))
        except RowError as error:
            wrong = "a trace came without a launch" if error.orphan else "a launch or a trace came twice"
            rule = "Write the launch first." if error.orphan else "Each is written once."
            raise StateError(f"run {self.id}: {wrong}; nothing was written. {rule}") from None

    def set_answers(self, traces: Iterable[StoredTrace]) -> None:
        """Write what traces that are there already say, now that they have been read again."""
        rows = [(self.id, t.question, t.number, t.answer, t.finish, t.spelling) for t in traces]
        with self._database.transaction() as transaction:
            transaction.executemany(sql.SET_ANSWER, rows)

    def set_answer_types(self, chosen: Iterable[tuple[str, str]]) -> None:
        """Write how questions are read, now that it is known."""
        rows = [(self.id, id, answer_type) for id, answer_type in chosen]
        with self._database.transaction() as transaction:
            self._put(transaction, sql.SET_ANSWER_TYPE, rows, [id for _, id, _ in rows])

    @staticmethod
    def check(problem: Problem) -> None:
        """Refuse a question that cannot be kept, before others are written with it."""
        _storable_row(0, 0, problem)

    def add(self, problems: Iterable[Problem]) -> int:
        """Append questions, streamed, and say how many."""
        with self._database.transaction() as transaction:
            row = self._database.one(sql.GET_RUN, self.id)
            return add_questions(transaction, self.id, problems, first=0 if row is None else row[4])

    def change(self, settings: RunRecord) -> None:
        """Change the run's settings; a top-up is a larger total."""
        with self._database.transaction() as transaction:
            transaction.execute(sql.CHANGE, (self.id, time.time(), settings.to_json()))
        self.settings = settings

    def save(self, name: str, plain: Any) -> None:
        """Keep plain data (allocator state, a learned prior, a fault log) under a name; the last one counts."""
        with self._database.transaction() as transaction:
            transaction.execute(sql.SAVE_STATE, (self.id, name, json.dumps(plain)))

    def write_jobs(self, jobs: Sequence[BatchJob], dropped: Sequence[BatchJob] = ()) -> None:
        """Write down batch jobs, or what is new about them; forget those that were ``dropped``."""
        with self._database.transaction() as connection:
            connection.executemany(sql.SAVE_JOB, [job_row(self.id, job) for job in jobs])
            connection.executemany(sql.DROP_JOB, [(self.id, job.key) for job in dropped])

    def mark_answered(self, questions: Iterable[str]) -> None:
        """Note that the answers to these questions have been handed out, now."""
        rows = [(self.id, id, time.time()) for id in questions]
        with self._database.transaction() as transaction:
            self._put(transaction, sql.MARK_ANSWERED, rows, [id for _, id, _ in rows])

    def finish(self) -> None:
        """Mark the run as complete. It stays readable, and whatever is written later opens it again."""
        with self._database.transaction() as transaction:
            transaction.execute(sql.FINISH, (self.id, time.time()))

    def close(self) -> None:
        """Release the run; twice does no harm."""
        self._release()

    def _charge(self, transaction: Database, charged: Sequence[tuple[Launch, int]]) -> None:
        rows = [(self.id, *launch, amount) for launch, amount in charged]
        if rows and transaction.executemany(sql.CHARGE_LAUNCH, rows) != len(rows):
            raise StateError(f"run {self.id}: a launch was charged that is not there; nothing was written.")

    def _put(
        self, transaction: Database, statement: str, rows: Iterable[tuple[Any, ...]], questions: list[str]
    ) -> None:
        """Insert or change one row for each question's id."""
        if transaction.executemany(statement, rows) == len(questions) or not questions:
            return
        missing = [id for id in questions if transaction.execute(sql.HAS_QUESTION, (self.id, id)).fetchone() is None]
        raise InputError(f"run {self.id} has no question {missing[0]!r}; write only what was launched in it.")


def add_questions(
    transaction: Database, run: int, problems: Iterable[Problem], first: int, keys: Mapping[str, str] | None = None
) -> int:
    """Stream questions into a run, from position ``first`` on, and say how many; ``keys`` tell their traces apart."""
    keys = keys or {}
    rows = (
        (*_storable_row(run, position, problem), problem.prompt.instruction or None, keys.get(problem.id))
        for position, problem in enumerate(problems, first)
    )
    try:
        count = transaction.executemany(sql.ADD_QUESTION, rows)
    except RowError:
        raise InputError(f"two questions of run {run} have one id; give each its own.") from None
    transaction.execute(sql.COUNT, (run, first + count))
    return count


def summary_of(database: Database, row: tuple[Any, ...]) -> RunSummary:
    """The summary of a row of ``runs``."""
    id, created, updated, _, questions, plain = row
    settings = RunRecord.from_json(plain)
    totals = database.one(sql.TOTALS, id) or (0,) * 9
    rows, answered, tokens, prompt_tokens, wasted, cached, reused, cancelled, parts = totals
    traces = rows - cancelled
    lost, held = database.one(sql.COUNT_LOST, id) or (0, 0)
    price = settings.currency
    paid = price.per_trace * (traces + wasted + whole_traces(parts)) + _token_cost(
        database, id, settings, Usage(tokens=tokens, prompt_tokens=prompt_tokens, cached_tokens=cached)
    )
    return RunSummary(
        id=id,
        state=_state_of(database, id) or "stopped",
        created=created,
        updated=updated,
        questions=questions,
        traces=traces,
        answered=answered,
        lost=lost,
        tokens=tokens,
        prompt_tokens=prompt_tokens,
        spent=paid + held,
        settings=settings,
        reused=reused,
        cancelled=cancelled,
        cancelled_parts=parts,
    )


def _state_of(database: Database, run: int) -> RunState | None:
    """The state of a run; ``None`` where it is gone. Whoever finishes a run releases its lock afterwards."""
    locked = database.is_locked(run)  # so this is looked at first
    row = database.one(sql.GET_RUN, run)
    if row is None:
        return None
    return "running" if locked else "stopped" if row[3] is None else "finished"


def _token_cost(database: Database, run: int, settings: RunRecord, tokens: Usage) -> int:
    """What all ``tokens`` of a run cost; those of traces that have a cost of their own, as these say."""
    price, cost = settings.currency, 0
    if price.unit == "picodollars":
        cost, *own = database.one(sql.OWN_COSTS, run) or (0,) * 4
        total = (tokens.tokens, tokens.prompt_tokens, tokens.cached_tokens)
        output, prompt, cached = (number - part for number, part in zip(total, own, strict=True))
        tokens = Usage(tokens=output, prompt_tokens=prompt, cached_tokens=cached)
    return cost + price.cost(tokens) - price.per_trace


def _storable_row(run: int, position: int, problem: Problem) -> tuple[Any, ...]:
    """The row of a question whose texts every database takes."""
    row = question_row(run, position, problem)
    for text in row:
        if not isinstance(text, str):
            continue
        if "\0" in text:
            raise InputError(f"a question cannot be kept: {text[:40]!r} holds a NUL character. Repair it.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"a question cannot be kept: {text[:40]!r} is no UTF-8. Repair it.") from None
    return row
