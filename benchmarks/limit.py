"""How far each policy is from the attainable limit, on recorded pools of up to four answers per question.

    python -m benchmarks.limit [POOLS] [--repetitions 10]

The limit is the Bayes-optimal stopping frontier under the pool's own mix of questions (`pets.lab.limit`): the fewest
mean traces per question at which any rule that sees votes alone can expect the level. Beside it the traces at which
each policy's isotonic mean curve reaches it, and their ratio (1 is the limit; whole-pool target); the same for
zone-consistency, with a zone of 0.1. A replay is a sample: ``error`` is the standard error over draws of a policy's
mean self-consistency where it reaches the level. Without recorded pools it says so and measures nothing.
"""

import argparse
import json
from time import perf_counter

import numpy as np

from benchmarks._pools import recorded
from pets.lab import PoolResult, ReplayConfig, Result, mean_curve, read_answers, replay, traces_at_mean
from pets.lab.limit import Frontier, attainable
from pets.pools import read_pools

POLICIES = ["uniform", "okg", "okg:lengths=false", "okg:prior=1", "okg:zone=0.1", "asc", "asc:zone=0.1", "boinf"]
LEVELS = (0.95, 0.99)
ZONE = 0.1


def error_at(result: Result, traces: float) -> float:
    """The standard error of the mean self-consistency at the point nearest to these traces."""
    point = int(np.abs(mean_curve(result)[0] - traces).argmin())
    return float(result.consistency[:, point].std(ddof=1) / np.sqrt(result.repetitions))


def compared(pool: PoolResult, limit: Frontier, name: str) -> dict[str, dict[str, object]]:
    """For each level the limit's traces, each policy's, and how many times the limit's they are."""
    figures: dict[str, dict[str, object]] = {}
    for level in LEVELS:
        least = limit.traces_at(level)
        row: dict[str, object] = {"limit": round(least, 2)}
        print(f"{pool.pool:34} {name} {level:4}  limit {least:6.2f}")
        for policy in POLICIES:
            result = pool.result(policy)
            traces = traces_at_mean(result, level)
            row[policy] = {"traces": round(traces, 2), "ratio": round(traces / least, 3)}
            print(f"  {policy:20} {traces:6.2f} = {traces / least:5.3f} x (error {error_at(result, traces):.4f})")
        figures[f"{level:g}"] = row
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=10)
    args = parser.parse_args()
    print(__doc__)
    config = ReplayConfig(repetitions=args.repetitions, tolerance=ZONE, attainable=True)
    figures: dict[str, object] = {}
    for pool in read_pools(recorded(args.pools), skip_bad=True):
        start = perf_counter()
        limit, why = attainable(read_answers(pool), config)
        if limit is None:
            print(f"{pool.name}: no limit, {why}.")
            continue
        print(f"{pool.name}: the frontier took {perf_counter() - start:.1f} s")
        (result,) = replay([pool], POLICIES, config=config)
        assert result.zone_limit is not None
        figures[pool.name] = {
            "self": compared(result, limit, "self-consistency"),
            "zone": compared(result.by_zone(), result.zone_limit, "zone-consistency"),
        }
    print(json.dumps({"benchmark": "limit", "repetitions": args.repetitions, "pools": figures}))


if __name__ == "__main__":
    main()
