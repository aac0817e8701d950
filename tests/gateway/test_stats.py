"""What the dashboard reads from a share's registry: sums that agree with their history, all of it bounded."""

from types import SimpleNamespace

import pytest

from pets.gateway.ledger_store import Charge, Reservation
from pets.gateway.metrics import (
    GAUGES,
    LATEST_ROWS,
    MAX_MODELS,
    OTHER_MODELS,
    REASON_CHARACTERS,
    Share,
)
from pets.gateway.stats import COLUMNS

CHARGE = Charge(40, 4, 90, 12)


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
    assert share.stats.now()["requests_per_second"] == 1.0
    clock.now += 100.0
    assert share.stats.now()["requests_per_second"] == 0.0


def test_every_request_is_in_one_outcome_and_errors_are_listed(share):
    for status in (200, 201, 400, 429, 499, 500, 503):
        share.record_request(finished(status, retries=2, reason="why"))
    totals = share.stats.now()["totals"]
    assert {name: totals[name] for name in ("answered", "refused", "gone", "failed", "retries")} == {
        "answered": 2, "refused": 2, "gone": 1, "failed": 2, "retries": 14,
    }  # fmt: skip
    assert [row["status"] for row in share.errors] == [400, 429, 499, 500, 503]
    share.record_request(finished(400, reason="x" * 10_000))
    assert len(share.errors[-1]["reason"]) == REASON_CHARACTERS
    assert share.stats.now()["models"][0]["requests"] == 2


def test_the_columns_add_up_to_the_totals(share, clock):
    for number in range(50):
        share.record_request(finished(500 if number % 9 == 0 else 200, retries=number % 2))
        vote(share)
        share.record_settlement(reservation(), CHARGE, 0.25)
        clock.now += 37.0
    for span in ("hour", "day"):
        columns = share.stats.columns(span)
        sums = {name: sum(value or 0 for value in columns[name]) for name in COLUMNS}
        assert sums == share.stats.now()["totals"] and sums["spent"] == 12.5
        assert len({len(columns[name]) for name in (*COLUMNS, "start", "vote_p50", "plain_p99")}) == 1


def test_before_the_start_nothing_is_known(share, clock):
    columns = share.stats.columns("hour")
    for start, answered in zip(columns["start"], columns["answered"], strict=True):
        assert (answered is None) == (start + columns["seconds"] <= clock.now)


def test_latencies_are_of_answered_requests_by_kind(share, clock):
    share.record_request(finished())
    share.record_request(finished(kind="passthrough", seconds=3.0))
    share.record_request(finished(503, seconds=599.0))
    latency = share.stats.now()["latency"]
    assert 0.15 < latency["vote"][0] < latency["vote"][1] <= 0.25 and 2.5 < latency["plain"][1] <= 3.5
    assert share.stats.columns("hour")["vote_p99"][-1] == latency["vote"][1]
    clock.now += 4000.0
    assert share.stats.now()["latency"] == {"vote": [None, None], "plain": [None, None]}  # nothing lately


def test_votes_are_counted_by_pattern_and_certificate(share):
    vote(share)
    vote(share, warmup=None, certificate=1.0, traces=2)
    vote(share, certificate=0.0)
    shown = share.stats.now()
    assert [(bound, count) for bound, count in shown["certificates"] if count] == [(0.5, 1), (0.95, 1), (1.0, 1)]
    assert shown["first_answers"] == {"3-1": {"questions": 2, "traces": 10}, "fewer": {"questions": 1, "traces": 2}}
    assert shown["totals"]["votes"] == 3 and shown["totals"]["lost"] == 3


def test_the_pace_is_that_of_the_balance_whoever_spends(share, clock):
    clock.now, clock.spent = clock.now + 600.0, 50
    assert share.stats.now()["spent_per_second"] == pytest.approx(50 / 600, rel=0.05)


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
    models = {row["model"]: row for row in share.stats.now()["models"]}
    assert len(models) == MAX_MODELS + 1 and sum(row["spent"] for row in models.values()) == 500
    assert models[OTHER_MODELS]["spent"] == 500 - MAX_MODELS and models["m0"]["tokens"] == 90


def test_a_models_name_is_a_label_whatever_a_client_calls_it(share):
    for name in ("x\udfff", 'a "quoted"\nname', "long" * 1000):
        share.record_settlement(reservation(name), CHARGE, 1)
    assert b'pets_key_spent_total{key="alice",model="x?"} 1.0' in share.text()
    assert b'pets_model_spent_total{model="x?"} 1.0' in share.text() and len(share.text()) < 20_000
