"""What becomes of a request: its traces are read, written down and told; or it is charged, or given back.

Laws: a launch is in the ledger before it is sent, and a trace before it is counted; whatever fails, a launch is
delivered, lost, released, abandoned or cancelled exactly once. What is cancelled is written with the trace that settled
the vote, or neither is: a process that dies before has open launches, which are charged at all that is held for them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from pets.answers.base import Reading
from pets.core.budget import WHOLE, UnitCost, cancelled_part, mean_trace
from pets.engine.arrivals import Arrivals, Wiring
from pets.engine.fetch import TraceRequest
from pets.engine.question import OpenQuestion
from pets.engine.reading import TraceReading, soft_vote
from pets.errors import BudgetError, RefusedError, SamplerError
from pets.samplers import Completion
from pets.store import StoredTrace
from pets.store.records import CANCELLED, NOTHING
from pets.types import Launch, Trace, Usage

Ended = tuple[TraceRequest, StoredTrace | None]
"""A request that was cancelled, and the trace as which it is charged; none where it was never sent."""

GIVEN_UP = "trace given up after its last try"  # a fault's name


class Settlement:
    """Pays for what a fetcher sends, and takes what comes.

    Votes are weighted by their ``confidence``; ``first_endpoint`` is the first endpoint's place among all that the run
    has asked. ``on_trace`` is called with every trace that was counted.
    """

    def __init__(
        self,
        wiring: Wiring,
        arrivals: Arrivals,
        reading: TraceReading,
        confidence: str | None = None,
        first_endpoint: int = 0,
        on_trace: Callable[[StoredTrace], None] = lambda trace: None,
    ) -> None:
        self.traces_abandoned = 0  # in flight, or not read yet, when the run was broken off: charged
        self.reading, self.costs = reading, wiring.costs
        self._allocator, self._questions, self._ledger = wiring.allocator, wiring.questions, wiring.ledger
        self._stops, self._fetcher, self._wake, self._arrivals = wiring.stops, wiring.fetcher, wiring.wake, arrivals
        self._confidence, self._first_endpoint, self._on_trace = confidence, first_endpoint, on_trace
        self._writing = WeakKeyDictionary[OpenQuestion, list[Trace]]()  # read and not counted yet
        self._whole: Counter[str] = Counter()  # tokens and traces, of those that came to their end

    def reserve(self, room: int) -> list[tuple[Launch, int]]:
        """Up to ``room`` launches that the allocator wants now, and what is held for each."""
        if isinstance(self.costs, UnitCost):
            return [(launch, 1) for launch in self._allocator.ask(room)]
        launches: list[tuple[Launch, int]] = []
        while len(launches) < room and self.costs.can_launch() and (launched := self._allocator.ask()):
            launches.append((launched[0], self.costs.reserve(launched[0].question)))
        return launches

    async def opened(self, request: TraceRequest) -> bool:
        """Reserve an attempt, durably, before it is sent; False where it cannot be paid for."""
        try:
            await self._ledger.opened(request)
        except BudgetError as error:
            self._arrivals.unpaid(request.owner, error)
            return False
        return True

    async def delivered(self, request: TraceRequest, completions: Sequence[Completion]) -> None:
        """Read, write down and then tell traces that came back for the first launches of a request."""
        question: OpenQuestion = request.owner
        completions = list(completions)  # at what they cost with their judgements
        try:
            readings = await self.reading.read(question, completions)
        except BaseException:  # paid for, and no vote
            if request.reused:  # nothing was sent, and nothing is in the ledger
                raise
            self.traces_abandoned += len(completions)
            self._ledger.abandoned(request, self._stored(request, completions, [None] * len(completions)))
            self._arrivals.charge_abandoned(question, self._attempt(request))
            raise
        traces = self._stored(request, completions, readings)
        if question.traces is not None:
            question.raw.update((n, c.raw) for n, c in enumerate(completions, request.first) if c.raw is not None)
        id, lost, cancelled = request.question, self._lost_before(request), None
        if id in self._questions.by_id and self._allocator.is_hurried(id):
            cancelled = await self._write_raced(question, request, traces)
        else:
            await self._ledger.delivered(request, traces)
        for trace, hold in zip(traces, request.holds, strict=False):
            self._tell(question, trace, hold, lost)
        if cancelled is not None:
            self._end_cancelled(question, cancelled)
            self._end_cancelled(question, await self._cancel_if_settled(question))  # several came at once
        if request.surplus:
            self._charge_surplus(request)
        if self._confidence is not None and completions[0].confidence is None:
            self._fetcher.faults["no log-probabilities"] += 1
        self._wake()

    def released(self, request: TraceRequest, error: SamplerError | None) -> None:
        """Give back an attempt that was not sampled, or what a reply left out: it is free, and will be tried again."""
        self._ledger.released(request)
        if error is not None:
            self._arrivals.failed(request.owner, error)

    async def lost(self, request: TraceRequest, error: SamplerError) -> bool:
        """Charge an attempt that may have been sampled, if the budget pays for another one, which the value says."""
        self._arrivals.failed(request.owner, error)
        lost = self._attempt(request)
        if request.question in self._questions.by_id and not self._allocator.charge(lost):
            return False
        currency = self._allocator.budget.currency
        request.lost_cost += currency.cost(lost[0]) - currency.per_trace
        self._ledger.lost(request, lost[0])
        return True

    async def failed(self, request: TraceRequest, error: SamplerError) -> None:
        """Charge the last attempt, which may have been sampled, and give up its launches, without a vote."""
        request.settling = True  # a race that is settled while this is written takes nothing back of it
        self._arrivals.failed(request.owner, error)
        self._fetcher.faults[GIVEN_UP] += request.size
        lost, attempt = self._lost_before(request), self._attempt(request)[0]
        self._ledger.lost(request, attempt)
        traces = self._failed_traces(request, error, attempt, request.lost)
        await self._ledger.given_up(traces)
        for trace, hold in zip(traces, request.holds, strict=True):
            self._tell(request.owner, trace, hold, lost)
        self._wake()

    async def given_up(self, request: TraceRequest, error: SamplerError | None) -> None:
        """Give up launches, and give back the last attempt, which was not sampled or never sent."""
        request.settling = True
        question: OpenQuestion = request.owner
        if error is not None:
            self._arrivals.failed(question, error)
        if not self._stops.may_resume:  # else a run that goes on asks again
            self._fetcher.faults[GIVEN_UP] += request.size
        self._ledger.released(request)
        traces = self._failed_traces(request, error, NOTHING, request.lost - 1) if request.lost else []
        if traces:
            await self._ledger.given_up(traces)
        for trace in traces:
            question.add(trace)
            self._on_trace(trace)
        if question.id in self._questions.by_id:  # asked no more, unless the run was only told to end
            for launch, hold in zip(request.launches, request.holds, strict=True):
                self._allocator.give_up(launch, paid=bool(traces), for_good=not self._stops.may_resume)
                self.costs.release(hold)
                self._questions.back(question)
        if isinstance(error, RefusedError):
            self._arrivals.refused(question, error)
        self._wake()

    def abandoned(self, request: TraceRequest) -> None:
        """Charge an attempt that nobody waits for any more, for what was written of it where that is known."""
        if self._stops.turned_away:
            self._ledger.released(request)
            return
        self.traces_abandoned += request.size
        if self._is_known(request):
            trace = self._cancelled_trace(request)
            self._ledger.cancelled(request, [trace])
            self._arrivals.charge_abandoned(request.owner, [self._counted(request.owner, trace, NOTHING)])
        else:
            self._ledger.abandoned(request, ())
            self._arrivals.charge_abandoned(request.owner, self._attempt(request))
        if request.endpoint is not None:
            self._fetcher.pool.cancelled(request.endpoint)

    async def _write_raced(
        self, question: OpenQuestion, request: TraceRequest, traces: Sequence[StoredTrace]
    ) -> list[Ended]:
        """Write traces of a hurried question, with the requests that are cancelled where they settle it."""
        lost, writing = self._lost_before(request), self._writing.setdefault(question, [])
        writing += (counted := [self._counted(question, trace, lost) for trace in traces])
        try:
            cancelled = await self._cancel_if_settled(question)
            await self._ledger.delivered(request, traces)
        finally:
            for trace in counted:
                writing.remove(trace)
        return cancelled

    async def _cancel_if_settled(self, question: OpenQuestion) -> list[Ended]:
        """Cancel what is in flight of a hurried question that is settled by the traces being written; the ledger writes
        it with what comes next."""
        id, writing, ended = question.id, self._writing[question], list[Ended]()
        others = id in self._questions.by_id and self._questions.in_flight_of(id) > len(writing)
        if others and self._allocator.settles(id, writing):
            for request in await self._arrivals.cancel(question):
                if request.written is not None or request.lost:
                    trace = self._cancelled_trace(request)
                    self._ledger.cancelled(request, [trace])
                    ended.append((request, trace))
                else:
                    self._ledger.released(request)
                    ended.append((request, None))
        return ended

    def _end_cancelled(self, question: OpenQuestion, ended: Sequence[Ended]) -> None:
        """Count requests that were cancelled, and take back those that were never sent."""
        for request, trace in ended:
            if trace is not None:
                self._tell(question, trace, request.holds[0], self._lost_before(request))
            elif question.id in self._questions.by_id:
                self._allocator.take_back(request.launches[0])
                self.costs.release(request.holds[0])
                self._questions.back(question)

    def _is_known(self, request: TraceRequest) -> bool:
        """Whether the cost of an attempt that is cancelled now is known: its server streams, and stops."""
        endpoint, written = request.endpoint, request.written
        return endpoint is not None and written is not None and written.seen and endpoint.sampler.stops

    def _cancelled_trace(self, request: TraceRequest) -> StoredTrace:
        """A request that is cancelled now, as a trace without a vote: at what was written of the attempt that is out,
        whole where that is not known."""
        tally = self._allocator.tally(request.question)
        now, written = asyncio.get_running_loop().time(), request.written
        batch = self._whole["tokens"] / max(1, self._whole["traces"])
        mean = mean_trace(tally.mean_tokens * tally.returned, tally.returned, batch)
        tokens = prompt_tokens = cached_tokens = part = 0
        if written is not None:
            told = written.prompt_tokens
            prompt_tokens = self._fetcher.lengths.prompt_tokens(request.prompt) if told is None else told
            cached_tokens, tokens = written.cached_tokens, min(written.tokens_by(now), request.sampling.token_limit)
            request.estimated = int(not written.told)
            part = cancelled_part(tokens, mean)
            if not self._is_known(request):
                part, whole = WHOLE, self._attempt(request)[0]
                tokens = max(tokens, whole.tokens, round(mean))
        completion = Completion("", CANCELLED, tokens, prompt_tokens, cached_tokens=cached_tokens)
        if request.endpoint is not None:
            sampler = request.endpoint.sampler
            completion = replace(completion, model=sampler.model, currency=sampler.currency)
        return replace(self._stored(request, [completion], [None])[0], seconds=0.0, part=part)

    def _stored(
        self, request: TraceRequest, completions: Sequence[Completion], readings: Sequence[Reading | None]
    ) -> list[StoredTrace]:
        """Traces as they are written down, with the tokens that were lost with earlier attempts."""
        lost, answer_type = self._lost_before(request), request.owner.answer_type
        temperature = self.reading.soft_temperature
        endpoint = self._first_endpoint + (0 if request.endpoint is None else request.endpoint.number)
        traces: list[StoredTrace] = []
        for number, (completion, reading) in enumerate(zip(completions, readings, strict=True), request.first):
            answer, spelling = reading or (None, None)
            own, alternatives = completion.currency, completion.alternatives
            trace = StoredTrace(
                request.question,
                number,
                answer,
                text=completion.text,
                finish=completion.finish,
                confidences=completion.confidence,
                endpoint=endpoint,
                seconds=request.seconds,
                tries=request.tries + 1,
                wasted=request.lost + (request.surplus if number == request.first else 0),
                model=completion.model,
                tokens=(completion.tokens or 0) + lost.tokens,
                prompt_tokens=(completion.prompt_tokens or 0) + lost.prompt_tokens,
                cached_tokens=completion.cached_tokens,
                cost=None if own is None else own.cost(completion.usage) + own.cost(lost),
                soft=soft_vote(alternatives, answer, answer_type, temperature) if answer and temperature else None,
                reused_from=completion.reused_from,
                spelling=None if spelling == answer else spelling,
            )
            traces.append(trace)
        return traces

    def _failed_traces(
        self, request: TraceRequest, error: SamplerError | None, usage: Usage, wasted: int
    ) -> list[StoredTrace]:
        """The launches as traces without an answer, at ``usage`` and what was lost before it."""
        lost = self._lost_before(request)
        return [
            StoredTrace(
                *launch,
                tokens=lost.tokens + usage.tokens,
                prompt_tokens=lost.prompt_tokens + usage.prompt_tokens,
                error=str(error),
                tries=max(1, request.tries),
                wasted=wasted,
                model=0 if error is None else error.model,
            )
            for launch in request.launches
        ]

    def _tell(self, question: OpenQuestion, trace: StoredTrace, hold: int, lost: Usage) -> None:
        """Count a trace without the attempts that were ``lost`` before it: those are charged already."""
        question.add(trace)
        allocator, id = self._allocator, trace.question
        if id not in self._questions.by_id:
            return
        for absorbed, into in question.pop_merges():
            allocator.merge(id, absorbed, into)
        counted = self._counted(question, trace, lost)
        if trace.part is None:
            self._whole.update(tokens=counted.tokens, traces=1)
            self.costs.settle(id, hold, allocator.budget.currency.cost(counted))
        else:
            self.costs.release(hold)
        allocator.tell(counted)
        self._questions.back(question)
        first = self._stops.first_traces
        if not first.passed and trace.part is None:
            first.count(trace, lambda: self._questions.type_name(question.problem))
        self._on_trace(trace)

    def _counted(self, question: OpenQuestion, trace: StoredTrace, lost: Usage) -> Trace:
        """A trace as the allocator is told of it: its class, and its cost without what was ``lost`` before it."""
        return trace.trace(self._confidence, None if trace.answer is None else question.label(trace.answer), lost)

    def _charge_surplus(self, request: TraceRequest) -> None:
        """Charge choices that nobody asked for, also where the budget has no room; a trace has their tokens."""
        budget, surplus = self._allocator.budget, [Trace(request.question, request.first)] * request.surplus
        if budget.window is not None:
            self._allocator.charge(surplus)
        elif budget.currency.counts_traces:
            for trace in surplus:
                budget.charge(trace)

    def _attempt(self, request: TraceRequest) -> list[Trace]:
        """Traces at what an attempt that came to nothing may have cost, one for each of its launches."""
        currency = self._allocator.budget.currency
        used = currency.usage_worth(self.costs.expected(request.question))
        return [Trace(*launch, tokens=used.tokens, prompt_tokens=used.prompt_tokens) for launch in request.launches]

    def _lost_before(self, request: TraceRequest) -> Usage:
        """What earlier attempts were charged for each launch: their cost in money, or as many tokens as cost that."""
        if not request.lost_cost:
            return NOTHING
        currency = self._allocator.budget.currency
        lost = currency.usage_worth(request.lost_cost)
        return replace(lost, cost=request.lost_cost) if currency.unit == "picodollars" else lost
