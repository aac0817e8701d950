"""The drivers: the allocator that live runs use, on recorded traces, one at a time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy, QuotaPolicy
from pets.core.queues.walk import Walk
from pets.replay.draws import Draw

__all__ = ["batch_order", "online_sizes", "stream_sizes"]


def batch_order(policy: Policy, drawn: Draw, seed: int) -> NDArray[np.int64]:
    """The question of each trace when the policy may spend everything and all questions are there at once.

    Since an index policy's next step does not depend on the budget, every prefix is the run of a smaller one. A blind
    policy is asked for everything at once.
    """
    allocator = Allocator(policy, Budget(drawn.paths.size, drawn.size), drawn.questions(), seed=seed)
    ask, tell, traces = allocator.ask, allocator.tell, drawn.traces
    served: list[str] = []
    note = served.append
    width = drawn.paths.size if policy.blind else 1
    while launches := ask(width):
        for id, number in launches:
            tell(traces[id][number])
            note(id)
    place = {question.id: row for row, question in enumerate(drawn.pool.questions)}
    return np.fromiter(map(place.__getitem__, served), dtype=np.int64, count=len(served))


def stream_sizes(policy: Policy, drawn: Draw, arrivals: Sequence[int], total: int, seed: int) -> NDArray[np.int64]:
    """Traces of each question when they arrive one by one, each after the last has stopped; as ``arrivals`` lists."""
    size = drawn.size
    allocator = Allocator(policy, Budget(total, size), horizon=len(arrivals), seed=seed)
    ask, tell = allocator.ask, allocator.tell
    sizes = []
    for question in drawn.questions(arrivals):
        allocator.add(question)
        path = drawn.traces[question.id]
        told = 0
        while launches := ask(size):
            for launch in launches:
                tell(path[launch.number])
            told += len(launches)
        sizes.append(told)
    return np.array(sizes, dtype=np.int64)


def online_sizes(
    policy: QuotaPolicy, drawn: Draw, walk: Walk, arrivals: Sequence[int], total: int, seed: int
) -> NDArray[np.int64]:
    """What :func:`stream_sizes` finds, by the fast path over ``walk``.

    A policy that learns on its way or sees whole traces is left to the allocator, and so is a budget that it refuses.
    """
    if policy.learns or policy.sees == "traces" or policy.warmup * len(arrivals) > total:
        return stream_sizes(policy, drawn, arrivals, total, seed)
    return walk.arrivals(policy, arrivals, total, seed)
