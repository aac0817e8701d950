"""Are certificates calibrated, the zone's too? Recorded pools and the starter, okg and uniform at 4, 8 and 16 traces.

    python -m benchmarks.certificates [POOLS] [--repetitions 30] [--horizon pool|infinity] [--zone 0.1]

Each question's certificate, under the prior that the batch itself taught, against what the pool says. At the pool's
horizon: is the leader the vote of all traces drawn (with a zone: does no answer lead it by more)? At infinity:
certificates for infinitely many traces, drawn from one half of a question's traces, against the vote of the other half.
``null`` and ``by question`` are errors that a calibrated forecaster of the same size stays under 95 times in 100, with
a coin for each certificate and with one for each question. Without recorded pools it measures the starter alone.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks._pools import recorded
from pets.lab import ReplayConfig, replay
from pets.lab.calibration import CERTIFIED_AT, Calibration, Certified, calibrate
from pets.pools import Pool, pool_files, read_pools

DATASETS = ("gpqa", "math500", "aime24", "exams100", "starter")
HEAD = f"{'':34}{'n':>8}" + "".join(
    f"{name:>12}" for name in ("mean", "right", "error", "null", "by question", "Brier", "constant", "share")
)
LARGEST_ERROR, LARGEST_BIAS = 0.03, 0.02  # what is asked of every data set


def certify(pool: Pool, config: ReplayConfig) -> list[Certified]:
    """Certificates of okg and uniform at each mean budget, all repetitions of one pool; plain ones and the zone's."""
    config = replace(config, certified=CERTIFIED_AT, min_traces=1)
    (replayed,) = replay([pool], ["okg", "uniform"], config=config)
    return [certified for result in replayed.results for certified in result.certified]


def line(name: str, found: Calibration) -> str:
    scores = (found.certificate, found.right, found.error, found.null, found.null_questions)
    briers = (found.brier, found.brier_constant, found.brier_share)
    return f"{name:34}{found.count:8}" + "".join(f"{score:12.4f}" for score in scores + briers)


def meets(found: Calibration) -> bool:
    """Whether the error is at most 0.03 or what a calibrated forecaster may have, and the mean within 0.02."""
    bias = abs(found.certificate - found.right)
    return found.error <= max(LARGEST_ERROR, found.null) and bias <= LARGEST_BIAS


def diagram(found: Calibration) -> str:
    rows = [f"  {'certificates':14}{'count':>9}{'mean':>8}{'right':>8}"]
    for part in found.bins:
        means = "" if part.certificate is None or part.right is None else f"{part.certificate:8.3f}{part.right:8.3f}"
        rows.append(f"  {part.low:.1f} to {part.high:.1f}    {part.count:9}{means}")
    return "\n".join(rows)


def report(dataset: str, certified: Sequence[Certified]) -> dict[str, object]:
    """Print one data set's plain and zone certificates; all together, by policy and budget, and by pool."""
    figures: dict[str, object] = {}
    for zone in dict.fromkeys(part.zone for part in certified):
        parts = [part for part in certified if part.zone == zone]
        name = f"{dataset}, zone {zone:g}" if zone else dataset
        together = calibrate(parts)
        print(HEAD, line(name, together), sep="\n")
        for policy, budget in dict.fromkeys((part.policy, part.budget) for part in parts):
            of = [part for part in parts if (part.policy, part.budget) == (policy, budget)]
            print(line(f"  {policy} at {budget:g}", calibrate(of)))
        for pool in dict.fromkeys(part.pool for part in parts):
            print(line(f"  {pool}"[:34], calibrate([part for part in parts if part.pool == pool])))
        print(diagram(together), end="\n\n")
        figures[f"zone {zone:g}" if zone else "plain"] = asdict(together) | {"meets": meets(together)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--horizon", choices=("pool", "infinity"), default="pool")
    parser.add_argument("--zone", type=float, default=0.1)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    args = parser.parse_args()
    print(__doc__)
    config = ReplayConfig(
        args.repetitions, reference="whole" if args.horizon == "pool" else "disjoint", tolerance=args.zone
    )
    certified: dict[str, list[Certified]] = {}
    for pool in read_pools([*recorded(args.pools), *pool_files(["starter"])], skip_bad=True):
        dataset = pool.name.partition(".")[0]
        if dataset in args.datasets:
            certified.setdefault(dataset, []).extend(certify(pool, config))
    figures = {dataset: report(dataset, parts) for dataset, parts in certified.items()}
    setting = {"repetitions": args.repetitions, "horizon": args.horizon, "zone": args.zone}
    print(json.dumps({"benchmark": "certificates", **setting, "datasets": figures}))


if __name__ == "__main__":
    main()
