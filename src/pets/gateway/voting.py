"""Votes on questions as they come: what the stream launches is sent upstream, read, and told back.

Nothing goes out before the ledger holds its cost. A trace that was sent counts as spent unless the server said that
it did not sample (a refusal, a 429, a 5xx, nobody there): then it is tried again, and is free. A reply that broke off
is paid for and tried again.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from pets.answers.base import AnswerType
from pets.core.prior import LearnedPrior
from pets.engine.question import cached_answer_type as answer_type
from pets.errors import RefusedError, SamplerError
from pets.gateway.auth import ApiKey
from pets.gateway.ballots import Outcome, Poll
from pets.gateway.ledger import GatewayLedger
from pets.gateway.replies import Reply
from pets.gateway.requests import ChatRequest, VoteOptions
from pets.gateway.settings import Settings
from pets.gateway.stream import Stream
from pets.gateway.upstream import Upstream, served
from pets.gateway.verdicts import Ballot, judge
from pets.openai.errors import ApiError
from pets.samplers import Completion
from pets.types import Launch, Trace

__all__ = ["Voter"]

PAUSE = 0.1  # seconds before the second try, doubled each time
LONGEST_PAUSE = 10.0
WEIGHT = 0.2  # of the latest reply in the upstream's pace
SEEDS = 2**31 - 4096


class Voter:
    """Votes; one for all requests."""

    def __init__(
        self,
        stream: Stream,
        upstream: Upstream,
        ledger: GatewayLedger,
        settings: Settings,
        prior: LearnedPrior | None = None,
    ) -> None:
        self.stream, self.upstream, self.ledger, self.settings = stream, upstream, ledger, settings
        self.prior = prior or LearnedPrior()
        self.polls: dict[str, Poll] = {}
        self.in_flight = 0  # traces handed out and not told
        self.pace = 0.0  # seconds of an upstream request, lately
        self._idle: set[str] = set()  # open questions with nothing in flight
        self._slow = ThreadPoolExecutor(1, "pets-answers")  # comparing formulas takes its time

    async def vote(self, request: ChatRequest, options: VoteOptions, key: ApiKey, id: str) -> Outcome:
        """The vote on a question, or a :class:`ApiError`."""
        if len(self.polls) >= self.settings.queue:
            raise ApiError("Too many questions at once.", status=503, code="overloaded", retry_after=1)
        begun = asyncio.get_running_loop().time()
        poll = self._poll(request, options, key, id, begun)
        least = min(max(1, self.stream.policy.warmup), options.max_traces)
        if self.ledger.affordable_traces(key, poll.hold) < least:
            if self.settings.exhausted == "refuse":
                raise self.ledger.refusal(key)
            poll.stopped = "fallback"
        elif options.max_traces == 1:
            poll.stopped = "single"
        try:
            async with asyncio.timeout_at(poll.deadline):
                await (self._rounds(poll) if poll.stopped == "policy" else self._single(poll))
        except TimeoutError:
            poll.stopped = "deadline"
        return await self._outcome(poll, begun)

    def close(self) -> None:
        """Give back what was needed to read."""
        self._slow.shutdown(wait=False, cancel_futures=True)

    def _poll(self, request: ChatRequest, options: VoteOptions, key: ApiKey, id: str, now: float) -> Poll:
        limit = request.max_tokens or self.settings.limits.max_tokens
        prompt = sum(len(str(message).encode()) for message in request.fields["messages"])  # a token has a byte or more
        given = request.fields.get("seed")
        seed = random.randrange(SEEDS) if given is None else int(given) % SEEDS
        return Poll(id, request, options, key, self.ledger.max_trace_cost(prompt, limit), seed, now + options.timeout)

    async def _rounds(self, poll: Poll) -> None:
        """Let the policy decide, round by round, until it has enough."""
        self.stream.add(poll.id, getattr(answer_type(poll.options.answer), "options", None))
        self.polls[poll.id] = poll
        try:
            self._idle.add(poll.id)
            self._pump()
            async with asyncio.TaskGroup() as group:
                while (launches := await poll.box.get()) is not None:
                    allowed = launches[: self._allowed(poll)]
                    poll.sent += len(allowed)
                    for chunk in self._chunks(allowed):
                        group.create_task(self._chunk(poll, chunk))
                    if len(allowed) < len(launches):
                        poll.stopped = "max_traces" if poll.stopped == "policy" else poll.stopped
                        break  # what is not sent is given back when the question leaves
        finally:
            del self.polls[poll.id]
            self._idle.discard(poll.id)
            self.in_flight -= poll.in_flight
            poll.decision = self.stream.leave(poll.id)
            self._pump()

    def _allowed(self, poll: Poll) -> int:
        """How many of the traces that the policy wants next the request itself allows."""
        options, now = poll.options, asyncio.get_running_loop().time()
        if options.rounds is not None and poll.rounds > options.rounds:
            poll.stopped = "rounds"
            return 0
        if poll.sent and now + self.pace > poll.deadline:
            poll.stopped = "deadline"
            return 0
        return max(0, options.max_traces - poll.sent)

    def _chunks(self, launches: Sequence[Launch]) -> Iterator[Sequence[Launch]]:
        most = self.settings.most if self.upstream.many else 1
        for start in range(0, len(launches), most):
            yield launches[start : start + most]

    async def _single(self, poll: Poll) -> None:
        """One trace, no vote."""
        poll.sent = 1
        left = await self._draw(poll, [Launch(poll.id, 0)])
        if left and poll.error is None:
            poll.error = self.ledger.refusal(poll.key)

    async def _chunk(self, poll: Poll, launches: Sequence[Launch]) -> None:
        """Traces of one question in one upstream request; what never came is told as empty."""
        for launch in await self._draw(poll, launches):
            self.stream.spare(launch)
            self._told(poll, Ballot(launch.number))
        if isinstance(poll.error, RefusedError | ApiError):
            poll.box.put_nowait(None)
        self._pump()

    async def _draw(self, poll: Poll, launches: Sequence[Launch]) -> Sequence[Launch]:
        """Ask until all are there or the tries are used up; the launches that gave nothing."""
        left = launches
        for attempt in range(self.settings.tries):
            poll.retries += attempt > 0
            try:
                reply = await self._paid(poll, left)
            except SamplerError as error:
                poll.error = error
                if isinstance(error, RefusedError):
                    break
                pause = min(LONGEST_PAUSE, max(PAUSE * 2**attempt, error.retry_after or 0.0))
                if attempt + 1 < self.settings.tries:
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0) if error.retry_after is None else pause)
                continue
            except ApiError as error:  # the ledger cannot be written
                poll.error = error
                break
            if reply is None:
                poll.stopped = "budget"
                break
            try:
                await self._count(poll, left, reply)
            except asyncio.CancelledError:  # while its answers were read: paid for, and no vote
                self._lost(poll, len(reply.drawn))
                raise
            left = left[len(reply.drawn) :]
            if not left:
                break
        return left

    async def _paid(self, poll: Poll, launches: Sequence[Launch]) -> Reply | None:
        """One upstream request, held and settled; None where the budget does not pay for it."""
        clock, fallback = asyncio.get_running_loop().time, poll.stopped == "fallback"
        many = len(launches) if fallback else min(len(launches), self.ledger.affordable_traces(poll.key, poll.hold))
        kind: Literal["vote", "fallback"] = "fallback" if fallback else "vote"
        entry = await self.ledger.reserve(poll.key, many, poll.hold, poll.id, kind) if many else None
        if entry is None:
            return None
        begun = clock()
        poll.begin(begun)
        charged = entry.held  # unless something better is known
        delivered = tokens = prompt_tokens = 0
        try:
            reply = await self.upstream.sample(
                self._fields(poll), many, poll.seed + launches[0].number, poll.options.weighted
            )
            delivered, tokens, prompt_tokens = len(reply.drawn), reply.tokens, reply.prompt_tokens
            charged = self.ledger.cost(delivered, tokens, prompt_tokens)
            self.pace = (1 - WEIGHT) * self.pace + WEIGHT * (clock() - begun) if self.pace else clock() - begun
        except SamplerError as error:
            charged = entry.held if served(error) else 0
            raise
        finally:
            poll.end(clock())
            if charged and not delivered:
                self._lost(poll, many)
            self.ledger.settle(entry, charged, delivered, tokens, prompt_tokens)
        return reply

    def _lost(self, poll: Poll, traces: int) -> None:
        """Paid for, and came to nothing."""
        poll.lost += traces
        if poll.id in self.polls:
            self.stream.charge(traces)

    def _fields(self, poll: Poll) -> dict[str, object]:
        """What is asked of the server. A budget in tokens needs an end to every trace."""
        fields = poll.request.upstream_fields
        if poll.request.max_tokens is None and not self.ledger.currency.flat:
            fields["max_tokens"] = self.settings.limits.max_tokens
        return fields

    async def _count(self, poll: Poll, launches: Sequence[Launch], reply: Reply) -> None:
        """Read the answers and cast the votes."""
        kind = answer_type(poll.options.answer)
        completions = [one.completion for one in reply.drawn]
        if kind.merges:
            loop = asyncio.get_running_loop()
            forms = await loop.run_in_executor(self._slow, lambda: [_form(kind, one) for one in completions])
        else:
            forms = [_form(kind, one) for one in completions]
        poll.tokens += reply.tokens
        poll.prompt_tokens += reply.prompt_tokens
        poll.delivered += len(reply.drawn)
        for launch, form, drawn in zip(launches, forms, reply.drawn, strict=False):
            if poll.id in self.polls:
                self.stream.tell(Trace(poll.id, launch.number, form, tokens=drawn.completion.tokens or 0))
            self._told(poll, Ballot(launch.number, form, drawn))

    def _told(self, poll: Poll, ballot: Ballot) -> None:
        poll.ballots[ballot.number] = ballot
        if poll.id not in self.polls:
            return
        poll.in_flight -= 1
        self.in_flight -= 1
        if not poll.in_flight:
            self._idle.add(poll.id)

    def _pump(self) -> None:
        """Hand out what the policy wants, as far as there is room; who is left with nothing is done."""
        room = self.settings.concurrency - self.in_flight
        if room <= 0:
            return
        batches: dict[str, list[Launch]] = {}
        for launch in self.stream.ask(room):
            batches.setdefault(launch.question, []).append(launch)
        for id, launches in batches.items():
            poll = self.polls[id]
            poll.rounds += bool(poll.sent) and not poll.in_flight
            poll.in_flight += len(launches)
            self.in_flight += len(launches)
            self._idle.discard(id)
            poll.box.put_nowait(launches)
        if self.in_flight < self.settings.concurrency:
            for id in self._idle:
                self.polls[id].box.put_nowait(None)
            self._idle.clear()

    async def _outcome(self, poll: Poll, begun: float) -> Outcome:
        if not poll.delivered:
            raise refusal_of(poll.error, poll.stopped == "deadline")
        kind = answer_type(poll.options.answer)
        ballots, options = poll.in_order(), getattr(kind, "options", None)
        args = (ballots, kind, options, poll.options.weighted, self.prior)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._slow, judge, *args) if kind.merges else judge(*args)
        return Outcome(poll, found, loop.time() - begun)


def refusal_of(error: SamplerError | ApiError | None, late: bool = False) -> ApiError:
    """What the client is told of a request that the upstream server gave nothing for."""
    if isinstance(error, ApiError):
        return error
    if late or error is None:
        return ApiError("No trace came back in time.", status=504, code="timeout")
    if isinstance(error, RefusedError) and error.status in (400, 404, 413, 422):
        return ApiError(str(error), status=error.status, code="upstream_refused")
    if isinstance(error, RefusedError):  # such as our own key: none of the client's business
        return ApiError("The upstream server refuses this gateway.", status=502, code="upstream_refused")
    wait = error.retry_after or 1.0
    return ApiError("The upstream server gives no answers now.", status=503, code="upstream_busy", retry_after=wait)


def _form(kind: AnswerType, completion: Completion) -> str | None:
    return None if completion.finish == "length" else kind.extract(completion.text)
