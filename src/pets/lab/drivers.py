"""Drivers of recorded traces: the allocator of live runs, one trace at a time, and the fast path of quota policies."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy, QuotaPolicy
from pets.core.queues.walk import Walk
from pets.lab.draws import Draw

__all__ = ["batch_order", "online_sizes", "stream_sizes", "wave_sizes"]


def batch_order(policy: Policy, draw: Draw, seed: int) -> tuple[NDArray[np.int64], Policy]:
    """The question of each trace when the policy may spend everything and all questions are there at once.

    With it comes the policy as it has learned in the end.

    Since an index policy's next step does not depend on the budget, every prefix is the run of a smaller one (with
    waves it does: :func:`wave_sizes`). A blind policy is asked for everything at once.
    """
    allocator = Allocator(policy, Budget(draw.paths.size, draw.size), draw.questions(), seed=seed)
    ask, tell, traces = allocator.ask, allocator.tell, draw.traces
    served: list[str] = []
    note = served.append
    width = draw.paths.size if policy.blind else 1
    while launches := ask(width):
        for id, number in launches:
            tell(traces[id][number])
            note(id)
    place = {question.id: row for row, question in enumerate(draw.pool.questions)}
    return np.fromiter(map(place.__getitem__, served), dtype=np.int64, count=len(served)), allocator.policy


def wave_sizes(
    policy: Policy, draw: Draw, rows: Sequence[int], total: int, seed: int
) -> tuple[NDArray[np.int64], Policy]:
    """Traces of each question in ``rows`` when the policy spends ``total`` in waves, each after the last is back.

    With them comes the policy as it has learned in the end.
    """
    allocator = Allocator(policy, Budget(total, draw.size), draw.questions(rows), seed=seed)
    while launches := allocator.ask(total):
        for id, number in launches:
            allocator.tell(draw.traces[id][number])
    return np.array([verdict.traces for verdict in allocator.verdicts()], dtype=np.int64), allocator.policy


def stream_sizes(policy: Policy, draw: Draw, arrivals: Sequence[int], total: int, seed: int) -> NDArray[np.int64]:
    """Traces of each question when they arrive one by one, each after the last has stopped; as ``arrivals`` lists."""
    size = draw.size
    allocator = Allocator(policy, Budget(total, size), horizon=len(arrivals), seed=seed)
    ask, tell = allocator.ask, allocator.tell
    sizes = []
    for question in draw.questions(arrivals):
        allocator.add(question)
        path = draw.traces[question.id]
        size_so_far = 0
        while launches := ask(size):
            for launch in launches:
                tell(path[launch.number])
            size_so_far += len(launches)
        sizes.append(size_so_far)
    return np.array(sizes, dtype=np.int64)


def online_sizes(
    policy: QuotaPolicy, draw: Draw, walk: Walk, arrivals: Sequence[int], total: int, seed: int
) -> NDArray[np.int64]:
    """What :func:`stream_sizes` finds, by the fast path over ``walk``.

    A policy that learns on its way or sees whole traces is left to the allocator, and so is a budget that it refuses.
    """
    if policy.learns or policy.sees == "traces" or policy.warmup * len(arrivals) > total:
        return stream_sizes(policy, draw, arrivals, total, seed)
    return walk.arrivals(policy, arrivals, total, seed)
