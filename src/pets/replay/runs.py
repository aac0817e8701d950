"""The drivers: the allocator that live runs use, on recorded traces, one at a time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy, View
from pets.core.tally import Tally
from pets.policies.uniform import Uniform
from pets.replay.draws import Draw

__all__ = ["batch_order", "stream_sizes", "uniform_order", "uniform_sizes"]


def batch_order(policy: Policy, drawn: Draw, seed: int) -> NDArray[np.int64]:
    """The question of each trace when the policy may spend everything and all questions are there at once.

    Since an index policy's next step does not depend on the budget, every prefix is the run of a smaller one.
    """
    allocator = Allocator(policy, Budget(drawn.paths.size, drawn.size), drawn.questions(), seed=seed)
    ask, tell, traces = allocator.ask, allocator.tell, drawn.traces
    served: list[str] = []
    note = served.append
    while launches := ask():
        id, number = launches[0]
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


def uniform_order(drawn: Draw) -> NDArray[np.int64]:
    """What :func:`batch_order` finds for uniform, which looks at no trace: question after question, P times over."""
    N, P = drawn.paths.shape
    return np.tile(np.arange(N), P)


def uniform_sizes(policy: Uniform, questions: int, total: int, size: int) -> NDArray[np.int64]:
    """What :func:`stream_sizes` finds for uniform, which looks at no trace, without telling it any."""
    sizes: list[int] = []
    for left in range(questions, 0, -1):
        sizes.append(min(policy.quota(Tally(), View(total, left, size)), size, total))
        total -= sizes[-1]
    return np.array(sizes, dtype=np.int64)
