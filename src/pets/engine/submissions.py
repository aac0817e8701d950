"""Questions that are submitted one by one, each by somebody who waits for its answer: a gateway's.

Their tasks end with the wait: who leaves is charged for the requests in flight, and nothing else.

Payers share the :class:`Places` in flight. First come, first served would give all places to one client with many slow
requests. Here a payer may have FREE_MULTIPLE times as many as are left free: alone, seven eighths of all; of two that
want everything, each the same. So the next payer finds a place at once, however long the others keep theirs, and
nobody's is taken away (dynamic thresholds: Choudhury and Hahne, 1998).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Literal

from pets.answers.base import AnswerType
from pets.core.tally import K0
from pets.engine.arrivals import Arrivals, Wiring
from pets.engine.fetch import TraceRequest
from pets.engine.progress import policy_certificate
from pets.engine.question import Answer, OpenQuestion, TraceReader
from pets.engine.settlement import Settlement
from pets.errors import BudgetError, BusyError, RefusedError, SamplerError, first_error
from pets.questions import Problem
from pets.samplers import Completion, Sampling
from pets.types import Trace, Verdict

Stop = Literal["policy", "max_traces", "deadline", "budget", "failed", "cut", "single"]  # what ended a vote
FREE_MULTIPLE = 7


@dataclass(frozen=True, slots=True)
class VoteLimits:
    """How one question is asked, and what ends its vote beside the policy.

    ``deadline`` is the event loop's time. ``weighted`` votes count by confidence. ``single`` takes one trace, without
    the policy. ``answer`` says how answers are read, whatever the question says; ``reader`` reads those that are no
    texts, such as tool calls. The ledger gets ``context`` with each request. Places in flight, and turns in reading and
    comparing, are shared by ``payer``. Traces that are ``held``, by launch number, are not asked for again.
    """

    sampling: Sampling
    seed: int
    max_traces: int
    deadline: float
    hurry: float | None = None
    weighted: bool = False
    single: bool = False
    reader: TraceReader | None = None
    answer: str | AnswerType | None = None
    context: object = None
    payer: str = ""
    held: Mapping[int, Completion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VoteOutcome:
    """What became of a vote: its ``answer``, or the ``error`` where no trace came back; ``question`` holds the traces.

    ``timed_out``: the deadline came, and nothing else went wrong. ``retries`` attempts failed. The policy planned
    with ``mean_left`` traces per question, and stopped at ``log_price``.
    """

    question: OpenQuestion
    limits: VoteLimits
    stopped: Stop
    answer: Answer | None
    error: SamplerError | BudgetError | None
    timed_out: bool
    retries: int
    mean_left: float | None
    log_price: float | None

    def result(self) -> Answer:
        """The answer; raises the error where there is none."""
        if self.answer is None:
            raise self.error or BusyError("no trace came back in time.")
        return self.answer


class OpenVote:
    """A vote while it is under way: how many traces were ``launched``, in which ``tasks``, until it is ``done``."""

    def __init__(self, question: OpenQuestion, limits: VoteLimits) -> None:
        self.question, self.limits = question, limits
        self.stopped: Stop = "single" if limits.single else "policy"
        self.error: SamplerError | BudgetError | None = None
        self.launched = self.retries = 0
        self.plan: tuple[float | None, float | None] = None, None  # mean traces left per question, log price
        self.verdict: Verdict | None = None  # of a policy that weighs traces by a rule of its own
        self.tasks: asyncio.TaskGroup | None = None
        self.done = asyncio.Event()

    def outcome(self, answer: Answer | None = None, *, timed_out: bool = False) -> VoteOutcome:
        """The vote as it has ended."""
        how = self.question, self.limits, self.stopped
        return VoteOutcome(*how, answer, self.error, timed_out, self.retries, *self.plan)


class Submissions(Arrivals):
    """Takes in one question at a time; their traces wait for ``places``, and ``receiver`` settles them."""

    def __init__(self, wiring: Wiring, places: "Places", receiver: Callable[[], Settlement]) -> None:
        super().__init__(wiring)
        self.votes: dict[str, OpenVote] = {}  # by the id of the question
        self.places, self._receiver = places, receiver

    async def submit(self, problem: Problem, limits: VoteLimits) -> VoteOutcome:
        """Vote on a question until the policy, the deadline or a limit of its own ends it.

        Cancelled, it charges the requests in flight and gives back the rest.
        """
        answer, payer, reader = limits.answer, limits.payer, limits.reader
        question = OpenQuestion(problem, answer, position=limits.seed, keep_traces=True, payer=payer, reader=reader)
        vote = self.votes[question.id] = OpenVote(question, limits)
        try:
            async with asyncio.timeout_at(limits.deadline):
                await (self._fetch_single(vote) if limits.single else self._vote(vote))
        except TimeoutError:
            vote.stopped = "deadline"
        except (SamplerError, BudgetError, BaseExceptionGroup) as errors:
            error = first_error(errors) if isinstance(errors, BaseExceptionGroup) else errors
            if not isinstance(error, SamplerError | BudgetError):
                raise error from None
            vote.error = error
            return vote.outcome()
        finally:
            del self.votes[question.id]
        timed_out = vote.stopped == "deadline" and vote.error is None
        vote.error = vote.error or self._wiring.fetcher.outage
        came = any(trace.error is None for trace in (question.traces or {}).values())
        return vote.outcome(self._answer(vote) if came else None, timed_out=timed_out)

    async def _vote(self, vote: OpenVote) -> None:
        """Launch what the policy wants until it has enough; the question's tasks are a group of its own."""
        self._wiring.allocator.add(replace(vote.question.question, hurry=vote.limits.hurry))
        self._wiring.questions.open(vote.question)
        try:
            async with asyncio.TaskGroup() as vote.tasks:
                self._wiring.wake()
                await vote.done.wait()
        finally:
            self._leave(vote)

    async def _fetch_single(self, vote: OpenVote) -> None:
        """Fetch one trace, without a vote."""
        vote.launched = 1
        self._wiring.questions.launched(vote.question, 1)
        try:
            (request,) = self.request(vote.question, 0, (1,)).parts_with(vote.limits.held)
            await self._fetch(vote, request, self._receiver())
        finally:
            self._wiring.questions.back(vote.question)

    async def _fetch(self, vote: OpenVote, request: TraceRequest, receiver: Settlement) -> None:
        """Fetch a request once there is a place for it; where there are fewer places than traces, a part of it."""
        if request.reused is not None:
            return await receiver.delivered(request, [request.reused])
        payer = vote.limits.payer
        size = await self.places.acquire(payer, request.size, rank=request.first)
        try:
            if size < request.size:
                assert vote.tasks is not None
                vote.tasks.create_task(self._fetch(vote, request.part(size, request.size - size), receiver))
                request = request.part(0, size)
            await self._wiring.fetcher.fetch(request, receiver)
        finally:
            self.places.give_back(payer, size)

    def _leave(self, vote: OpenVote) -> None:
        """Withdraw a question, and free what was not sent; requests in flight were charged by their tasks."""
        allocator, questions, question = self._wiring.allocator, self._wiring.questions, vote.question
        if vote.stopped == "policy" and not allocator.complete(question.id):
            vote.stopped = "budget" if vote.error is None else "failed"
        view = allocator.view(question.id)
        vote.plan = view.mean_left, allocator.policy.log_price(view)
        if allocator.policy.sees == "traces":
            vote.verdict = allocator.verdict(question.id)
        questions.close(question)
        pending = allocator.pending(question.id)
        allocator.withdraw(question.id)
        for launch in pending:
            allocator.take_back(launch)
        questions.back(question, questions.in_flight_of(question.id))
        self._wiring.wake()

    def _answer(self, vote: OpenVote) -> Answer:
        policy, question = self._wiring.allocator.policy, vote.question
        verdict = vote.verdict
        if verdict is None or not verdict.votes:
            verdict = question.verdict(weighted=vote.limits.weighted, raced=bool(question.totals.cancelled))
        certify, complete = partial(policy_certificate, policy), vote.stopped == "policy"
        return question.answer(verdict, certify, complete=complete, zone=policy.zone)

    def allowed(self, question: OpenQuestion, launches: int) -> int:
        """How many of the traces that the policy wants next the vote's own limits allow."""
        vote = self.votes[question.id]
        limits, now = vote.limits, asyncio.get_running_loop().time()
        allowed = min(launches, limits.max_traces - vote.launched)
        if question.totals.cut == len(question.traces or ()) >= K0:  # the next would be cut as well
            vote.stopped, allowed = "cut", 0
        elif vote.launched and now + self._wiring.fetcher.pool_for(question.problem.prompt).latency_s > limits.deadline:
            vote.stopped, allowed = "deadline", 0
        elif allowed < launches:
            vote.stopped = "max_traces"
        vote.launched += allowed
        return allowed

    def request(self, question: OpenQuestion, first: int, holds: tuple[int, ...]) -> TraceRequest:
        id, limits, prompt = question.id, self.votes[question.id].limits, question.problem.prompt
        seed = limits.seed + first
        request = TraceRequest(id, first, len(holds), prompt, seed, limits.sampling, holds, owner=question)
        request.context, request.position = limits.context, question.position
        request.streamed = not limits.single and self._wiring.allocator.is_hurried(id)
        return request

    def start(self, request: TraceRequest, receiver: Settlement, group: asyncio.TaskGroup | None) -> None:
        """Fetch a request in a task that ends with its vote."""
        vote = self.votes[request.question]
        assert vote.tasks is not None
        for part in request.parts_with(vote.limits.held):
            work = self._fetch(vote, part, receiver)
            try:
                self._track(part, vote.tasks.create_task(work))
            except RuntimeError:  # its tasks are being cancelled: the vote is about to take all this back
                work.close()

    def finish(self, question: OpenQuestion) -> None:
        self._wiring.questions.idle.discard(question.id)
        self.votes[question.id].done.set()

    def failed(self, question: OpenQuestion, error: SamplerError) -> None:
        vote = self.votes[question.id]
        vote.error = error
        vote.retries += 1

    def unpaid(self, question: OpenQuestion, error: BudgetError) -> None:
        vote = self.votes[question.id]
        vote.stopped, vote.error = "budget", error

    def refused(self, question: OpenQuestion, error: RefusedError) -> None:
        """Nothing: others may be served all the same."""

    def charge_abandoned(self, question: OpenQuestion, traces: Sequence[Trace]) -> None:
        if not self.votes[question.id].limits.single:  # a single trace is not the plan's
            self._wiring.allocator.charge(traces)


