"""Is a forecast what comes true? Forecast and realised spend for a self-consistency, on recorded pools.

    python -m benchmarks.forecast [POOLS] [--repetitions 4] [--traces 2] [--level 0.99] [--starts each okg] [--up-to 32]

For every pool of 100 recorded questions or more: the first ``traces`` traces per question teach a prior, the batch is
played on (`pets.engine.forecast`), and the mean traces per question at which the forecast reaches ``level`` are set
against those at which okg, replayed from the same start, does (not less than what is spent already), both on rising
curves, both for the vote of 64 traces. The start is so many traces of *each* question, or as many per question on
average as *okg* itself spends them. Printed per pool: the median forecast, what is realised by the mean of the
repetitions, and the ratio of each forecast; per start: the median over pools of |ratio - 1| for the median forecast,
and the median over all single forecasts. Both are looked for up to ``up-to`` traces per question. Without recorded
pools only the starter pool.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from benchmarks._pools import recorded
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.forecast import forecast
from pets.lab.calibration import tally_after
from pets.lab.config import ReplayConfig
from pets.lab.curves import curve_of_order
from pets.lab.draws import Draw, draw_traces
from pets.lab.labelled import read_answers
from pets.pools import Pool, load, read_pools
from pets.registry import make_policy

Floats = NDArray[np.float64]
Start = Literal["each", "okg"]

LEAST_QUESTIONS = 100
SIMULATED_RUNS = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """Forecasts of one pool's spend, one per repetition, and the spend that came true, in mean traces per question."""

    pool: str
    forecasts: tuple[float, ...]
    realised: float

    @property
    def ratios(self) -> list[float]:
        """Forecast over realised spend; infinite where the forecast never reaches the level."""
        return [predicted / self.realised for predicted in self.forecasts]

    @property
    def ratio(self) -> float:
        """That of the median forecast."""
        return float(np.median(self.ratios))


def spend_at(curves: Sequence[Floats], questions: int, level: float) -> float:
    """Mean traces per question at which the mean of the curves, made to rise, reaches the level."""
    rising = isotonic_regression(np.mean(curves, axis=0)).x
    place = int(np.searchsorted(rising, level - 1e-9))
    return place / questions if place < len(rising) else float("nan")


def okg_order(draw: Draw, first: int, up_to: float) -> NDArray[np.int64]:
    """The question of each trace when every question has ``first`` traces and okg spends the rest of ``up_to``."""
    N, P = draw.paths.shape
    allocator = Allocator(make_policy("okg"), Budget(round(N * min(up_to, P)), P), draw.questions())
    allocator.adopt(trace for path in draw.traces.values() for trace in path[:first])
    places = {question.id: row for row, question in enumerate(draw.pool.questions)}
    order = [row for row in range(len(places)) for _ in range(first)]
    while launches := allocator.ask(1):
        for launch in launches:
            allocator.tell(draw.traces[launch.question][launch.number])
            order.append(places[launch.question])
    return np.array(order)


def predicted(draw: Draw, sizes: NDArray[np.int64], level: float, up_to: float) -> float:
    """The spend that is forecast from the first ``sizes`` (N,) traces of every question; infinite beyond ``up_to``."""
    tallies = [tally_after(draw, row, size) for row, size in enumerate(sizes.tolist())]
    P, okg, seed = draw.size, make_policy("okg"), draw.repetition
    for most in sorted({min(reach, up_to, float(P)) for reach in (4.0 * sizes.mean(), up_to)}):  # a near end is cheaper
        played = forecast(tallies, okg, up_to=most, max_traces=P, horizon=P, runs=SIMULATED_RUNS, seed=seed)
        if (budget := played.budget_for(level)) is not None:
            return budget
    return float("inf")


def measured(pool: Pool, start: Start, config: ReplayConfig, traces: int, level: float, up_to: float) -> Outcome:
    """Forecasts and realised spend of one pool."""
    read = read_answers(pool)
    curves, budgets = [], []
    N = len(read.questions)
    for repetition in range(config.repetitions):
        draw = draw_traces(read, config, repetition)
        order = okg_order(draw, traces if start == "each" else 0, up_to)
        curves.append(curve_of_order(order, draw).agree / N)
        budgets.append(predicted(draw, np.bincount(order[: traces * N], minlength=N), level, up_to))
    return Outcome(pool.name, tuple(budgets), max(float(traces), spend_at(curves, N, level)))


def pools_of(folder: str | None) -> Iterator[Pool]:
    """The recorded pools and the starter, if they have so many questions as recorded."""
    for path in recorded(folder):
        if len(path.read_text(encoding="utf-8").splitlines()) >= LEAST_QUESTIONS:
            yield from read_pools([path], skip_bad=True)
    yield load("starter")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--traces", type=int, default=2)
    parser.add_argument("--level", type=float, default=0.99)
    parser.add_argument("--up-to", type=float, default=32.0)
    parser.add_argument("--starts", nargs="+", choices=("each", "okg"), default=("each", "okg"))
    args = parser.parse_args()
    print(__doc__)
    pools, config = list(pools_of(args.pools)), ReplayConfig(repetitions=args.repetitions)
    figures = {}
    for start in args.starts:
        outcomes = []
        for pool in pools:
            outcome = measured(pool, start, config, args.traces, args.level, args.up_to)
            outcomes.append(outcome)
            median, ratios = np.median(outcome.forecasts), " ".join(f"{ratio:.2f}" for ratio in outcome.ratios)
            print(
                f"{start:5}{pool.name:34} forecast {median:6.2f}  realised {outcome.realised:6.2f}  "
                f"ratio {outcome.ratio:.2f}  each {ratios}",
                flush=True,
            )
        single = [abs(ratio - 1.0) for outcome in outcomes for ratio in outcome.ratios]
        figures[start] = {
            "pools": len(outcomes),
            "median_error": round(float(np.median([abs(outcome.ratio - 1.0) for outcome in outcomes])), 3),
            "median_error_of_single_forecasts": round(float(np.median(single)), 3),
        }
    setting = {"repetitions": args.repetitions, "traces": args.traces, "level": args.level}
    print(json.dumps({"benchmark": "forecast", **setting, "starts": figures}))


if __name__ == "__main__":
    main()
