"""What an allocation that is decided in W waves costs, on recorded pools of up to four answers per question.

    python -m benchmarks.waves_quality [POOLS] [--repetitions 30] [--waves 4 8]

The frontier of W waves is exact (`pets.lab.limit`): the fewest mean traces per question at which any plan of W
batches can expect the level, if it sees votes alone and knows the pool's mix of questions. Beside it the traces at
which the isotonic mean curve of `okg:lengths=false,waves=W` reaches the level, all questions in lockstep, each budget
spent anew. Then the same policy and `price:rounds=W-1` (a warm-up and W - 1 batches) at equal budgets, on the questions
of each repetition that did not train the price: the mean difference of self-consistency, in points, and its standard
error. The budget is checked in every run. Before all that, with or without recorded pools, the seconds that it takes
to plan a wave for 1,000 questions of four options that have four traces each, with and without length classes.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from benchmarks._pools import recorded
from benchmarks._wave_limit import frontier_in_waves
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy, QuotaPolicy
from pets.core.queues.walk import Walk
from pets.core.tally import Tally
from pets.core.waves import Wave
from pets.lab import ReplayConfig, read_answers
from pets.lab.contenders import online_sizes, split
from pets.lab.draws import Draw, draw_traces, size_of
from pets.lab.labelled import LabelledPool
from pets.lab.limit import MAX_ANSWERS, MAX_STATES, states_of, votes_alone
from pets.lab.metrics import RisingCurve
from pets.policies.okg import OKG
from pets.pools import read_pools
from pets.registry import make_policy

LEVELS = (0.95, 0.99)
AROUND = (0.85, 0.95, 1.03, 1.1, 1.18, 1.28)  # budgets, as parts of the frontier's traces at each level
QUESTIONS = 1000  # of a plan that is timed
MATCHED = (1.0, 1.15)  # budgets of the comparison with the price rule, likewise


def plan_seconds(waves: int) -> dict[str, float]:
    """The best of five plans for QUESTIONS questions, all in one length class and in five."""
    rng, best = np.random.default_rng(0), {}
    votes = [np.sort(rng.multinomial(4, rng.dirichlet([0.2] * 4)))[::-1] for _ in range(QUESTIONS)]
    for classes in (1, 5):
        policy = OKG(shares=tuple(OKG().shares) * classes, waves=waves)
        tallies = [Tally(tuple(int(n) for n in row if n), options=4, mark=q % classes) for q, row in enumerate(votes)]
        states, seconds = Counter(tallies), []
        for _ in range(5):
            start = perf_counter()
            policy.plan_wave(states, Wave(8 * QUESTIONS, waves, cap=64))
            seconds.append(perf_counter() - start)
        best[f"{classes}"] = round(min(seconds), 3)
    return best


def frontier(pool: LabelledPool, size: int, waves: int) -> list[float]:
    """Mean traces per question at each level; 0 waves look after every trace."""
    counts, traces_per_vote = votes_alone(pool, size)
    limit = frontier_in_waves(counts, size, waves, levels=LEVELS, tolerance=1e-5)
    return [limit.traces_at(level) * traces_per_vote for level in LEVELS]


def consistency(draw: Draw, rows: np.ndarray, sizes: np.ndarray, total: int) -> float:
    """The share of these questions whose verdict is the target."""
    if sizes.sum() > total:
        raise SystemExit(f"{sizes.sum()} traces were spent of a budget of {total}.")
    return float(draw.outcomes.agree[rows, sizes].mean())


def wave_sizes(policy: Policy, draw: Draw, rows: Sequence[int], total: int) -> np.ndarray:
    """Traces of each of these questions when the policy spends ``total`` on them in waves."""
    allocator = Allocator(policy, Budget(total, draw.size), draw.questions(rows), seed=draw.repetition)
    while launches := allocator.ask(total):
        for id, number in launches:
            allocator.tell(draw.traces[id][number])
    return np.array([verdict.traces for verdict in allocator.verdicts()])


def in_waves(draws: list[Draw], waves: int, budgets: list[float]) -> list[float]:
    """The traces at which the isotonic mean curve reaches each level."""
    policy = make_policy(f"okg:lengths=false,waves={waves}")
    rows = np.arange(len(draws[0].paths))
    totals = [int(budget * len(rows)) for budget in budgets]
    values = [
        [consistency(d, rows, wave_sizes(policy, d, rows.tolist(), total), total) for total in totals] for d in draws
    ]
    curve = RisingCurve.through(np.array(totals) / len(rows), np.mean(values, axis=0))
    return [curve.traces_at(level) for level in LEVELS]


def over_price(draws: list[Draw], config: ReplayConfig, waves: int, budgets: list[float]) -> list[list[float]]:
    """Points of self-consistency over `price:rounds=W-1` at each budget, and their standard error."""
    policy, differences = make_policy(f"okg:lengths=false,waves={waves}"), []
    for draw in draws:
        parts = split(draw.pool, config, draw.repetition)
        price, walk = (
            make_policy(f"price:rounds={waves - 1}").fit(parts.training),
            Walk(draw.traces, draw.pool.options),
        )
        assert isinstance(price, QuotaPolicy)
        rows, row = np.array(parts.arrivals), []
        for total in (int(budget * len(rows)) for budget in budgets):
            mine = wave_sizes(policy, draw, parts.arrivals, total)
            other = online_sizes(price, draw, walk, parts.arrivals, total, draw.repetition)
            row.append(consistency(draw, rows, mine, total) - consistency(draw, rows, other, total))
        differences.append(row)
    points = 100 * np.array(differences)
    means, errors = points.mean(axis=0), points.std(axis=0, ddof=1) / len(draws) ** 0.5
    return [[round(float(mean), 3), round(float(error), 3)] for mean, error in zip(means, errors, strict=True)]


def measure(pool: LabelledPool, config: ReplayConfig, waves: list[int]) -> dict[str, object]:
    size = size_of(pool, config)
    sequential = frontier(pool, size, 0)
    draws = [draw_traces(pool, config, repetition) for repetition in range(config.repetitions)]
    print(f"{pool.name}: a look after every trace {np.round(sequential, 2).tolist()} traces at {LEVELS}", flush=True)
    figures: dict[str, object] = {"sequential": np.round(sequential, 3).tolist()}
    for W in waves:
        start = perf_counter()
        limit = frontier(pool, size, W)
        seconds = perf_counter() - start
        reached = in_waves(draws, W, sorted(part * traces for traces in limit for part in AROUND))
        budgets = [max(4.0, part * traces) for traces in limit for part in MATCHED]
        against = over_price(draws, config, W, budgets)
        ratios = np.divide(reached, limit).round(3).tolist()
        print(
            f"  {W} waves: frontier {np.round(limit, 2).tolist()} = {np.divide(limit, sequential).round(3).tolist()} x"
        )
        print(f"    ({seconds:.0f} s); okg:lengths=false,waves={W} {np.round(reached, 2).tolist()} = {ratios} x it")
        print(f"    over price:rounds={W - 1} at {np.round(budgets, 1).tolist()}: {against} points", flush=True)
        figures[f"{W}"] = {"frontier": np.round(limit, 3).tolist(), "ratio": ratios, "points_over_price": against}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder or file; else PETS_POOLS")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--waves", type=int, nargs="+", default=[4, 8])
    args = parser.parse_args()
    print(__doc__)
    config, figures = ReplayConfig(repetitions=args.repetitions), {}
    seconds = {f"{W}": plan_seconds(W) for W in args.waves}
    print(f"seconds for the plan of a wave, by waves to come and length classes: {seconds}", flush=True)
    for recording in read_pools(recorded(args.pools), skip_bad=True):
        pool = read_answers(recording)
        seen = max(len(set(question.labels) - {None}) for question in pool.questions)
        if seen > MAX_ANSWERS or states_of(seen, size_of(pool, config)) > MAX_STATES:
            print(f"{pool.name}: no frontier, a question has {seen} different answers.")
            continue
        figures[pool.name] = measure(pool, config, args.waves)
    print(
        json.dumps({"benchmark": "waves_quality", "repetitions": args.repetitions, "plan_s": seconds, "pools": figures})
    )


if __name__ == "__main__":
    main()
