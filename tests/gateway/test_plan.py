"""A gateway that goes by a plan, and says when the stream no longer fits it."""

from pets.mock import Known, Mock
from pets.plans import Drift, fit_plan
from pets.pools import Pool, PooledQuestion

from .conftest import a_gateway

EASY = Pool("easy", tuple(PooledQuestion(f"q{i}", ("A",) * 15 + ("BA"[i % 2],)) for i in range(40)))


def test_a_plan_is_kept_to_and_watched():
    plan = fit_plan(EASY, 8, rounds=1)
    torn = Mock(Known({"torn": dict.fromkeys("ABCD", 0.25)}, tokens=8))
    drift = Drift.of(plan)
    with a_gateway(torn, policy=plan.policy(), mean_budget=plan.mean_budget, drift=drift) as place:
        found = [place.ask("torn").json()["pets"] for _ in range(12)]
        assert all(about["traces"] >= 4 and about["price"] is None for about in found)
        shown = place.client.get("/dashboard/events?once=1").json()["drift"]
        assert shown["alarm"] and shown["seen"] == 12 and drift.alarm
        assert "pets_drift_alarm 1.0" in place.client.get("/metrics").text
