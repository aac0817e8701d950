"""Streams on recorded pools: is the budget kept and used, and is self-consistency what the replay lab finds?

    python -m benchmarks.stream_budget [POOLS] [--repetitions 30] [--mean-budget 16] [--rounds 3] [--cold]

For each repetition a plan is fitted to the lab's training questions, and the others arrive in the lab's order, on the
lab's draws: through `pets.plans.Stream` with 1 and with 8 questions on their way at once, with a budget in all and by
windows of 24 questions; with --cold also without any plan. The same plan runs in the lab's own driver; "lab_replay"
is what `pets replay` prints for the same rule, its prices fitted to other random orders of the training traces.
Printed: spend over budget (lowest, mean, highest: never over 1, at least 0.98), self-consistency, and its paired
difference from the lab's driver with the standard error. Pools: the starter pool, and every GPQA pool of the folder
POOLS, or of the environment's PETS_POOLS.
"""

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pets.answers.recorded import Recorded
from pets.core.policy import Policy
from pets.engine import Answer, RunSpec
from pets.engine.sources import Sources
from pets.engine.stream import RecordedStream, Stream
from pets.lab import ReplayConfig, replay
from pets.lab.contenders import split, stream_sizes
from pets.lab.draws import Draw, draw_traces
from pets.lab.labelled import LabelledPool, read_answers
from pets.plans import fit_plan
from pets.plans.plan import SLACK_DIVISOR
from pets.policies.price import PriceRule
from pets.pools import Pool, load, read_pools
from pets.questions import Problem
from pets.samplers import Prompt

WINDOW = 24
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a stream."""

    name: str
    at_once: int
    windows: bool = False
    cold: bool = False


WAYS = (Way("one_at_a_time", 1), Way("eight_at_once", 8), Way("by_windows", 8, windows=True))
COLD = Way("cold", 8, cold=True)


@dataclass(frozen=True, slots=True)
class Run:
    """What a stream spent of its budget, and the questions whose answer is the vote of all traces drawn."""

    spent: int
    budget: int
    agree: Flags

    @property
    def consistency(self) -> float:
        return float(self.agree.mean())


async def arriving(ids: Sequence[str]) -> AsyncIterator[Problem]:
    for id in ids:
        yield Problem(id, Prompt(id))


def streamed(policy: Policy, drawn: Draw, arrivals: Sequence[int], mean: float, way: Way) -> Run:
    """The stream itself, over recorded traces."""
    total = int(mean * (WINDOW if way.windows else len(arrivals)))
    answers: dict[str, Answer] = {}
    spec = RunSpec.of(
        policy=policy,
        budget=total,
        max_traces=drawn.size,
        horizon=None if way.windows else len(arrivals),
        budget_window=WINDOW if way.windows else None,
        open_questions=way.at_once,
        concurrency=4096,
        answer=Recorded(),
        answer_sizes={"text": drawn.pool.options},
    )
    source = RecordedStream(drawn.traces, spec.seeds(0).cap)
    stream = Stream(spec, Sources([source]), lambda answer: answers.update({answer.id: answer}))
    asyncio.run(stream.run(arriving([drawn.pool.questions[row].id for row in arrivals])))
    sizes = [answers[drawn.pool.questions[row].id].traces for row in arrivals]
    budget = stream.driver.allocator.budget
    return Run(budget.spent, budget.total, drawn.outcomes.agree[list(arrivals), sizes])


def repetition(pool: LabelledPool, protocol: ReplayConfig, number: int, args: argparse.Namespace) -> dict[str, Run]:
    """Every way of one repetition, and the lab's driver under the same plan."""
    drawn, parts = draw_traces(pool, protocol, number), split(pool, protocol, number)
    training = replace(pool, questions=tuple(pool.questions[row] for row in parts.train))
    plan = fit_plan(training, args.mean_budget, args.rounds, cap=drawn.size, seed=number)
    total = int(args.mean_budget * len(parts.arrivals))
    sizes = stream_sizes(plan.policy(use_up=True), drawn, parts.arrivals, total, 0)
    runs = {"lab": Run(int(sizes.sum()), total, drawn.outcomes.agree[parts.arrivals, sizes])}
    for way in (*WAYS, COLD) if args.cold else WAYS:
        leave = int(args.mean_budget * WINDOW) // SLACK_DIVISOR if way.windows else 0
        policy = PriceRule(args.rounds, use_up=True, cold=True) if way.cold else plan.policy(use_up=True, leave=leave)
        # a window that is not full at the end has money for questions that never came
        arrivals = parts.arrivals[: len(parts.arrivals) // WINDOW * WINDOW] if way.windows else parts.arrivals
        runs[way.name] = streamed(policy, drawn, arrivals, args.mean_budget, way)
    return runs


def summary(runs: Sequence[dict[str, Run]]) -> Iterator[tuple[str, dict[str, float]]]:
    """The figures of each way, over repetitions."""
    for name in runs[0]:
        shares = np.array([run[name].spent / run[name].budget for run in runs])
        consistency = np.array([run[name].consistency for run in runs])
        difference = np.array([run[name].consistency - run["lab"].agree[: run[name].agree.size].mean() for run in runs])
        yield (
            name,
            {
                "over_budget": int((shares > 1).sum()),
                "spend_lowest": round(float(shares.min()), 4),
                "spend_mean": round(float(shares.mean()), 4),
                "spend_highest": round(float(shares.max()), 4),
                "consistency": round(float(consistency.mean()), 4),
                "minus_lab": round(float(difference.mean()), 4),
                "standard_error": round(float(difference.std(ddof=1) / len(runs) ** 0.5), 4) if len(runs) > 1 else 0.0,
            },
        )


def measured(pool: Pool, args: argparse.Namespace) -> None:
    read, protocol = read_answers(pool), ReplayConfig(repetitions=args.repetitions, budgets=(args.mean_budget,))
    runs = [repetition(read, protocol, number, args) for number in range(args.repetitions)]
    (pool_result,) = replay([pool], [f"price:rounds={args.rounds}"], spec=protocol)
    lab = pool_result.result(f"price:rounds={args.rounds}").consistency
    print(f"\n{pool.name}: {len(pool.questions)} questions, {args.repetitions} repetitions, "
          f"{args.mean_budget:g} traces per question, {args.rounds} rounds")  # fmt: skip
    figures = dict(summary(runs))
    for name, row in figures.items():
        print(f"  {name:14} spend {row['spend_lowest']:.3f} to {row['spend_highest']:.3f} of the budget, "
              f"self-consistency {row['consistency']:.4f}, minus lab {row['minus_lab']:+.4f} "
              f"(s.e. {row['standard_error']:.4f})")  # fmt: skip
    print(f"  {'lab_replay':14} self-consistency {lab.mean():.4f} (s.e. {lab.std() / lab.size**0.5:.4f})")
    print(json.dumps({"benchmark": "stream_budget", "pool": pool.name, "repetitions": args.repetitions,
                      "lab_replay": round(float(lab.mean()), 4), **figures}), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = os.environ.get("PETS_POOLS")
    parser.add_argument("pools", nargs="?", type=Path, default=None if folder is None else Path(folder))
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--mean-budget", type=float, default=16.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    print(__doc__)
    measured(load("starter"), args)
    if args.pools is None or not args.pools.exists():
        print(json.dumps({"benchmark": "stream_budget", "skipped": "no folder of recorded GPQA pools was given"}))
        return
    for pool in read_pools([args.pools], skip_bad=True):
        if pool.name.startswith("gpqa"):
            measured(pool, args)


if __name__ == "__main__":
    main()
