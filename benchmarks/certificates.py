"""Are certificates calibrated, the zone's too? Recorded pools and the starter, okg and uniform at 4, 8 and 16 traces.

    python -m benchmarks.certificates [POOLS] [--repetitions 30] [--horizon pool|infinity|replacement] [--zone 0.1]

Each question's certificate, under the prior that the others of its batch taught, against what the pool says. At the
pool's horizon: is the leader the vote of all traces drawn (with a zone: does no answer lead it by more)? At infinity:
certificates for infinitely many traces, drawn from one half of a question's traces, against the vote of the other half.
With replacement: the same certificates, traces drawn with replacement, so that the pool's vote is the one of infinitely
many; then also for batches of one question, ALONE of each pool, by uniform at 2, 3 and 4. First of all: how often three
traces of a question agree, and how often that is the vote of all (exact; with no repetitions that alone).
``null`` and ``by question`` are errors that a calibrated forecaster of the same size stays under 95 times in 100, with
a coin for each certificate and with one for each question; ``+-`` is the 95 % interval of mean - right over questions.
Without recorded pools it measures the starter alone.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from benchmarks._pools import recorded
from benchmarks.forecast import okg_run
from pets.core.certificate import certificate
from pets.core.prior import BatchFit
from pets.core.tally import Tally, count_votes, majority
from pets.lab import ReplayConfig, read_answers, replay
from pets.lab.calibration import CERTIFIED_AT, Calibration, Certified, calibrate
from pets.lab.draws import Floats
from pets.lab.labelled import LabelledPool
from pets.pools import Pool, pool_files, read_pools

DATASETS = ("gpqa", "math500", "aime24", "exams100", "starter")
HEAD = f"{'':34}{'n':>8}" + "".join(
    f"{name:>12}" for name in ("mean", "right", "+-", "error", "null", "by question", "Brier", "constant", "share")
)
ALONE, ALONE_AT = 40, (2, 3, 4)  # questions of a pool that are certified alone, and their traces
LARGEST_ERROR, LARGEST_BIAS = 0.03, 0.02  # what is asked of every data set


def certify(pool: Pool, config: ReplayConfig) -> list[Certified]:
    """Certificates of okg and uniform at each mean budget, all repetitions of one pool; plain ones and the zone's."""
    config = replace(config, certified=CERTIFIED_AT, min_traces=1)
    (replayed,) = replay([pool], ["okg", "uniform"], config=config)
    return [certified for result in replayed.results for certified in result.certified]


def certify_resampled(pool: Pool, config: ReplayConfig) -> list[Certified]:
    """The same, for infinitely many traces, of traces drawn with replacement; no zone. Uniform alone, too."""
    read = read_answers(pool)
    moments: dict[tuple[str, int], list[Floats]] = {}
    for repetition in range(config.repetitions):
        rng = np.random.default_rng(config.seeds(pool.name, repetition))
        _, seen = okg_run(read, rng, [int(budget) for budget in CERTIFIED_AT], most=int(CERTIFIED_AT[-1]))
        batches = {("okg", budget): batch for budget, batch in seen.items()}
        batches |= {("uniform", n): uniform_batch(read, n, rng) for n in (2, *map(int, CERTIFIED_AT))}
        for key, batch in batches.items():
            moments.setdefault(key, []).append(certificates_of(batch))
        for n in ALONE_AT:
            batch = uniform_batch(read, n, rng)[:ALONE]
            alone = [certificates_of([question]) for question in batch]
            moments.setdefault(("uniform alone", n), []).append(np.concatenate(alone, axis=1))
    return [
        Certified(pool.name, policy, budget, c, share, right > 0.0)
        for (policy, budget), found in moments.items()
        for c, share, right in found
    ]


def uniform_batch(pool: LabelledPool, n: int, rng: np.random.Generator) -> list[tuple[Tally, bool]]:
    """The tally of n traces of each question, drawn with replacement, and whether their vote is the pool's."""
    batch = []
    for question in pool.questions:
        places = rng.integers(len(question.labels), size=n).tolist()
        labels = [question.labels[place] for place in places]
        counts, nulls = count_votes(labels)
        tokens = float(np.mean([question.tokens[place] for place in places])) if question.tokens else 0.0
        right = bool(counts) and majority(labels) == majority(question.labels)
        batch.append((Tally(counts, nulls, options=pool.options, mean_tokens=tokens), right))
    return batch


