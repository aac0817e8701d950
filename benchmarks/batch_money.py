"""What 0.99 self-consistency costs by batch jobs, beside a run that looks after every trace, on recorded pools.

    python -m benchmarks.batch_money [POOLS] [--repetitions 30] [--waves 4] [--level 0.99]

Recorded traces are replayed: okg one trace at a time at the full price, and okg in W waves at half of it, each budget
spent anew and all questions in lockstep. Money is output tokens; with prompts it is also those of PROMPT_TOKENS per
question at a quarter of the output's price, which one by one are paid for with every trace, and in waves with every
request: one per question and wave at most. The level is read off isotonic mean curves over money. Without recorded
pools it says so and measures nothing.
"""

import argparse
import json

import numpy as np
from numpy.typing import NDArray

from benchmarks._pools import recorded
from pets.lab import ReplayConfig, read_answers
from pets.lab.contenders import batch_order
from pets.lab.draws import Draw, draw_traces
from pets.lab.labelled import LabelledPool
from pets.lab.metrics import RisingCurve
from pets.pools import read_pools
from pets.registry import make_policy

HALF = 0.5
PROMPT_TOKENS, PROMPT_PRICE = 250, 0.25  # of the price of an output token
BUDGETS = (4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 18, 21, 25, 32)  # traces per question
Floats = NDArray[np.float64]


def money(draw: Draw, sizes: NDArray[np.int64], requests: NDArray[np.int64]) -> tuple[float, float, float]:
    """Self-consistency, and the mean cost per question in output tokens, without and with prompts."""
    rows = np.arange(len(sizes))
    assert draw.tokens is not None
    tokens = float(draw.tokens[rows, sizes].mean())
    return (
        float(draw.outcomes.agree[rows, sizes].mean()),
        tokens,
        tokens + PROMPT_PRICE * PROMPT_TOKENS * float(requests.mean()),
    )


def one_by_one(draw: Draw) -> list[tuple[float, float, float]]:
    """A point for each budget of a run that looks after every trace."""
    order, _ = batch_order(make_policy("okg"), draw, draw.repetition)
    questions = len(draw.paths)
    sizes = [np.bincount(order[: budget * questions], minlength=questions) for budget in BUDGETS]
    return [money(draw, counts, counts) for counts in sizes]


def in_waves(draw: Draw, waves: int) -> list[tuple[float, float, float]]:
    """The same of runs in so many waves, at half the price."""
    policy, questions = make_policy(f"okg:waves={waves}"), len(draw.paths)
    points = []
    for budget in BUDGETS:
        order, _ = batch_order(policy, draw, draw.repetition, budget * questions)
        sizes = np.bincount(order, minlength=questions)
        consistency, tokens, with_prompts = money(draw, sizes, np.minimum(sizes, waves))
        points.append((consistency, HALF * tokens, HALF * with_prompts))
    return points


def cost_at(level: float, points: list[list[tuple[float, float, float]]]) -> Floats:
    """What the level costs, without and with prompts."""
    means = np.mean(points, axis=0)
    return np.array([RisingCurve.through(means[:, column], means[:, 0]).traces_at(level) for column in (1, 2)])


def measure(pool: LabelledPool, config: ReplayConfig, waves: list[int], level: float) -> dict[str, list[float]]:
    draws = [draw_traces(pool, config, repetition) for repetition in range(config.repetitions)]
    full = cost_at(level, [one_by_one(draw) for draw in draws])
    print(f"{pool.name}: {level} one by one costs {np.round(full).tolist()} output tokens, without and with prompts")
    shares = {}
    for count in waves:
        share = cost_at(level, [in_waves(draw, count) for draw in draws]) / full
        shares[str(count)] = share.round(3).tolist()
        print(f"  in {count} waves at half the price: {shares[str(count)]} of it", flush=True)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder or file; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--waves", type=int, nargs="+", default=[4])
    parser.add_argument("--level", type=float, default=0.99)
    args = parser.parse_args()
    print(__doc__)
    config, shares = ReplayConfig(repetitions=args.repetitions), {}
    for recording in read_pools(recorded(args.pools), skip_bad=True):
        pool = read_answers(recording)
        if any(question.tokens is None for question in pool.questions):
            print(f"{pool.name}: no lengths were recorded, so that nothing is known of its cost.")
            continue
        shares[pool.name] = measure(pool, config, args.waves, args.level)
    print(
        json.dumps({"benchmark": "batch_money", "repetitions": args.repetitions, "level": args.level, "shares": shares})
    )


if __name__ == "__main__":
    main()
