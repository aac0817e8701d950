"""What is paid for, written down: opened before an attempt is sent, closed with what it cost after.

In memory, for runs that nobody resumes; in a run's store (:class:`RunLedger`); in a gateway's store
(:class:`pets.gateway.ledger.GatewayLedger`).
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from pets.engine.fetch import TraceRequest
from pets.errors import StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.store import Run, RunSettings, StoredTrace
from pets.store.records import LOST
from pets.types import Launch


class Ledger:
    """Where attempts are written down; this one keeps nothing: the allocator's budget is all there is to keep.

    ``admit``, ``open``, ``close`` and ``drop`` return when what they wrote is durable. ``async with ledger:`` while a
    driver runs.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what is held for attempts that are not in flight."""

    async def admit(self, problem: Problem) -> None:
        """A question arrived; traces of it will follow."""

    async def open(self, request: TraceRequest) -> None:
        """An attempt is about to be sent; ``BudgetError`` where it cannot be paid for, and then nothing is written."""

    async def close(
        self, request: TraceRequest, traces: Sequence[StoredTrace] = (), charged: Sequence[int] = ()
    ) -> None:
        """An attempt is over: its traces, or what is charged for each launch of one that came to nothing; or neither,
        where nothing was sampled."""

    async def drop(self, launches: Sequence[Launch]) -> None:
        """Launches that were never paid for are given up."""

    def abandon(self, request: TraceRequest, traces: Sequence[StoredTrace] = ()) -> None:
        """Nobody waits any more for an attempt that is out, or for the traces that it brought: charged."""

    async def choose(self, answer_type: str) -> None:
        """The answer type of questions that name none has been chosen; what they answer will be written by it."""

    def begin_wave(self, wave: int) -> None:
        """Launches of the wave of that number follow."""

    def answered(self, question: str) -> None:
        """A stream's question was answered, and its answer handed over."""


@dataclass(slots=True)
class _Transaction:
    """What the next transaction writes, and the future of those who wait for it."""

    durable: asyncio.Future[None]
    problems: list[Problem] = field(default_factory=list)
    launched: list[Launch] = field(default_factory=list)
    holds: list[int] = field(default_factory=list)
    traces: list[StoredTrace] = field(default_factory=list)
    charged: list[tuple[Launch, int]] = field(default_factory=list)
    cancelled: list[Launch] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    settings: RunSettings | None = None
    wave: int | None = None
    jobs: list[BatchJob] = field(default_factory=list)
    dropped_jobs: list[BatchJob] = field(default_factory=list)

    def write(self, run: Run) -> None:
        if self.wave is not None:
            run.save("wave", self.wave)
        if self.settings is not None:
            run.change(self.settings)
        if self.problems:
            run.add(self.problems)
        run.write(
            self.launched,
            self.traces,
            held=self.holds,
            charged=self.charged,
            cancelled=self.cancelled,
        )
        if self.answered:
            run.mark_answered(self.answered)
        if self.jobs or self.dropped_jobs:
            run.write_jobs(self.jobs, dropped=self.dropped_jobs)


