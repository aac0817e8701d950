"""Traces that an earlier run has paid for, delivered in place of requests: nothing is sent for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pets.engine.endpoints import EndpointPool
from pets.engine.fetch import TraceRequest
from pets.engine.question import UNREAD
from pets.samplers import Completion
from pets.store import StoredTrace
from pets.store.cache import TraceCache


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


def parts_of(request: TraceRequest, held: Mapping[int, Completion]) -> Iterator[TraceRequest]:
    """A request in parts: every trace that is ``held``, by launch number, alone; together what is to be asked for."""
    if not held:
        yield request
        return
    for missing, group in groupby(range(request.size), lambda offset: request.first + offset not in held):
        offsets = list(group)
        if missing:
            yield request.part(offsets[0], len(offsets))
            continue
        for offset in offsets:
            yield replace(request.part(offset, 1), reused=held[request.first + offset])


def reused_parts(request: TraceRequest, cache: TraceCache, pool: EndpointPool) -> Iterator[TraceRequest]:
    """A run's request in parts, as :func:`parts_of` has them; what a cache holds is at the cost that is recorded."""
    traces: dict[int, StoredTrace] = {}
    for offset in range(request.size):
        endpoints = [endpoint.number for endpoint in pool.takers(request.turn + offset)]
        if (trace := cache.find(request.question, request.first + offset, endpoints)) is not None:
            traces[trace.number] = trace
    held = {number: _completion(trace, pool) for number, trace in traces.items()}
    for part in parts_of(request, held):
        if part.reused is not None:
            trace = traces[part.first]
            part.endpoint, part.seconds = pool.endpoints[trace.endpoint], trace.seconds
        yield part


def _completion(trace: StoredTrace, pool: EndpointPool) -> Completion:
    """A trace as if it had come back."""
    sampler = pool.endpoints[trace.endpoint].sampler
    return Completion(
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
