"""Is a forecast what comes true? Forecast and realised spend for a self-consistency, on recorded pools.

    python -m benchmarks.forecast [POOLS] [--repetitions 6] [--forecasts 2] [--traces 2 4 8] [--levels 0.95 0.99]

For every pool of 100 recorded questions or more: okg spends 2, 4 and 8 traces per question on average, drawn with
replacement from the pool, whose vote is then the vote over infinitely many. From its tallies there the batch is played
on (`pets.engine.forecast`), and the mean traces per question at which the forecast reaches a level are set against
those at which okg does that goes on to 64 of each question: the smallest budget at which its self-consistency, the mean
of all repetitions, made to rise, is the level, and not less than the start. A level that is not reached counts as 64
per question, what it takes to find out, in forecast and realised spend alike. The first repetitions make a forecast
each. Printed for every pool, start and level: the forecasts, what is realised, and the median ratio; what the forecast
takes for the self-consistency at the start and what it is. In the end the quartiles of |ratio - 1| of all forecasts, of
those *ahead*, whose level is neither there at the start nor out of reach (the others are easy), how many levels out of
reach were forecast as such, and for those ahead how far a single run is from the mean of all, which no forecast can
tell. Without recorded pools only the starter pool.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from benchmarks._pools import recorded
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.tally import Tally, majority
from pets.engine.forecast import MAX_TRACES, Forecast, forecast
from pets.lab.config import ReplayConfig
from pets.lab.labelled import LabelledPool, read_answers
from pets.pools import Pool, load, read_pools
from pets.registry import make_policy
from pets.types import Question, Trace

Floats = NDArray[np.float64]

LEAST_QUESTIONS = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """Forecasts of a pool's spend for a level, and the spend that came true, per question.

    ``now`` is what the forecasts take for the self-consistency at the start, ``true`` what it is; means. ``single`` are
    the spends at which the repetitions reach the level, each by itself.
    """

    pool: str
    start: int
    level: float
    forecasts: tuple[float, ...]
    realised: float
    now: float
    true: float
    single: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Forecast over realised spend."""
        return [predicted / self.realised for predicted in self.forecasts]

    @property
    def ratio(self) -> float:
        """That of the median forecast."""
        return float(np.median(self.ratios))

    @property
    def out_of_reach(self) -> bool:
        """Whether the level was not reached with all the traces that a question may get."""
        return self.realised >= MAX_TRACES

    @property
    def ahead(self) -> bool:
        """Whether the level was reached, after the start."""
        return self.start < self.realised and not self.out_of_reach


def spend_at(curves: Sequence[Floats], questions: int, level: float) -> float:
    """Mean traces per question at which the mean of the curves, made to rise, reaches the level; else the most."""
    rising = isotonic_regression(np.mean(curves, axis=0)).x
    place = int(np.searchsorted(rising, level - 1e-9))
    return place / questions if place < len(rising) else float(MAX_TRACES)


