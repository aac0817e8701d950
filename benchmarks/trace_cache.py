"""A store as a cache: how long a lookup takes among a million traces, and how soon a run over cached questions begins.

    python -m benchmarks.trace_cache
    python -m benchmarks.trace_cache --questions 10000 --traces 100 --look-up 20000

Makes a store of one run in a temporary folder, looks traces up at random with their texts, and finds what it holds of
1,000 of its questions.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from pets.prompts import Prompt, Sampling
from pets.questions import Problem
from pets.store import Launch, RunRecord, Store, StoredTrace
from pets.store.cache import TraceCache, trace_keys
from pets.store.store import open_database

SOURCE = "m at http://localhost:8000/v1"
TEXT = "We add the two numbers and carry the one. The answer is 42. " * 10
ASKED = 1000
QUESTIONS_PER_WRITE = 200


def fill(path: Path, problems: list[Problem], traces: int) -> None:
    """Make a run with so many traces of every question."""
    keys = trace_keys(problems, Sampling(), None, 0)
    record = RunRecord(len(problems) * traces, sources=(SOURCE,), seeds_by="prompt")
    with Store.open(path) as store, store.create(record, problems, keys=keys) as run:
        for first in range(0, len(problems), QUESTIONS_PER_WRITE):
            ids = [problem.id for problem in problems[first : first + QUESTIONS_PER_WRITE]]
            launches = [Launch(id, number) for id in ids for number in range(traces)]
            run.write(launches, [StoredTrace(*launch, "42", TEXT, "stop", tokens=100) for launch in launches])
        run.finish()


def _clocks() -> tuple[float, float]:
    """The seconds of the clock and of the processor."""
    return time.perf_counter(), time.process_time()


def main() -> None:
    """Print the seconds that each step takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--traces", type=int, default=50, help="of each question")
    parser.add_argument("--look-up", type=int, default=20_000, help="traces")
    options = parser.parse_args()
    problems = [
        Problem(f"q{i}", Prompt.question(f"What is {i} + {i + 7}?"), "number") for i in range(options.questions)
    ]
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        begun = _clocks()
        fill(path, problems, options.traces)
        size = path.stat().st_size / 1e9
        print(
            f"{options.questions * options.traces:,} traces, {size:.2f} GB, in {time.perf_counter() - begun[0]:.0f} s"
        )
        asked = draw.sample(problems, min(ASKED, len(problems)))
        begun = _clocks()
        keys = trace_keys(asked, Sampling(), None, 0)
        cache = TraceCache(open_database(path, create=False), asked, keys, (SOURCE,), 1000)
        took, used = (now - then for now, then in zip(_clocks(), begun, strict=True))
        held = f"{len(asked):,} questions with {cache.held.traces:,} traces"
        print(f"{held} found in {took:.3f} s, {used:.3f} s of the processor")
        launches = [(draw.choice(asked).id, draw.randrange(options.traces)) for _ in range(options.look_up)]
        begun = _clocks()
        hits = sum(cache.find(id, number, (0,)) is not None for id, number in launches)
        took, used = (1e6 * (now - then) / len(launches) for now, then in zip(_clocks(), begun, strict=True))
        print(f"{hits:,} of {len(launches):,} looked up in {took:.1f} us each, {used:.1f} us of the processor")
        cache.close()


if __name__ == "__main__":
    main()
