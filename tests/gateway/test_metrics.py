"""What a gateway counts: the dashboard's numbers and Prometheus' agree with its ledger."""

from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.metrics import DashboardStats
from pets.mock import DistributionAnswers, MockModel
from pets.plans import Drift, fit_plan
from pets.pools import Pool, PooledQuestion

from ..waiting import wait_until
from .conftest import run_gateway

EASY = Pool("easy", tuple(PooledQuestion(f"q{i}", ("A",) * 15 + ("BA"[i % 2],)) for i in range(40)))


def samples(gateway):
    families = text_string_to_metric_families(gateway.client.get("/metrics").text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_prometheus_and_the_dashboard_count_alike():
    with run_gateway(total=1000) as gateway:
        traces = sum(gateway.ask(question).json()["pets"]["traces"] for question in ("easy", "torn"))
        assert gateway.ask(n=2).status_code == 400 and gateway.ask(model="mock").status_code == 200
        dashboard = gateway.state.metrics.dashboard
        wait_until(
            lambda: dashboard.snapshot(ANYBODY)["requests"] == 4
        )  # a request is counted when its response is out
        counts, shown = samples(gateway), dashboard.snapshot(ANYBODY)
    assert counts["pets_requests_total", "vote", "200"] == 2 == shown["votes"]
    assert counts["pets_requests_total", "refused", "400"] == counts["pets_requests_total", "passthrough", "200"] == 1
    assert shown["open"] == shown["in_flight"] == 0
    assert counts["pets_traces_total", "delivered"] == counts["pets_budget_spent",] == shown["spent"] == traces
    assert (shown["total"], shown["left"]) == (1000, 1000 - traces) and counts["pets_budget_limit",] == 1000
    assert sum(shown["certificates"]) == 2 and sum(shown["warmups"].values()) == traces
    assert [row["question"] for row in shown["questions"]] == ["torn", "easy"]


def test_a_key_sees_its_own_questions_and_an_admin_all(gateway):
    gateway.ask("easy")
    snapshot = gateway.state.metrics.dashboard.snapshot
    assert snapshot(ApiKey("bob"))["questions"] == [] and len(snapshot(ApiKey("root", admin=True))["questions"]) == 1


def test_the_request_rate_is_that_of_the_last_minute():
    clock = SimpleNamespace(now=0.0)
    ledger = SimpleNamespace(total=SimpleNamespace(spent=0), delivered=0, lost=0)
    stats = DashboardStats(None, ledger, 16.0, clock=lambda: clock.now)
    for _ in range(30):
        stats.record_request()
        clock.now += 1.0
    assert stats.request_rate() == 1.0
    clock.now = 75.0
    assert stats.request_rate() == 15 / 60


def test_a_plan_is_kept_to_and_watched():
    plan = fit_plan(EASY, 8, rounds=1)
    torn = MockModel(DistributionAnswers({"torn": dict.fromkeys("ABCD", 0.25)}, tokens=8))
    drift = Drift.of(plan)
    with run_gateway(torn, policy=plan.policy(), mean_budget=plan.mean_budget, drift=drift) as gateway:
        votes = [gateway.ask("torn").json()["pets"] for _ in range(12)]
        assert all(about["traces"] >= 4 and about["price"] is None for about in votes)
        shown = gateway.client.get("/dashboard/events?once=1").json()["drift"]
        assert shown["alarm"] and shown["seen"] == 12 and drift.alarm
        assert samples(gateway)["pets_drift_alarm",] == 1
