"""What is paid for, written down: opened before an attempt is sent, ended with what it cost.

In memory, in a run's store (:class:`RunLedger`) or in a gateway's (:class:`pets.gateway.ledger.GatewayLedger`);
:func:`pets.testing.check_ledger` holds them all to the laws below.
"""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self

from pets.engine.fetch import TraceRequest
from pets.errors import StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.store import Run, StoredTrace
from pets.store.records import LOST
from pets.types import Launch, Usage


class Ledger:
    """Where attempts are written down; this one keeps nothing, for runs that nobody resumes.

    The laws of every ledger:

    - an attempt is ``opened`` before it is sent, which returns when what is held for it is durable; where it raises,
      nothing is held; one that is ``reused`` is not sent, nor opened;
    - each launch of an attempt that was opened then ends in exactly one of ``delivered``, ``lost``, ``released``,
      ``abandoned`` and ``cancelled``, and may be opened again after ``lost`` and ``released``;
    - ``delivered`` returns when its traces are durable; the others return at once, and are written before anything that
      comes after them;
    - whatever breaks off, the next to open the store charges what was open at what was held for it, once.

    ``async with ledger:`` while a driver runs.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Write what is left."""

    async def admit(self, problem: Problem) -> None:
        """Write down a question that arrived; returns when it is durable."""

    async def opened(self, request: TraceRequest) -> None:
        """Reserve an attempt that is about to be sent; ``BudgetError`` where it cannot be paid for."""

    async def delivered(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Write down the traces of an attempt: of all its launches, or of the first, where the others were released."""

    def lost(self, request: TraceRequest, usage: Usage) -> None:
        """Charge ``usage`` for each launch of an attempt that came to nothing and may have been sampled."""

    def released(self, request: TraceRequest) -> None:
        """Give back the launches of a request that are open: nothing was sampled."""

    def abandoned(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Charge an attempt that nobody waits for: at the cost of the traces that came, else at all that is held."""

    def cancelled(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        """Charge an attempt that was cancelled at what was written of each trace. What is delivered at once after it is
        written with it, or neither is."""

    async def given_up(self, traces: Sequence[StoredTrace]) -> None:
        """Write down launches that are not tried again as traces that failed, at what their lost attempts were charged;
        returns when they are durable."""

    def choose(self, question: str, answer_type: str) -> None:
        """Write how a question is read, as chosen from its first traces: before them, or with them."""

    def begin_wave(self, wave: int) -> None:
        """Write the number of the wave whose launches follow."""

    def answered(self, question: str) -> None:
        """Note that the answer of a stream's question was handed over."""


@dataclass(slots=True)
class _Transaction:
    """What the next transaction writes; ``over`` is what those wait for whose writes these are."""

    over: asyncio.Future[None]
    problems: list[Problem] = field(default_factory=list)
    launched: dict[Launch, int] = field(default_factory=dict)  # with what is held for each
    traces: list[StoredTrace] = field(default_factory=list)
    charged: list[tuple[Launch, int]] = field(default_factory=list)
    dropped: set[Launch] = field(default_factory=set)
    answered: list[str] = field(default_factory=list)
    chosen: list[tuple[str, str]] = field(default_factory=list)
    wave: int | None = None
    jobs: list[BatchJob] = field(default_factory=list)
    dropped_jobs: list[BatchJob] = field(default_factory=list)

    def write(self, run: Run) -> None:
        if self.wave is not None:
            run.save("wave", self.wave)
        if self.problems:
            run.add(self.problems)
        if self.chosen:
            run.set_answer_types(self.chosen)
        dropped = sorted(self.dropped)
        held = list(self.launched.values())
        run.write(list(self.launched), self.traces, held=held, charged=self.charged, dropped=dropped)
        if self.answered:
            run.mark_answered(self.answered)
        if self.jobs or self.dropped_jobs:
            run.write_jobs(self.jobs, dropped=self.dropped_jobs)


class RunLedger(Ledger):
    """A run's store, by group commit: a write returns when the transaction that holds it is on disk.

    One thread writes; what arrives while it does shares the next transaction. The event loop never touches the disk.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._opened: dict[Launch, int] = {}  # what is held for launches in flight
        self._charged: set[Launch] = set()  # launches that have lost an attempt and are not over
        self._next: _Transaction | None = None
        self._writer: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "pets-ledger")
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            if self._writer is not None:
                await asyncio.wait([self._writer])
        finally:  # also when cancelled: nobody writes beside the thread
            thread, self._thread = self._thread, None
            assert thread is not None
            thread.shutdown()

    async def admit(self, problem: Problem) -> None:
        self._run.check(problem)  # what cannot be kept is refused alone, not with all that is written beside it
        transaction = self._transaction()
        transaction.problems.append(problem)
        await asyncio.shield(transaction.over)

    async def opened(self, request: TraceRequest) -> None:
        transaction = self._transaction()
        for launch, hold in zip(request.launches, request.holds, strict=True):
            if launch in self._charged:
                transaction.charged.append((launch, hold))
            elif launch in transaction.dropped:  # given back a moment ago
                transaction.dropped.remove(launch)
            else:
                transaction.launched[launch] = hold
            self._opened[launch] = hold
        try:
            await asyncio.shield(transaction.over)
        except asyncio.CancelledError:
            self.released(request)
            raise

    async def delivered(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        if request.reused:  # nothing was sent for it: it is written with its trace, or not at all
            self._transaction().launched.update(zip(request.launches, request.holds, strict=True))
        await asyncio.shield(self._write_traces(traces).over)

    def lost(self, request: TraceRequest, usage: Usage) -> None:
        cost, launches = self._run.settings.currency.cost(usage), request.launches
        self._transaction().charged += [(launch, cost - self._opened.pop(launch)) for launch in launches]
        self._charged.update(launches)

    def released(self, request: TraceRequest) -> None:
        holds = {launch: self._opened.pop(launch) for launch in request.launches if launch in self._opened}
        if holds:
            transaction = self._transaction()
            transaction.dropped.update(holds.keys() - self._charged)  # the others stay at what they have lost
            transaction.charged += [(launch, -hold) for launch, hold in holds.items() if launch in self._charged]

    def abandoned(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        if traces:
            self._write_traces([replace(trace, error=LOST) for trace in traces])
        else:  # they stay open in the store
            self._forget(request.launches)

    def cancelled(self, request: TraceRequest, traces: Sequence[StoredTrace]) -> None:
        self._write_traces(traces)

    async def given_up(self, traces: Sequence[StoredTrace]) -> None:
        await asyncio.shield(self._write_traces(traces).over)

    def choose(self, question: str, answer_type: str) -> None:
        self._transaction().chosen.append((question, answer_type))

    def begin_wave(self, wave: int) -> None:
        self._transaction().wave = wave

    def answered(self, question: str) -> None:
        self._transaction().answered.append(question)

    def _write_traces(self, traces: Sequence[StoredTrace]) -> _Transaction:
        transaction = self._transaction()
        transaction.traces += traces
        for trace in traces:
            self._forget([Launch(trace.question, trace.number)])
        return transaction

    def _forget(self, launches: Iterable[Launch]) -> None:
        """Forget launches that are over, or left to another process."""
        for launch in launches:
            self._opened.pop(launch, None)
            self._charged.discard(launch)

    def _transaction(self) -> _Transaction:
        """The next one to be written."""
        if self._next is None:
            self._next = _Transaction(asyncio.get_running_loop().create_future())
            if self._writer is None:
                self._writer = asyncio.create_task(self._write_all())
        return self._next

    async def _write_all(self) -> None:
        """Write transactions until nothing is left to write."""
        loop = asyncio.get_running_loop()
        while (transaction := self._next) is not None:
            self._next = None
            error: BaseException | None = StateError("the run has ended: nothing more is written.")
            if self._thread is not None:
                done = loop.run_in_executor(self._thread, transaction.write, self._run)
                await asyncio.wait([done])
                error = done.exception()
            if error is None:
                transaction.over.set_result(None)
            else:
                transaction.over.set_exception(error)
                transaction.over.exception()  # looked at, whether or not anybody waits for it
        self._writer = None
