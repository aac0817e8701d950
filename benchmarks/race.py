"""Racing on a clock of tokens: one at a time, hurry 0 to 2, and 32 at once, on recorded pools with lengths.

    python -m benchmarks.race POOLS [--repetitions 20]       the table of every data set, as JSON on stdout
    python -m benchmarks.race POOLS --choose                 the thresholds that reach the aims there: THRESHOLDS below
    python -m benchmarks.race POOLS --price                  price with hurry against price:rounds=3, equal consistency
    python -m benchmarks.race POOLS --certificates           certificates of raced votes, stated less happened;
                                                             and who agrees with the vote, by quarter of length

A path is 64 traces of a question in random order, failed requests (0 tokens) left out. The rule is asc with a cap of
64; its thresholds are constants, chosen by --choose on the pools that PETS is developed on, never on POOLS. Consistency
is agreement with the vote of the path, ties to the first launched; tokens and time are in the question's own mean
trace, a cancelled trace counts what it has written. A row pools the races of all models of a data set. Tables with
standard errors (over questions, clustered) are on stderr, and so is which pools have no lengths.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks._pools import recorded
from pets.core.certificate import certificate
from pets.core.dirichlet import p_leader
from pets.core.policy import QuotaPolicy, View
from pets.core.prior import fit_prior
from pets.core.queues.walk import States, Walk
from pets.core.tally import Tally, count_votes, majority
from pets.engine.question import raced_certificate
from pets.lab import PoolResult, ReplayConfig, read_answers, replay
from pets.lab.clock import Finish, RacePace, by_state, by_tally, paced, race, race_alone, timed
from pets.lab.contenders import split
from pets.lab.draws import Draw, draw_traces, without_short
from pets.lab.results import Allocation, Timing
from pets.policies.asc import ASC
from pets.pools import Pool, read_pools
from pets.registry import policies
from pets.types import Trace

Floats = NDArray[np.float64]

SIZE = 64
AIMS = (0.95, 0.99)
THRESHOLDS = {"choice": (0.876, 0.941), "number": (0.751, 0.887), "math": (0.751, 0.751)}
"""asc's thresholds for AIMS by answer type: of GPQA, AIME 2024 and MATH500, by --choose --repetitions 30."""
KINDS = {"gpqa": "choice", "aime": "number", "math": "math"}  # where a folder has no manifest
RULES = {
    "sequential": "asc:threshold={t},places=1",
    **{f"hurry {h:g}": f"asc:threshold={{t}},hurry={h:g}" for h in (0.0, 0.5, 1.0, 2.0)},
    "all 32": "all:32",
    "all 32 cancel": "its_beta:threshold={t},launches=32",
}
PRICED = ("price:rounds=3", *(f"price:warmup=2,hurry={h:g}" for h in (0.0, 0.25, 0.5, 1.0)))
PRICE_LEVELS = {"gpqa": (0.95, 0.97, 0.99), "aime24": (0.95, 0.97, 0.99), "math500": (0.99, 0.995)}
WHOLE = RacePace(batch=1.0)  # of a rule with a limit of rounds
PRICE_BUDGETS = (4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0)
HURRIES = (0.0, 0.25, 0.5, 1.0, 2.0)


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def with_lengths(pools: Sequence[Pool]) -> dict[str, list[Pool]]:
    """The pools by data set; those without lengths are left out, and it is said."""
    datasets: dict[str, list[Pool]] = {}
    for pool in pools:
        if any(question.tokens is None for question in pool.questions):
            say(f'{pool.name}: left out, it has no lengths ("tokens").')
        else:
            datasets.setdefault(pool.name.partition(".")[0], []).append(pool)
    return datasets


def threshold_of(pool: Pool, dataset: str, aim: float) -> float:
    """The constant for this kind of answers; that of choices, the most careful one, where the kind is another."""
    by_name = next((kind for prefix, kind in KINDS.items() if dataset.startswith(prefix)), "")
    kind = by_name or (pool.kind or "").partition(":")[0]
    return THRESHOLDS.get(kind, THRESHOLDS["choice"])[AIMS.index(aim)]


