"""The one live driver: what the allocator asks for is fetched, read and told back, under every verb.

A batch ends with its budget. Each question of a stream is answered as soon as it stops. A gateway submits one question
at a time, and the driver looks whenever something has changed.

Each concern is a class with its own state (:func:`pets.engine.assemble.assemble` puts them together). Budget is
reserved before a launch is sent; a launch ends in exactly one of delivered, lost, released, abandoned, cancelled.
"""

import asyncio
import gc
from collections.abc import AsyncIterable, Iterator, Sequence
from contextlib import contextmanager

from pets.engine.arrivals import Arrivals, Wiring
from pets.engine.pacing import Ending, Pacing
from pets.engine.question import OpenQuestion
from pets.engine.settlement import Settlement
from pets.errors import StateError, first_error
from pets.questions import Problem
from pets.types import Launch


class Driver:
    """Asks the allocator, starts requests and ends; :meth:`drain` ends it early, without losing anything.

    ``n_with_tokens``: several traces may share a request, whose reply tells the tokens of each.
    """

    def __init__(
        self, wiring: Wiring, arrivals: Arrivals, pacing: Pacing, settlement: Settlement, *, n_with_tokens: bool = True
    ) -> None:
        self.allocator, self.fetcher, self.questions = wiring.allocator, wiring.fetcher, wiring.questions
        self.arrivals, self.pacing, self.stops, self.settlement = arrivals, pacing, wiring.stops, settlement
        self._n_with_tokens = n_with_tokens
        self._wakeup = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    async def run(self, problems: AsyncIterable[Problem] | None = None) -> None:
        """Run until the budget is used up, the policy has had enough, the target is met, or :meth:`drain`.

        ``problems`` are those of a stream; a batch's are there already.
        """
        self.check_ready()
        self.fetcher.drain(on=False)
        self.stops.begin()
        try:
            with collected_apart():
                async with asyncio.TaskGroup() as group:
                    self._group = group
                    for id, numbers in self.arrivals.begin(group, problems):
                        holds = [self.settlement.costs.reserve(id) for _ in numbers]
                        self._start(self.questions.get(id), numbers, holds)
                    await self._loop()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            self._group = None

    def check_ready(self) -> None:
        """Refuse a run beside another, and one after a run that was broken off with traces in flight."""
        if self._group is not None:
            raise StateError("this run is under way already; wait for its end.")
        if traces := self.questions.in_flight:
            raise StateError(
                f"this run was broken off with {traces} traces in flight. Take it up from its store, or begin another."
            )

    def drain(self) -> None:
        """Take in no more questions and ask for no more traces; requests in flight end, and no other try follows."""
        self.stops.drain()
        self.settlement.reading.threads.end_soon()
        self.fetcher.drain()
        self.arrivals.stop()
        self._wakeup.set()

    def wake(self) -> None:
        """Look at what to launch next: once for all that comes in this turn of the event loop, in a gateway at once."""
        if self._group is None:
            self.pump()
        else:
            self._wakeup.set()

    async def _loop(self) -> None:
        while True:
            ending = self.pump()
            if not self.questions.in_flight:
                if ending is not None and ending.error is not None:
                    raise ending.error
                if not self.arrivals.arriving:
                    return
            if (error := self.fetcher.not_coming(draining=self.stops.drained)) is not None:
                raise error
            self._wakeup.clear()
            await self._wakeup.wait()

    def pump(self) -> Ending | None:
        """Launch what the policy wants and answer what is over; returns why nothing more is launched, at the end."""
        ending, full = self.stops.ending(), True
        if ending is not None and ending.error is not None:
            return ending
        while ending is None and (room := self.pacing.room()) > 0:
            launches = self.settlement.reserve(room)
            if launches:
                self.pacing.asked()
            full = len(launches) == room
            declined = sum(self._start(*part) for part in self.questions.group(launches))
            if not declined and (full or not self.pacing.next_wave()):
                break  # else there is room, or a wave, again
        if self.questions.idle and (ending is not None or not full):
            stuck = not self.questions.in_flight  # nothing will ever wake these: the budget has no trace for them
            for id in list(self.questions.idle):
                if ending is not None or stuck or self.allocator.stopped(id):
                    self.arrivals.finish(self.questions.by_id[id])
                    self.settlement.costs.forget(id)
        return ending

    def _start(self, question: OpenQuestion, numbers: range, holds: Sequence[int]) -> int:
        """Send launches of one question, as many to a request as servers take; returns how many are not allowed."""
        allowed = self.arrivals.allowed(question, len(numbers))
        for number in numbers[allowed:]:
            self.allocator.give_up(Launch(question.id, number))
        if allowed:
            self.questions.launched(question, allowed)
            request = self.arrivals.request(question, numbers.start, tuple(holds[:allowed]))
            # Alone where it may be cancelled, or tokens are money and the reply would not tell whose they are.
            several = self._n_with_tokens and not request.streamed
            for part in (request,) if allowed == 1 else self.fetcher.requests(request, several=several):
                self.arrivals.start(part, self.settlement, self._group)
        return len(numbers) - allowed


@contextmanager
def collected_apart() -> Iterator[None]:
    """Have the garbage collector leave alone what is there when a run begins: modules, questions, their records.

    It would look through all of it again and again, a tenth of a run's processor time. A caller's own freeze is kept.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
