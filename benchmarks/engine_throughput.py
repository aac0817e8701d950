"""Traces a second of the engine at 256 in flight against a bare asyncio loop of plain httpx, and its memory.

    python -m benchmarks.engine_throughput [TRACES] [ROUNDS]

A loopback server in a process of its own answers at once with small bodies. The bare loop posts and parses; the engine
reads answers, learns, decides and counts, without a store and with one (every launch and trace durable), deciding after
every trace (hurry 0); and at its default pace, which streams, and cancels what is in flight when a vote is settled.
Turns within a round, who begins changes from round to round; medians. One httpx client's bookkeeping grows with the
square of what it has in flight, the engine's does not; so the bare loop runs twice, with one client and spread over
several. Nearly every request is for one trace: okg over 1,000 questions seldom wants two of one question at the same
time. Processor time is this process's own, its threads included and the server's left out.
Memory: 100,000 traces of 1,000 questions from a sampler in this process, into a store, in a process of its own.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks._loopback import bare, loopback, questions
from pets.engine import Engine, RunSpec
from pets.samplers import Completion, Prompt, Sampler, Sampling

IN_FLIGHT, QUESTIONS, TRACES, ROUNDS = 256, 1000, 4000, 5
PER_CLIENT = 32  # requests in flight of each of the bare loop's clients, where it is spread
LONG_RUN = 100_000
CONTENDERS = ("bare", "bare, spread", "engine", "engine with store", "engine with store, default pace")


async def engine(url: str, traces: int, store: Path | None, hurry: float | None = 0.0) -> tuple[float, float]:
    """Seconds that the engine takes to spend so many traces, from its first ask to its last tell; of the processor."""
    spec = RunSpec.of(budget=str(traces), concurrency=IN_FLIGHT, max_traces=None, hurry=hurry)
    problems = questions(min(QUESTIONS, traces))
    async with Engine(problems, endpoint=url, model="m", store=store, spec=spec) as engine:
        begun, cpu_begun = time.perf_counter(), time.process_time()
        await engine.run()
        assert engine.allocator.budget.spent == traces
        return time.perf_counter() - begun, time.process_time() - cpu_begun


async def turn_of(name: str, url: str, traces: int, folder: str) -> tuple[float, float]:
    """Seconds of one contender's turn, and of the processor."""
    if name.startswith("bare"):
        cpu_begun = time.process_time()
        seconds = await bare(url, traces, IN_FLIGHT, IN_FLIGHT // PER_CLIENT if "spread" in name else 1)
        return seconds, time.process_time() - cpu_begun
    store = Path(folder) / f"{time.monotonic_ns()}.db" if "store" in name else None
    return await engine(url, traces, store, None if "default pace" in name else 0.0)


async def compare(traces: int, rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Traces a second of each, round by round, and microseconds of the processor per trace."""
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    cpu: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    with loopback() as url, tempfile.TemporaryDirectory() as folder:
        await engine(url, 500, None)  # imports, tables and the server's first connections
        for turn in range(rounds):
            at = turn % len(CONTENDERS)
            for name in CONTENDERS[at:] + CONTENDERS[:at]:
                seconds, cpu_seconds = await turn_of(name, url, traces, folder)
                rates[name].append(traces / seconds)
                cpu[name].append(1e6 * cpu_seconds / traces)
    return rates, cpu


class Instant(Sampler):
    """Answers in this process."""

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        await asyncio.sleep(0)
        return [Completion(f"{'so we look ' * 20}The answer is {'AAB'[(seed + i) % 3]}.", "stop", 64) for i in range(n)]


async def grow(traces: int) -> dict[str, float]:
    """Megabytes of this process after a tenth of a long run and at its end."""
    sizes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        spec = RunSpec.of(budget=str(traces), concurrency=IN_FLIGHT, max_traces=None)
        async with Engine(questions(1000), sampler=Instant(), store=Path(folder) / "runs.db", spec=spec) as engine:
            running = asyncio.create_task(engine.run())
            while not running.done():
                await asyncio.sleep(0.05)
                if engine.begun and engine.allocator.told >= traces / 10:
                    sizes.setdefault("after a tenth", resident())
            await running
            sizes["at the end"] = resident()
    return sizes


def resident() -> float:
    """Megabytes resident now (Linux), else the peak."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=int, nargs="?", default=TRACES)
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    parser.add_argument("--grow", type=int, help="only the memory of a long run, as JSON")
    args = parser.parse_args()
    if args.grow:
        print(json.dumps(asyncio.run(grow(args.grow))))
        return
    print(__doc__)
    rates_by_name, cpu_by_name = asyncio.run(compare(args.traces, args.rounds))
    ratios = {
        f"{ours} over {its}": [a / b for a, b in zip(rates_by_name[ours], rates_by_name[its], strict=True)]
        for ours in CONTENDERS[2:]
        for its in CONTENDERS[:2]
    }
    for name, rates in rates_by_name.items():
        cpu = median(cpu_by_name[name])
        print(f"{name}: {median(rates):.0f} traces/s, {cpu:.0f} us of the processor a trace (medians of {args.rounds})")
    for name, values in ratios.items():
        print(f"{name}: median {median(values):.3f}, {min(values):.3f} to {max(values):.3f}")
    command = [sys.executable, "-m", "benchmarks.engine_throughput", "--grow", str(LONG_RUN)]
    memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"memory over {LONG_RUN:,} traces: {memory}")
    figures = {name: {"median": median(values), "rounds": values} for name, values in ratios.items()}
    microseconds = {name: median(values) for name, values in cpu_by_name.items()}
    row = {"benchmark": "engine_throughput", "ratios": figures, "cpu_us_per_trace": microseconds, "memory_mb": memory}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