def config_of(pools: Sequence[Pool], repetitions: int, **settings: object) -> ReplayConfig:
    """Paths of 64; as long as the shortest question where no question has so many."""
    enough = all(any(len(q.answers) >= SIZE for q in pool.questions) for pool in pools)
    least = SIZE if enough else None
    return ReplayConfig(repetitions, SIZE, tolerance=0.0, min_traces=least, clock=True, **settings)  # type: ignore[arg-type]


class Races:
    """All races of one rule on the pools of a data set, and the question of each."""

    def __init__(self, results: Sequence[PoolResult], policy: str, point: int = 0) -> None:
        parts = [pool.result(policy) for pool in results]
        timings = [(at, run.timing) for at, part in enumerate(parts) for run in part.allocations if run.timing]
        self.tokens, self.time, self.agree, self.cancelled = (
            np.concatenate([getattr(timing, name)[point] for _, timing in timings]).astype(np.float64)
            for name in ("tokens", "time", "agree", "cancelled")
        )
        self.question = np.concatenate([at * 1_000_000 + timing.rows for at, timing in timings])
        self._judged = sum(float(part.judged.sum()) for part in parts)
        self._correct = sum(int(part.correct[:, point].sum()) for part in parts)

    def figures(self) -> dict[str, float | None]:
        return {
            "tokens": round(float(self.tokens.mean()), 4),
            "time": round(float(self.time.mean()), 4),
            "p95_time": round(float(np.percentile(self.time, 95)), 4),
            "consistency": round(float(self.agree.mean()), 5),
            "accuracy": round(self._correct / self._judged, 5) if self._judged else None,
        }


def standard_error(values: Floats, question: NDArray[np.int64]) -> float:
    """Of the mean, over questions: the races of one question are no independent draws."""
    _, at = np.unique(question, return_inverse=True)
    sums, counts = (np.bincount(at, weights) for weights in (values, np.ones_like(values)))
    return float(np.sqrt(((sums - values.mean() * counts) ** 2).sum()) / values.size)


Table = dict[str, dict[str, float | None]]


def tables(pools: Sequence[Pool], dataset: str, repetitions: int) -> dict[str, Table]:
    """Every rule at every aim."""
    thresholds = {aim: threshold_of(pools[0], dataset, aim) for aim in AIMS}
    specs = {aim: {rule: spec.format(t=t) for rule, spec in RULES.items()} for aim, t in thresholds.items()}
    distinct = dict.fromkeys(spec for rules in specs.values() for spec in rules.values())
    results = replay(pools, list(distinct), config=config_of(pools, repetitions))
    for result in results:
        if result.note:
            say(f"{result.pool}: {result.note}.")
    found = {}
    for aim, rules in specs.items():
        races = {rule: Races(results, spec) for rule, spec in rules.items()}
        count = races["sequential"].time.size
        say(f"\n{dataset}, aim {aim}, asc {thresholds[aim]}: {len(pools)} pools, {count:,} races")
        say_table(races)
        alone, free = races["sequential"], races["hurry 0"]
        differ = (np.abs(free.tokens - alone.tokens) > 1e-9) | (free.agree != alone.agree) | (free.cancelled > 0)
        say(f"hurry 0 differs from one at a time in {int(differ.sum())} of {count:,} races")
        found[f"{aim}"] = {rule: made.figures() for rule, made in races.items()}
    return found


def say_table(races: dict[str, Races]) -> None:
    """The figures of every rule, and its points of consistency against one at a time with their standard error."""
    say(f"{'':16}{'tokens':>9}{'time':>9}{'p95':>9}{'consistency':>13}{'points':>9}{'s.e.':>7}{'accuracy':>10}")
    for rule, made in races.items():
        f = made.figures()
        points = 100 * (made.agree - races["sequential"].agree)
        error = standard_error(points, made.question)
        accuracy = "" if f["accuracy"] is None else f"{f['accuracy']:10.4f}"
        say(
            f"{rule:16}{f['tokens']:9.2f}{f['time']:9.3f}{f['p95_time']:9.2f}{f['consistency']:13.4f}"
            f"{points.mean():+9.2f}{error:7.2f}{accuracy}"
        )