class Places:
    """At most ``size`` at once; ``shared`` says whether there are several payers: one without others may have all.

    >>> places = Places(8, shared=lambda: True)
    >>> places.take("alice", 7), places.take("alice"), places.take("bob"), places.taken
    (True, False, True, 8)
    """

    def __init__(self, size: int, shared: Callable[[], bool] = lambda: False) -> None:
        self.size = size
        self.taken = 0
        self._shared = shared
        self._by_payer: Counter[str] = Counter()
        self._waiting: dict[str, list[tuple[int, int, int, asyncio.Future[int]]]] = {}  # by payer, heaps
        self._arrivals = count()

    def taken_by(self, payer: str) -> int:
        """How many places this payer has."""
        return self._by_payer[payer]

    def room(self, payer: str) -> int:
        """How many more this payer may take now: at least one, where it has none and one is free."""
        free, own = max(0, self.size - self.taken), self._by_payer[payer]
        if not self._shared():
            return free
        return min(free, max((FREE_MULTIPLE * free - own) // (FREE_MULTIPLE + 1), int(not own)))

    def take(self, payer: str, number: int = 1) -> bool:
        """Take so many if there is room for all of them; where nothing is taken, more than there are."""
        if self.taken and number > self.room(payer):
            return False
        self._add(payer, number)
        return True

    async def acquire(self, payer: str, most: int, rank: int = 0) -> int:
        """Wait for a place, and take as many as there is room for: 1 to ``most``. The payer with the fewest is served
        first; of its own, the least ``rank``, then who came first."""
        if not self._waiting and (room := self.room(payer)) > 0:
            self._add(payer, number := min(most, room))
            return number
        arrival: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heappush(self._waiting.setdefault(payer, []), (rank, next(self._arrivals), most, arrival))
        self._serve()
        try:
            return await arrival
        except asyncio.CancelledError:
            if arrival.done() and not arrival.cancelled():
                self.give_back(payer, arrival.result())
            raise

    def give_back(self, payer: str, number: int = 1) -> None:
        """Give places back, for those who wait."""
        self._add(payer, -number)
        self._serve()

    def _serve(self) -> None:
        """Give places to those who wait, as long as one of them may have any."""
        while ready := [payer for payer in self._waiting if self.room(payer) > 0]:
            payer = min(ready, key=self._by_payer.__getitem__)
            queue = self._waiting.pop(payer)
            _, _, most, arrival = heappop(queue)
            if queue:
                self._waiting[payer] = queue  # behind the others who have as few
            if not arrival.done():  # its request has not gone
                number = min(most, self.room(payer))
                self._add(payer, number)
                arrival.set_result(number)

    def _add(self, payer: str, number: int) -> None:
        self.taken += number
        self._by_payer[payer] += number
        if not self._by_payer[payer]:
            del self._by_payer[payer]
