"""What a gateway counts: the dashboard's numbers and Prometheus' agree with its ledger."""

from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from pets.gateway.auth import ANYBODY, ApiKey
from pets.gateway.metrics import DashboardStats
from pets.mock import DistributionAnswers, MockModel
from pets.plans import Drift, fit_plan
from pets.pools import Pool, PooledQuestion

from ..waiting import wait_until
from .conftest import add_key, run_gateway

EASY = Pool("easy", tuple(PooledQuestion(f"q{i}", ("A",) * 15 + ("BA"[i % 2],)) for i in range(40)))


KEYS = {"alice": {"budget": 500}, "bob": {}, "eve": {}, "root": {"admin": True}}
ROOT = ApiKey("root", admin=True)
ONCE = "/dashboard/events?once=1"


def samples(gateway, headers=None):
    families = text_string_to_metric_families(gateway.client.get("/metrics", headers=headers).text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_prometheus_and_the_dashboard_count_alike():
    with run_gateway(total=1000) as gateway:
        traces = sum(gateway.ask(question).json()["pets"]["traces"] for question in ("easy", "torn"))
        assert gateway.ask(n=2).status_code == 400 and gateway.ask(model="mock").status_code == 200
        metrics = gateway.state.metrics
        wait_until(lambda: metrics.snapshot(ANYBODY)["requests"] == 4)  # counted when its response is out
        counts, shown = samples(gateway), metrics.snapshot(ANYBODY)
    assert counts["pets_requests_total", "vote", "200"] == 2 == shown["votes"]
    assert counts["pets_requests_total", "refused", "400"] == counts["pets_requests_total", "passthrough", "200"] == 1
    assert shown["open"] == shown["in_flight"] == 0
    assert counts["pets_traces_total", "delivered"] == traces
    assert counts["pets_budget_spent",] == shown["spent"] == traces + 1  # that of the plain request
    assert (shown["total"], shown["left"]) == (1000, 999 - traces) and counts["pets_budget_limit",] == 1000
    assert sum(shown["certificates"]) == 2 and sum(shown["warmups"].values()) == traces
    assert [row["question"] for row in shown["questions"]] == ["torn", "easy"]


def test_a_key_sees_its_own_counts_and_an_admin_all(tmp_path):
    store = tmp_path / "g.db"
    secrets = {name: add_key(store, name, **more) for name, more in KEYS.items()}
    with run_gateway(store=store, total=1000) as gateway:
        headers = {name: {"authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
        spent = {"alice": 0, "bob": 0}
        for name in ("alice", "bob", "bob"):
            spent[name] += gateway.ask("torn", headers=headers[name]).json()["pets"]["traces"]
        gateway.client.get("/v1/chat/completions")
        wait_until(lambda: gateway.state.metrics.snapshot(ROOT)["requests"] == 3)
        shown = {name: gateway.client.get(ONCE, headers=headers[name]).json() for name in secrets}
        counts = {name: samples(gateway, headers[name]) for name in secrets}
    both = spent["alice"] + spent["bob"]
    for name, votes, traces in (
        ("alice", 1, spent["alice"]),
        ("bob", 2, spent["bob"]),
        ("root", 3, both),
        ("eve", 0, 0),
    ):
        about = shown[name]
        assert about["votes"] == about["requests"] == len(about["questions"]) == sum(about["certificates"]) == votes
        assert about["spent"] == sum(about["warmups"].values()) == traces == counts[name]["pets_budget_spent",]
        assert counts[name].get(("pets_requests_total", "vote", "200"), 0) == votes
        assert counts[name].get(("pets_traces_total", "delivered"), 0) == traces
    assert (shown["alice"]["total"], shown["alice"]["left"]) == (500, 500 - spent["alice"])
    assert shown["root"]["total"] == 1000


def test_the_request_rate_is_that_of_the_last_minute():
    clock = SimpleNamespace(now=0.0)
    share = SimpleNamespace(balance=SimpleNamespace(spent=0))
    stats = DashboardStats(share, 16.0, clock=lambda: clock.now)
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
