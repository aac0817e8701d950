"""What a gateway counts: sums that agree with their history and with the ledger, all of it bounded."""

from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pets.gateway import Settings
from pets.gateway.ledger_store import Charge, Reservation
from pets.gateway.metrics import COLUMNS, GAUGES, LATEST_ROWS, MAX_MODELS, OTHER_MODELS, REASON_CHARACTERS, Share
from pets.mock import DistributionAnswers, MockModel
from pets.mock.faults import Faults
from pets.plans import Drift, fit_plan
from pets.pools import Pool, PooledQuestion

from ..waiting import wait_until
from .conftest import add_key, run_gateway

EASY = Pool("easy", tuple(PooledQuestion(f"q{i}", ("A",) * 15 + ("BA"[i % 2],)) for i in range(40)))
CHARGE = Charge(40, 4, 90, 12)
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


@pytest.fixture
def clock():
    return SimpleNamespace(now=1000.0, spent=0)


@pytest.fixture
def share(clock):
    gauges = dict.fromkeys(GAUGES, lambda: 0) | {"budget_spent": lambda: clock.spent}
    return Share(gauges, clock=lambda: clock.now)


def finished(status=200, kind="vote", seconds=0.2, **fields):
    about = {"id": "id", "key": "alice", "model": "m", "retries": 0, "reason": None}
    return about | {"kind": kind, "status": status, "seconds": seconds} | fields


def reservation(model="m"):
    return Reservation(1, "alice", "r", "vote", model, "traces", 4, 100, 0, 0, 0, ())


def vote(share, warmup="3-1", certificate=0.93, traces=5, id="q"):
    account = SimpleNamespace(charged=Charge(delivered=traces - 1), lost=1, upstream_s=0.1)
    answer = SimpleNamespace(tokens=50, prompt_tokens=5, certificate=certificate)
    about = SimpleNamespace(answer=answer, account=account, seconds=0.2)
    share.record_vote(about, {"stopped": "policy", "warmup": warmup}, {"id": id})


def test_the_request_rate_is_that_of_the_last_minute(share, clock):
    for _ in range(120):
        share.record_request(finished())
        clock.now += 1.0
    assert share.now()["requests_per_second"] == 1.0
    clock.now += 100.0
    assert share.now()["requests_per_second"] == 0.0


def test_every_request_is_in_one_outcome_and_errors_are_listed(share):
    for status in (200, 201, 400, 429, 499, 500, 503):
        share.record_request(finished(status, retries=2, reason="why"))
    totals = share.now()["totals"]
    assert {name: totals[name] for name in ("answered", "refused", "gone", "failed", "retries")} == {
        "answered": 2, "refused": 2, "gone": 1, "failed": 2, "retries": 14,
    }  # fmt: skip
    assert [row["status"] for row in share.errors] == [400, 429, 499, 500, 503]
    share.record_request(finished(400, reason="x" * 10_000))
    assert len(share.errors[-1]["reason"]) == REASON_CHARACTERS
    assert share.now()["models"][0]["requests"] == 2


def test_the_columns_add_up_to_the_totals(share, clock):
    for number in range(50):
        share.record_request(finished(500 if number % 9 == 0 else 200, retries=number % 2))
        vote(share)
        share.record_settlement(reservation(), CHARGE, 0.25)
        clock.now += 37.0
    for span in ("hour", "day"):
        columns = share.columns(span)
        sums = {name: sum(value or 0 for value in columns[name]) for name in COLUMNS}
        assert sums == share.now()["totals"] and sums["spent"] == 12.5
        assert len({len(columns[name]) for name in (*COLUMNS, "start", "vote_p50", "plain_p99")}) == 1


def test_before_the_start_nothing_is_known(share, clock):
    columns = share.columns("hour")
    for start, answered in zip(columns["start"], columns["answered"], strict=True):
        assert (answered is None) == (start + columns["seconds"] <= clock.now)


def test_latencies_are_of_answered_requests_by_kind(share, clock):
    share.record_request(finished())
    share.record_request(finished(kind="passthrough", seconds=3.0))
    share.record_request(finished(503, seconds=599.0))
    latency = share.now()["latency"]
    assert 0.15 < latency["vote"][0] < latency["vote"][1] <= 0.25 and 2.5 < latency["plain"][1] <= 3.5
    assert share.columns("hour")["vote_p99"][-1] == latency["vote"][1]
    clock.now += 4000.0
    assert share.now()["latency"] == {"vote": [None, None], "plain": [None, None]}  # nothing lately


def test_votes_are_counted_by_pattern_and_certificate(share):
    vote(share)
    vote(share, warmup=None, certificate=1.0, traces=2)
    vote(share, certificate=0.0)
    shown = share.now()
    assert [(bound, count) for bound, count in shown["certificates"] if count] == [(0.5, 1), (0.95, 1), (1.0, 1)]
    assert shown["first_answers"] == {"3-1": {"questions": 2, "traces": 10}, "fewer": {"questions": 1, "traces": 2}}
    assert shown["totals"]["votes"] == 3 and shown["totals"]["lost"] == 3


def test_the_pace_is_that_of_the_balance_whoever_spends(share, clock):
    clock.now, clock.spent = clock.now + 600.0, 50
    assert share.now()["spent_per_second"] == pytest.approx(50 / 600, rel=0.05)


def test_errors_that_are_the_same_are_one_row_of_the_latest_with_their_number(share):
    for status, reason in [(503, "full"), (400, "wrong"), (503, "full"), (503, "away"), (503, "full")]:
        share.record_request(finished(status, reason=reason))
    assert [(row["status"], row["reason"], row["times"]) for row in share.errors] == [
        (400, "wrong", 1), (503, "away", 1), (503, "full", 3),
    ]  # fmt: skip


def test_lists_and_models_are_bounded(share):
    for number in range(500):
        vote(share, id=str(number))
        share.record_request(finished(500, reason=f"reason {number}"))
        share.record_settlement(reservation(f"m{number}"), CHARGE, 1)
    assert len(share.questions) == len(share.errors) == LATEST_ROWS and share.questions[-1]["id"] == "499"
    models = {row["model"]: row for row in share.now()["models"]}
    assert len(models) == MAX_MODELS + 1 and sum(row["spent"] for row in models.values()) == 500
    assert models[OTHER_MODELS]["spent"] == 500 - MAX_MODELS and models["m0"]["tokens"] == 90


def test_a_models_name_is_a_label_whatever_a_client_calls_it(share):
    for name in ("x\udfff", 'a "quoted"\nname', "long" * 1000):
        share.record_settlement(reservation(name), CHARGE, 1)
    assert b'pets_key_spent_total{key="alice",model="x?"} 1.0' in share.text()
    assert b'pets_model_spent_total{model="x?"} 1.0' in share.text() and len(share.text()) < 20_000
