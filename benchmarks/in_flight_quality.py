"""What 64 traces in flight cost in self-consistency, and what it would cost to believe whatever finishes first.

    python -m benchmarks.in_flight_quality [POOL ...] [--repetitions 10]

Recorded traces are played back in time: a trace takes as long as its tokens say. At equal budgets (4, 8 and 16 traces a
question), okg one at a time, okg with 64 in flight as the engine runs it (beliefs see the launch-order prefix), and okg
with 64 in flight that counts traces in the order in which they finish. Then a stopping rule (asc, 0.95) on 16 parallel
traces: on the launch-order prefix, and on whatever has finished, which are the short ones.
Self-consistency is agreement with the vote of all 64 traces drawn.
"""

import argparse
import heapq
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally, majority
from pets.engine.driver import in_flight_limit
from pets.pools import pool_files, read_pool
from pets.registry import make_policy
from pets.replay.config import ReplayConfig
from pets.replay.draws import Draw, draw_traces
from pets.replay.drivers import batch_order
from pets.replay.labelled import read_answers
from pets.types import Trace

IN_FLIGHT, BUDGETS, PARALLEL = 64, (4, 8, 16), 16


def played(drawn: Draw, total: int, finish_order: bool) -> float:
    """Self-consistency of okg with IN_FLIGHT traces in flight, each as long as its tokens."""
    allocator = Allocator(make_policy("okg"), Budget(total, drawn.size), drawn.questions(), seed=drawn.repetition)
    targets = {id: majority([trace.answer for trace in traces]) for id, traces in drawn.traces.items()}
    running: list[tuple[float, int, str, int]] = []
    told: Counter[str] = Counter()
    now, launched = 0.0, 0
    while True:
        limit = in_flight_limit(IN_FLIGHT, len(targets), total - allocator.told)
        for launch in allocator.ask(max(0, limit - len(running))):
            launched += 1
            seconds = max(1, drawn.traces[launch.question][launch.number].tokens)
            heapq.heappush(running, (now + seconds, launched, launch.question, launch.number))
        if not running:
            break
        now, _, id, number = heapq.heappop(running)
        trace = drawn.traces[id][number]
        if finish_order:  # counted as if it had been launched when it came
            trace = Trace(id, told[id], trace.answer, trace.confidence, trace.tokens)
        told[id] += 1
        allocator.tell(trace)
    verdicts = allocator.verdicts()
    return sum(verdict.answer == targets[verdict.question] for verdict in verdicts) / len(verdicts)


def one_at_a_time(drawn: Draw, totals: Sequence[int]) -> list[float]:
    """Self-consistency of okg that sees every trace before it asks for the next."""
    order, _ = batch_order(make_policy("okg"), drawn, drawn.repetition)
    rows = np.arange(len(drawn.pool.questions))
    return [float(drawn.agree[rows, np.bincount(order[:total], minlength=len(rows))].mean()) for total in totals]


def stopped(drawn: Draw, finish_order: bool) -> tuple[float, float]:
    """Self-consistency and traces a question when each stops as soon as asc is content with what it sees."""
    rule = make_policy("asc")
    assert isinstance(rule, QuotaPolicy)
    right = spent = 0
    for traces in drawn.traces.values():
        target = majority([trace.answer for trace in traces])
        seen = list(traces[:PARALLEL])
        if finish_order:
            seen.sort(key=lambda trace: trace.tokens)
        for many in range(1, len(seen) + 1):
            tally = Tally.of([trace.answer for trace in seen[:many]], options=drawn.pool.options)
            if rule.quota(tally, View(cap=PARALLEL)) <= many:
                break
        right += majority([trace.answer for trace in seen[:many]]) == target
        spent += many
    return right / len(drawn.traces), spent / len(drawn.traces)


def measure(path: Path, repetitions: int) -> dict[str, object]:
    pool = read_answers(read_pool(path))
    if any(question.tokens is None for question in pool.questions):
        raise SystemExit(f"{path.name} has no tokens; how long its traces took is not known.")
    protocol = ReplayConfig(repetitions=repetitions)
    N = len(pool.questions)
    totals = [budget * N for budget in BUDGETS]
    values: dict[str, list[list[float]]] = {"one at a time": [], "64 in flight": [], "64, finish order": []}
    rules: dict[str, list[tuple[float, float]]] = {"launch order": [], "finish order": []}
    for repetition in range(repetitions):
        drawn = draw_traces(pool, protocol, repetition)
        values["one at a time"].append(one_at_a_time(drawn, totals))
        values["64 in flight"].append([played(drawn, total, False) for total in totals])
        values["64, finish order"].append([played(drawn, total, True) for total in totals])
        rules["launch order"].append(stopped(drawn, False))
        rules["finish order"].append(stopped(drawn, True))
    means = {name: np.mean(rows, axis=0).round(4).tolist() for name, rows in values.items()}
    stops = {name: np.mean(rows, axis=0).round(4).tolist() for name, rows in rules.items()}
    print(f"{path.stem}: {N} questions, {repetitions} repetitions; self-consistency at {BUDGETS} traces a question")
    for name, row in means.items():
        print(f"  {name:18} {row}")
    losses = 100 * np.subtract(values["one at a time"], values["64 in flight"])
    loss, error = losses.mean(axis=0), losses.std(axis=0, ddof=1) / repetitions**0.5
    print(f"  lost by 64 in flight: {loss.round(2).tolist()} points, standard error {error.round(2).tolist()}")
    for name, (share, traces) in stops.items():
        print(f"  asc on {PARALLEL} parallel traces, {name}: {share:.4f} at {traces:.2f} traces")
    return {
        "okg": means,
        "asc": stops,
        "points_lost": loss.round(3).tolist(),
        "standard_error": error.round(3).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="*", default=["starter"])
    parser.add_argument("--repetitions", type=int, default=10)
    args = parser.parse_args()
    print(__doc__)
    figures = {path.stem: measure(path, args.repetitions) for path in pool_files(args.pools)}
    print(json.dumps({"benchmark": "in_flight_quality", "repetitions": args.repetitions, "pools": figures}))


if __name__ == "__main__":
    main()
