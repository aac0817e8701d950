"""How long a small batch takes, and what that costs in self-consistency.

    python -m benchmarks.small_batch_time [POOLS] [--questions 10 100] [--runs 3] [--repetitions 2000]

Time: `okg` as `pets solve` runs it and `uniform`, in turns, with real HTTP against a mock that answers from the starter
pool at 20 tokens a second; 6 traces per question, 64 in flight. The wall clock of the run itself, start-up excluded:
the ratio of each pair of runs, their median and their spread.

Quality: batches of these sizes, from recorded traces that take as long as their tokens, through the same driver on a
simulated clock: okg with hurry 0, one trace at a time, and uniform. Each repetition draws its questions (in
turns, so that all come equally often) and 64 traces of each, whose vote is the target; larger batches are repeated
fewer times, with as many questions in all. The mean self-consistency, its 95 % interval, the mean difference to one
at a time, and simulated time over uniform's. Where a pool has up to four answers per question also
- the exact frontier of four waves (`pets.lab.limit`): it knows the pool's mix of questions and spends 6 traces per
  question on average, where a batch has so many and no more. Nobody who keeps to a small batch's budget gets there;
- so beside it four waves planned by a prior that was fitted to the whole pool, within the same budget.
Without POOLS, or PETS_POOLS, this is the starter pool, whose answer sets are open.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray
from tests.simulated_time import run_simulated

from benchmarks._pools import recorded
from benchmarks._wave_limit import optimum_in_waves
from pets.answers.base import AnswerType
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy
from pets.core.tally import Tally, count_votes, majority
from pets.engine import Engine, RunSpec
from pets.engine.assemble import assemble
from pets.engine.pacing import Pace, pace_of
from pets.engine.sources import Sources
from pets.lab.labelled import LabelledPool, read_answers
from pets.lab.limit import MAX_ANSWERS, Lattice, votes_alone
from pets.mock import MockModel, PoolAnswers, running
from pets.policies.okg import OKG
from pets.pools import pool_files, read_pool
from pets.questions import Problem
from pets.registry import make_policy
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.types import Question

MEAN, IN_FLIGHT, SIZE, CAP = 6, 64, 64, 64  # traces
TOKENS_PER_SECOND = 20.0
FRONTIER_WAVES = 4
PRICES = np.geomspace(0.1, 1e-4, 40)  # of a trace, whose best plans are corners of the frontier

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    label: str | None
    tokens: int


Paths = dict[str, list[RecordedTrace]]


class Verbatim(AnswerType):
    """The recorded label, as it is."""

    def canonical(self, answer: str) -> str | None:
        return answer or None

    def extract(self, text: str) -> str | None:
        return text or None


class Recording(Sampler):
    """A question's traces one after the other, each as long as its tokens."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.asked: Counter[str] = Counter()

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        id = str(prompt.content)
        trace = self.paths[id][self.asked[id]]
        self.asked[id] += 1
        await asyncio.sleep(trace.tokens)
        return [Completion(trace.label or "", "stop", trace.tokens, 1)]


@dataclass(frozen=True, slots=True)
class MixKnown(OKG):
    """okg with the prior of the whole pool, from which it does not depart."""

    @classmethod
    def of(cls, pool: LabelledPool) -> "MixKnown":
        """With the prior that the pool's full votes teach."""
        votes = Counter(Tally(*count_votes(question.labels), options=pool.options) for question in pool.questions)
        learned = OKG(lengths=False).refit(votes)
        return cls(lengths=False, shares=learned.shares)

    @property
    def learns(self) -> bool:
        return False


def played(paths: Paths, options: int | None, policy: Policy, pace: Pace) -> tuple[float, float]:
    """Self-consistency and simulated seconds of one batch."""
    total = MEAN * len(paths)
    allocator = Allocator(policy, Budget(total, CAP), [Question(id, options) for id in paths], hurry=0.0)
    problems = [Problem(id, Prompt(id), options=options) for id in paths]
    spec = RunSpec.of(answer=Verbatim(), max_n=1, keep_going=True)
    driver = assemble(spec, allocator, Sources([Recording(paths)]), problems, pace=pace)

    async def run() -> float:
        await driver.run()
        return asyncio.get_running_loop().time()

    seconds: float = run_simulated(run())
    targets = {id: majority([trace.label for trace in path]) for id, path in paths.items()}
    verdicts = allocator.verdicts()
    if allocator.budget.spent != total:
        raise SystemExit(f"{allocator.budget.spent} traces were spent of a budget of {total}.")
    return sum(verdict.answer == targets[verdict.question] for verdict in verdicts) / len(verdicts), seconds


def batches(pool: LabelledPool, questions: int, repetitions: int) -> Iterator[Paths]:
    """Questions in turns, in a random order each time round, with SIZE traces drawn of each."""
    rng = np.random.default_rng(0)
    rows: list[int] = []
    for _ in range(repetitions):
        if len(rows) < questions:
            rows = [row for row in rng.permutation(len(pool.questions)).tolist() if row not in rows] + rows
        batch, rows = rows[-questions:], rows[:-questions]
        paths: Paths = {}
        for question in (pool.questions[row] for row in batch):
            tokens = question.tokens or [1] * len(question.labels)
            drawn = rng.permutation(len(question.labels))[:SIZE].tolist()
            paths[question.id] = [RecordedTrace(question.labels[place], max(1, tokens[place])) for place in drawn]
        yield paths