class RunLedger(Ledger):
    """A run's store, by group commit: a write returns when the transaction that holds it is on disk.

    One thread writes. What arrives while it does waits for the next transaction, so many traces share one, and none
    waits longer than two transactions take. The event loop never touches the disk. ``async with ledger:``, whose end
    gives back what is held for attempts that were not out: whatever broke the run off, they cost nothing.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._opened: dict[Launch, int] = {}  # holds of launches that are neither back nor given up
        self._charged: set[Launch] = set()  # those of them that have lost an attempt
        self._next: _Transaction | None = None
        self._writer: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "pets-ledger")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        self._opened.clear()
        self._charged.clear()
        try:
            if self._writer is not None:
                await asyncio.wait([self._writer])
        finally:  # also when cancelled: nobody writes beside the thread
            thread, self._thread = self._thread, None
            assert thread is not None
            thread.shutdown()

    def _give_back(self) -> None:
        """What is held for attempts that are not out."""
        if self._opened:
            transaction = self._transaction()
            for launch, hold in self._opened.items():
                if launch in self._charged:
                    transaction.charged.append((launch, -hold))
                else:
                    transaction.cancelled.append(launch)

    async def admit(self, problem: Problem) -> None:
        """As :meth:`Ledger.admit`; what cannot be kept is refused alone, not with all that is written beside it."""
        self._run.check(problem)
        transaction = self._transaction()
        transaction.problems.append(problem)
        await asyncio.shield(transaction.durable)

    async def open(self, request: TraceRequest) -> None:
        """As :meth:`Ledger.open`; the allocator has reserved what is written here."""
        fresh = [(launch, hold) for launch, hold in zip(request.launches, request.holds, strict=True)
                 if launch not in self._opened]  # fmt: skip
        if not fresh:
            return
        transaction = self._transaction()
        for launch, hold in fresh:
            transaction.launched.append(launch)
            transaction.holds.append(hold)
            self._opened[launch] = hold
        await asyncio.shield(transaction.durable)

    async def close(
        self, request: TraceRequest, traces: Sequence[StoredTrace] = (), charged: Sequence[int] = ()
    ) -> None:
        """As :meth:`Ledger.close`."""
        if not traces and not charged:
            return
        transaction = self._transaction()
        transaction.traces += traces
        charges = list(zip(request.launches, charged, strict=False))
        transaction.charged += charges
        self._charged.update(launch for launch, _ in charges)
        self._forget([trace.launch for trace in traces])
        await asyncio.shield(transaction.durable)

    async def drop(self, launches: Sequence[Launch]) -> None:
        """As :meth:`Ledger.drop`."""
        opened = [launch for launch in launches if launch in self._opened]
        if opened:
            self._forget(opened)
            transaction = self._transaction()
            transaction.cancelled += opened
            await asyncio.shield(transaction.durable)

    def abandon(self, request: TraceRequest, traces: Sequence[StoredTrace] = ()) -> None:
        """As :meth:`Ledger.abandon`: traces are kept at what they cost, without a vote; launches of an attempt that is
        out stay in the store, at all that is held for them."""
        if traces:
            self._transaction().traces += [replace(trace, error=LOST) for trace in traces]
        self._forget([trace.launch for trace in traces] or request.launches)

    async def choose(self, answer_type: str) -> None:
        """As :meth:`Ledger.choose`: once, before any trace that was read by it."""
        settings = self._run.settings
        if settings.more.get("answer_type") == answer_type:
            return
        transaction = self._transaction()
        transaction.settings = replace(settings, more={**settings.more, "answer_type": answer_type})
        await asyncio.shield(transaction.durable)

    def begin_wave(self, wave: int) -> None:
        """As :meth:`Ledger.begin_wave`: written with its first launches, or before them."""
        self._transaction().wave = wave

    def answered(self, question: str) -> None:
        """As :meth:`Ledger.answered`: written with what comes next."""
        self._transaction().answered.append(question)

    def _forget(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            self._opened.pop(launch, None)
        self._charged.difference_update(launches)

    def _transaction(self) -> _Transaction:
        """The next one to be written."""
        if self._next is None:
            self._next = _Transaction(asyncio.get_running_loop().create_future())
            if self._writer is None:
                self._writer = asyncio.create_task(self._write_all())
        return self._next

    async def _write_all(self) -> None:
        """Transactions until nothing is left to write."""
        loop = asyncio.get_running_loop()
        while (transaction := self._next) is not None:
            self._next = None
            error: BaseException | None = StateError("the run has ended: nothing more is written.")
            if self._thread is not None:
                done = loop.run_in_executor(self._thread, transaction.write, self._run)
                await asyncio.wait([done])
                error = done.exception()
            if error is not None:
                transaction.durable.set_exception(error)  # those who wait are told
                transaction.durable.exception()  # heard, also if every waiter is gone
                continue
            transaction.durable.set_result(None)
        self._writer = None
