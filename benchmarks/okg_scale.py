"""What a decision costs at 1e3, 1e4, 1e5 and 1e6 four-option questions, 16 traces each on average, cap 64.

Each size runs in a process of its own, after a run over 10,000 questions has warmed the memo of beliefs. Only the
time inside ask and tell counts; the driver that draws answers is not in it. ``peak_mb`` is the whole process.
ask(1) at a million questions is timed over 4 traces a question. "okg" is the default with its prior learned while the
batch runs, "okg:prior=1" the paper's. okg_weighted is timed cold: 100 questions, 8 traces
each, a fresh process.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy
from pets.registry import make_policy
from pets.types import Question, Trace

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LABELS = "ABCD"


def run(policy: Policy, N: int, width: int, mean: int, seed: int = 0) -> tuple[int, float]:
    """Decisions made and seconds spent inside the allocator."""
    rng = np.random.default_rng(seed)
    thresholds = rng.dirichlet([0.5] * 4, size=N).cumsum(axis=1).astype(np.float32)[:, :3]
    start = time.perf_counter()
    allocator = Allocator(policy, Budget(mean * N, cap=64), [Question(str(i), options=4) for i in range(N)])
    setup = time.perf_counter() - start
    decisions, inside = 0, 0.0
    while True:
        start = time.perf_counter()
        launches = allocator.ask(width)
        inside += time.perf_counter() - start
        if not launches:
            return decisions, inside + setup
        traces = draw(launches, thresholds, rng)
        start = time.perf_counter()
        for trace in traces:
            allocator.tell(trace)
        inside += time.perf_counter() - start
        decisions += len(launches)


def draw(launches: list, thresholds: NDArray[np.float32], rng: np.random.Generator) -> list[Trace]:  # type: ignore[type-arg]
    rows = thresholds[[int(launch.question) for launch in launches]]
    labels = (rng.random((len(launches), 1)) > rows).sum(axis=1).tolist()
    conf = rng.gamma(60.0, 0.2, size=len(launches)).tolist()
    return [
        Trace(launch.question, launch.number, LABELS[label], c)
        for launch, label, c in zip(launches, labels, conf, strict=True)
    ]


def child(name: str, N: int, width: int, mean: int) -> dict[str, float]:
    policy = make_policy(name)
    if name != "okg_weighted":
        run(policy, 10_000, 256, 16, seed=1)  # warms the memo
    decisions, seconds = run(policy, N, width, mean)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cost = 1e6 * seconds / decisions
    return {
        "decisions": decisions,
        "per_second": round(1e6 / cost),
        "microseconds": round(cost, 2),
        "peak_mb": round(peak),
    }


def measure(name: str, N: int, width: int, mean: int = 16) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.okg_scale", "--child", name, str(N), str(width), str(mean)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"{name:13} N={N:>9,} ask({width:>3}): {figures}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", nargs=4, metavar=("POLICY", "N", "WIDTH", "MEAN"), help="one measurement, as JSON")
    args = parser.parse_args()
    if args.child:
        name, N, width, mean = args.child
        print(json.dumps(child(name, int(N), int(width), int(mean))))
        return
    print(__doc__)
    wide = {N: measure("okg:prior=1", N, 256) for N in SIZES}
    narrow = {N: measure("okg:prior=1", N, 1, 4 if SIZES[-1] == N else 16) for N in SIZES}
    learned = {N: measure("okg", N, 256) for N in SIZES}
    weighted = measure("okg_weighted", 100, 1, 8)
    ratio = wide[1_000_000]["microseconds"] / wide[10_000]["microseconds"]
    print(
        json.dumps(
            {
                "benchmark": "okg_scale",
                "ask256": wide,
                "ask1": narrow,
                "cost_at_1e6_over_1e4": round(ratio, 2),
                "learned_ask256": learned,
                "okg_weighted_cold": weighted,
            }
        )
    )


if __name__ == "__main__":
    main()
