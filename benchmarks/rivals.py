"""okg against uniform and against the best rival of each recorded pool, by the replay lab's protocol.

    python -m benchmarks.rivals [POOLS] [--repetitions 30] [--target whole|disjoint] [--level 0.99]

A pool of n < 200 questions is replayed 200 / n times as often. First self-consistency 1: okg's traces over uniform's,
pooled over the GPQA pools (ratio of means) and averaged over the AIME 2024 models. At ``level``: okg's traces over
those of the best rival of each LLM pool, the rival and its threshold chosen on half of the repetitions and both scored
on the other half, both ways round (`benchmarks._compare`), with a 95 % interval over questions; the mean is geometric,
over data sets, and once more without dsc, whose ranking of the questions is free of charge in the lab. Beside it the
null value: okg against itself on disjoint repetitions. Losses by Holm-corrected paired tests at equal spend, over
questions. Without recorded pools it says so and measures nothing.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from benchmarks._compare import Comparison, against_itself, average_ratio, compare
from benchmarks._pools import recorded
from benchmarks._rivals import RIVALS, UNRANKED_RIVALS, replay_evenly
from pets.lab import PoolResult, reached
from pets.pools import read_pools

HEAD = f"{'pool':36}{'rival':22}{'ratio':>7}{'95 % interval':>22}{'advantage':>11}{'p draws':>9}{'p questions':>13}"


def first_one(result: PoolResult, policy: str) -> float:
    """Mean traces per question at which the policy first reaches self-consistency 1."""
    return float(np.nanmean(reached(result.result(policy, "offline"), 1.0).first))


def against_uniform(results: Sequence[PoolResult]) -> dict[str, float]:
    gpqa = [r for r in results if r.pool.startswith("gpqa")]
    aime = [r for r in results if r.pool.startswith("aime24")]
    figures: dict[str, float] = {}
    if gpqa:
        total = {p: sum(first_one(r, p) for r in gpqa) for p in ("okg", "okg:prior=1", "uniform")}
        figures |= {f"gpqa_{p}_over_uniform": round(total[p] / total["uniform"], 3) for p in ("okg", "okg:prior=1")}
    if aime:
        for p in ("okg", "okg:prior=1"):
            ratios = [first_one(r, p) / first_one(r, "uniform") for r in aime]
            figures[f"aime24_{p}_over_uniform"] = round(float(np.mean(ratios)), 3)
    return figures


def against_rivals(results: Sequence[PoolResult], level: float) -> dict[str, object]:
    both = both_ways(results, RIVALS, level)
    unranked = average_ratio(both_ways(results, UNRANKED_RIVALS, level))
    print(HEAD)
    for comparison in sorted(both, key=lambda c: c.pool):
        print(line(comparison))
    losses = [c.pool for c in both if c.significant and (c.advantage or 0) < 0]
    null = average_ratio(against_itself(results, "okg", level))
    datasets = sorted({result.dataset for result in results})
    print(f"\nokg over the best rival, geometric mean of {len(datasets)} data sets: {average_ratio(both)}")
    print(f"the same without dsc, which is given a ranking:             {unranked}")
    print(f"okg over okg on disjoint repetitions (the null value):      {null}")
    return {
        "pools": len(results),
        "datasets": datasets,
        "ratio": asdict(average_ratio(both)),
        "ratio_unranked": asdict(unranked),
        "okg_over_okg": asdict(null),
        "significant_losses": losses,
    }


def both_ways(results: Sequence[PoolResult], rivals: Sequence[str], level: float) -> list[Comparison]:
    """The rival chosen on either half of the repetitions and scored on the other."""
    return [comparison for parity in (0, 1) for comparison in compare(results, "okg", rivals, level, parity=parity)]


def line(comparison: Comparison) -> str:
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return f"{comparison.pool:36}{comparison.rival or 'no rival reaches it'}"
    interval = f"{comparison.low:.3f} to {comparison.high:.3f}"
    tests = f"{comparison.advantage:11.4f}{comparison.p_draws:9.3f}{comparison.p_questions:13.3f}"
    return f"{comparison.pool:36}{comparison.rival:22}{comparison.ratio:7.3f}{interval:>22}{tests}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--target", choices=("whole", "disjoint"), default="whole")
    parser.add_argument("--level", type=float, default=0.99)
    args = parser.parse_args()
    print(__doc__)
    files = recorded(args.pools)
    if not files:
        print(json.dumps({"benchmark": "rivals", "skipped": "no recorded pools"}))
        return
    pools = [pool for pool in read_pools(files, skip_bad=True) if not pool.name.startswith("crowd")]
    policies = ["uniform", "okg", "okg:prior=1", *RIVALS]
    results = replay_evenly(pools, policies, args.repetitions, reference=args.target)
    figures = {"first_1": against_uniform(results), f"at_{args.level}": against_rivals(results, args.level)}
    print(json.dumps({"benchmark": "rivals", "target": args.target, "repetitions": args.repetitions, **figures}))


if __name__ == "__main__":
    main()
