"""Is a forecast what comes true? Forecast and realised spend for a self-consistency, on recorded pools.

    python -m benchmarks.forecast [POOLS] [--repetitions 4] [--traces 2] [--level 0.99]

For every pool of 100 questions or more: okg's first ``traces`` traces per question teach a prior, the batch is played
on (`pets.engine.forecast`), and the mean traces per question at which the forecast reaches ``level`` are set against
those at which the replayed okg does (not less than what is spent already), both on rising curves, both for the vote of
64 traces. Printed: both numbers and their ratio per pool, and the median of |ratio - 1| (0 for a perfect forecast).
Without recorded pools only the starter pool.
"""

import argparse
import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from benchmarks._pools import recorded
from pets.core.tally import Tally
from pets.engine.forecast import forecast
from pets.pools import Pool, load, read_pools
from pets.registry import make_policy
from pets.replay.calibration import _sizes, _tally
from pets.replay.config import ReplayConfig
from pets.replay.curves import curve_of_order
from pets.replay.draws import draw_traces
from pets.replay.drivers import batch_order
from pets.replay.labelled import read_answers

Floats = NDArray[np.float64]

LEAST_QUESTIONS = 100


def realised(curves: Sequence[tuple[Floats, Floats]], level: float) -> float:
    """Mean traces per question at which the mean of the curves, made to rise, reaches the level."""
    traces = curves[0][0]
    rising = isotonic_regression(np.mean([values for _, values in curves], axis=0)).x
    at = int(np.searchsorted(rising, level - 1e-9))
    return float(traces[at]) if at < len(traces) else float("nan")


def measured(pool: Pool, repetitions: int, traces: float, level: float) -> tuple[float, float]:
    """Forecast and realised mean traces per question of one pool."""
    config = ReplayConfig(repetitions=repetitions)
    read = read_answers(pool)
    curves, budgets = [], []
    for repetition in range(repetitions):
        draw = draw_traces(read, config, repetition)
        policy = make_policy("okg")
        curve = curve_of_order(batch_order(policy, draw, repetition)[0], draw)
        curves.append((curve.traces / curve.questions, curve.agree / curve.questions))
        (sizes,) = _sizes(policy, draw, (traces,))
        tallies: list[Tally] = [_tally(draw, row, size) for row, size in enumerate(sizes.tolist())]
        cap = draw.size
        played = forecast(tallies, policy, up_to=float(cap), cap=cap, horizon=cap, runs=4, seed=repetition)
        budgets.append(played.budget_for(level) or float("nan"))
    return float(np.nanmedian(budgets)), max(traces, realised(curves, level))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--traces", type=float, default=2.0)
    parser.add_argument("--level", type=float, default=0.99)
    args = parser.parse_args()
    print(__doc__)
    files = recorded(args.pools)
    if not files:
        print("No recorded pools: the starter pool alone.")
    pools = [*(read_pools(files, skip_bad=True) if files else ()), load("starter")]
    errors = []
    for pool in pools:
        if len(pool.questions) < LEAST_QUESTIONS:
            continue
        predicted, real = measured(pool, args.repetitions, args.traces, args.level)
        errors.append(abs(predicted / real - 1.0))
        print(
            f"{pool.name:36} forecast {predicted:6.2f}  realised {real:6.2f}  ratio {predicted / real:.2f}", flush=True
        )
    print(
        json.dumps({"benchmark": "forecast", "pools": len(errors), "median_error": round(float(np.median(errors)), 3)})
    )


if __name__ == "__main__":
    main()
