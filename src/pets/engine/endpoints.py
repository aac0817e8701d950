"""Several servers of one model: the next request goes to the healthiest and least loaded that may take it now.

Models that vote together have servers of their own, each of which says which launches it takes; a model whose servers
all rest after failures hands its launches on to the next. Each model of a gateway's servers has a pool of its own over
them: a model that fails, or whose limits are reached, says nothing of the others.
"""

import asyncio
import math
from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from pets.samplers import Sampler

STOPS_WITHIN_S, STOP_LOOKS_S = 2.0, 0.05  # of a request that was cancelled
MOST_LOOKS_AT_STOP = 3  # before a server is taken for one that goes on
MINUTE_S = 60.0
SHORTEST_WAIT_S = 1e-4  # a clock's last digit may be more than what is left
FAILURES_BEFORE_REST = 5
MAX_REST_S = 30.0
REFUSED_N_S = 3600.0  # that a client's request is asked with fewer choices after a refusal
LATENCY_WEIGHT = 0.2  # of the latest reply in an endpoint's latency
MAX_MODELS = 64  # whose health is remembered; clients choose the names


class RateWindow:
    """At most ``limit`` units (requests, or tokens) in any 60 seconds.

    >>> window = RateWindow(2)
    >>> [window.take(1, now) for now in (0.0, 10.0)] and window.wait_s(1, now=20.0)
    40.0
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._entries: deque[list[float]] = deque()  # [time, amount]

    def wait_s(self, amount: int, now: float) -> float:
        """Seconds until ``amount`` more fits; an amount over the limit goes alone."""
        while self._entries and self._entries[0][0] <= now - MINUTE_S:
            self._used -= int(self._entries.popleft()[1])
        excess = self._used + min(amount, self.limit) - self.limit
        if excess > 0:
            for time, used in self._entries:
                excess -= int(used)
                if excess <= 0:
                    return time + MINUTE_S - now
        return 0.0

    def take(self, amount: int, now: float) -> list[float]:
        """Count an amount; the entry can be corrected when the true amount is known."""
        entry = [now, float(amount)]
        self._entries.append(entry)
        self._used += amount
        return entry

    def correct(self, entry: list[float], amount: int) -> None:
        """Replace the amount of an entry, unless it has aged out."""
        if self._entries and entry[0] >= self._entries[0][0]:
            self._used += amount - int(entry[1])
            entry[1] = float(amount)


class Endpoint:
    """One server: its load, its health, its rate limits, and how many traces it gives in one request.

    A server that refuses n is asked for as many as a smaller request was seen to bring, one that silently gives a
    single choice for one at a time. A refusal of what a client sent holds for this client, and for an hour.
    """

    def __init__(
        self, number: int, sampler: Sampler, max_n: int, requests: RateWindow | None, tokens: RateWindow | None
    ) -> None:
        self.number, self.sampler, self.max_n, self.requests, self.tokens = number, sampler, max_n, requests, tokens
        self.in_flight = 0  # traces
        self.requests_in_flight = 0
        self.latency_s = 0.0  # of a request, lately
        self.failures = 0  # in a row
        self.rest_until = 0.0  # after failures
        self.blocked_until = 0.0  # by the server's own word
        self.answered = False  # whether it ever said anything
        self.served = False  # whether it gave a trace, in this run or before it was resumed
        self._tokens_per_request = 1.0
        self._proven_n: dict[str, tuple[int, float]] = {}  # by sender, where more were refused; and until when
        self._single_replies: int | None = 0  # requests for several that brought one; None: one brought several

    def begin(self, n: int, now: float) -> list[float] | None:
        """Count a request that goes out; returns what :meth:`end` needs to correct the tokens assumed for it."""
        self.in_flight += n
        self.requests_in_flight += 1
        if self.requests is not None:
            self.requests.take(1, now)
        return None if self.tokens is None else self.tokens.take(round(self._tokens_per_request), now)

    def end(self, n: int, entry: list[float] | None, tokens: int | None, now: float) -> None:
        """Count a request that is over, and the tokens that it took, where they are known."""
        self.in_flight -= n
        self.requests_in_flight -= 1
        if tokens is not None:
            self._tokens_per_request += LATENCY_WEIGHT * (tokens - self._tokens_per_request)
            if entry is not None and self.tokens is not None:
                self.tokens.correct(entry, tokens)
        limits = self.sampler.rate_limits
        if limits is None:
            return
        # Rest until the server's own limits are lifted, where what is left of them is on its way already.
        more = round(self._tokens_per_request) * (self.requests_in_flight + 1) - 1
        for remaining, reset_s, needed in (
            (limits.remaining_requests, limits.reset_requests_s, self.requests_in_flight),
            (limits.remaining_tokens, limits.reset_tokens_s, more),
        ):
            if remaining is not None and reset_s is not None and remaining <= needed:
                self.blocked_until = max(self.blocked_until, now + min(reset_s, MINUTE_S))

    def succeeded(self, requested: int, received: int, seconds: float) -> None:
        """Learn from a reply."""
        self.answered, self.served, self.failures, self.rest_until = True, True, 0, 0.0
        self.latency_s += (LATENCY_WEIGHT if self.latency_s else 1.0) * (seconds - self.latency_s)
        if requested < 2 or self._single_replies is None:
            return
        self._single_replies = None if received > 1 else self._single_replies + 1
        if self._single_replies == 2:
            self.max_n = 1

    def failed(self, now: float, *, unreachable: bool = False, retry_after: float | None = None) -> None:
        """Let the server rest after a few failures in a row, longer each time, and as long as it asks for."""
        if unreachable and now < self.rest_until:
            return  # one of several that were on their way when it was found to be away
        self.failures += 1
        self.blocked_until = max(self.blocked_until, now + (retry_after or 0.0))
        self.answered = self.answered or not unreachable
        excess = self.failures - (1 if unreachable else FAILURES_BEFORE_REST)
        if excess >= 0:
            self.rest_until = now + min(MAX_REST_S, 0.5 * 2.0 ** min(excess, 10))

    def is_away(self, now: float) -> bool:
        """Whether it rests after failures, and is no wrong address that never said anything."""
        return self.rest_until > now and (self.answered or self.served)

    def max_n_for(self, sender: str, now: float) -> int:
        """How many traces a request of this sender may ask for."""
        proven, until = self._proven_n.get(sender, (self.max_n, math.inf))
        return min(self.max_n, proven) if until > now else self.max_n

    def prove_n(self, n: int, sender: str, now: float) -> None:
        """Remember that so many came, where more were refused."""
        self._proven_n[sender] = min(n, self.max_n_for(sender, now)), now + REFUSED_N_S if sender else math.inf

    def wait_s(self, now: float) -> float:
        """Seconds until it may be asked."""
        wait = max(self.rest_until, self.blocked_until) - now
        if self.requests is not None:
            wait = max(wait, self.requests.wait_s(1, now))
        if self.tokens is not None:
            wait = max(wait, self.tokens.wait_s(round(self._tokens_per_request), now))
        return max(0.0, wait)

    def load(self) -> tuple[float, int]:
        """What the next trace would wait for here."""
        return (self.in_flight + 1) * (self.latency_s or 1e-9), self.in_flight


class EndpointPool:
    """The endpoints of a run or a gateway; ``rpm`` and ``tpm`` limit requests and tokens per minute at each."""

    def __init__(
        self, samplers: Sequence[Sampler], max_n: int, *, rpm: int | None = None, tpm: int | None = None
    ) -> None:
        self.endpoints: list[Endpoint] = []
        for number, sampler in enumerate(samplers):
            windows = [None if limit is None else RateWindow(limit) for limit in (rpm, tpm)]
            self.endpoints.append(Endpoint(number, sampler, max_n, *windows))
        self.shortest_s: float | None = None  # that a trace took, in this run or before it was resumed
        self.faults: Counter[str] = Counter()  # of endpoints, and of all that asks them
        self.ignores_cancel = False  # whether a server was seen to go on with a request that was cancelled
        self._stop_looks: defaultdict[int, list[asyncio.Task[None]]] = defaultdict(list)  # by endpoint
        self.unknown_traces = 0  # of failures of unknown cost, since one was delivered
        self.last_failure = ""  # of these
        self.probe_at = 0.0  # where these were too many
        self._max_n = max_n
        self.by_model: dict[str, EndpointPool] = {}  # the one that was asked for last at the end

    def of_model(self, name: str) -> "EndpointPool":
        """The pool of one of several models of these servers."""
        pool = self.by_model.pop(name, None)
        if pool is None:
            pool = EndpointPool((), self._max_n)
            pool.endpoints = [Endpoint(e.number, e.sampler, self._max_n, e.requests, e.tokens) for e in self.endpoints]
            while len(self.by_model) >= MAX_MODELS:
                del self.by_model[next(iter(self.by_model))]
        self.by_model[name] = pool
        return pool

    def delivered(self, seconds: float) -> None:
        """Note that a reply with traces came after so many seconds."""
        self.shortest_s = seconds if self.shortest_s is None else min(self.shortest_s, seconds)
        self.unknown_traces = 0

    def cancelled(self, endpoint: Endpoint) -> list[asyncio.Task[None]]:
        """Look whether a server stops when a request is cancelled, the first few times; returns the looks under way."""
        looks = self._stop_looks[endpoint.number]
        if not endpoint.sampler.stops and len(looks) < MOST_LOOKS_AT_STOP:
            looks.append(asyncio.get_running_loop().create_task(self._look_at_stop(endpoint)))
        return [look for look in looks if not look.done()]

    async def _look_at_stop(self, endpoint: Endpoint) -> None:
        """Find out whether a server soon works on no more requests than are in flight."""
        for _ in range(round(STOPS_WITHIN_S / STOP_LOOKS_S)):
            await asyncio.sleep(STOP_LOOKS_S)
            running = await endpoint.sampler.requests_running()
            if running is None or endpoint.sampler.stops:
                return
            if running <= endpoint.requests_in_flight:
                endpoint.sampler.stops = True
                return
        self.ignores_cancel = True
        self.faults["cancelled and not stopped by the server"] += 1

    def takers(self, launch: int, attempt: int = 0) -> list[Endpoint]:
        """The endpoints that take a launch after ``attempt`` models would not; none where no model is left."""
        if len(self.endpoints) == 1 and not attempt:
            return self.endpoints
        return [endpoint for endpoint in self.endpoints if endpoint.sampler.takes(launch, attempt)]

    def present_takers(self, launch: int, attempt: int, now: float) -> list[Endpoint]:
        """The takers of the first model that is not away; where all are, of the one that is back first."""
        away: list[list[Endpoint]] = []
        while endpoints := self.takers(launch, attempt + len(away)):
            for endpoint in endpoints:
                if not endpoint.is_away(now):
                    return endpoints
            away.append(endpoints)
        return min(away, key=lambda model: min(endpoint.wait_s(now) for endpoint in model))

    def stand_down(self, endpoint: Endpoint, now: float) -> bool:
        """Let a model rest whose endpoint refuses everything; False where it never served, or no other is there."""
        own = [other for other in self.endpoints if other.sampler.name == endpoint.sampler.name]
        others = [other for other in self.endpoints if other not in own]
        if not any(other.served for other in own) or all(other.is_away(now) for other in others):
            return False
        for other in own:
            other.rest_until = now + MAX_REST_S
        return True

    def pick_now(self, launch: int, attempt: int, avoid: Endpoint | None, now: float) -> Endpoint | None:
        """The next endpoint to ask, not the one that just failed if another is well; ``None`` while none may be."""
        if len(self.endpoints) == 1 and not attempt:
            return self.endpoints[0] if self.endpoints[0].wait_s(now) <= 0 else None
        ready = [endpoint for endpoint in self.present_takers(launch, attempt, now) if endpoint.wait_s(now) <= 0]
        if len(ready) < 2:
            return ready[0] if ready else None
        return min((endpoint for endpoint in ready if endpoint is not avoid), key=Endpoint.load)

    async def pick(self, launch: int = 0, attempt: int = 0, avoid: Endpoint | None = None) -> Endpoint:
        """As :meth:`pick_now`; waits while no endpoint may be asked."""
        clock = asyncio.get_running_loop().time
        while (endpoint := self.pick_now(launch, attempt, avoid, now := clock())) is None:
            wait_s = min(other.wait_s(now) for other in self.present_takers(launch, attempt, now))
            await asyncio.sleep(max(SHORTEST_WAIT_S, wait_s))
        return endpoint

    @property
    def latency_s(self) -> float:
        """The latest seconds of a request at the fastest endpoint."""
        return min((e.latency_s for e in self.endpoints if e.latency_s), default=0.0)
