"""A million questions as JSONL with a synthetic sampler: seconds to the first launch, memory, traces a second.

    python -m benchmarks.million_questions [QUESTIONS] [MEAN]

The file is written first and not counted. The run is a process of its own without a store; ``peak_mb`` is all of it.
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

from pets.engine import Engine
from pets.samplers import Completion, Prompt, Sampler, Sampling

QUESTIONS, MEAN, IN_FLIGHT = 1_000_000, 2, 256


class Synthetic(Sampler):
    """Answers at once; notes when it was first asked."""

    def __init__(self) -> None:
        self.first: float | None = None

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        if self.first is None:
            self.first = time.perf_counter()
        await asyncio.sleep(0)
        return [Completion(f"The answer is {'AAAB'[(seed + at) % 4]}.", "stop", 6) for at in range(n)]


def write(path: Path, many: int) -> None:
    with path.open("w") as file:
        for i in range(many):
            row = {
                "id": f"q{i}",
                "question": f"Question number {i}: which of four it is?",
                "answer_type": "choice:options=4",
            }
            file.write(json.dumps(row) + "\n")


async def child(path: Path, mean: int) -> dict[str, float]:
    begun, sampler = time.perf_counter(), Synthetic()
    async with Engine(path, sampler=sampler, budget=f"{mean}x", concurrency=IN_FLIGHT) as engine:
        await engine.run()
        ended = time.perf_counter()
        assert sampler.first is not None
        answered = sum(answer.answer is not None for answer in engine.answers())
        return {
            "questions": len(engine.problems),
            "answered": answered,
            "seconds to the first launch": round(sampler.first - begun, 1),
            "traces a second": round(engine.allocator.told / (ended - sampler.first)),
            "seconds for the answers": round(time.perf_counter() - ended, 1),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=int, nargs="?", default=QUESTIONS)
    parser.add_argument("mean", type=int, nargs="?", default=MEAN)
    parser.add_argument("--child", type=Path, help="one run of this file, as JSON")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(asyncio.run(child(args.child, args.mean))))
        return
    print(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.jsonl"
        write(path, args.questions)
        command = [sys.executable, "-m", "benchmarks.million_questions", str(args.questions), str(args.mean)]
        output = subprocess.run([*command, "--child", str(path)], check=True, capture_output=True, text=True).stdout
    figures = json.loads(output)
    print("\n".join(f"{name}: {value:,}" for name, value in figures.items()))
    print(json.dumps({"benchmark": "million_questions", **figures}))


if __name__ == "__main__":
    main()