def drawn(pools: Sequence[Pool], repetitions: int) -> Iterator[tuple[Draw, Walk]]:
    """Every repetition of every pool, as the replay draws it."""
    for pool in pools:
        config = config_of([pool], repetitions)
        read, states = without_short(timed(read_answers(pool)), config), States()
        for repetition in range(repetitions):
            draw = draw_traces(read, config, repetition)
            yield draw, Walk(draw.traces, read.options, states)


def choose(datasets: dict[str, list[Pool]], repetitions: int) -> dict[str, dict[str, float]]:
    """The smallest threshold that reaches each aim one at a time, among those that make asc another rule.

    One vote alone has 0.75: at a threshold up to that nothing is voted on, and nothing races.
    """
    values = {p_leader((a + 1.0, b + 1.0)) for a in range(1, SIZE) for b in range(min(a, SIZE - a))}
    steps = sorted(t for t in {round(value + 6e-4, 3) for value in values} if 0.75 < t < 1.0)
    chosen: dict[str, dict[str, float]] = {}
    for dataset, pools in datasets.items():
        agreed = np.zeros(len(steps))
        races = 0
        for draw, walk in drawn(pools, repetitions):
            rows = np.arange(len(draw.paths))
            races += rows.size
            agreed += [draw.outcomes.agree[rows, walk.stops(ASC(t, SIZE))].sum() for t in steps]
        consistency = dict(zip(steps, (agreed / races).tolist(), strict=True))
        chosen[dataset] = {f"{aim}": min(t for t in steps if consistency[t] >= aim) for aim in AIMS}
        say(dataset, *(f"{aim}: asc {t} ({consistency[t]:.4f})" for aim, t in chosen[dataset].items()))
    return chosen


def priced(pools: Sequence[Pool], levels: Sequence[float], repetitions: int) -> dict[str, dict[str, dict[str, float]]]:
    """Tokens, time and p95 time of each price rule where its mean curve over prices reaches each level.

    By the paper's split some questions train the rule; the others race at the price of each mean budget, which stays.
    """
    columns: dict[tuple[str, float], list[Timing]] = {}
    for draw, walk in drawn(pools, repetitions):
        parts = split(draw.pool, config_of(pools, repetitions), draw.repetition)
        training, paths, options = parts.training, list(draw.traces.values()), draw.pool.options
        for spec in PRICED:
            choice, pace = paced(spec)
            rule = policies().accept(choice).fit(training)
            assert isinstance(rule, QuotaPolicy)
            for budget in PRICE_BUDGETS:
                view = View(int(1000 * budget), 1000, draw.size)
                fewest = None if rule.rounds else by_state(rule, walk.states, options, view)
                finishes = [
                    race(
                        paths[row],
                        fewest or by_tally(rule, paths[row], walk.states, options, view),
                        pace or WHOLE,
                        walk.states,
                    )
                    for row in parts.arrivals
                ]
                timing = Allocation.of_races([finishes], draw, parts.arrivals).timing
                assert timing is not None
                columns.setdefault((spec, budget), []).append(timing)
    found: dict[str, dict[str, dict[str, float]]] = {f"{level}": {} for level in levels}
    for spec in PRICED:
        curve = np.array([_priced_point(columns[spec, budget]) for budget in PRICE_BUDGETS]).T
        consistency = np.maximum.accumulate(curve[3])
        for level in levels:
            if consistency[0] <= level <= consistency[-1]:
                at = [round(float(np.interp(level, consistency, row)), 3) for row in curve[:3]]
                found[f"{level}"][spec] = dict(zip(("tokens", "time", "p95_time"), at, strict=True))
                say(f"{pools[0].name.partition('.')[0]} {level}  {spec:28}{' / '.join(map(str, at))}")
    return found


def _priced_point(timings: Sequence[Timing]) -> tuple[float, ...]:
    """Mean tokens and time, p95 time and consistency of the races at one price."""
    tokens, time, agree = (
        np.concatenate([getattr(t, name)[0] for t in timings]) for name in ("tokens", "time", "agree")
    )
    return float(tokens.mean()), float(time.mean()), float(np.percentile(time, 95)), float(agree.mean())


