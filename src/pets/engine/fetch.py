"""One request to its end: endpoint, n, retries, and what is charged.

The one rule of money: an attempt is charged if the server may have sampled.

    429, 503, every 4xx; nobody could be reached          free: the server says that it did not begin
    500, 502, 504 and any other 5xx                       charged if it took more than half as long as the shortest
                                                          trace that was delivered there: a proxy says 502 or 504 of a
                                                          server that has worked, and may be working still
    a timeout, a connection that broke off, half a reply  charged: traces may have been made and billed
    choices that nobody asked for                         charged, without a vote: they were sampled

What is free is tried again; what is charged is tried again while the budget pays. Before any trace was delivered nobody
knows what one takes: a 5xx is free then, and of unknown cost.

Failures of unknown cost, which are those and all that are charged, end a run: at :data:`MOST_UNKNOWN_TRACES`, or
:data:`MOST_UNKNOWN_SHARE` of the budget where that is more, and what was in flight by then. It can be resumed. A
gateway goes on: after so many traces of them in a row from the servers of a model it sends these one request every
:data:`PROBE_S`, until one is answered, and turns others away.

A failure that is free counts against the tries only when the server is serving others (or has nobody else to serve):
an outage is not a question's fault. :data:`OUTAGE_PATIENCE_S` bounds an outage.

An attempt that is cancelled, because its question is settled or nobody waits for it any more, is charged for what was
written of it where its server is known to stop (:meth:`~pets.engine.endpoints.EndpointPool.cancelled`), elsewhere for a
whole trace. A run that is told to end (:meth:`Fetcher.drain`) waits for the attempts that are out, and gives up what
would be sent, or sent again.

Where several models vote, a launch that its model has refused, or failed ``tries`` times free of charge, goes to the
next that takes it, and so do those of a model that is away: ``faults`` counts how many, by model.
"""

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, TypeVar

from pets.core.budget import Budget
from pets.engine.endpoints import Endpoint, EndpointPool
from pets.errors import BusyError, RefusedError, ReplyError, SamplerError, UnreachableError
from pets.prompts import text_bytes
from pets.samplers import Completion, Prompt, Sampler, Sampling, Written
from pets.store import StoredTrace
from pets.types import Launch

if TYPE_CHECKING:
    from pets.engine.settlement import Settlement

LOGGER = logging.getLogger("pets.engine")
T = TypeVar("T")
MAX_CHOICES = 16  # traces in one request: a reply that breaks off loses them all
UNAVAILABLE = 503
FATAL_STATUSES = frozenset({401, 403, 404})  # a bad key, no such model: the same for every question
MAX_BACKOFF_S = 30.0
ODDITIES = "tokens estimated", "usage over the limit", "choices that nobody asked for"  # faults of replies
DRAINED = "the run was told to end before it was asked."
OUTAGE_PATIENCE_S = 300.0  # without any server, before the run is left to be resumed
FIRST_CONTACT_FAILURES = 3  # at an address that never answered: it is wrong
FAILING_S = 5.0  # of errors alone, before it is said
MOST_UNKNOWN_TRACES = 20
MOST_UNKNOWN_SHARE = 0.05
PROBE_S = 30.0
BYTES_PER_TOKEN = 3.0  # until a server has told; usually 4 or a little less
MOST_BYTES_PER_TOKEN = 4.0  # that estimates go by, whatever servers told


