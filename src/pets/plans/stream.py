"""A stream of questions through one allocator: several on their way at once, each answered as soon as it stops.

Laws: every question that is taken in gets one outcome; traces are reserved before they are asked for; after
:meth:`Stream.drain` nothing more is asked for, what is in flight comes home, and every open question is answered with
what it has. A stream by windows may never end: a question that was answered is forgotten, all but its spend.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterator

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.batches import Batch, batches
from pets.errors import BudgetError, InputError, PetsError
from pets.plans.drift import Drift
from pets.plans.outcome import OpenQuestion, Outcome
from pets.plans.traces import Source
from pets.questions import Problem
from pets.types import Question, Trace

__all__ = ["Stream"]


class Stream:
    """Runs questions as they arrive; ``say`` gets each outcome at once, in the order in which they come about.

    ``at_once`` questions are open at a time, with ``concurrency`` traces in flight. ``drift`` is shown the warm-up
    patterns; ``alarmed`` is called when it first raises the alarm.
    """

    def __init__(
        self,
        allocator: Allocator,
        source: Source,
        say: Callable[[Outcome], None],
        *,
        at_once: int = 8,
        concurrency: int = 64,
        drift: Drift | None = None,
        alarmed: Callable[[Drift], None] = lambda _: None,
    ) -> None:
        if at_once < 1 or concurrency < 1:
            raise InputError(f"at least 1 question is open and 1 trace in flight; got {at_once} and {concurrency}.")
        self.allocator, self.drift = allocator, drift
        self.draining = False
        self.asked = self.refused = 0  # questions taken in, and turned away
        self._source, self._say, self._alarmed = source, say, alarmed
        self._concurrency = concurrency
        self._room = asyncio.Semaphore(at_once)
        self._open: dict[str, OpenQuestion] = {}
        self._in_flight = 0
        self._woken = asyncio.Event()
        self._intake: asyncio.Task[None] | None = None

    async def run(self, problems: AsyncIterable[Problem]) -> None:
        """Until the questions end and all are answered, or until :meth:`drain`."""
        try:
            async with asyncio.TaskGroup() as group:
                self._intake = group.create_task(self._take_in(problems))
                if self.draining:
                    self._intake.cancel()
                while True:
                    self._launch(group)
                    if self._intake.done() and not self._open:
                        return
                    self._woken.clear()
                    await self._woken.wait()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            for one in self._open.values():
                one.asked.close()

    def drain(self) -> None:
        """Take in no more questions and ask for no more traces."""
        self.draining = True
        if self._intake is not None:
            self._intake.cancel()
        self._woken.set()

    async def _take_in(self, problems: AsyncIterable[Problem]) -> None:
        """A question is fetched only when there is room for it: none is taken from the source and then left."""
        try:
            arriving = aiter(problems)
            while True:
                await self._room.acquire()
                problem = await anext(arriving, None)
                if problem is None:
                    return
                self._admit(problem)
                self._woken.set()
        finally:
            self._woken.set()

    def _admit(self, problem: Problem) -> None:
        """Open a question, or say why it is not asked."""
        try:
            asked = self._source.open(problem, self.asked + self.refused)
            one = OpenQuestion(problem, asked)
            self.allocator.add(Question(problem.id, options=one.options))
        except (BudgetError, InputError) as error:
            self.refused += 1
            self._room.release()
            self._say(Outcome(problem.id, error=str(error)))
            return
        self.asked += 1
        self._open[problem.id] = one

    def _launch(self, group: asyncio.TaskGroup) -> None:
        """Ask for what the policy wants now; close what wants nothing more."""
        free = self._concurrency - self._in_flight
        launches = [] if self.draining or free < 1 else self.allocator.ask(free)
        for batch in batches([(launch, 0, 1) for launch in launches], most=self._concurrency):
            self._in_flight += batch.size
            self._open[batch.id].in_flight += batch.size
            group.create_task(self._serve(batch))
        stuck = not self._in_flight  # nothing will ever wake these questions: the budget has no trace for them
        for id, one in list(self._open.items()):
            if not one.in_flight and (stuck or self.draining or self.allocator.stopped(id)):
                self._close(id, one)

    async def _serve(self, batch: Batch) -> None:
        one = self._open[batch.id]
        drawn = await one.asked.draw(batch.first, batch.size)
        self._in_flight -= batch.size
        one.in_flight -= batch.size
        for number, trace in enumerate(drawn, batch.first):
            told = Trace(batch.id, number, trace.label, None, trace.tokens, trace.prompt_tokens)
            self.allocator.tell(told)
            self._watch(one.came(number, trace))
        self._woken.set()

    def _watch(self, pattern: int | None) -> None:
        drift = self.drift
        if pattern is None or drift is None:
            return
        drift.see(pattern)
        if drift.alarmed_at == drift.seen:
            self._alarmed(drift)

    def _close(self, id: str, one: OpenQuestion) -> None:
        """Say what became of a question; one that others left no trace for was not asked."""
        del self._open[id]
        if one.begun or self.draining:
            outcome = one.outcome(self.allocator.policy.belief, complete=self.allocator.stopped(id))
        else:
            self.asked, self.refused = self.asked - 1, self.refused + 1
            outcome = Outcome(id, error=_used_up(self.allocator.budget))
        one.asked.close()
        if self.allocator.budget.window is not None:
            self.allocator.withdraw(id)
        self._room.release()
        self._say(outcome)


def _used_up(budget: Budget) -> str:
    return (
        f"the budget has no trace left for this question: {budget.spent + budget.reserved} of {budget.total} are "
        "spent or on their way. "
        "Raise the budget, or declare a horizon that counts every question."
    )


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The user's own error out of nested groups, else the only one there is, else the group."""
    found = list(_leaves(errors))
    ours = (error for error in found if isinstance(error, PetsError))
    return next(ours, found[0] if len(found) == 1 else errors)


def _leaves(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