def interval(values: Floats) -> list[float]:
    """The mean and its 95 % interval."""
    error = 1.96 * values.std(ddof=1) / len(values) ** 0.5
    return [round(float(x), 4) for x in (values.mean(), values.mean() - error, values.mean() + error)]


def quality(pool: LabelledPool, questions: int, repetitions: int) -> dict[str, object]:
    okg, total, limit = make_policy("okg"), MEAN * questions, frontier(pool)
    contenders: dict[str, tuple[Policy, Pace]] = {
        "okg": (okg, pace_of(okg, total, questions, IN_FLIGHT)),
        "one at a time": (okg, Pace(1)),
        "uniform": (make_policy("uniform"), Pace(IN_FLIGHT)),
    }
    if limit is not None:
        known = MixKnown.of(pool).with_waves(FRONTIER_WAVES)
        contenders["mix known"] = (known, pace_of(known, total, questions, IN_FLIGHT))
    rows = np.array(
        [
            [played(paths, pool.options, *contender) for contender in contenders.values()]
            for paths in batches(pool, questions, repetitions)
        ]
    )
    consistency, seconds = {name: rows[:, at, 0] for at, name in enumerate(contenders)}, rows[:, :, 1]
    figures: dict[str, object] = {name: interval(values) for name, values in consistency.items()}
    figures["points under one at a time"] = interval(100 * (consistency["one at a time"] - consistency["okg"]))
    if limit is not None:
        figures["points under mix known"] = interval(100 * (consistency["mix known"] - consistency["okg"]))
        figures[f"frontier of {FRONTIER_WAVES} waves"] = round(limit, 4)
        figures["points under the frontier"] = interval(100 * (limit - consistency["okg"]))
    figures["simulated time over uniform"] = round(float(median(seconds[:, 0] / seconds[:, 2])), 2)
    print(f"{pool.name}: {questions} questions, {MEAN} traces each, {repetitions} repetitions")
    for name, value in figures.items():
        print(f"  {name:28} {value}", flush=True)
    return figures


def frontier(pool: LabelledPool) -> float | None:
    """The self-consistency of the best plan of FRONTIER_WAVES waves at this spend, where it can be worked out."""
    counts, traces_per_vote = votes_alone(pool, SIZE)
    if max(len(votes) for votes in counts) > MAX_ANSWERS:
        return None
    traces, consistency = optimum_in_waves(Lattice.of(counts, SIZE), PRICES, FRONTIER_WAVES)
    return float(np.interp(MEAN / traces_per_vote, traces, consistency))


async def timed(url: str, problems: Sequence[Problem], policy: str, seed: int) -> float:
    """The wall clock of one run."""
    options = {"budget": f"{MEAN}x", "policy": policy, "concurrency": IN_FLIGHT, "seed": seed}
    async with Engine(problems, endpoint=url, model="mock", **options) as engine:  # type: ignore[arg-type]
        begun = time.perf_counter()
        await engine.run()
        return time.perf_counter() - begun


def wall_clock(sizes: Sequence[int], runs: int) -> dict[str, object]:
    pool = read_pool(pool_files(["starter"])[0])
    problems = [Problem(question.id, Prompt.chat(question.id), "text") for question in pool.questions]
    figures: dict[str, object] = {}
    with running(MockModel(PoolAnswers(pool), tokens_per_second=TOKENS_PER_SECOND)) as url:
        asyncio.run(timed(url, problems[:2], "okg", 0))  # imports, tables, connections
        for size in sizes:
            pairs = []
            for run in range(runs):
                batch = [problems[(run * size + place) % len(problems)] for place in range(size)]
                pairs.append([asyncio.run(timed(url, batch, policy, run)) for policy in ("uniform", "okg")])
            ratios = sorted(okg / uniform for uniform, okg in pairs)
            seconds = [round(median(column), 2) for column in zip(*pairs, strict=True)]
            print(
                f"{size} questions: uniform {seconds[0]} s, okg {seconds[1]} s; ratio of each pair: median "
                f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), {runs} runs",
                flush=True,
            )
            figures[f"{size} questions"] = {"seconds": seconds, "ratios": [round(ratio, 3) for ratio in ratios]}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", nargs="?", help="their folder or file; else PETS_POOLS")
    parser.add_argument("--questions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=2000)
    args = parser.parse_args()
    print(__doc__)
    figures: dict[str, object] = {"time": wall_clock(args.questions, args.runs)} if args.runs else {}
    for path in recorded(args.pools) or pool_files(["starter"]):
        pool = read_answers(read_pool(path))
        for size in args.questions if args.repetitions else ():
            repetitions = max(2, args.repetitions * args.questions[0] // size)
            figures[f"{pool.name}, {size} questions"] = quality(pool, size, repetitions)
    print(json.dumps({"benchmark": "small_batch_time", **figures}))


if __name__ == "__main__":
    main()
