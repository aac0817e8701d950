"""What the dashboard shows of a share of a gateway's work: sums that agree with their history, all of it bounded."""

from types import SimpleNamespace

import pytest

from pets.gateway.ledger import Balance, Reservation
from pets.gateway.stats import (
    COLUMNS,
    LATEST_ROWS,
    MAX_MODELS,
    OTHER_MODELS,
    REASON_CHARACTERS,
    FinishedRequest,
    ShareStats,
    SpendPace,
)


@pytest.fixture
def clock():
    return SimpleNamespace(now=1000.0, spent=0)


@pytest.fixture
def stats(clock):
    return ShareStats(lambda: clock.spent, clock=lambda: clock.now)


def finished(status=200, kind="vote", **fields):
    return FinishedRequest("id", "alice", kind, status, 0.2, "m", **fields)


def reservation(model="m", *, counted=True):
    return Reservation(1, "alice", 4, 100, (Balance(),) if counted else (), model=model)


def metadata(**fields):
    return {"traces": 5, "lost": 1, "warmup": "3-1", "certificate": 0.93, **fields}


def test_the_request_rate_is_that_of_the_last_minute(stats, clock):
    for _ in range(30):
        stats.record_request(finished())
        clock.now += 1.0
    assert stats.requests_per_second() == 1.0
    clock.now += 45.0
    assert stats.requests_per_second() == 14 / 60  # those of the last 60 seconds, the present one among them


def test_every_request_is_in_one_outcome_and_errors_are_listed(stats):
    for status in (200, 201, 400, 429, 499, 500, 503):
        stats.record_request(finished(status, retries=2, reason="why"))
    assert {name: stats.totals[name] for name in ("answered", "refused", "gone", "failed", "retries")} == {
        "answered": 2, "refused": 2, "gone": 1, "failed": 2, "retries": 14,
    }  # fmt: skip
    assert [row["status"] for row in stats.errors] == [400, 429, 499, 500, 503]
    stats.record_request(finished(400, reason="x" * 10_000))
    assert len(stats.errors[-1]["reason"]) == REASON_CHARACTERS
    assert stats.by_model["m"]["requests"] == 2


def test_the_columns_add_up_to_the_totals(stats, clock):
    for number in range(50):
        stats.record_request(finished(500 if number % 9 == 0 else 200, retries=number % 2))
        stats.record_vote(metadata(), {})
        stats.record_settlement(reservation(), (40, 4, 90, 12, 0, 0))
        clock.now += 37.0
    for span in ("hour", "day"):
        columns = stats.columns(span)
        assert {name: sum(value or 0 for value in columns[name]) for name in COLUMNS} == {
            name: stats.totals[name] for name in COLUMNS
        }
        assert len({len(columns[name]) for name in (*COLUMNS, "start", "vote_p50", "plain_p99")}) == 1


def test_before_the_start_nothing_is_known(stats, clock):
    columns = stats.columns("hour")
    seconds = columns["seconds"]
    for start, answered in zip(columns["start"], columns["answered"], strict=True):
        assert (answered is None) == (start + seconds <= clock.now)


def test_latencies_are_of_answered_requests_by_kind(stats):
    stats.record_request(finished())
    stats.record_request(FinishedRequest("id", "alice", "passthrough", 200, 3.0))
    stats.record_request(FinishedRequest("id", "alice", "vote", 503, 600.0))
    assert stats.latency("vote")[1] == pytest.approx(0.2, rel=0.1)
    assert stats.latency("plain")[1] == pytest.approx(3.0, rel=0.1)


def test_votes_are_counted_by_pattern_and_certificate(stats):
    stats.record_vote(metadata(), {"id": "q1"})
    stats.record_vote(metadata(warmup=None, certificate=1.0, traces=2), {"id": "q2"})
    stats.record_vote(metadata(certificate=0.0), {"id": "q3"})
    assert stats.certificates == [1] + [0] * 8 + [2]
    assert stats.first_answers == {"3-1": {"questions": 2, "traces": 10}, "fewer": {"questions": 1, "traces": 2}}
    assert stats.totals["votes"] == 3 and stats.totals["lost"] == 3


def test_what_is_given_beyond_the_budget_has_tokens_and_costs_nothing(stats):
    stats.record_settlement(reservation(counted=False), (40, 1, 90, 12, 0, 0))
    stats.record_settlement(reservation(), (0, 0, 0, 0, 0, 0))  # free: the server did not sample
    assert (stats.totals["tokens"], stats.totals["spent"]) == (90, 0)
    assert stats.by_model["m"]["traces"] == 1


def test_errors_that_are_the_same_are_one_row_of_the_latest_with_their_number(stats):
    for status, reason in [(503, "full"), (400, "wrong"), (503, "full"), (503, "away"), (503, "full")]:
        stats.record_request(finished(status, reason=reason))
    assert [(row["status"], row["reason"], row["times"]) for row in stats.errors] == [
        (400, "wrong", 1), (503, "away", 1), (503, "full", 3),
    ]  # fmt: skip


def test_lists_and_models_are_bounded(stats):
    for number in range(500):
        stats.record_vote(metadata(), {"id": str(number)})
        stats.record_request(finished(500, reason=f"reason {number}"))
        stats.record_settlement(reservation(model=f"m{number}"), (1, 1, 1, 1, 0, 0))
    assert len(stats.questions) == len(stats.errors) == LATEST_ROWS and stats.questions[-1]["id"] == "499"
    assert len(stats.by_model) == MAX_MODELS + 1 and sum(m["spent"] for m in stats.by_model.values()) == 500
    assert stats.by_model[OTHER_MODELS]["spent"] == 500 - MAX_MODELS


def test_what_was_spent_before_the_balance_was_known_is_no_pace():
    pace = SpendPace(0.0, None)
    assert pace.per_second(1.0, None) == 0.0
    assert pace.per_second(2.0, 5000) == 0.0
    assert pace.per_second(62.0, 5030) == 0.5


def test_the_pace_is_that_of_the_last_hour_whoever_spent():
    pace = SpendPace(0.0, 0)
    for minute in range(1, 601):
        pace.sample(60.0 * minute, 1000 if minute <= 300 else 1000 + 2 * (minute - 300))
    assert pace.per_second(36000.0, 1600) == pytest.approx(2 / 60, rel=0.02)
    assert pace.per_second(36000.0 + 7200.0, 1600) < 2 / 60  # nobody spends any more
    assert len(pace._samples) < 130
