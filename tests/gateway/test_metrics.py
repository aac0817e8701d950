"""What a gateway counts: the dashboard's numbers and Prometheus' agree with its ledger."""

from prometheus_client.parser import text_string_to_metric_families

from pets.gateway import Settings
from pets.mock import DistributionAnswers, MockModel
from pets.mock.faults import Faults
from pets.plans import Drift, fit_plan
from pets.pools import Pool, PooledQuestion

from ..waiting import wait_until
from .conftest import add_key, run_gateway

EASY = Pool("easy", tuple(PooledQuestion(f"q{i}", ("A",) * 15 + ("BA"[i % 2],)) for i in range(40)))


KEYS = {"alice": {"budget": 500}, "bob": {}, "eve": {}, "root": {"admin": True}}
ONCE = "/dashboard/events?once=1"


def samples(gateway, headers=None):
    families = text_string_to_metric_families(gateway.client.get("/metrics", headers=headers).text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def requests_in(shown):
    return sum(shown["totals"][outcome] for outcome in ("answered", "refused", "failed", "gone"))


def test_prometheus_and_the_dashboard_count_alike():
    with run_gateway(total=1000) as gateway:
        traces = sum(gateway.ask(question).json()["pets"]["traces"] for question in ("easy", "torn"))
        assert gateway.ask(n=2).status_code == 400 and gateway.ask(model="mock").status_code == 200
        wait_until(lambda: requests_in(gateway.client.get(ONCE).json()) == 4)  # counted when its response is out
        counts, shown = samples(gateway), gateway.client.get(ONCE).json()
    totals, budget = shown["totals"], shown["budget"]
    assert counts["pets_requests_total", "vote", "200"] == 2 == totals["votes"]
    assert counts["pets_requests_total", "refused", "400"] == counts["pets_requests_total", "passthrough", "200"] == 1
    assert (totals["answered"], totals["refused"]) == (3, 1)
    assert shown["open"] == shown["in_flight"] == 0
    assert counts["pets_traces_total", "delivered"] == totals["traces"] == traces
    assert counts["pets_budget_spent",] == budget["spent"] == totals["spent"] == traces + 1  # that of the plain request
    assert budget["left"] == 999 - traces and budget["limits"][0]["limit"] == counts["pets_budget_limit",] == 1000
    assert (
        sum(count for _, count in shown["certificates"])
        == sum(row["questions"] for row in shown["first_answers"].values())
        == 2
    )
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
        wait_until(lambda: requests_in(gateway.client.get(ONCE, headers=headers["root"]).json()) == 3)
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
        assert about["totals"]["votes"] == requests_in(about) == len(about["questions"]) == votes
        assert about["budget"]["spent"] == about["totals"]["traces"] == traces == counts[name]["pets_budget_spent",]
        assert counts[name].get(("pets_requests_total", "vote", "200"), 0) == votes
        assert counts[name].get(("pets_traces_total", "delivered"), 0) == traces
    (own,) = shown["alice"]["budget"]["limits"]
    assert (own["name"], own["limit"], own["left"]) == ("key", 500, 500 - spent["alice"])
    assert shown["root"]["budget"]["limits"][0]["limit"] == 1000


def test_retries_of_votes_that_came_to_nothing_are_counted():
    failing = MockModel(DistributionAnswers({"easy": {"A": 1.0}}, tokens=8), faults=Faults(error_500=1.0))
    with run_gateway(failing, settings=Settings.of(policy="online_grid", answer="choice", tries=2)) as gateway:
        assert gateway.ask("easy").status_code == 503
        wait_until(lambda: samples(gateway).get(("pets_requests_total", "vote", "503")))
        shown = gateway.client.get(ONCE).json()
        assert samples(gateway)["pets_retries_total",] == shown["totals"]["retries"] > 0
        assert shown["totals"]["failed"] == 1 and shown["errors"][0]["status"] == 503


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
