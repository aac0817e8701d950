"""The loop over ``ask`` and ``tell``: as many traces in flight as allowed, each tried until it comes or is given up.

A launch is durable before it is sent, a trace before it is counted. Whatever fails, a launch is told exactly once.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pets.core.allocator import Allocator
from pets.core.policy import IndexPolicy
from pets.engine.asking import prompt_of, seeds_for
from pets.engine.batches import Batch, batches
from pets.engine.endpoints import Endpoint, Fleet, unreachable
from pets.engine.journal import Journal
from pets.engine.lengths import Lengths
from pets.engine.outlook import Watch
from pets.engine.plan import Plan
from pets.engine.purse import ENOUGH, Purse
from pets.engine.reading import Reader
from pets.engine.trials import FATAL, LONGEST_WAIT, name_of, wait_of
from pets.engine.width import in_flight_limit
from pets.errors import BusyError, PetsError, RefusedError, ReplyError, SamplerError
from pets.questions import Problem
from pets.samplers import Completion
from pets.store import StoredTrace
from pets.types import Launch

__all__ = ["FATAL", "LONGEST_WAIT", "MOST_CHOICES", "Dispatcher", "name_of", "prompt_of"]

MOST_CHOICES = 16  # traces that one request asks for at most: a reply that breaks loses them all
PATIENCE = 300.0  # seconds without any server before the run is left to be resumed


class Dispatcher:
    """Runs one allocator to its end over the endpoints; :meth:`drain` ends it early, without losing anything."""

    def __init__(
        self,
        problems: Sequence[Problem],
        allocator: Allocator,
        fleet: Fleet,
        plan: Plan,
        journal: Journal,
        reader: Reader,
        *,
        purse: Purse | None = None,
        counted: Callable[[StoredTrace], None] = lambda _: None,
    ) -> None:
        self.allocator, self.faults = allocator, Counter[str]()
        self.draining = False  # told to end
        self.satisfied = False  # the target is met
        self._problems, self._fleet, self._plan, self._journal, self._reader = problems, fleet, plan, journal, reader
        self._purse, self._counted = purse, counted
        self._sampling, self._kind = plan.drawn, plan.kind
        self._place = {problem.id: number for number, problem in enumerate(problems)}
        self._ids = list(self._place)
        self._seeds = seeds_for(plan, len(problems))
        self._watch = None if plan.target_consistency is None else Watch(plan.target_consistency)
        self._random = random.Random(plan.seed)
        self._in_flight = 0
        # Whether what comes back decides which question is next.
        self._chooses = len(problems) > 1 and isinstance(allocator.policy, IndexPolicy)
        self._woken = asyncio.Event()
        self._refused: set[str] = set()
        self._came = allocator.told  # traces that came back
        self._away_since: float | None = None  # nobody was there, from then on
        self._away: SamplerError | None = None
        self._lengths = Lengths()

    def drain(self) -> None:
        """Ask for nothing more; what is in flight comes home."""
        self.draining = True
        self._woken.set()

    async def run(self) -> None:
        """Until the budget is used up, the policy has had enough, the target is met, or :meth:`drain`."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._launch(group)
                    if not self._in_flight:
                        return
                    if self.draining and self._away is not None:
                        raise self._away  # what is in flight has nowhere to come from
                    self._woken.clear()
                    await self._woken.wait()
        except ExceptionGroup as errors:
            raise next((error for error in errors.exceptions if isinstance(error, PetsError)), errors) from None

    def _launch(self, group: asyncio.TaskGroup) -> None:
        limit = self._plan.concurrency
        budget = self.allocator.budget
        if self._chooses and (self._purse is None or budget.settled >= ENOUGH):
            left = budget.expected + self._in_flight
            limit = in_flight_limit(limit, len(self._problems), left)
        free = limit - self._in_flight
        if self._watch is not None and not self.satisfied:
            self.satisfied = self._watch.met(self.allocator, self._ids)
        if self.draining or self.satisfied or free < 1:
            return
        place = self._place
        asked = [(launch, place[launch.question], held) for launch, held in self._ask(free)]
        for batch in batches(asked, self._most):
            self._in_flight += batch.size
            group.create_task(self._serve(batch, group))

    def _ask(self, free: int) -> list[tuple[Launch, int]]:
        """Launches and what is held for each."""
        if self._purse is None:
            return [(launch, 1) for launch in self.allocator.ask(free)]
        found: list[tuple[Launch, int]] = []
        while len(found) < free and self._purse.allows() and (launches := self.allocator.ask()):
            found.append((launches[0], self._purse.launch(launches[0].question)))
        return found

    @property
    def _most(self) -> int:
        """Choices in one request: one where tokens are money and the reply would not tell whose they are."""
        return self._fleet.most if self._purse is None or self._sampling.top_logprobs else 1

    async def _serve(self, batch: Batch, group: asyncio.TaskGroup) -> None:
        """One request to its end: traces that came, a new task for those that did not, or giving up."""
        if not batch.durable:
            await self._journal.write(batch.launches, held=max(batch.held))
            batch.durable = True
        last: Endpoint | None = None
        while True:
            endpoint = await self._fleet.pick(last)
            if batch.size > endpoint.most:
                self._again(batch.split(endpoint.most), group)
                return
            begun = asyncio.get_running_loop().time()
            outcome = await self._sample(endpoint, batch)
            if isinstance(outcome, RefusedError):
                await self._turned_down(batch, outcome, endpoint, group)
                return
            if isinstance(outcome, SamplerError):
                if await self._given_up(batch, outcome, endpoint):
                    return
                last = endpoint
                continue
            seconds = asyncio.get_running_loop().time() - begun
            self._learn(endpoint, batch, len(outcome), seconds)
            await self._home(batch, outcome, endpoint, seconds)
            if len(outcome) < batch.size:
                self.faults["fewer choices"] += 1
                self._again([batch.part(len(outcome), batch.size - len(outcome))], group)
            return

    async def _sample(self, endpoint: Endpoint, batch: Batch) -> list[Completion] | SamplerError:
        """What came, or what went wrong in a way that may pass or concerns this request alone."""
        prompt = prompt_of(self._problems[batch.number], self._plan.system)
        seed = self._seeds.at(batch.number, batch.first)
        endpoint.in_flight += batch.size
        try:
            return await endpoint.sampler.sample(prompt, batch.size, seed, self._sampling)
        except (RefusedError, BusyError, ReplyError) as error:
            return error
        finally:
            endpoint.in_flight -= batch.size

    def _again(self, parts: Iterable[Batch], group: asyncio.TaskGroup) -> None:
        for part in parts:
            group.create_task(self._serve(part, group))

    def _learn(self, endpoint: Endpoint, batch: Batch, got: int, seconds: float) -> None:
        endpoint.came(batch.size, got, seconds)
        if batch.refused:
            endpoint.most = min(endpoint.most, max(batch.size, got))
        self._away_since = self._away = None
        self._came += got

    async def _turned_down(
        self, batch: Batch, error: RefusedError, endpoint: Endpoint, group: asyncio.TaskGroup
    ) -> None:
        """Fewer at a time, where several were asked for; else the question's own fault, or everybody's."""
        self.faults["refused"] += 1
        endpoint.answered = True
        if error.status in FATAL:
            raise error
        if batch.size > 1:
            batch.refused = batch.size
            self._again(batch.split(-(-batch.size // 2)), group)
            return
        self._refused.add(batch.id)
        if not self._came and len(self._refused) >= min(3, len(self._problems)):
            raise error
        await self._lost(batch, error, endpoint)

    async def _given_up(self, batch: Batch, error: SamplerError, endpoint: Endpoint) -> bool:
        """Wait before the next try; True where there is none."""
        self.faults[name_of(error)] += 1
        away, now = unreachable(error), asyncio.get_running_loop().time()
        endpoint.failed(now, away)
        if away:
            self._check_patience(error, now)
            return False
        batch.tries += 1
        batch.wasted += error.status is None
        if batch.tries >= self._plan.tries:
            await self._lost(batch, error, endpoint)
            return True
        await asyncio.sleep(wait_of(batch.tries, error, self._plan.backoff, self._random.random()))
        return False

    def _check_patience(self, error: SamplerError, now: float) -> None:
        """Nobody is there: wrong from the start, or gone for too long."""
        if self._fleet.never_answered:
            if all(one.failures >= 3 for one in self._fleet.endpoints):
                raise error
            return
        self._away_since = self._away_since or now
        if all(one.failures for one in self._fleet.endpoints):
            self._away = error
            if self.draining or now - self._away_since > PATIENCE:
                raise error

    async def _home(self, batch: Batch, found: Sequence[Completion], endpoint: Endpoint, seconds: float) -> None:
        """Traces that came: read, written, then told."""
        read = [form for form, _ in await self._reader.read(batch.number, found)]
        waste = self._waste(batch)
        traces = [
            StoredTrace(
                batch.id,
                batch.first + at,
                form,
                one.text,
                one.finish,
                self._lengths.tokens(one) + waste,
                (one.prompt_tokens or 0) if at == 0 else 0,  # a prompt is read once for all choices
                one.confidence,
                endpoint=endpoint.number,
                seconds=seconds,
                tries=batch.tries + 1,
            )
            for at, (one, form) in enumerate(zip(found, read, strict=True))
        ]
        await self._journal.write(traces=traces)
        for at, trace in enumerate(traces):
            self._tell(batch.number, trace, batch.held[at])
        if self._kind is not None and found[0].confidence is None:
            self.faults["no log-probabilities"] += 1

    async def _lost(self, batch: Batch, error: SamplerError, endpoint: Endpoint) -> None:
        """Traces that are given up: paid for as far as is known, without a vote."""
        self.faults["given up"] += batch.size
        waste = self._waste(batch)
        traces = [
            StoredTrace(
                launch.question,
                launch.number,
                tokens=waste,
                error=str(error),
                endpoint=endpoint.number,
                tries=max(1, batch.tries),
            )
            for launch in batch.launches
        ]
        await self._journal.write(traces=traces)
        for at, trace in enumerate(traces):
            self._tell(batch.number, trace, batch.held[at])

    def _tell(self, number: int, trace: StoredTrace, held: int) -> None:
        for absorbed, into in self._reader.joined(number):
            self.allocator.merge(trace.question, absorbed, into)
        told = trace.trace(self._kind)
        label = None if trace.answer is None else self._reader.label(number, trace.answer)
        if told.answer != label:
            told = replace(told, answer=label)
        if self._purse is not None:
            self._purse.settle(trace.question, held, self.allocator.budget.currency.cost(told))
        self._in_flight -= 1
        self.allocator.tell(told)
        self._counted(trace)
        self._woken.set()

    def _waste(self, batch: Batch) -> int:
        """Tokens that replies lost on the way may have cost, a trace: the mean's. Nothing where traces are counted."""
        if self._purse is None or not batch.wasted:
            return 0
        currency = self.allocator.budget.currency
        return batch.wasted * self._purse.expected(batch.id) // max(1, currency.per_token)
