"""What Ray costs beside the same work in this process and in plain processes: samplers in actors, and a replay.

    python -m benchmarks.ray_overhead [TRACES] [ROUNDS]

Sampling: the engine spends a budget of TRACES over one sampler per core that "decodes" for a while (asyncio's clock, no
processor time) and then computes the confidence of each trace from 20 log-probabilities per token, as a model's sampler
does. That sampler runs in this process; in plain child processes, asked through pipes; and in Ray actors. Without
decoding time, what is compared is the work around a trace, the worst case for every transport.
Replay: the same repetitions by `pets.replay` in this process, over its own processes and over Ray; the results are
compared bit by bit.

All take turns within each round, who begins changes from round to round; ratios of times within a round, with their
spread. The processor time of this process, which allocates, depends less on what else the machine does: it is what one
core has left to do when the samplers are elsewhere. Ray and the samplers' processes are started once, before, and the
time that Ray takes for it is told apart; a replay starts its own processes each time.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from statistics import median

import numpy as np

from benchmarks._loopback import questions
from pets.cluster import RayCluster
from pets.confidence import measure
from pets.engine import Engine, RunSpec
from pets.errors import InputError
from pets.lab import PoolResult, replay, rows
from pets.pools import Pool, PooledQuestion
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.samplers.ray import ActorSize, start_actors

TRACES, ROUNDS, QUESTIONS, IN_FLIGHT = 300, 5, 100, 64
TOP = 20
CASES = {  # tokens per trace, seconds of decoding
    "200 tokens, no decoding": (200, 0.0),
    "200 tokens, 50 ms of decoding": (200, 0.05),
    "2,000 tokens, 50 ms of decoding": (2000, 0.05),
}
REPETITIONS, POOL_QUESTIONS, POOL_TRACES = 24, 50, 64
KINDS = ("this process", "plain processes", "Ray")
CORES = os.cpu_count() or 1

Seconds = dict[str, list[float]]  # by kind, round by round


class Decoder(Sampler):
    """A model that takes ``seconds`` for its traces, of which then the confidences are computed."""

    def __init__(self, tokens: int, seconds: float) -> None:
        self.tokens, self.seconds = tokens, seconds
        self._logprobs = [[-0.1 * (place % 7) - 0.3 * rank for rank in range(TOP)] for place in range(tokens)]

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        await asyncio.sleep(self.seconds)
        return [self.trace(seed + place) for place in range(n)]

    def trace(self, seed: int) -> Completion:
        text = f"{' so' * self.tokens} the answer is {'AAB'[seed % 3]}."
        return Completion(text, "stop", self.tokens, 20, measure(self._logprobs, window=64))


@cache
def decoder(tokens: int) -> Decoder:
    """The model of a plain process."""
    return Decoder(tokens, 0.0)


def sampled(tokens: int, n: int, seed: int) -> list[Completion]:
    """What a plain process does with a request; whoever asks has waited for the decoding."""
    return [decoder(tokens).trace(seed + place) for place in range(n)]


class PooledDecoder(Sampler):
    """The same in a plain child process."""

    def __init__(self, tokens: int, seconds: float, executor: ProcessPoolExecutor) -> None:
        self._tokens, self._seconds, self._executor = tokens, seconds, executor

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        await asyncio.sleep(self._seconds)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, sampled, self._tokens, n, seed)


async def solve_s(samplers: list[Sampler], traces: int) -> float:
    """Seconds that the engine takes to spend so many traces."""
    spec = RunSpec.of(budget=str(traces), concurrency=IN_FLIGHT, max_traces=None)
    problems = questions(min(QUESTIONS, traces))
    engine = Engine(problems, sampler=samplers, spec=spec)
    for sampler in samplers:  # not with the engine: they stay for the next round
        await sampler.__aenter__()
    begun = time.perf_counter()
    solution = await engine.run()
    assert (solution.spent, solution.failed) == (traces, 0)
    return time.perf_counter() - begun


async def sampling_s(
    cluster: RayCluster, executor: ProcessPoolExecutor, model: tuple[int, float], traces: int, rounds: int
) -> tuple[Seconds, Seconds]:
    """As :func:`by_turns`, of a run over each kind of samplers."""
    samplers: dict[str, list[Sampler]] = {
        "this process": [Decoder(*model) for _ in range(CORES)],
        "plain processes": [PooledDecoder(*model, executor) for _ in range(CORES)],
        "Ray": [*start_actors(cluster, partial(Decoder, *model), ActorSize(1), CORES, source="decoder")],
    }
    try:
        return await by_turns({kind: partial(solve_s, own, traces) for kind, own in samplers.items()}, rounds)
    finally:
        for sampler in samplers["Ray"]:
            await sampler.close()


async def by_turns(work: dict[str, Callable[[], Awaitable[float]]], rounds: int) -> tuple[Seconds, Seconds]:
    """Seconds of each, in turns of which another begins each round, and of this process's processor among them.

    One round before them counts for nothing.
    """
    seconds: Seconds = {kind: [] for kind in work}
    processor: Seconds = {kind: [] for kind in work}
    for turn in range(-1, rounds):
        for kind in (*KINDS[turn % 3 :], *KINDS[: turn % 3]):
            begun = time.process_time()
            taken = await work[kind]()
            if turn >= 0:
                seconds[kind].append(taken)
                processor[kind].append(time.process_time() - begun)
    return seconds, processor


def made_up_pool() -> Pool:
    """Answers among four, some questions easier than others."""
    rng = np.random.default_rng(0)
    rows = (rng.choice(list("ABCD"), POOL_TRACES, p=rng.dirichlet([2.0, 1.0, 0.5, 0.5])) for _ in range(POOL_QUESTIONS))
    return Pool("made up", tuple(PooledQuestion(f"q{place}", tuple(map(str, row))) for place, row in enumerate(rows)))


async def replay_s(cluster: RayCluster, rounds: int) -> tuple[Seconds, bool]:
    """Seconds of each kind, and whether all results were the same."""
    pool, results = made_up_pool(), list[PoolResult]()

    async def run(workers: int = 1, cluster: RayCluster | None = None) -> float:
        begun = time.perf_counter()
        results.extend(
            replay([pool], ["uniform", "okg"], repetitions=REPETITIONS, size=32, workers=workers, cluster=cluster)
        )
        return time.perf_counter() - begun

    seconds, _ = await by_turns(
        {"this process": run, "plain processes": partial(run, CORES), "Ray": partial(run, 1, cluster)}, rounds
    )
    same = all(_same(results[0], result) for result in results)
    return seconds, same


def _same(mine: PoolResult, its: PoolResult) -> bool:
    """Whether two results come to the same rows, to the last digit."""
    return repr(rows([mine])) == repr(rows([its]))


def told(case: str, seconds: Seconds) -> dict[str, object]:
    """Print and return the ratios to this process, round by round."""
    figures: dict[str, object] = {"seconds": {kind: median(values) for kind, values in seconds.items()}}
    print(f"{case}: " + ", ".join(f"{kind} {median(values):.2f} s" for kind, values in seconds.items()))
    for kind, base in (("plain processes", "this process"), ("Ray", "this process"), ("Ray", "plain processes")):
        ratios = [mine / its for mine, its in zip(seconds[kind], seconds[base], strict=True)]
        print(f"  {kind} over {base}: median {median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
        figures[f"{kind} over {base}"] = {"median": median(ratios), "rounds": ratios}
    return figures


async def run(cluster: RayCluster, traces: int, rounds: int) -> dict[str, object]:
    figures: dict[str, object] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(CORES, mp_context=context) as executor:
        for case, model in CASES.items():
            seconds, processor = await sampling_s(cluster, executor, model, traces, rounds)
            figures[case] = told(f"{traces} traces, {case}", seconds)
            figures[f"{case}, processor"] = told(f"{case}, processor time of this process alone", processor)
    seconds, same = await replay_s(cluster, rounds)
    figures["replay"] = {**told(f"replay of {REPETITIONS} repetitions", seconds), "identical": same}
    print(f"  results identical: {same}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=int, nargs="?", default=TRACES)
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    args = parser.parse_args()
    print(__doc__)
    begun = time.perf_counter()
    try:
        cluster = RayCluster("local")
    except InputError as error:
        print(f"no Ray: {error}")
        return
    with cluster:
        start_s = time.perf_counter() - begun
        print(f"Ray on {CORES} cores: started in {start_s:.1f} s")
        figures = asyncio.run(run(cluster, args.traces, args.rounds))
    print(json.dumps({"benchmark": "ray_overhead", "traces": args.traces, "start_s": start_s, **figures}))


if __name__ == "__main__":
    main()
