"""The paper's bin sweeps: how accuracy and self-consistency depend on the number of difficulty grids K."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pets.pools import Pool
from pets.replay import PoolResult, Protocol, replay
from pets.replay.lab import Progress

__all__ = ["ORACLE", "PREDICTOR", "SweepRow", "bin_sweep"]

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
    pools: Sequence[Pool], protocol: Protocol, *, workers: int = 1, progress: Progress | None = None
) -> list[SweepRow]:
    """Oracle and predictor at every K, at the one mean budget of the protocol."""
    (mean,) = protocol.budgets
    specs = {f"{policy}:K={K}": (policy, K) for policy, sizes in (ORACLE, PREDICTOR) for K in sizes}
    found = replay(pools, tuple(specs), protocol=protocol, workers=workers, progress=progress)
    return [_row(pool, spec, *named, mean) for pool in found for spec, named in specs.items()]


def _row(pool: PoolResult, spec: str, policy: str, K: int, mean: float) -> SweepRow:
    result = pool.result(spec)
    judged = pool.pass_at_1 is not None
    consistency, accuracy = result.consistency[:, 0], result.accuracy[:, 0]
    known = accuracy[np.isfinite(accuracy)]
    return SweepRow(
        pool=pool.pool,
        policy=policy,
        K=K,
        mean_budget=mean,
        traces=float(result.traces.mean()),
        consistency=float(consistency.mean()),
        consistency_sd=float(consistency.std(ddof=1)) if consistency.size > 1 else 0.0,
        accuracy=float(known.mean()) if judged and known.size else None,
        accuracy_sd=(float(known.std(ddof=1)) if known.size > 1 else 0.0) if judged and known.size else None,
    )
