"""Against a server that misbehaves: the budget is kept to the trace, and every fault is in the books."""

import pytest

from pets.engine import solve
from pets.errors import BusyError, RefusedError
from pets.mock import Faults
from pets.samplers.openai import OpenAISampler

from .conftest import Scripted, asked

BAD = Faults(rate_limit=0.1, error_500=0.05, hang=0.02, half_body=0.02, fewer_choices=0.02, retry_after=0.01)


def test_a_bad_server_costs_time_and_nothing_else(serve):
    mock, _, problems, sampler = serve(faults=BAD, timeout=2.0)
    solution = solve(problems, sampler=sampler, budget="10x", concurrency=32, backoff=0.01)
    assert solution.traces == solution.spent == solution.total == 200
    assert all(answer.answer is not None for answer in solution.answers)
    assert sum(answer.traces for answer in solution.answers) == 200
    seen, faults = mock.stats, solution.faults
    assert seen.traces == 200 - faults.get("given up", 0)
    told = {"429": "rate_limit", "500": "error_500", "broken reply": "half_body", "timeout": "hang"}
    assert {ours: faults.get(ours, 0) for ours in told} == {ours: seen.faults[its] for ours, its in told.items()}
    assert faults.get("fewer choices", 0) == seen.faults["fewer_choices"]
    spoiled = sum(seen.faults[its] for its in told.values())
    assert spoiled > 5 and seen.requests == spoiled + sum_of_whole(mock)


def sum_of_whole(mock):
    """Requests that were answered whole."""
    return mock.stats.requests - sum(
        mock.stats.faults[name] for name in ("rate_limit", "error_500", "hang", "half_body")
    )


def test_a_trace_is_given_up_after_its_tries_charged_and_casts_no_vote():
    broken = Scripted(lambda prompt, seed: raise_(BusyError("no room", status=503)) if "q2" in str(prompt) else "A")
    solution = solve(asked(["q1", "q2"]), sampler=broken, budget=8, max_per_question=4, tries=2, backoff=0.0)
    assert solution.spent == 8 and solution.faults["503"] % 2 == 0  # every request to q2 was tried twice
    good, bad = solution.answers
    assert good.answer == "A" and good.failed == 0 and solution.faults["given up"] == bad.failed == 4
    assert bad.answer is None and bad.failed == bad.traces == bad.no_answer and bad.certificate == 0.0


def raise_(error):
    raise error


def test_the_servers_word_on_when_to_come_back_is_kept(monkeypatch):
    waited = []

    async def sleep(seconds, result=None):
        waited.append(seconds)

    busy = [BusyError("wait", status=429, retry_after=7.0)]
    sampler = Scripted(lambda prompt, seed: raise_(busy.pop()) if busy else "The answer is B.")
    monkeypatch.setattr("asyncio.sleep", sleep)
    assert solve(asked(["q"]), sampler=sampler, budget=1).answers[0].answer == "B"
    assert any(7.0 <= seconds < 9.0 for seconds in waited)


def test_a_bad_key_ends_the_run_with_the_servers_words(serve):
    _, _, problems, sampler = serve(3, api_key="secret")
    with pytest.raises(RefusedError, match="401: Incorrect API key"):
        solve(problems, sampler=sampler)


def test_no_such_model_ends_the_run(serve):
    _, url, problems, _ = serve(3)
    with pytest.raises(RefusedError, match="404"):
        solve(problems, sampler=OpenAISampler(url, "no-such-model", loopback=True))


def test_nobody_at_the_address_ends_the_run():
    with pytest.raises(BusyError, match="cannot be reached"):
        solve(asked(["q"]), sampler=OpenAISampler("http://127.0.0.1:9/v1", "m", loopback=True))


def test_of_two_endpoints_one_of_which_is_dead_the_other_does_the_work(serve):
    mock, _, problems, sampler = serve(10)
    dead = OpenAISampler("http://127.0.0.1:9/v1", "mock", loopback=True)
    solution = solve(problems, sampler=[dead, sampler], budget="3x", concurrency=8, backoff=0.0)
    assert solution.spent == mock.stats.traces == 30 and solution.failed == 0
    assert 0 < solution.faults["unreachable"] <= 16


def test_a_question_that_is_refused_does_not_end_the_run():
    sampler = Scripted(
        lambda prompt, seed: raise_(RefusedError("too long", status=400)) if "q2" in str(prompt) else "C"
    )
    solution = solve(asked(["q1", "q2", "q3"]), sampler=sampler, budget="4x")
    assert [answer.answer for answer in solution.answers] == ["C", None, "C"] and solution.spent == 12
