"""Where a driver's questions come from, how they are asked, and what happens when the policy wants nothing more of one.

They are all there, as a batch's, or come as a stream, or are submitted one by one (:mod:`pets.engine.submissions`).
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pets.core.allocator import Allocator
from pets.core.budget import CostEstimator, UnitCost
from pets.engine.endpoints import EndpointPool
from pets.engine.fetch import Fetcher, TraceRequest
from pets.engine.ledger import Ledger
from pets.engine.pacing import StopRules
from pets.engine.progress import policy_certificate
from pets.engine.question import UNREAD, Answer, OpenQuestion, OpenQuestions, prompt_of
from pets.errors import BudgetError, InputError, RefusedError, SamplerError
from pets.questions import Problem
from pets.samplers import Completion, Sampling, Seeds
from pets.store import StoredTrace
from pets.store.cache import TraceCache
from pets.types import Launch, Trace

if TYPE_CHECKING:
    from pets.engine.settlement import Settlement

LOOKING_S = 0.5  # that a settled vote waits at most to learn whether its server stops

PendingLaunches = tuple[str, range]
"""Launches of an earlier process that are on their way: a question, and their numbers in one request of a job."""
OnAnswer = Callable[[Answer, OpenQuestion | None], None]
"""Takes an answer and its question; ``None`` for one that was not asked."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of a driver that others use, and how all questions are asked.

    ``wake`` has the driver look at what to launch next; the ``cache`` has traces that need not be asked for. ``system``
    replaces the system messages of questions; ``blocks`` are their places among the seeds, else their positions.
    """

    allocator: Allocator
    fetcher: Fetcher
    ledger: Ledger
    questions: OpenQuestions
    stops: StopRules
    costs: CostEstimator | UnitCost
    wake: Callable[[], None]
    cache: TraceCache | None
    sampling: Sampling
    seeds: Seeds
    blocks: Mapping[str, int]
    system: str | None


class Arrivals:
    """The questions of a batch, none of which is answered before the run ends; subclasses take them in as they come.

    ``launches`` of an earlier process are awaited first.
    """

    def __init__(self, wiring: Wiring, launches: Iterable[PendingLaunches] = ()) -> None:
        self._wiring, self._launches = wiring, list(launches)
        self._awaited = {Launch(id, number) for id, numbers in self._launches for number in numbers}
        self._requests = WeakKeyDictionary[OpenQuestion, dict[asyncio.Task[None], TraceRequest]]()  # on their way

    def begin(self, group: asyncio.TaskGroup, problems: AsyncIterable[Problem] | None) -> Sequence[PendingLaunches]:
        """Begin to run; returns the launches that are on their way already, once each."""
        launches, self._launches = self._launches, []
        return launches

    @property
    def arriving(self) -> bool:
        """Whether more questions may come, or one is open that waits for its answer."""
        return False

    def stop(self) -> None:
        """Take in no more questions; those that are open are asked to their end."""

    def allowed(self, question: OpenQuestion, launches: int) -> int:
        """How many of the launches that the policy wants next are allowed."""
        return launches

    def request(self, question: OpenQuestion, first: int, holds: tuple[int, ...]) -> TraceRequest:
        """The request for launches of a question from number ``first`` on; streamed where it may be cancelled."""
        id, wiring = question.id, self._wiring
        position, seeds = wiring.blocks.get(id, question.position), wiring.seeds
        seed = seeds.at(position % seeds.questions, first % seeds.cap)
        prompt = question.problem.prompt if wiring.system is None else prompt_of(question.problem, wiring.system)
        request = TraceRequest(id, first, len(holds), prompt, seed, wiring.sampling, holds, owner=question)
        request.position, request.streamed = position, wiring.allocator.is_hurried(id)
        return request

    def start(self, request: TraceRequest, receiver: "Settlement", group: asyncio.TaskGroup | None) -> None:
        """Fetch a request in a task, but for what an earlier run has paid for; what is awaited was sent before."""
        assert group is not None
        fetcher, cache, parts = self._wiring.fetcher, self._wiring.cache, iter([request])
        if cache is not None and Launch(request.question, request.first) not in self._awaited:
            parts = reused_parts(request, cache, fetcher.pool)
        for part in parts:
            if part.reused is not None:
                group.create_task(receiver.delivered(part, [part.reused]))
                continue
            task = group.create_task(fetcher.fetch(part, receiver))
            if part.streamed:
                self._track(part, task)

    def _track(self, request: TraceRequest, task: asyncio.Task[None]) -> None:
        """Remember which task fetches a request, as long as it does."""
        own = self._requests.setdefault(request.owner, {})
        own[task] = request
        task.add_done_callback(own.pop)

    async def cancel(self, question: OpenQuestion) -> list[TraceRequest]:
        """Cancel and return the requests of a question that are on their way, but for those that are settling."""
        requests: dict[asyncio.Task[None], TraceRequest] = {}
        looks: list[asyncio.Task[None]] = []
        for task, request in self._requests.get(question, {}).items():
            if not (request.settling or request.over):
                request.over = True
                if request.endpoint is not None and request.written is not None:
                    looks += self._wiring.fetcher.pool.cancelled(request.endpoint)
                task.cancel()
                requests[task] = request
        if requests:  # who cancels the caller cancels these as well: they end at once, and are charged all the same
            with suppress(asyncio.CancelledError):
                await asyncio.wait(requests)
                if looks:  # the first that a run cancels: what they cost depends on whether the server stops
                    await asyncio.wait(looks, timeout=LOOKING_S)
        return list(requests.values())

    def finish(self, question: OpenQuestion) -> None:
        """End an idle question, of which the policy wants nothing more."""

    def failed(self, question: OpenQuestion, error: SamplerError) -> None:
        """Note that an attempt failed; the run ends where failures may have cost too much."""
        self._wiring.stops.failed(question.id, error)

    def unpaid(self, question: OpenQuestion, error: BudgetError) -> None:
        """Note that the ledger does not pay for an attempt."""

    def refused(self, question: OpenQuestion, error: RefusedError) -> None:
        """Note that the server refuses a question for good; raises where it refuses every one."""
        self._wiring.stops.refused(question.id, error)

    def charge_abandoned(self, question: OpenQuestion, traces: Sequence[Trace]) -> None:
        """Charge what an abandoned attempt may have cost, where a plan goes on without it."""


class StreamArrivals(Arrivals):
    """Questions that arrive one by one; each is answered, by ``on_answer``, once the policy wants nothing more of it.

    ``open_questions`` are open at a time. ``seen`` holds the ids of a stream's questions, none of which may come again;
    ``None`` where it forgets what it has answered.
    """

    def __init__(
        self,
        wiring: Wiring,
        *,
        open_questions: int = 8,
        seen: set[str] | None = None,
        on_answer: OnAnswer = lambda answer, question: None,
    ) -> None:
        super().__init__(wiring)
        self.arrived = 0 if seen is None else len(seen)  # questions, those that were not asked among them
        self._seen, self._on_answer = seen, on_answer
        self._most, self._room = open_questions, asyncio.Semaphore(0)
        self._task: asyncio.Task[None] | None = None
        self._admitting = False  # a question was taken from the source and will be open

    def begin(self, group: asyncio.TaskGroup, problems: AsyncIterable[Problem] | None) -> Sequence[PendingLaunches]:
        assert problems is not None
        self._room = asyncio.Semaphore(max(0, self._most - len(self._wiring.questions.by_id)))
        self._task = group.create_task(self._take_in(problems))
        self._task.add_done_callback(lambda _: self._wiring.wake())
        if self._wiring.stops.drained:
            self.stop()
        return ()

    @property
    def arriving(self) -> bool:
        return bool(self._wiring.questions.by_id) or not (self._task is None or self._task.done())

    def stop(self) -> None:
        if self._task is not None and not self._admitting:
            self._task.cancel()
        self._most = 0

    async def _take_in(self, problems: AsyncIterable[Problem]) -> None:
        """Take each question only when there is room for it: none is taken and then left."""
        arrivals = aiter(problems)
        while self._most:
            await self._room.acquire()
            problem = await anext(arrivals, None)
            if problem is None:
                return
            self._admitting = True
            await self._admit(problem)
            self._admitting = False

    async def _admit(self, problem: Problem) -> None:
        """Open a question, or say why it is not asked."""
        position = self.arrived
        self.arrived += 1
        try:
            if self._seen is not None and problem.id in self._seen:
                raise InputError(f"a question {problem.id!r} came before; give each an id of its own.")
            question = self._wiring.questions.make(problem, position)
            self._wiring.allocator.check(question.question)
            await self._wiring.ledger.admit(problem)
            if self._seen is not None:
                self._seen.add(problem.id)
            self._wiring.allocator.add(question.question)
        except (BudgetError, InputError) as error:
            self._hand_out(Answer(problem.id, error=str(error)), None)
        else:
            self._wiring.questions.open(question)
        self._wiring.wake()

    def _hand_out(self, answer: Answer, question: OpenQuestion | None) -> None:
        """Make room for the next question, and hand out the answer of one that is over, or was not asked."""
        if len(self._wiring.questions.by_id) < self._most:
            self._room.release()
        self._on_answer(answer, question)

    def finish(self, question: OpenQuestion) -> None:
        """Hand out the answer of a question, and forget the question."""
        id, allocator, stops = question.id, self._wiring.allocator, self._wiring.stops
        policy, budget, verdict = allocator.policy, allocator.budget, allocator.verdict(id)
        failure = stops.failures.get(id)
        error = None if failure is None or verdict.votes else str(failure)
        self._wiring.questions.close(question)
        if allocator.tally(id).launched or error is not None or stops.drained:
            complete, certify = allocator.complete(id), partial(policy_certificate, policy)
            answer = question.answer(verdict, certify, complete=complete, error=error, zone=policy.zone)
            self._hand_out(answer, question)
        else:
            reason = (
                f"the budget has no trace left for this question: {budget.spent + budget.reserved} of {budget.total} "
                "are spent or on their way. Raise the budget, or declare a horizon that counts every question."
            )
            self._hand_out(Answer(id, error=reason), None)
        self._wiring.ledger.answered(id)
        allocator.withdraw(id)
        stops.failures.pop(id, None)  # a stream may never end


def reused_parts(request: TraceRequest, cache: TraceCache, pool: EndpointPool) -> Iterator[TraceRequest]:
    """A run's request in parts; traces that the cache holds are there already, at the cost that is recorded."""
    traces: dict[int, StoredTrace] = {}
    held: dict[int, Completion] = {}
    for number in range(request.first, request.first + request.size):
        endpoints = [endpoint.number for endpoint in pool.takers(request.position + number)]
        trace = cache.find(request.question, number, endpoints)
        if trace is not None:
            sampler, traces[number] = pool.endpoints[trace.endpoint].sampler, trace
            held[number] = Completion(
                trace.text,
                "stop" if trace.finish == UNREAD else trace.finish,
                trace.tokens,
                trace.prompt_tokens,
                trace.confidences,
                cached_tokens=trace.cached_tokens,
                model=sampler.model,
                currency=sampler.currency,
                reused_from=trace.reused_from,
            )
    for part in request.parts_with(held):
        if part.reused is not None:
            trace = traces[part.first]
            part.endpoint, part.seconds = pool.endpoints[trace.endpoint], trace.seconds
        yield part
