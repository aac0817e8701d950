"""Random schedules of faults and interruptions: whatever fails and whenever, what is charged is what was sampled."""

import asyncio
import random

import pytest

from pets.engine import Engine
from pets.errors import BusyError, PetsError, RefusedError, ReplyError, UnreachableError
from pets.samplers import Completion, Sampler
from pets.store import Store

from ..simulated_time import run_simulated
from .conftest import asked

SCHEDULES = range(60)
INTERRUPTIONS_S = (None, 0.0, 0.05, 0.1, 0.7, 1.0, 2.5, 8.0)
WRITES_S = (0.0, 0.01, 0.05, 0.3)
FREE = {
    "slow down": lambda: BusyError("slow down", status=429, retry_after=2.0),
    "down": lambda: BusyError("down", status=503),
    "away": lambda: UnreachableError("nobody is there"),
    "refused": lambda: RefusedError("this prompt is too long", status=400),
    "no key": lambda: RefusedError("no such key", status=401),
}
CHARGED = {"timeout": lambda: BusyError("no answer in time"), "broken": lambda: ReplyError("half a reply")}


class Unsteady(Sampler):
    """Takes its time and fails at random; ``charged`` counts what it may have sampled."""

    def __init__(self, rng):
        self.rng, self.charged = rng, 0
        self.max_n = rng.choice([None, None, 1, 2, 4])
        often = {"slow down": 2, "down": 2, "away": 2, "refused": 0.3, "no key": 0.1, "timeout": 2, "broken": 1}
        self.shares = {"all": 10, "some": 1} | {fault: rng.choice([0, share]) for fault, share in often.items()}

    async def sample(self, prompt, n, seed, sampling):
        try:
            await asyncio.sleep(self.rng.choice([0.0, 0.1, 1.0, 3.0]))
        except asyncio.CancelledError:
            self.charged += n
            raise
        if self.max_n is not None and n > self.max_n:
            raise RefusedError("n is too large", status=400)
        (event,) = self.rng.choices(list(self.shares), list(self.shares.values()))
        if event in FREE:
            raise FREE[event]()
        if event in CHARGED:
            self.charged += n
            raise CHARGED[event]()
        n = n if event == "all" else self.rng.randint(1, n)
        self.charged += n
        return [Completion(f"The answer is {'AAAB'[(seed + i) % 4]}.", "stop", 10, 5) for i in range(n)]


async def interrupted(work, after_s):
    """What the work comes to, cancelled after so many seconds."""
    task = asyncio.ensure_future(work)
    if after_s is not None:
        await asyncio.wait([task], timeout=after_s)
        task.cancel()
    done, _ = await asyncio.wait([task], timeout=1e6)
    assert done  # it does not hang
    return None if task.cancelled() or task.exception() else task.result()


async def run(engine):
    async with engine:
        try:
            return await engine.run()
        except PetsError:
            return None


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_broken_off_again_and_again_is_charged_exactly_what_was_sampled(schedule, tmp_path):
    rng = random.Random(schedule)
    path, questions = tmp_path / "runs.db", rng.randint(1, 8)
    budget, sampler = questions * rng.randint(1, 6), Unsteady(rng)
    options = {
        "budget": budget,
        "policy": rng.choice(["uniform", "okg"]),
        "max_traces": rng.choice([8, 32]),
        "concurrency": rng.choice([1, 4, 64]),
        "tries": rng.choice([1, 2, 6]),
    }
    engine = Engine(asked([f"q{i}" for i in range(questions)]), sampler=sampler, store=path, **options)
    for _ in range(8):
        solution = run_simulated(interrupted(run(engine), rng.choice(INTERRUPTIONS_S)), lambda: rng.choice(WRITES_S))
        with Store.open(path) as store:
            stored = store.runs()
        assert sampler.charged <= budget
        assert sum(run.spent for run in stored) == sampler.charged
        if solution is not None:
            assert solution.spent == sampler.charged and engine.allocator.budget.reserved == 0
            return
        if stored:
            engine = Engine.resume(path, sampler=sampler)