def certificates_of(batch: Sequence[tuple[Tally, bool]]) -> Floats:
    """Certificate, leader's share, right or not, of every question, (3, N)."""
    fit = BatchFit(Counter(tally for tally, _ in batch))
    rows = [
        (certificate(tally, fit.without(tally)), tally.counts[0] / tally.votes if tally.counts else 0.0, right)
        for tally, right in batch
    ]
    return np.array(rows, dtype=np.float64).T


def unanimous(pools: Sequence[Pool], n: int = 3) -> tuple[float, float, float]:
    """How often n traces of a question agree, how often that is the vote of all, and what is said of it; exact."""
    agree, right, questions = 0.0, 0.0, 0
    for read in map(read_answers, pools):
        questions += len(read.questions)
        for counts in (count_votes(question.labels)[0] for question in read.questions):
            chances = [(count / sum(counts)) ** n for count in counts]
            agree, right = agree + sum(chances), right + sum(chances[:1])
        tally = Tally((n,), options=read.options)
    return agree / questions, right / agree, certificate(tally, BatchFit({tally: 1}).without(tally))


def reach(parts: Sequence[Certified]) -> float:
    """Half of the 95 % interval of mean - right, questions being independent and the draws of one not."""
    gaps: dict[tuple[str, int], float] = {}
    for part in parts:
        for place, gap in enumerate((part.certificate - part.right).tolist()):
            gaps[part.pool, place] = gaps.get((part.pool, place), 0.0) + gap
    bias = sum(gaps.values()) / len(gaps)
    deviation = float(np.sqrt(sum((gap - bias) ** 2 for gap in gaps.values())))
    return 1.96 * deviation / sum(part.certificate.size for part in parts)


def line(name: str, parts: Sequence[Certified]) -> str:
    found = calibrate(parts)
    scores = (found.certificate, found.right, reach(parts), found.error, found.null, found.null_questions)
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
    groups = dict.fromkeys((part.zone, part.policy.endswith("alone")) for part in certified)
    for zone, alone in groups:
        parts = [part for part in certified if (part.zone, part.policy.endswith("alone")) == (zone, alone)]
        kind = f"zone {zone:g}" if zone else "alone" if alone else "plain"
        name = dataset if kind == "plain" else f"{dataset}, {kind}"
        together = calibrate(parts)
        print(HEAD, line(name, parts), sep="\n")
        for policy, budget in dict.fromkeys((part.policy, part.budget) for part in parts):
            of = [part for part in parts if (part.policy, part.budget) == (policy, budget)]
            print(line(f"  {policy} at {budget:g}", of))
        for pool in dict.fromkeys(part.pool for part in parts):
            print(line(f"  {pool}"[:34], [part for part in parts if part.pool == pool]))
        print(diagram(together), end="\n\n")
        scores = asdict(together) | {"reach": reach(parts), "meets": meets(together)}
        figures[kind] = scores
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--horizon", choices=("pool", "infinity", "replacement"), default="pool")
    parser.add_argument("--zone", type=float, default=0.1)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    args = parser.parse_args()
    print(__doc__)
    config = ReplayConfig(
        max(1, args.repetitions), reference="whole" if args.horizon == "pool" else "disjoint", tolerance=args.zone
    )
    measure = certify_resampled if args.horizon == "replacement" else certify
    certified: dict[str, list[Certified]] = {}
    sets: dict[str, list[Pool]] = {}
    for pool in read_pools([*recorded(args.pools), *pool_files(["starter"])], skip_bad=True):
        dataset = pool.name.partition(".")[0]
        if dataset in args.datasets:
            sets.setdefault(dataset, []).append(pool)
            certified.setdefault(dataset, []).extend(measure(pool, config) if args.repetitions else ())
    for dataset, pools in sets.items():
        agree, right, alone = unanimous(pools)
        print(f"{dataset:20} three traces agree {agree:.3f}, then it is the vote of all {right:.4f}; alone {alone:.4f}")
    figures = {dataset: report(dataset, parts) for dataset, parts in certified.items() if parts}
    setting = {"repetitions": args.repetitions, "horizon": args.horizon, "zone": args.zone}
    print(json.dumps({"benchmark": "certificates", **setting, "datasets": figures}))


if __name__ == "__main__":
    main()
