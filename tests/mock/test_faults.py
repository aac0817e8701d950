"""Faults come at their rates, from a seeded generator."""

from typing import get_args

import pytest

from pets.errors import InputError
from pets.mock import DistributionAnswers, Faults, MockModel, RequestLimit
from pets.mock.completions import CompletionRequest
from pets.mock.faults import FATAL_FAULTS, ResponseFault


def faults_of(faults, number, **settings):
    """What befalls so many requests: the fatal faults in order, and how often each other one came."""
    mock = MockModel(DistributionAnswers({"q": {"A": 1.0}}, tokens=1), faults=faults, **settings)
    requests = [CompletionRequest(True, ("q",), n=2, seed=seed, top=0) for seed in range(number)]
    fatal = [mock.fatal_fault(request) for request in requests]
    mock.stats.faults.clear()
    late = [mock.respond(request)[1] for request in requests]
    assert sum(late) == mock.stats.faults["slow"]
    return fatal, dict(mock.stats.faults)


def test_every_fault_comes_at_its_rate_and_in_the_same_order_for_the_same_seed():
    faults = Faults(**dict.fromkeys(FATAL_FAULTS, 0.1), **dict.fromkeys(get_args(ResponseFault), 0.3))
    first, same, other = (faults_of(faults, 4000, seed=seed) for seed in (1, 1, 2))
    assert first == same != other
    assert all(first[0].count(name) / 4000 == pytest.approx(0.1, abs=0.02) for name in FATAL_FAULTS)
    assert all(first[1][name] / 4000 == pytest.approx(0.3, abs=0.03) for name in get_args(ResponseFault))


def test_without_faults_none_comes():
    assert faults_of(Faults(), 100) == ([None] * 100, {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"hang": -0.1},
        {"slow": 1.1},
        {"batch_error": 1.1},
        {"batch_seconds": -1},
        {"hang": float("nan")},
        {"hang": 0.6, "error_500": 0.5},
        {"slow_seconds": -1},
        {"retry_after": float("inf")},
    ],
)
def test_a_rate_or_a_time_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError):
        Faults(**wrong)


@pytest.mark.parametrize("wrong", [(0, 60.0), (1, 0.0), (1, float("inf"))])
def test_a_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InputError, match="at least 1 request"):
        RequestLimit(*wrong)


def test_a_bucket_fills_evenly_and_no_further_than_its_limit():
    now = 0.0
    bucket = RequestLimit(4, per_s=8.0, clock=lambda: now)
    assert [bucket.take() for _ in range(5)] == [0.0] * 4 + [2.0]
    assert bucket.headers()[2] == (b"x-ratelimit-reset-requests", b"8000ms")
    now = 3.0
    assert [bucket.take() for _ in range(2)] == [0.0, 1.0]
    now = 100.0
    assert [bucket.take() > 0 for _ in range(5)] == [False] * 4 + [True]


def test_a_request_meets_its_faults_in_whatever_order_requests_come():
    requests = [CompletionRequest(True, (f"q{number % 20}",), seed=number // 20) for number in range(200)]

    def fatal_faults_of(order):
        mock = MockModel(DistributionAnswers({"q": {"A": 1.0}}), faults=Faults(half_body=0.3, hang=0.2))
        return {request: (mock.fatal_fault(request), mock.fatal_fault(request)) for request in order}

    first = fatal_faults_of(requests)
    assert first == fatal_faults_of(reversed(requests))
    assert len({again for _, again in first.values()}) == 3  # a request that is tried again has another chance
