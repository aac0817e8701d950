"""Several models in one vote against the single model, each chosen on one half of the questions, scored on the other.

    python -m benchmarks.mixture [POOLS] [--datasets gpqa ...] [--without MODEL ...] [--repetitions 30] [--certificates]

The recorded pools of each data set that several models answered. Candidates are every model alone, every two and three
of them with equal weights, two with 2 to 1, and all. At 1 to 64 traces per question: the accuracy of the vote and what
it costs in tokens; the difference with its 95 % interval over questions (300 resamples, each of which chooses anew).
Each model alone stands beside them, in hindsight, and so do all pairs, by how far apart their models are. With
--certificates: are certificates calibrated on mixtures, whose traces come by turns? As ``benchmarks.certificates``: okg
and uniform at 4, 8 and 16 traces, against the vote of all 64 (by turns too), with the error that a calibrated
forecaster stays under 95 times in 100.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations, pairwise
from typing import Any

from benchmarks._pools import recorded
from benchmarks.certificates import HEAD, certify, line, meets
from pets.lab import ReplayConfig
from pets.lab.calibration import Certified, calibrate
from pets.lab.mixture import SIZES, ChosenModels, MixtureLab, choose_and_score, mixture_lab
from pets.pools import Pool, mix_pools, read_pools

GAPS = (0.02, 0.05, 0.1)  # of accuracy, between the models of a pair
MOST_CERTIFIED = 3  # mixtures per data set whose certificates are checked


def report(lab: MixtureLab) -> dict[str, Any]:
    """Print one data set: the models alone, and what was chosen at each number of traces."""
    print(f"\n{lab.name[:100]}: {lab.questions} questions, {len(lab.candidates)} candidates")
    print(f"{'accuracy of the vote':44}" + "".join(f"{size:>8}" for size in lab.sizes))
    for candidate in lab.candidates:
        if candidate.is_single:
            print(f"{candidate.name[:43]:44}" + "".join(f"{x:8.3f}" for x in candidate.correct.mean(axis=0)))
    heads = [("single", 8), ("mixture", 9), ("either", 8), ("difference", 12), ("95 % interval", 20)]
    heads += [("tokens, single", 16), ("mixture", 10)]
    print(f"{'chosen on one half, scored on the other':44}" + "".join(f"{name:>{width}}" for name, width in heads))
    choices = [choose_and_score(lab, size) for size in lab.sizes]
    for choice in choices:
        print(words(choice))
    return {"questions": lab.questions, "choices": [asdict(choice) for choice in choices], "pairs": pairs(lab)}


def pairs(lab: MixtureLab) -> list[tuple[float, float, float]]:
    """For every pair with equal weights, at the most traces: how far apart its models are in accuracy, and what the
    pair has more than their mean and than the better of them."""
    singles = (candidate for candidate in lab.candidates if candidate.is_single)
    alone = {candidate.models[0]: float(candidate.correct[:, -1].mean()) for candidate in singles}
    rows = []
    for candidate in lab.candidates:
        if len(candidate.models) == 2 and len(set(candidate.weights)) == 1:
            worse, better = sorted(alone[model] for model in candidate.models)
            accuracy = float(candidate.correct[:, -1].mean())
            rows.append((better - worse, accuracy - (better + worse) / 2, accuracy - better))
    return rows


def print_pairs(rows: Sequence[tuple[float, float, float]]) -> None:
    """All pairs of all data sets, by the gap between their models."""
    print("\npairs with equal weights, full votes, by the gap between the two models' accuracies")
    print(f"{'gap':>16}{'pairs':>8}{'over their mean':>18}{'over the better':>18}{'better than both':>18}")
    for low, high in pairwise((0.0, *GAPS, 1.0)):
        group = [row for row in rows if low <= row[0] < high]
        if group:
            over_mean, over_better = (sum(row[at] for row in group) / len(group) for at in (1, 2))
            wins = sum(row[2] > 0 for row in group)
            print(f"{low:7.2f} to {high:5.2f}{len(group):8}{over_mean:+18.3f}{over_better:+18.3f}{wins:18}")


def words(choice: ChosenModels) -> str:
    accuracies = f"{choice.single:8.3f}{choice.mixture:9.3f}{choice.either:8.3f}{choice.difference:+12.3f}"
    interval = f"{choice.low:+.3f} to {choice.high:+.3f}"
    tokens = [(choice.single_tokens, 16), (choice.mixture_tokens, 10)]
    spent = "".join(f"{number:{width},.0f}" for number, width in tokens if number is not None)
    head = f"  {choice.size} traces; most often {choice.favourite}"
    return f"{head[:43]:44}{accuracies}{interval:>20}{spent}"


def certificates(dataset: str, pools: Sequence[Pool], repetitions: int) -> dict[str, Any]:
    """Print the calibration of certificates on mixtures beside that of their models alone."""
    config = ReplayConfig(repetitions, tolerance=0.0)
    mixed = [mix_pools(pair) for pair in list(combinations(pools, 2))[:MOST_CERTIFIED]]
    mixed += [mix_pools(pools[:2], (2, 1))]
    figures: dict[str, Any] = {}
    print(HEAD)
    for name, group in (("models alone", pools), ("mixtures", mixed)):
        certified: list[Certified] = []
        for pool in group:
            own = certify(pool, config)
            certified += own
            print(line(f"  {pool.name}"[:34], own))
        together = calibrate(certified)
        print(line(f"{dataset}, {name}", certified))
        figures[name] = asdict(together) | {"meets": meets(together), "bins": None}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--without", nargs="+", default=[], help="models to leave out, by their pools' names")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--certificates", action="store_true")
    args = parser.parse_args()
    print(__doc__)
    by_dataset: dict[str, list[Pool]] = {}
    for pool in read_pools(recorded(args.pools), skip_bad=True):
        dataset, _, model = pool.name.partition(".")
        if model not in args.without:
            by_dataset.setdefault(dataset, []).append(pool)
    figures: dict[str, dict[str, Any]] = {}
    for dataset, pools in by_dataset.items():
        if len(pools) < 2 or (args.datasets and dataset not in args.datasets):
            continue
        if args.certificates:
            figures[dataset] = certificates(dataset, pools, args.repetitions)
        else:
            figures[dataset] = report(mixture_lab(pools, sizes=SIZES, repetitions=args.repetitions))
    if not args.certificates:
        print_pairs([row for figure in figures.values() for row in figure["pairs"]])
    if not figures:
        print("No data set has pools of several models; name a folder that holds some.")
    what = "mixture certificates" if args.certificates else "mixture"
    print(json.dumps({"benchmark": what, "repetitions": args.repetitions, "datasets": figures}))


if __name__ == "__main__":
    main()
