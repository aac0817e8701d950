"""The indifference zone: okg:zone=0.1 against stopping rules, scored on zone-consistency.

    python -m benchmarks.zone [POOLS] [--repetitions 30] [--target whole|disjoint] [--level 0.99]

A verdict is good if no answer's share of the target's votes exceeds its share by more than 0.1. A pool of n < 200
questions is replayed 200 / n times as often. At ``level``: the traces of okg:zone=0.1 over those of the best rival of
each pool, the rivals as published and made aware of the zone, each rival and its threshold chosen on half of the
repetitions and scored on the other, both ways round (`benchmarks._compare`); geometric means over data sets with 95 %
intervals over questions, for closed sets (GPQA and exams) and open ones. Beside it: both without dsc, whose ranking of
the questions is free of charge in the lab; asc alone; the null value, okg:zone=0.1 against itself on disjoint
repetitions; the limit of any rule that sees votes alone (`pets.lab.limit`, up to five answers per question) over the
best rival at its threshold that is best in hindsight; and the accuracy at the level and of the full vote. Without
recorded pools it says so and measures nothing.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from benchmarks._compare import Comparison, against_itself, average_ratio, compare
from benchmarks._pools import recorded
from benchmarks._rivals import RIVALS, UNRANKED_RIVALS, ZONE_RIVALS, replay_evenly
from pets.lab import PoolResult, mean_curve, traces_at_mean
from pets.pools import read_pools

ZONE = 0.1
OURS = f"okg:zone={ZONE:g}"
CLOSED = ("gpqa", "exams100")
OPEN = ("aime24", "brumo25", "math500", "date")


def accuracy_at(pool: PoolResult, level: float) -> tuple[float, float]:
    """Mean accuracy where our mean curve is at the level, and of the vote of all traces drawn."""
    result = pool.result(OURS)
    traces, _ = mean_curve(result)
    accuracy = result.accuracy.mean(axis=0)
    spend = traces_at_mean(result, level)
    return float(np.interp(spend, traces, accuracy)), float(accuracy[-1])


def line(comparison: Comparison) -> str:
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return f"{comparison.pool:36}{comparison.rival or 'no rival reaches it'}"
    spends = f"{comparison.spend:8.2f}{comparison.rival_spend:8.2f}"
    return (
        f"{comparison.pool:36}{comparison.rival:28}{spends}{comparison.ratio:8.3f} "
        f"({comparison.low:.3f} to {comparison.high:.3f})"
    )


def against(pools: Sequence[PoolResult], rivals: Sequence[str], level: float, name: str) -> dict[str, object]:
    """Print and average our ratios to the best of some rivals."""
    both = [comparison for parity in (0, 1) for comparison in compare(pools, OURS, rivals, level, parity=parity)]
    print(f"\nagainst {name}\n{'pool':36}{'rival':28}{'ours':>8}{'rival':>8}{'ratio':>8}")
    for comparison in sorted(both, key=lambda c: c.pool):
        print(line(comparison))
    averages: dict[str, object] = {}
    for group, datasets in (("closed", CLOSED), ("open", OPEN)):
        inside = [comparison for comparison in both if comparison.dataset in datasets]
        if not inside:
            continue
        average = average_ratio(inside)
        print(f"{OURS} over the best rival, {group} sets: {average}")
        averages[group] = asdict(average)
    return averages


def limit_over_best(pools: Sequence[PoolResult], rivals: Sequence[str], level: float) -> dict[str, float]:
    """Print and give the limit's traces over those of the best rival in hindsight, where the limit is known."""
    ratios = {}
    print(f"\n{'the limit of votes alone':36}{'best rival':28}{'limit':>8}{'rival':>8}{'ours':>8}{'limit / rival':>15}")
    for pool in pools:
        spends = {rival: traces_at_mean(pool.result(rival), level) for rival in rivals}
        reaching = {rival: spend for rival, spend in spends.items() if np.isfinite(spend)}
        if pool.limit is None or not reaching:
            continue
        best = min(reaching, key=reaching.__getitem__)
        limit, ours = pool.limit.traces_at(level), traces_at_mean(pool.result(OURS), level)
        ratios[pool.pool] = round(limit / reaching[best], 3)
        spends_row = f"{limit:8.2f}{reaching[best]:8.2f}{ours:8.2f}"
        print(f"{pool.pool:36}{best:28}{spends_row}{ratios[pool.pool]:15.3f}")
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--target", choices=("whole", "disjoint"), default="whole")
    parser.add_argument("--level", type=float, default=0.99)
    parser.add_argument("--datasets", nargs="+", default=CLOSED + OPEN)
    args = parser.parse_args()
    print(__doc__)
    pools = [
        pool for pool in read_pools(recorded(args.pools), skip_bad=True) if pool.name.partition(".")[0] in args.datasets
    ]
    if not pools:
        print(json.dumps({"benchmark": "zone", "skipped": "no recorded pools"}))
        return
    policies = [OURS, "okg", *RIVALS, *ZONE_RIVALS]
    limit = args.target == "whole"
    results = replay_evenly(pools, policies, args.repetitions, reference=args.target, tolerance=ZONE, attainable=limit)
    by_zone = [result.by_zone() for result in results]
    figures: dict[str, object] = {
        "published": against(by_zone, RIVALS, args.level, "rivals as published"),
        "aware": against(by_zone, [*RIVALS, *ZONE_RIVALS], args.level, "rivals made aware of the zone"),
        "published_unranked": against(by_zone, UNRANKED_RIVALS, args.level, "rivals as published, without dsc"),
        "aware_unranked": against(by_zone, [*UNRANKED_RIVALS, *ZONE_RIVALS], args.level, "aware rivals, without dsc"),
        "asc": against(by_zone, ["asc"], args.level, "asc alone, as published"),
        "okg": against(by_zone, ["okg"], args.level, "okg without a zone"),
        "limit_over_best": limit_over_best(by_zone, RIVALS, args.level),
        "null": asdict(average_ratio(against_itself(by_zone, OURS, args.level))),
    }
    print(f"\n{'accuracy':36}{'at the level':>14}{'full vote':>12}")
    for pool in by_zone:
        if pool.vote_accuracy is not None:
            at_level, full = accuracy_at(pool, args.level)
            print(f"{pool.pool:36}{at_level:14.4f}{full:12.4f}")
    print(json.dumps({"benchmark": "zone", "target": args.target, "repetitions": args.repetitions, **figures}))


if __name__ == "__main__":
    main()
