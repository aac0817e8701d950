"""The paper's tables: bin sweeps, and the seconds that deciding takes.

The sweeps show how accuracy and self-consistency depend on the number of difficulty grids K. In the wall-clock table,
the model's own time left out, online policies assign budgets to the questions that did not train them, offline okg to
all; each at the same mean budget. Seconds are means over draws, one process, caches as they come: the first draw pays
for filling them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.lab import PoolResult, ReplayConfig, replay
from pets.lab.contenders import Split, split, stream_sizes
from pets.lab.draws import Draw, draw_traces
from pets.lab.lab import Progress
from pets.lab.labelled import LabelledPool
from pets.pools import Pool
from pets.registry import make_policy

ORACLE = ("oracle", (2, 3, 5, 8))
PREDICTOR = ("online_grid", (2, 3, 4, 5))


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One policy with K grids on one pool; means and deviations over repetitions, accuracy ``None`` without gold."""

    pool: str
    policy: str
    K: int
    mean_budget: float
    traces: float
    consistency: float
    consistency_sd: float
    accuracy: float | None
    accuracy_sd: float | None

    def row(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def bin_sweep(
    pools: Sequence[Pool], config: ReplayConfig, *, workers: int = 1, progress: Progress | None = None
) -> list[SweepRow]:
    """Oracle and predictor at every K, at the one mean budget of the config."""
    (mean,) = config.budgets
    specs = {f"{policy}:K={K}": (policy, K) for policy, sizes in (ORACLE, PREDICTOR) for K in sizes}
    results = replay(pools, tuple(specs), config=config, workers=workers, progress=progress)
    return [_row(pool, spec, *named, mean) for pool in results for spec, named in specs.items()]


def _row(pool: PoolResult, spec: str, policy: str, K: int, mean: float) -> SweepRow:
    result = pool.result(spec)
    judged = pool.pass_at_1 is not None
    consistency, accuracy = result.consistency[:, 0], result.accuracy[:, 0]
    graded = accuracy[np.isfinite(accuracy)]
    return SweepRow(
        pool=pool.pool,
        policy=policy,
        K=K,
        mean_budget=mean,
        traces=float(result.traces.mean()),
        consistency=float(consistency.mean()),
        consistency_sd=float(consistency.std(ddof=1)) if consistency.size > 1 else 0.0,
        accuracy=float(graded.mean()) if judged and graded.size else None,
        accuracy_sd=(float(graded.std(ddof=1)) if graded.size > 1 else 0.0) if judged and graded.size else None,
    )


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


def wall_clock(pool: LabelledPool, config: ReplayConfig) -> list[ClockRow]:
    """Fit and assignment of the online grid, uniform, and okg with Dir(1), at the one mean budget of the config."""
    (mean,) = config.budgets
    clocks: dict[str, Callable[[Draw, Split], int]] = {
        ONLINE: lambda draw, parts: _stream(ONLINE, draw, parts, mean),
        UNIFORM: lambda draw, parts: _stream(UNIFORM, draw, parts, mean),
        OFFLINE: lambda draw, parts: _okg(draw, mean),
    }
    seconds: dict[str, list[float]] = {policy: [] for policy in clocks}
    traces: dict[str, int] = {}
    parts = split(pool, config, 0)
    for repetition in range(config.repetitions):
        draw, parts = draw_traces(pool, config, repetition), split(pool, config, repetition)
        for policy, assign in clocks.items():
            start = perf_counter()
            traces[policy] = assign(draw, parts)
            seconds[policy].append(perf_counter() - start)
    questions = {ONLINE: len(parts.arrivals), UNIFORM: len(parts.arrivals), OFFLINE: len(pool.questions)}
    return [
        ClockRow(pool.name, policy, questions[policy], traces[policy], float(np.mean(taken)), taken[0])
        for policy, taken in seconds.items()
    ]


def _stream(spec: str, draw: Draw, parts: Split, mean: float) -> int:
    policy, total = make_policy(spec).fit(parts.training), int(mean * len(parts.arrivals))
    return int(stream_sizes(policy, draw, parts.arrivals, total, seed=0).sum())


def _okg(draw: Draw, mean: float) -> int:
    """One trace at a time, each told before the next is chosen: the paper's sequential allocation."""
    total = int(mean * len(draw.paths))
    allocator = Allocator(make_policy(OFFLINE), Budget(total, draw.size), draw.questions(), seed=0)
    traces = 0
    while launches := allocator.ask():
        id, number = launches[0]
        allocator.tell(draw.traces[id][number])
        traces += 1
    return traces