def okg_run(
    pool: LabelledPool, rng: np.random.Generator, starts: Sequence[int], most: int = MAX_TRACES
) -> tuple[Floats, dict[int, list[tuple[Tally, bool]]]]:
    """One run of okg over traces drawn with replacement, to ``most`` per question: self-consistency after each of them.

    At each start the tallies of the questions, and whether their leaders are right.
    """
    questions = pool.questions
    N, targets = len(questions), [majority(question.labels) for question in questions]
    rows = {question.id: row for row, question in enumerate(questions)}
    asked = [Question(question.id, options=pool.options) for question in questions]
    allocator = Allocator(make_policy("okg"), Budget(N * most, MAX_TRACES), asked)
    right, agree, tallies = [False] * N, [0], {}
    while launches := allocator.ask(1):
        ((id, number),) = launches
        row = rows[id]
        question = questions[row]
        drawn = int(rng.integers(len(question.labels)))
        tokens = question.tokens[drawn] if question.tokens else 0
        allocator.tell(Trace(id, number, question.labels[drawn], tokens=tokens))
        before, right[row] = right[row], allocator.verdict(id).answer == targets[row]
        agree.append(agree[-1] + right[row] - before)
        if allocator.told in [start * N for start in starts]:
            seen = [allocator.tally(question.id) for question in questions]
            tallies[allocator.told // N] = list(zip(seen, right, strict=True))
    return np.array(agree) / N, tallies


def measured(
    pool: Pool, config: ReplayConfig, starts: Sequence[int], levels: Sequence[float], forecasts: int
) -> list[Outcome]:
    """Forecasts and realised spend of one pool."""
    read, curves = read_answers(pool), []
    played: dict[int, list[Forecast]] = {start: [] for start in starts}
    for repetition in range(config.repetitions):
        curve, tallies = okg_run(read, np.random.default_rng(config.seeds(pool.name, repetition)), starts)
        curves.append(curve)
        for start, batch in tallies.items() if repetition < forecasts else ():
            seen = [tally for tally, _ in batch]
            played[start].append(forecast(seen, make_policy("okg"), targets=levels, seed=repetition))
    N, outcomes = len(read.questions), []
    for start, found in played.items():
        now = float(np.mean([one.consistency[0] for one in found]))
        true = float(np.mean([curve[start * N] for curve in curves]))
        for level in levels:
            budgets = [MAX_TRACES if (budget := one.budget_for(level)) is None else budget for one in found]
            realised = max(float(start), spend_at(curves, N, level))
            single = tuple([max(float(start), spend_at([curve], N, level)) for curve in curves])
            outcomes.append(Outcome(pool.name, start, level, tuple(budgets), realised, now, true, single))
    return outcomes


def quartiles(errors: Sequence[float]) -> dict[str, float]:
    """The three quartiles of some errors, and their number."""
    lower, median, upper = (round(float(x), 3) for x in np.percentile(errors, (25, 50, 75))) if errors else (0.0,) * 3
    return {"of": len(errors), "lower": lower, "median": median, "upper": upper}


def pools_of(folder: str | None) -> list[Pool]:
    """The recorded pools that have so many questions as recorded; without any, the starter."""
    files = [path for path in recorded(folder) if len(path.read_text("utf-8").splitlines()) >= LEAST_QUESTIONS]
    return read_pools(files, skip_bad=True) if files else [load("starter")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=6)
    parser.add_argument("--forecasts", type=int, default=2, help="repetitions that make one")
    parser.add_argument("--traces", type=int, nargs="+", default=(2, 4, 8))
    parser.add_argument("--levels", type=float, nargs="+", default=(0.95, 0.99))
    args = parser.parse_args()
    print(__doc__)
    config = ReplayConfig(repetitions=args.repetitions)
    outcomes: list[Outcome] = []
    for pool in pools_of(args.pools):
        for outcome in measured(pool, config, args.traces, args.levels, args.forecasts):
            outcomes.append(outcome)
            place = "out of reach" if outcome.out_of_reach else "" if outcome.ahead else "there at the start"
            print(
                f"{pool.name:34}{outcome.start:3} {outcome.level:g}  now {outcome.now:.3f} ({outcome.true:.3f})  "
                f"forecast {' '.join(f'{mean:6.2f}' for mean in outcome.forecasts)}  "
                f"realised {outcome.realised:6.2f}  ratio {outcome.ratio:.2f}  {place}",
                flush=True,
            )
    unreached = [outcome for outcome in outcomes if outcome.out_of_reach]
    figures = {
        "error": quartiles([abs(ratio - 1.0) for outcome in outcomes for ratio in outcome.ratios]),
        "error_ahead": quartiles([abs(ratio - 1.0) for one in outcomes if one.ahead for ratio in one.ratios]),
        "single_runs_ahead": quartiles(
            [abs(s / one.realised - 1.0) for one in outcomes if one.ahead for s in one.single]
        ),
        "error_of_consistency_now": quartiles([abs(outcome.now - outcome.true) for outcome in outcomes]),
        "out_of_reach": len(unreached),
        "out_of_reach_as_forecast": sum(outcome.ratio >= 1.0 for outcome in unreached),
    }
    print(json.dumps({"benchmark": "forecast", **vars(args), "figures": figures}))


if __name__ == "__main__":
    main()
