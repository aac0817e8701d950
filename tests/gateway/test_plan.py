"""A gateway that goes by a plan, and says when the stream no longer fits it."""

import asyncio

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.mock import Known, Mock
from pets.plans import Drift, RecordedTraces, Stream, fit_plan
from pets.policies.price import Price
from pets.pools import Pool, PooledQuestion
from pets.questions import Problem
from pets.samplers import Prompt
from pets.types import Trace

from .conftest import run_gateway

EASY = Pool("easy", tuple(PooledQuestion(f"q{i}", ("A",) * 15 + ("BA"[i % 2],)) for i in range(40)))


def test_a_plan_is_kept_to_and_watched():
    plan = fit_plan(EASY, 8, rounds=1)
    torn = Mock(Known({"torn": dict.fromkeys("ABCD", 0.25)}, tokens=8))
    drift = Drift.of(plan)
    with run_gateway(torn, policy=plan.policy(), mean_budget=plan.mean_budget, drift=drift) as gateway:
        found = [gateway.ask("torn").json()["pets"] for _ in range(12)]
        assert all(about["traces"] >= 4 and about["price"] is None for about in found)
        shown = gateway.client.get("/dashboard/events?once=1").json()["drift"]
        assert shown["alarm"] and shown["seen"] == 12 and drift.alarm
        assert "pets_drift_alarm 1.0" in gateway.client.get("/metrics").text


def test_the_same_votes_are_certified_alike_by_a_gateway_and_a_stream():
    """An untrained price rule holds one belief, wherever it runs."""
    policy = Price(rounds=2)
    with run_gateway(Mock(Known({"clear": {"A": 1.0}}, tokens=8)), policy=policy, mean_budget=8) as gateway:
        voted = gateway.ask("clear").json()["pets"]
    outcomes = []

    async def arriving():
        yield Problem("clear", Prompt("clear"))

    async def run():
        traces = {"clear": [Trace("clear", number, "A", tokens=8) for number in range(8)]}
        allocator = Allocator(policy, Budget(8, 8), horizon=1)
        await Stream(allocator, RecordedTraces(traces, None), outcomes.append).run(arriving())

    asyncio.run(run())
    assert voted["votes"] == {"A": 4} and outcomes[0].votes == {"A": 4}
    assert round(voted["certificate"], 6) == outcomes[0].certificate
