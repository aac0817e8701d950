"""What trace confidence is worth on the shipped pool: does it tell right from wrong, does it make a better vote?

``python -m benchmarks.confidence [--pool PATH]``. Within each question, AUROC of every kind of confidence for correct
against wrong traces (0.5: worthless); and the accuracy of the majority, of votes weighted by it, and of weighted votes
of the surest 70 %, over n traces drawn at random, 30 times, with paired intervals (over draws). Then the policies that
look at confidences, each scored on its own verdict, by the replay lab (``--repetitions``): okg_weighted by its terminal
rule and by the vote that stands in for it, and DeepConf (conf_guided) at each ``keep``, with each kind of confidence.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata

from pets.answers.text import Text
from pets.confidence import KINDS, Kind
from pets.core.tally import majority, top_p, weighted_majority
from pets.lab import PoolResult, replay
from pets.pools import Pool, PooledQuestion, pool_files, read_pool

REPETITIONS, SIZES = 30, (4, 8, 16, 32, 64)
BUDGETS = (4, 8, 16, 24)
POLICIES = ["okg_weighted", "okg_weighted:verdict=vote", "okg", "uniform"]
POLICIES += [f"conf_guided:keep={keep}" for keep in (10, 30, 50, 70, 90)]
Array = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", default="starter")
    parser.add_argument("--repetitions", type=int, default=5)
    args = parser.parse_args()
    pool = read_pool(pool_files([args.pool])[0])
    console = Console(width=110)
    console.print(
        f"{pool.name}: {len(pool.questions)} questions; AUROC within a question, correct against wrong traces"
    )
    console.print(auroc_table(pool))
    console.print(
        f"Accuracy of the vote of n traces, mean of {REPETITIONS} draws; difference to majority in points ± 95 %"
    )
    console.print(vote_table(pool))
    console.print(
        f"Own verdicts against the weighted vote of all traces (self-consistency) and gold; {args.repetitions} draws"
    )
    for kind in (kind for kind in ("tail", "lowest") if kind in pool.questions[0].confidences):
        (result,) = replay([pool], POLICIES, repetitions=args.repetitions, weighted=True, confidence=kind)
        console.print(budget_table(result, kind), stop_table(result, kind))


def budget_table(pool: PoolResult, kind: str) -> Table:
    """Self-consistency / accuracy of the offline policies at mean budgets."""
    table = Table("policy", *(f"{budget} traces" for budget in BUDGETS), title=f"{kind} confidence")
    for result in pool.results:
        if result.option is None:
            points = [budget * result.questions for budget in BUDGETS]
            consistency, accuracy = result.consistency.mean(axis=0), result.accuracy.mean(axis=0)
            table.add_row(result.policy, *(f"{consistency[point]:.3f} / {accuracy[point]:.3f}" for point in points))
    return table


def stop_table(pool: PoolResult, kind: str) -> Table:
    """Where DeepConf stops, and what its verdict is worth then."""
    table = Table("policy", "consensus", "traces", "self-consistency", "accuracy", title=f"{kind} confidence")
    for result in pool.results:
        for point, value in enumerate(result.values):
            means = (values[:, point].mean() for values in (result.traces, result.consistency, result.accuracy))
            traces, consistency, accuracy = means
            table.add_row(result.policy, f"{value:g}", f"{traces:.1f}", f"{consistency:.3f}", f"{accuracy:.3f}")
    return table


def gold_of(question: PooledQuestion) -> str | None:
    return None if question.gold is None else Text().canonical(question.gold)


def auroc_table(pool: Pool) -> Table:
    table = Table("kind", "AUROC, mean over questions", "95 % interval", "questions")
    for kind in KINDS:
        areas = np.array([value for question in pool.questions if (value := auroc(question, kind)) is not None])
        reach = 1.96 * areas.std(ddof=1) / np.sqrt(len(areas))
        table.add_row(
            kind, f"{areas.mean():.3f}", f"{areas.mean() - reach:.3f} to {areas.mean() + reach:.3f}", str(len(areas))
        )
    return table


def auroc(question: PooledQuestion, kind: Kind) -> float | None:
    """P(a correct trace is surer than a wrong one), ties half; None where all are of one sort."""
    gold, values = gold_of(question), question.confidences[kind]
    voted = [
        (answer == gold, value) for answer, value in zip(question.answers, values, strict=True) if answer and value
    ]
    right = np.array([good for good, _ in voted])
    if not right.any() or right.all():
        return None
    ranks = rankdata([value for _, value in voted])
    good, bad = int(right.sum()), int((~right).sum())
    return float((ranks[right].sum() - good * (good + 1) / 2) / (good * bad))


def vote_table(pool: Pool) -> Table:
    table = Table("n", "majority", *(f"{kind}{form}" for kind in KINDS for form in ("", ", top 70 %")))
    rng = np.random.default_rng(0)
    for size in SIZES:
        plain = np.zeros(REPETITIONS)
        weighted = {(kind, top): np.zeros(REPETITIONS) for kind in KINDS for top in (False, True)}
        for at in range(REPETITIONS):
            for question in pool.questions:
                drawn = rng.permutation(len(question.answers))[:size]
                answers, gold = [question.answers[i] for i in drawn], gold_of(question)
                plain[at] += majority(answers) == gold
                for (kind, top), right in weighted.items():
                    weights = [question.confidences[kind][i] or 0.0 for i in drawn]
                    right[at] += weighted_vote(answers, weights, top) == gold
        many = len(pool.questions)
        cells = [difference(right / many, plain / many) for right in weighted.values()]
        table.add_row(str(size), f"{plain.mean() / many:.3f}", *cells)
    return table


def weighted_vote(answers: Sequence[str | None], weights: Sequence[float], top: bool) -> str | None:
    if not any(answers):
        return None
    return weighted_majority(answers, top_p(answers, weights) if top else weights)


def difference(first: Array, second: Array) -> str:
    gap = 100 * (first - second)
    return f"{gap.mean():+.1f} ± {1.96 * gap.std(ddof=1) / np.sqrt(len(gap)):.1f}"


if __name__ == "__main__":
    main()
