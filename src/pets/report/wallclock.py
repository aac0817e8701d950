"""The paper's wall-clock table: seconds that deciding takes, the model's own time left out.

Online policies assign budgets to the questions that did not train them, offline okg to all; each at the same mean
budget. Seconds are means over draws, one process, caches as they come: the first draw pays for filling them.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.registry import make_policy
from pets.replay import Protocol
from pets.replay.contenders import Split, split
from pets.replay.draws import Draw, draw
from pets.replay.readings import ReadPool
from pets.replay.runs import stream_sizes

__all__ = ["OFFLINE", "ONLINE", "UNIFORM", "ClockRow", "wall_clock"]

ONLINE, UNIFORM, OFFLINE = "online_grid", "uniform", "okg:prior=1"


@dataclass(frozen=True, slots=True)
class ClockRow:
    """Seconds of one policy on one pool, for ``traces`` given to ``questions``."""

    pool: str
    policy: str
    questions: int
    traces: int
    seconds: float
    first: float

    def row(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def wall_clock(pool: ReadPool, protocol: Protocol) -> list[ClockRow]:
    """Fit and assignment of the online grid, uniform, and okg with Dir(1), at the one mean budget of the protocol."""
    (mean,) = protocol.budgets
    clocks: dict[str, Callable[[Draw, Split], int]] = {
        ONLINE: lambda drawn, parts: _stream(ONLINE, drawn, parts, mean),
        UNIFORM: lambda drawn, parts: _stream(UNIFORM, drawn, parts, mean),
        OFFLINE: lambda drawn, parts: _okg(drawn, mean),
    }
    seconds: dict[str, list[float]] = {policy: [] for policy in clocks}
    traces: dict[str, int] = {}
    parts = split(pool, protocol, 0)
    for repetition in range(protocol.repetitions):
        drawn, parts = draw(pool, protocol, repetition), split(pool, protocol, repetition)
        for policy, assign in clocks.items():
            start = perf_counter()
            traces[policy] = assign(drawn, parts)
            seconds[policy].append(perf_counter() - start)
    questions = {ONLINE: len(parts.arrivals), UNIFORM: len(parts.arrivals), OFFLINE: len(pool.questions)}
    return [
        ClockRow(pool.name, policy, questions[policy], traces[policy], float(np.mean(taken)), taken[0])
        for policy, taken in seconds.items()
    ]


def _stream(spec: str, drawn: Draw, parts: Split, mean: float) -> int:
    policy, total = make_policy(spec).fit(parts.training()), int(mean * len(parts.arrivals))
    return int(stream_sizes(policy, drawn, parts.arrivals, total, seed=0).sum())


def _okg(drawn: Draw, mean: float) -> int:
    """One trace at a time, each told before the next is chosen: the paper's sequential allocation."""
    total = int(mean * len(drawn.paths))
    allocator = Allocator(make_policy(OFFLINE), Budget(total, drawn.size), drawn.questions(), seed=0)
    given = 0
    while launches := allocator.ask():
        id, number = launches[0]
        allocator.tell(drawn.traces[id][number])
        given += 1
    return given
