"""How far each policy is from the attainable limit, on recorded pools of two or three answers a question.

    python -m benchmarks.limit [POOLS] [--repetitions 10]

The limit is the Bayes-optimal stopping frontier under the pool's own mix of questions (`pets.replay.limit`): the fewest
mean traces a question at which any rule that sees votes alone can expect the level. Beside it the traces at which each
policy's mean curve reaches it, and their ratio (1 is the limit; whole-pool target). A replay is a sample: ``error`` is
the standard error of a policy's mean self-consistency where it reaches the level. Pools with more answers, or with
traces that have none, are left out. Without recorded pools it says so and measures nothing.
"""

import argparse
import json

import numpy as np

from benchmarks._pools import recorded
from pets.errors import InputError
from pets.pools import Pool, read_pools
from pets.replay import PoolResult, ReplayConfig, Result, mean_curve, read_answers, replay, traces_at_mean
from pets.replay.draws import size_of
from pets.replay.limit import Frontier, optimal_frontier, vote_counts

POLICIES = ["uniform", "okg", "okg:prior=1", "asc"]
LEVELS = (0.95, 0.99)
ANSWERS = 3


def frontier_of(pool: Pool, protocol: ReplayConfig) -> Frontier | None:
    """The pool's limit, ``None`` where it has none."""
    if any(None in question.answers for question in pool.questions):
        return None
    read = read_answers(pool)
    if any(len(set(question.labels)) > ANSWERS for question in read.questions):
        return None
    try:
        return optimal_frontier(vote_counts(read), size_of(read, protocol))
    except InputError as why:
        print(why)
        return None


def error_at(result: Result, traces: float) -> float:
    """The standard error of the mean self-consistency at the point nearest to these traces."""
    point = int(np.abs(mean_curve(result)[0] - traces).argmin())
    return float(result.consistency[:, point].std(ddof=1) / np.sqrt(result.repetitions))


def compared(found: PoolResult, limit: Frontier) -> dict[str, dict[str, object]]:
    """For each level the limit's traces, each policy's, and how many times the limit's they are."""
    figures: dict[str, dict[str, object]] = {}
    for level in LEVELS:
        least = limit.traces_at(level)
        row: dict[str, object] = {"limit": round(least, 2)}
        print(f"{found.pool:28} {level:4}  limit {least:6.2f}", end="")
        for policy in POLICIES:
            result = found.result(policy)
            traces = traces_at_mean(result, level)
            row[policy] = {"traces": round(traces, 2), "ratio": round(traces / least, 3)}
            print(f"  {policy} {traces:6.2f} = {traces / least:5.3f} x (error {error_at(result, traces):.4f})", end="")
        print()
        figures[f"{level:g}"] = row
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=10)
    args = parser.parse_args()
    print(__doc__)
    files = recorded(args.pools)
    if not files:
        print(json.dumps({"benchmark": "limit", "skipped": "no recorded pools"}))
        return
    protocol = ReplayConfig(repetitions=args.repetitions)
    pools = read_pools(files, skip_bad=True)
    limits = {pool.name: limit for pool in pools if (limit := frontier_of(pool, protocol)) is not None}
    print(
        f"{len(limits)} of {len(pools)} pools have at most {ANSWERS} answers a question and an answer in every trace."
    )
    results = replay([pool for pool in pools if pool.name in limits], POLICIES, config=protocol) if limits else []
    figures = {found.pool: compared(found, limits[found.pool]) for found in results}
    print(json.dumps({"benchmark": "limit", "repetitions": args.repetitions, "pools": figures}))


if __name__ == "__main__":
    main()
