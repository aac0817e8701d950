"""Traces that an earlier run has paid for, delivered in place of requests: nothing is sent for them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from pets.engine.endpoints import EndpointPool
from pets.engine.fetch import Receiver, TraceRequest
from pets.engine.question import UNREAD
from pets.samplers import Completion
from pets.store import StoredTrace
from pets.store.cache import TraceCache
from pets.types import Launch

Held = TypeVar("Held")


def most_to_pay(held: Sequence[int], budget: int, questions: int, cap: int | None, asked_once: int) -> int:
    """How many of ``budget`` traces are to be paid for at most, where questions ``held`` so many of theirs each.

    A question's traces are taken in launch order, so what it holds is taken before it costs anything. At the worst
    ``asked_once`` of those that hold any get one trace, and the questions that hold the least are asked to their
    ``cap``.

    >>> most_to_pay([4] * 200, 804, 201, cap=4, asked_once=200), most_to_pay([4] * 200, 804, 201, 64, asked_once=200)
    (4, 577)
    """
    new = questions - len(held)
    left, paid = budget - new - asked_once, new
    for traces in [0] * new + sorted(held):
        room = left if cap is None else min(left, cap - 1)
        if room <= 0:
            break
        paid += max(0, room - max(0, traces - 1))
        left -= room
    return paid


def parts_of(request: TraceRequest, traces: Sequence[Held | None]) -> Iterator[tuple[TraceRequest, Held | None]]:
    """A request in parts: every trace that is there alone, and together what is to be asked for."""
    for missing, offsets in groupby(range(request.size), lambda offset: traces[offset] is None):
        places = list(offsets)
        if missing:
            yield request if len(places) == request.size else request.part(places[0], len(places)), None
            continue
        for place in places:
            yield replace(request.part(place, 1), reused=True), traces[place]


class Reuse:
    """Takes what a cache holds of the launches of a run, in launch order, at the cost that is recorded.

    Those that are ``awaited`` are sent already, and paid for when they come.
    """

    def __init__(self, cache: TraceCache, awaited: Iterable[Launch] = ()) -> None:
        self.cache, self._awaited = cache, frozenset(awaited)

    def parts(self, request: TraceRequest, pool: EndpointPool) -> Iterator[tuple[TraceRequest, StoredTrace | None]]:
        """The request in parts, as :func:`parts_of` has them."""
        traces: list[StoredTrace | None] = []
        for offset in range(request.size):
            launch = Launch(request.question, request.first + offset)
            endpoints = [endpoint.number for endpoint in pool.takers(request.turn + offset)]
            traces.append(None if launch in self._awaited else self.cache.find(*launch, endpoints))
        return parts_of(request, traces)

    async def deliver(self, request: TraceRequest, trace: StoredTrace, receiver: Receiver, pool: EndpointPool) -> None:
        """Hand over a trace as if it had come back."""
        sampler = pool.endpoints[trace.endpoint].sampler
        completion = Completion(
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
        await receiver.delivered(request, [completion], trace.endpoint, trace.seconds)
