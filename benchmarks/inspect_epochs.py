"""One budget instead of fixed epochs: what inspect_ai's vote gains by `TraceBudget`, on recorded traces.

    python -m benchmarks.inspect_epochs [POOL.jsonl ...] [--mean-budget 8] [--epochs 64] [--repetitions 5] [--slots 16]

The early-stopping protocol is driven as inspect_ai does it, epoch after epoch over all samples, with so many slots;
what an epoch answers is a recorded trace, in a random order per question. Printed for each pool: traces per question,
and the share of verdicts that are the vote of all recorded traces, with the same number of epochs for every sample
(`fixed`), with `TraceBudget` (`budget`), and for comparison by `okg` after every single trace (`okg`).
Pools: those named, else the starter pool.
"""

import argparse
import asyncio
import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalConfig, EvalDataset, EvalSpec
from inspect_ai.scorer import SampleScore, Score

from pets import Allocator, Budget, Pool, Question, Trace, make_policy, read_pool
from pets.core.tally import majority
from pets.integrations.inspect_ai import TraceBudget
from pets.lab import read_answers
from pets.pools import load

Paths = dict[str, list[str | None]]


async def by_budget(paths: Paths, mean: int, epochs: int, slots: int) -> Paths:
    """What is drawn of each question under one budget."""
    manager = TraceBudget(f"{mean}x")
    dataset, config = EvalDataset(), EvalConfig()
    spec = EvalSpec(created="2026-01-01T00:00:00Z", task="replay", dataset=dataset, model="recorded", config=config)
    await manager.start_task(spec, [Sample(id=id, input=id) for id in paths], epochs)
    drawn: Paths = {id: [] for id in paths}
    running: deque[tuple[str, int]] = deque()

    async def end_one() -> None:
        id, epoch = running.popleft()
        score = Score(value="C", answer=drawn[id][epoch_place[id, epoch]])
        await manager.complete_sample(id, epoch, {"recorded": SampleScore(score=score)})

    epoch_place: dict[tuple[str, int], int] = {}
    for epoch in range(1, epochs + 1):
        for id, path in paths.items():
            schedule = asyncio.ensure_future(manager.schedule_sample(id, epoch))
            await asyncio.sleep(0)
            while not schedule.done():  # the pass waits for epochs under way
                await end_one()
                await asyncio.sleep(0)
            if schedule.result() is None:
                epoch_place[id, epoch] = len(drawn[id])
                drawn[id].append(path[len(drawn[id])])
                running.append((id, epoch))
            while len(running) >= slots:
                await end_one()
    while running:
        await end_one()
    return drawn


def by_okg(paths: Paths, mean: int, epochs: int) -> Paths:
    """What okg draws when it may choose among all questions after every trace."""
    drawn: Paths = {id: [] for id in paths}
    budget = Budget(mean * len(paths), cap=epochs)
    allocator = Allocator(make_policy("okg"), budget, [Question(id) for id in paths])
    while launches := allocator.ask():
        for launch in launches:
            drawn[launch.question].append(paths[launch.question][launch.number])
            allocator.tell(Trace(launch.question, launch.number, drawn[launch.question][-1]))
    return drawn


def consistency(drawn: Paths, target: dict[str, str | None]) -> float:
    """The share of verdicts that are the vote of all recorded traces."""
    return float(np.mean([majority(traces) == target[id] for id, traces in drawn.items()]))


def run(pool: Pool, mean: int, epochs: int, repetitions: int, slots: int) -> dict[str, object]:
    """All three ways on one pool."""
    labels = {question.id: question.labels for question in read_answers(pool, None).questions}
    target = {id: majority(traces) for id, traces in labels.items()}
    epochs = min(epochs, *map(len, labels.values()))  # no recorded trace counts twice
    rows: dict[str, list[tuple[float, float]]] = {"fixed": [], "budget": [], "okg": []}
    for repetition in range(repetitions):
        rng = np.random.default_rng(repetition)
        paths: Paths = {id: [traces[j] for j in rng.permutation(len(traces))] for id, traces in labels.items()}
        ways = {
            "fixed": {id: path[:mean] for id, path in paths.items()},
            "budget": asyncio.run(by_budget(paths, mean, epochs, slots)),
            "okg": by_okg(paths, mean, epochs),
        }
        for name, drawn in ways.items():
            rows[name].append((sum(map(len, drawn.values())) / len(drawn), consistency(drawn, target)))
    means = {name: np.mean(row, axis=0).round(4).tolist() for name, row in rows.items()}
    return {"pool": pool.name, "questions": len(labels), **means}


def main(words: Sequence[str] | None = None) -> None:
    """Print one line of JSON per pool: [traces per question, self-consistency] of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="*", type=Path)
    parser.add_argument("--mean-budget", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--slots", type=int, default=16)
    options = parser.parse_args(words)
    for pool in [read_pool(path) for path in options.pools] or [load("starter")]:
        row = run(pool, options.mean_budget, options.epochs, options.repetitions, options.slots)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
