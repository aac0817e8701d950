"""Random schedules of faults and interruptions: whatever fails and whenever, what is charged is what was sampled."""

import asyncio
import random

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine import Engine, RunSpec
from pets.engine.assemble import assemble_submissions
from pets.engine.fetch import Fetcher
from pets.engine.sources import Servers
from pets.engine.stream import Stream
from pets.engine.submissions import Places, VoteLimits
from pets.errors import BusyError, PetsError, RefusedError, ReplyError, UnreachableError
from pets.gateway.auth import ApiKey
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.sqlite_store import SQLiteStore
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
from pets.samplers import Completion, Sampler, Sampling
from pets.store import Store

from ..simulated_time import run_simulated
from ..streams import make_stream, stream_settings
from .conftest import asked

SCHEDULES = range(15)  # the laws at rest; tests/simulation.py checks them at every moment, in many more worlds
INTERRUPTIONS_S = (None, 0.0, 0.05, 0.1, 0.7, 1.0, 2.5, 8.0)
WRITES_S = (0.0, 0.01, 0.05, 0.3)
FREE = {
    "slow down": lambda: BusyError("slow down", status=429, retry_after=2.0),
    "down": lambda: BusyError("down", status=503),
    "bad gateway": lambda: BusyError("nobody behind", status=502),  # at once
    "away": lambda: UnreachableError("nobody is there"),
    "refused": lambda: RefusedError("this prompt is too long", status=400),
    "no key": lambda: RefusedError("no such key", status=401),
}
CHARGED = {"timeout": lambda: BusyError("no answer in time"), "broken": lambda: ReplyError("half a reply")}


class Unsteady(Sampler):
    """Takes its time and fails at random; ``charged`` counts what it may have sampled."""

    def __init__(self, rng):
        self.rng, self.charged, self.served = rng, 0, False
        self.in_flight = self.widest = 0
        self.max_n = rng.choice([None, None, 1, 2, 4])
        often = {
            "slow down": 2, "down": 2, "bad gateway": 2, "away": 2, "refused": 0.3, "no key": 0.1, "timeout": 2,
            "broken": 1,
        }  # fmt: skip
        self.shares = {"all": 10, "some": 1} | {fault: rng.choice([0, share]) for fault, share in often.items()}

    async def sample(self, prompt, n, seed, sampling):
        self.in_flight += n
        self.widest = max(self.widest, self.in_flight)
        (event,) = self.rng.choices(list(self.shares), list(self.shares.values()))
        try:
            await asyncio.sleep(0.0 if event == "bad gateway" else self.rng.choice([0.0, 0.1, 1.0, 3.0]))
        except asyncio.CancelledError:
            self.charged += n
            raise
        finally:
            self.in_flight -= n
        if self.max_n is not None and n > self.max_n:
            raise RefusedError("n is too large", status=400)
        if event in ("refused", "no key") and not self.served:
            event = "down"  # else all is refused, also what was out when the run ended
        if event in FREE:
            raise FREE[event]()
        if event in CHARGED:
            self.charged += n
            raise CHARGED[event]()
        n, self.served = n if event == "all" else self.rng.randint(1, n), True
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
    if task.cancelled():
        return None
    assert task.exception() is None or isinstance(task.exception(), PetsError)
    return None if task.exception() else task.result()


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


async def arriving(problems):
    for problem in problems:
        await asyncio.sleep(0.2)
        yield problem


async def stream(running, problems, drain_s):
    async with running:
        if drain_s is not None:
            asyncio.get_running_loop().call_later(drain_s, running.drain)
        try:
            await running.run(arriving(problems))
        except PetsError:
            return None
    return running


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stream_broken_off_again_and_again_is_charged_what_was_sampled_and_answers_every_question(schedule, tmp_path):
    rng = random.Random(schedule)
    path, problems = tmp_path / "runs.db", asked([f"q{i}" for i in range(rng.randint(1, 12))])
    windows, mean = rng.choice([True, False]), rng.randint(4, 6)
    budget = Budget.per_window(4, 4 * mean, cap=8) if windows else Budget(mean * len(problems), 8)
    spec = RunSpec.of(concurrency=rng.choice([1, 4, 64]), tries=rng.choice([1, 2, 6]))
    policy = rng.choice([Uniform(), PriceRule(rounds=2)])
    horizon = None if windows else len(problems)
    settings = stream_settings(policy, budget, spec, horizon, open_questions=rng.choice([1, 3, 8]))
    sampler, answers = Unsteady(rng), []
    running = make_stream(settings, [sampler], answers.append, store=path)
    for _ in range(20):
        drain_s = rng.choice([None, None, 0.0, 0.3, 1.0])
        work = stream(running, problems, drain_s)
        finished = run_simulated(interrupted(work, rng.choice(INTERRUPTIONS_S)), lambda: rng.choice(WRITES_S))
        with Store.open(path) as store:
            assert store.runs()[0].spent == sampler.charged
        if finished is not None:
            driver = finished.driver
            budget = driver.allocator.budget
            assert budget.reserved == driver.questions.in_flight == 0 and not driver.stops.failures
            assert budget.spent + driver.allocator.debt == sampler.charged
            assert driver.allocator.verdicts() == []
            if not driver.stops.drained:
                assert {answer.id for answer in answers} == {problem.id for problem in problems}
                return
        running = Stream.resume(path, "last", Servers(sampler=[sampler]), answers.append)
    running.close()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_requests_that_leave_at_any_time_are_charged_what_was_sampled_and_nothing_stays_held(schedule):
    rng = random.Random(schedule)
    sampler = Unsteady(rng)
    limit = rng.choice([None, 5, 40])

    async def serve():
        ledger = GatewayLedger(LedgerBackend(SQLiteStore()), total=limit)
        concurrency, shared = rng.choice([1, 4, 64]), rng.random() < 0.5
        driver, submissions = assemble_submissions(
            Allocator(PriceRule(rounds=2), Budget.per_window(4, 32, cap=16)),
            Fetcher([sampler], tries=rng.choice([1, 2, 6]), patience_s=None, rpm=rng.choice([None, 30])),
            Places(concurrency, lambda: shared),
            ledger,
        )

        async def submit(problem):
            await asyncio.sleep(rng.choice([0.0, 0.5, 3.0]))
            deadline_s, single = rng.choice([0.0, 0.1, 3.0, 1000.0]), rng.random() < 0.2
            account = RequestAccount(ApiKey("key", None), problem.id)
            deadline = asyncio.get_running_loop().time() + deadline_s
            hurry, payer = rng.choice([None, 0.0, 1.0]), rng.choice("ab")
            limits = VoteLimits(Sampling(), 0, 8, deadline, hurry=hurry, single=single, context=account, payer=payer)
            return await interrupted(submissions.submit(problem, limits), rng.choice(INTERRUPTIONS_S))

        await asyncio.gather(*(submit(problem) for problem in asked([f"q{i}" for i in range(12)])))
        assert ledger.total.spent == sampler.charged and ledger.total.held == 0
        assert limit is None or ledger.total.spent <= limit
        budget = driver.allocator.budget
        assert budget.reserved == driver.questions.in_flight == 0 and not submissions.votes
        assert driver.allocator.verdicts() == []
        assert all(endpoint.in_flight == 0 for endpoint in driver.fetcher.pool.endpoints)
        assert submissions.places.taken == 0 and sampler.widest <= concurrency
        await ledger.close()

    run_simulated(serve())