@dataclass(slots=True, eq=False)
class TraceRequest:
    """Launches ``first``, ``first + 1``, ... of one question in one request; ``holds`` is reserved for each.

    While an attempt is out, at ``endpoint``, the ledger keeps its ``entry`` here; ``written`` is how much there is of
    one that is ``streamed``. One that is ``settling`` is being read or written down, and no longer cancelled; one that
    is ``over`` was cancelled.
    """

    question: str
    first: int
    size: int
    prompt: Prompt
    seed: int
    sampling: Sampling
    holds: tuple[int, ...] = ()
    tries: int = 0  # that have failed, at the present model
    lost: int = 0  # tries that were charged
    lost_cost: int = 0  # what the tokens of those cost, for each launch
    refused_n: int = 0  # a larger n that the server would not take
    owner: Any = None  # its open question
    context: object = None  # what the ledger is to know of the payer
    entry: Any = None  # the ledger's own
    estimated: int = 0  # traces whose tokens no server told
    claimed_more: int = 0  # traces that were said to have more tokens than the request allows
    surplus: int = 0  # traces that came unasked
    position: int = 0  # of the question among the seeds
    attempt: int = 0  # models that would not take it
    seconds: float = 0.0  # that the last attempt was out
    reused: Completion | None = None  # its trace, which was paid for before: nothing is sent
    streamed: bool = False
    endpoint: Endpoint | None = None
    written: Written | None = None
    settling: bool = False
    over: bool = False

    @property
    def turn(self) -> int:
        """The launch that samplers are told of: the first ones of all questions are spread over the models, too."""
        return self.position + self.first

    @property
    def launches(self) -> list[Launch]:
        return list(map(Launch, repeat(self.question), range(self.first, self.first + self.size)))

    def part(self, start: int, size: int) -> "TraceRequest":
        """A request for some of the launches, with the same history."""
        holds = self.holds[start : start + size]
        return replace(self, first=self.first + start, size=size, seed=self.seed + start, holds=holds, entry=None)

    def split(self, size: int) -> Iterator["TraceRequest"]:
        """The request in parts of at most ``size``.

        >>> request = TraceRequest("q", first=3, size=5, prompt=Prompt("?"), seed=70, sampling=Sampling())
        >>> [(part.first, part.size, part.seed) for part in request.split(2)]
        [(3, 2, 70), (5, 2, 72), (7, 1, 74)]
        """
        for start in range(0, self.size, size):
            yield self if self.size <= size else self.part(start, min(size, self.size - start))

    def parts_with(self, held: Mapping[int, Completion]) -> Iterator["TraceRequest"]:
        """The request in parts: each trace that is ``held``, by launch number, alone, and between them what is not."""
        start = 0
        for offset in range(self.size if held else 0):
            if (trace := held.get(self.first + offset)) is not None:
                if start < offset:
                    yield self.part(start, offset - start)
                yield replace(self.part(offset, 1), reused=trace, settling=True)
                start = offset + 1
        if start < self.size:
            yield self.part(start, self.size - start) if start else self


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which no server can be reached, or none serves, and when the run gives up."""

    error: SamplerError
    since_s: float  # ago
    next_try_s: float  # from now
    gives_up_s: float | None  # from now; None: no time is set

    @property
    def is_unreachable(self) -> bool:
        """Whether no server is there; else they answer, with errors alone."""
        return isinstance(self.error, UnreachableError)


class Fetcher:
    """Fetches traces from one or several servers, request by request.

    A trace is given up after ``tries``, the second of which waits about ``backoff`` seconds, every further one twice
    as long. Without ``patience_s`` an outage lasts as long as the caller waits, as it does in a gateway.
    """

    shares_prompts = False
    """Whether a request is for several traces also where the reply does not tell the tokens of each."""

    def __init__(
        self,
        samplers: Sequence[Sampler],
        *,
        tries: int = 6,
        backoff: float = 0.5,
        patience_s: float | None = OUTAGE_PATIENCE_S,
        max_n: int = MAX_CHOICES,
        rpm: int | None = None,
        tpm: int | None = None,
        seed: int = 0,
    ) -> None:
        self.pool = EndpointPool(samplers, max_n, rpm=rpm, tpm=tpm)
        self.faults, self.lengths = self.pool.faults, TokenEstimator()
        self.unknown_traces = 0  # of failures of unknown cost
        self.outage: SamplerError | None = None  # the latest error while no server can be reached
        self._tries, self._backoff, self._patience_s = tries, backoff, patience_s
        self._random = random.Random(seed)
        self._active: Counter[str] = Counter()  # requests under way, by question
        self._served_at = -math.inf  # when a request last succeeded
        self._outage_since: float | None = None
        self._failing: tuple[float, SamplerError] | None = None  # since when servers answer with errors alone
        self._draining = False
        self._waits: set[asyncio.Timeout] = set()  # of requests of which no attempt is out
        self._failing_models: set[str] = set()  # of which it was said that others take their launches

    def requests(self, request: TraceRequest, *, several: bool) -> Iterator[TraceRequest]:
        """The request in parts whose launches the same servers take, as large as they take where ``several`` may go in
        one."""
        max_n = 1
        if several:
            now, endpoints = asyncio.get_running_loop().time(), self.pool_for(request.prompt).endpoints
            max_n = max([endpoint.max_n_for(request.prompt.sender, now) for endpoint in endpoints])
        if len(self.pool.endpoints) == 1:
            yield from request.split(max_n)
            return
        for _, group in groupby(range(request.size), lambda offset: self.pool.takers(request.turn + offset)):
            offsets = list(group)
            yield from request.part(offsets[0], len(offsets)).split(max_n)

    @property
    def outage_state(self) -> Outage | None:
        """The outage while there is one, by the running event loop's clock."""
        now = asyncio.get_running_loop().time()
        if self.outage is not None and self._outage_since is not None:
            since, error = self._outage_since, self.outage
        elif self._failing is not None and now - self._failing[0] >= FAILING_S:
            since, error = self._failing
        else:
            return None
        next_try_s = min(endpoint.wait_s(now) for endpoint in self.pool.endpoints)
        gives_up_s = None
        if self._patience_s is not None and any(endpoint.answered for endpoint in self.pool.endpoints):
            gives_up_s = max(0.0, self._patience_s - (now - since))  # else a first contact, which ends by its tries
        return Outage(error, now - since, next_try_s, gives_up_s)

    @property
    def served(self) -> bool:
        return self._served_at > -math.inf

    def not_coming(self, *, draining: bool) -> SamplerError | None:
        """The error to raise when draining and no server can be reached; else ``None``."""
        return self.outage if draining else None

    def pool_for(self, prompt: Prompt) -> EndpointPool:
        """The servers of the model that a prompt names, or all."""
        return self.pool if prompt.body is None else self.pool.of_model(str(prompt.body.get("model")))

    def failed(self, pool: EndpointPool, error: SamplerError, seconds: float, traces: int) -> bool:
        """Count an attempt that failed after so many seconds; whether it is charged."""
        charged = may_have_sampled(error, seconds, pool.shortest_s)
        if charged or (pool.shortest_s is None and _may_hide_traces(error)):
            self.unknown_traces += traces
            pool.unknown_traces += traces
            pool.last_failure = str(error).rstrip(".")
        return charged

    def remember(self, trace: StoredTrace, first: int = 0) -> None:
        """Learn from a trace of the run before it was resumed; the first endpoint has the place ``first``."""
        if trace.error is None and trace.part is None and trace.seconds:
            self.pool.delivered(trace.seconds)
            for endpoint in self.pool.endpoints:
                endpoint.served |= first + endpoint.number == trace.endpoint

    def refusal(self, pool: EndpointPool) -> BusyError | None:
        """The error of a gateway's request that is not sent, since the last ones came to nothing at an unknown cost."""
        if pool.unknown_traces < MOST_UNKNOWN_TRACES:
            return None
        now = asyncio.get_running_loop().time()
        if now >= pool.probe_at:
            pool.probe_at = now + PROBE_S
            return None
        wait_s = pool.probe_at - now
        return BusyError(
            f"{pool.unknown_traces} traces in a row came to nothing, and may have been sampled ({pool.last_failure}); "
            f"the server is asked again in {wait_s:.0f} s.",
            retry_after=wait_s,
        )

    def drain(self, *, on: bool = True) -> None:
        """Send nothing more: what waits for its next try is given up at once. ``on=False``: send again."""
        self._draining = on
        while on and self._waits:
            self._waits.pop().reschedule(0.0)

    async def ask(self, prompt: Prompt, sampling: Sampling, seed: int = 0) -> Completion:
        """Fetch one trace beside those of questions, tried once; the caller has paid for it."""
        outcome = await self.attempt(await self.pool.pick(), TraceRequest("", 0, 1, prompt, seed, sampling))
        if isinstance(outcome, SamplerError):
            raise outcome
        assert outcome
        return outcome[0]

    async def fetch(self, request: TraceRequest, receiver: "Settlement") -> None:
        """Ask until every launch of the request has come back or is given up."""
        clock, turn = asyncio.get_running_loop().time, request.turn
        last: Endpoint | None = None
        reason: SamplerError | None = None
        waiting_since, failures = clock(), 0
        self._active[request.question] += 1
        try:
            while True:
                pool = self.pool_for(request.prompt)
                # A run ends once its failures may have cost too much; a gateway turns away.
                if self._patience_s is None and (refusal := self.refusal(pool)) is not None:
                    return await receiver.given_up(request, reason or refusal)
                endpoint = None if self._draining else pool.pick_now(turn, request.attempt, last, clock())
                if endpoint is None:  # none may be asked now
                    endpoint = await self._unless_drained(pool.pick(turn, request.attempt, last))
                if endpoint is None:
                    return await receiver.given_up(request, reason or BusyError(DRAINED))
                if request.size > (max_n := endpoint.max_n_for(request.prompt.sender, clock())):
                    return await self._fetch_parts(request, max_n, receiver)
                begun = clock()
                outcome = await self.attempt(endpoint, request, receiver)
                if outcome is None:
                    if request.size == 1:
                        return await receiver.given_up(request, None)
                    return await self._fetch_parts(request, 1, receiver)
                if not isinstance(outcome, SamplerError):
                    self._learn(endpoint, pool, request, len(outcome), reason)
                    if len(outcome) == request.size:
                        return await receiver.delivered(request, outcome)
                    return await self._fetch_rest(request, outcome, receiver)
                reason = outcome
                self.faults[fault_name(outcome)] += 1
                LOGGER.info("%s: %s", request.question, outcome)
                if isinstance(outcome, RefusedError):
                    if not await self._on_refused(request, outcome, endpoint, receiver):
                        return None
                    continue
                unreachable = isinstance(outcome, UnreachableError)
                endpoint.failed(clock(), unreachable=unreachable, retry_after=outcome.retry_after)
                if not await self._may_retry(request, outcome, receiver, begun, waiting_since):
                    return None
                last, failures = endpoint, failures + 1
                if not unreachable:  # an endpoint that cannot be reached rests
                    seconds = backoff_seconds(failures, self._backoff, self._random.random())
                    await self._unless_drained(asyncio.sleep(seconds))
        finally:
            self._active[request.question] -= 1
            if not self._active[request.question]:
                del self._active[request.question]

    async def _fetch_rest(
        self, request: TraceRequest, completions: Sequence[Completion], receiver: "Settlement"
    ) -> None:
        """Deliver what came of a request, and ask for the rest of it."""
        self.faults["fewer choices"] += 1
        rest = request.part(len(completions), request.size - len(completions))
        rest.tries = 0  # the server is well
        receiver.released(rest, None)
        async with asyncio.TaskGroup() as group:  # what came may be held until the rest is there
            group.create_task(self.fetch(rest, receiver))
            # In no task: one may never begin.
            await receiver.delivered(request, completions)

    async def _unless_drained(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """Wait for something; ``None`` as soon as nothing more is to be sent."""
        if self._draining:
            waiting.close()
            return None
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                try:
                    return await waiting
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            return None

    async def attempt(
        self, endpoint: Endpoint, request: TraceRequest, receiver: "Settlement | None" = None
    ) -> list[Completion] | SamplerError | None:
        """One attempt: what came, or an error that may pass or concerns this request alone.

        ``None`` where it cannot be paid for; without a ``receiver`` it is.
        """
        clock = asyncio.get_running_loop().time
        # Its place is taken first: others pick theirs while it is paid for.
        entry, tokens, out, sent = endpoint.begin(request.size, clock()), None, False, math.inf
        try:
            if receiver is not None and not await receiver.opened(request):
                return None
            out, sent = True, clock()
            request.endpoint, request.written = endpoint, Written()
            prompt, seed, sampling, sampler = request.prompt, request.seed, request.sampling, endpoint.sampler
            if request.streamed and request.size == 1:
                completions = [await sampler.sample_streamed(prompt, seed, sampling, request.written)]
            else:
                completions = await sampler.sample(prompt, request.size, seed, sampling)
            request.settling = True
            self._note_oddities(request, completions)
            completions = self.lengths.counted(completions, prompt, sampling.token_limit)
            tokens = sum([(c.tokens or 0) + (c.prompt_tokens or 0) for c in completions])
            return completions
        except (RefusedError, BusyError, ReplyError) as error:
            return error
        except BaseException:  # cancelled, or an error that ends the run
            if out and receiver is not None and not request.over:
                receiver.abandoned(request)
            raise
        finally:
            if not request.over:  # else it is charged by it
                request.written = None
            request.seconds = max(0.0, clock() - sent)
            endpoint.end(request.size, entry, tokens, clock())

    def _note_oddities(self, request: TraceRequest, completions: Sequence[Completion]) -> None:
        """Count what a reply leaves out, claims or brings unasked."""
        request.estimated = request.claimed_more = request.surplus = 0
        for completion in completions:
            request.estimated += TokenEstimator.needs_estimate(completion)
            request.claimed_more += completion.claimed_more
            request.surplus += completion.surplus
        counts = request.estimated, request.claimed_more, request.surplus
        for name, number in zip(ODDITIES, counts, strict=True):
            if number:
                self.faults[name] += number

    async def _fetch_parts(self, request: TraceRequest, size: int, receiver: "Settlement") -> None:
        async with asyncio.TaskGroup() as group:
            for part in request.split(size):
                group.create_task(self.fetch(part, receiver))

    def _learn(
        self, endpoint: Endpoint, pool: EndpointPool, request: TraceRequest, received: int, reason: SamplerError | None
    ) -> None:
        """Learn from a reply: a smaller request that succeeds proves the limit that a larger one was refused for.

        Traces of another model than the one whose turn it was are counted, with a warning when that begins.
        """
        now, seconds = asyncio.get_running_loop().time(), request.seconds
        LOGGER.info("%s: %d of %d traces after %.2f s", request.question, received, request.size, seconds)
        endpoint.succeeded(request.size, received, seconds)
        pool.delivered(seconds)
        if request.refused_n:
            endpoint.prove_n(max(request.size, received), request.prompt.sender, now)
        self._failing = self._outage_since = self.outage = None
        self._served_at = now
        if len(self.pool.endpoints) == 1 or endpoint.sampler.takes(request.turn):
            self._failing_models.discard(endpoint.sampler.name)
            return
        name = pool.takers(request.turn)[0].sampler.name
        self.faults[f"handed on by {name}"] += received
        if name not in self._failing_models:
            self._failing_models.add(name)
            why = "" if reason is None else f" ({reason})"
            LOGGER.warning("%s fails%s: the other models take its turns while it does.", name, why)

    async def _on_refused(
        self, request: TraceRequest, error: RefusedError, endpoint: Endpoint, receiver: "Settlement"
    ) -> bool:
        """Ask for fewer at a time, where several were asked for; else whether another model is asked."""
        endpoint.answered = True
        if error.status in FATAL_STATUSES:
            receiver.released(request, error)
            if not self.pool_for(request.prompt).stand_down(endpoint, asyncio.get_running_loop().time()):
                raise error
            return True
        if request.size == 1:
            return await self._declined(request, error, receiver)
        receiver.released(request, error)
        request.refused_n = request.size
        await self._fetch_parts(request, -(-request.size // 2), receiver)
        return False

    async def _may_retry(
        self, request: TraceRequest, error: SamplerError, receiver: "Settlement", begun: float, waiting_since: float
    ) -> bool:
        """Settle a failed attempt; whether there is another."""
        if self.failed(self.pool_for(request.prompt), error, request.seconds, request.size):
            request.tries += 1
            enough = request.tries >= self._tries or request.lost + 1 >= self._tries
            if enough or not await receiver.lost(request, error):
                await receiver.failed(request, error)
                return False
            request.lost += 1
            return True
        waited = asyncio.get_running_loop().time() - waiting_since
        exhausted = self._patience_s is not None and waited > self._patience_s
        if isinstance(error, UnreachableError):
            receiver.released(request, error)
            self._check_outage(error, request)
            return True
        self._outage_since = self.outage = None
        if self._failing is not None:
            self._failing = self._failing[0], error
        elif self._served_at < begun and not any(e.requests_in_flight for e in self.pool.endpoints):
            self._failing = begun, error
        if self._served_at >= begun or len(self._active) == 1:
            request.tries += 1
        if request.tries >= self._tries or exhausted:
            return await self._declined(request, error, receiver)
        receiver.released(request, error)
        return True

    async def _declined(self, request: TraceRequest, error: SamplerError, receiver: "Settlement") -> bool:
        """Give up a request that its model will not take, and for which nothing was paid, unless another model can."""
        if not self.pool.takers(request.turn, request.attempt + 1):
            await receiver.given_up(request, error)
            return False
        request.attempt, request.tries = request.attempt + 1, 0
        receiver.released(request, error)
        return True

    def _check_outage(self, error: UnreachableError, request: TraceRequest) -> None:
        """Raise where a server that cannot be reached was never there, or is gone for too long."""
        now, pool = asyncio.get_running_loop().time(), self.pool_for(request.prompt)
        self._outage_since = now if self._outage_since is None else self._outage_since
        if all(endpoint.failures for endpoint in pool.endpoints):
            self.outage = error
        if self._patience_s is None:
            return
        endpoints = pool.present_takers(request.turn, request.attempt, now)
        if not any(endpoint.answered for endpoint in endpoints):
            if all(e.failures >= FIRST_CONTACT_FAILURES and not e.requests_in_flight for e in endpoints):
                raise error
        elif self.outage is not None and now - self._outage_since > self._patience_s:
            raise error


class TokenEstimator:
    """Estimates the tokens that a server did not tell, by the bytes per token of all that came.

    A token counts as 4 bytes at most, and a trace as one token or more: what is not told is not free.

    >>> lengths, prompt = TokenEstimator(), Prompt("?")
    >>> told, untold = Completion("x" * 30, "stop", 10), Completion("x" * 60, "stop", None)
    >>> [trace.tokens for trace in lengths.counted([told, untold], prompt, max_tokens=100)]
    [10, 20]
    >>> [trace.tokens for trace in lengths.counted([untold], prompt, max_tokens=15)]
    [15]
    """

    def __init__(self) -> None:
        self._bytes = self._tokens = 0

    @staticmethod
    def needs_estimate(completion: Completion) -> bool:
        """Whether a server left out the trace's tokens, or its prompt's."""
        return completion.tokens is None or (completion.prompt_tokens is None and completion.size is not None)

    def counted(self, completions: Sequence[Completion], prompt: Prompt, max_tokens: int) -> list[Completion]:
        """The traces, each with its tokens; those of the prompt with the first, as it is read once for all."""
        counted: list[Completion] = []
        for place, completion in enumerate(completions):
            tokens, prompt_tokens, cached_tokens = completion.tokens, completion.prompt_tokens, completion.cached_tokens
            size = text_bytes(completion.text) if completion.size is None else completion.size
            if tokens is None:
                tokens = min(max_tokens, self._estimate(size))
            else:
                self._bytes += size
                self._tokens += tokens
            if place > 0:
                prompt_tokens = cached_tokens = 0
            elif prompt_tokens is None:
                prompt_tokens = 0 if completion.size is None else self.prompt_tokens(prompt)
            if (tokens, prompt_tokens) != (completion.tokens, completion.prompt_tokens):
                completion = replace(
                    completion, tokens=tokens, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens
                )
            counted.append(completion)
        return counted

    def prompt_tokens(self, prompt: Prompt) -> int:
        return self._estimate(prompt.max_tokens)

    def _estimate(self, size: int) -> int:
        per_token = self._bytes / self._tokens if self._tokens and self._bytes else BYTES_PER_TOKEN
        return max(1, math.ceil(size / min(MOST_BYTES_PER_TOKEN, max(1.0, per_token))))


def may_have_sampled(error: SamplerError, seconds: float = 0.0, shortest_s: float | None = None) -> bool:
    """Whether an attempt that failed after so many seconds is charged, as the module's table says.

    ``shortest_s`` is what the shortest trace took that was delivered there; ``None`` before any was.

    >>> may_have_sampled(BusyError("slow down", status=429)), may_have_sampled(ReplyError("half a body"))
    (False, True)
    >>> may_have_sampled(BusyError("no answer in time")), may_have_sampled(UnreachableError("nobody there"))
    (True, False)
    >>> [may_have_sampled(BusyError("bad gateway", status=502), seconds, shortest_s=4.0) for seconds in (0.1, 3.0)]
    [False, True]
    """
    if _may_hide_traces(error):
        return shortest_s is not None and seconds > shortest_s / 2
    return error.status is None and not isinstance(error, RefusedError | UnreachableError)


def _may_hide_traces(error: SamplerError) -> bool:
    """Whether an error has a status that a proxy says of a server that has sampled, or a server after some work."""
    return error.status is not None and error.status >= 500 and error.status != UNAVAILABLE


def most_unknown_traces(budget: Budget) -> int:
    """The traces of failures of unknown cost at which a run ends.

    >>> most_unknown_traces(Budget(100)), most_unknown_traces(Budget(3000))
    (20, 150)
    """
    mean = budget.spent / budget.settled if budget.settled and budget.spent else budget.currency.hold
    return max(MOST_UNKNOWN_TRACES, int(MOST_UNKNOWN_SHARE * budget.total / mean))


def backoff_seconds(failures: int, backoff: float, jitter: float) -> float:
    """Seconds until the next try: doubling, jittered (``jitter`` in [0, 1)); endpoints keep to Retry-After themselves.

    >>> backoff_seconds(3, 0.5, jitter=0.5)
    2.0
    """
    return min(MAX_BACKOFF_S, backoff * 2.0 ** min(failures - 1, 10)) * (0.5 + jitter)


def fault_name(error: SamplerError) -> str:
    """The name under which an error is counted among the faults."""
    if isinstance(error, UnreachableError):
        return "unreachable"
    if isinstance(error, RefusedError):
        return "refused"
    if error.status is not None:
        return str(error.status)
    return "broken reply" if isinstance(error, ReplyError) else "timeout"