def certified(pools: Sequence[Pool], dataset: str, aim: float, repetitions: int) -> dict[str, dict[str, float]]:
    """Certificates at the stop, less what happened, in points: as they are, and with the doubt of a race.

    The prior is learned from the stopped tallies of the same draw; the certificate is for the 64 traces of the path.
    """
    t = threshold_of(pools[0], dataset, aim)
    stated: dict[float, list[tuple[float, float, float, int]]] = {hurry: [] for hurry in HURRIES}
    pool = ""
    for draw, walk in drawn(pools, repetitions):
        pool = draw.pool.name
        for hurry in HURRIES:
            finishes = race_alone(ASC(t, SIZE), draw, RacePace(hurry), walk.states)
            allocation = Allocation.of_races([finishes], draw, list(range(len(draw.paths))))
            agree = allocation.outcomes.agree[:, 0]
            paths = draw.traces.values()
            tallies = [_tally(path, finish, draw.pool.options) for path, finish in zip(paths, finishes, strict=True)]
            prior = fit_prior(Counter(tallies))
            for row, (tally, finish) in enumerate(zip(tallies, finishes, strict=True)):
                plain = certificate(tally, prior, draw.size)
                raced = raced_certificate(plain, len(finish.parts))
                stated[hurry].append((plain, raced, float(agree[row]), hash((pool, row))))
    found = {}
    for hurry, rows in stated.items():
        plain, raced, agree, question = np.array(rows).T
        error = 100 * standard_error(raced - agree, question.astype(np.int64))
        found[f"hurry {hurry:g}"] = {
            "plain": round(100 * float((plain - agree).mean()), 2),
            "raced": round(100 * float((raced - agree).mean()), 2),
            "se": round(error, 2),
        }
        say(f"{dataset} {aim} hurry {hurry:g}:", found[f"hurry {hurry:g}"])
    return found


def agreement_by_length(pools: Sequence[Pool]) -> list[float]:
    """The share of traces that agree with the vote of their path, by quarter of length within the question."""
    shares = []
    for draw, _ in drawn(pools, 1):
        for path in draw.traces.values():
            winner = majority([trace.answer for trace in path])
            agree = [trace.answer == winner for trace in sorted(path, key=lambda trace: trace.tokens)]
            shares.append([np.mean(quarter) for quarter in np.array_split(agree, 4)])
    return [round(float(share), 3) for share in np.mean(shares, axis=0)]


def _tally(path: Sequence[Trace], finish: Finish, options: int | None) -> Tally:
    """What is back at the stop, as a prior learns from it."""
    back = [path[number] for number in finish.back]
    counts, nulls = count_votes(trace.answer for trace in back)
    tokens = sum(trace.tokens for trace in back) / max(1, len(back))
    return Tally(counts, nulls, options=options, mean_tokens=tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--datasets", nargs="+", help="those alone; else all")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--choose", action="store_true")
    what.add_argument("--price", action="store_true")
    what.add_argument("--certificates", action="store_true")
    args = parser.parse_args()
    files = recorded(args.pools)
    datasets = with_lengths(list(read_pools(files, skip_bad=True)) if files else [])
    datasets = {name: pools for name, pools in datasets.items() if args.datasets is None or name in args.datasets}
    if not datasets:
        say("There are no recorded pools with lengths; nothing is measured.")
    if args.choose:
        found: object = choose(datasets, args.repetitions)
    elif args.price:
        levels = {name: PRICE_LEVELS.get(name, PRICE_LEVELS["gpqa"]) for name in datasets}
        found = {name: priced(pools, levels[name], args.repetitions) for name, pools in datasets.items()}
    elif args.certificates:
        found = {
            dataset: {f"{aim}": certified(pools, dataset, aim, args.repetitions) for aim in AIMS}
            | {"agreement_by_length": agreement_by_length(pools)}
            for dataset, pools in datasets.items()
        }
    else:
        found = {dataset: tables(pools, dataset, args.repetitions) for dataset, pools in datasets.items()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
