"""Rounds, deadlines, disconnects and faults."""

import asyncio
import json
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest

from pets.gateway import Settings, build_gateway
from pets.gateway.app import app
from pets.gateway.auth import ANYBODY
from pets.gateway.replies import Drawn, Reply
from pets.gateway.requests import parse_request
from pets.mock import Faults, MockModel, synthetic
from pets.openai.errors import ApiError
from pets.policies.online_grid import OnlineGrid
from pets.samplers import Completion

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, wait_until
from .conftest import BOOK, run_gateway


def test_a_request_may_ask_for_less(gateway):
    about = gateway.ask("torn", pets={"max_traces": 6}).json()["pets"]
    assert about["traces"] == 6 and about["stopped"] == "max_traces"
    assert gateway.ask("torn", pets={"rounds": 0}).json()["pets"]["traces"] == 4
    assert gateway.ask("torn", headers={"x-pets-max-traces": "5"}).json()["pets"]["traces"] == 5
    one = gateway.ask("torn", temperature=0).json()["pets"]
    assert (one["traces"], one["stopped"]) == (1, "single")


def test_the_mean_budget_is_kept_over_many_questions():
    with run_gateway(MockModel(synthetic(60, tokens=8)), mean_budget=8, window=20) as gateway:
        spent = [gateway.ask(f"Question q{i}").json()["pets"]["traces"] for i in range(60)]
    assert min(spent) >= 4 and max(spent) > 8 and 7 <= sum(spent) / 60 <= 8
    assert sum(spent) == gateway.mock.stats.traces == gateway.ledger.total.spent


def test_weighted_votes_ask_for_log_probabilities(gateway):
    reply = gateway.ask("torn", pets={"weighted": True}).json()
    assert not all(float(weight).is_integer() for weight in reply["pets"]["votes"].values())
    assert reply["choices"][0]["logprobs"] is None


def test_no_answer_is_no_vote(gateway):
    reply = gateway.ask("mute").json()
    assert reply["pets"]["answer"] is None and reply["pets"]["votes"] == {} and reply["pets"]["certificate"] == 0
    assert reply["pets"]["no_answer"] >= 4 and reply["choices"][0]["message"]["content"]


class Upstream:
    """Stands in for the server behind: every request takes ``seconds`` and brings as many traces as asked for."""

    def __init__(self, seconds=0.0):
        self.seconds, self.traces = seconds, 0

    async def sample(self, fields, n, seed, weighted):
        self.traces += n
        await asyncio.sleep(self.seconds)
        completions = [Completion(f"The answer is {'AB'[at % 2]}.", "stop", tokens=8) for at in range(n)]
        return Reply(tuple(Drawn(completion, {}) for completion in completions), 8 * n, 8)


def ask_simulated(upstream, pets, settings=None):
    """One voted request to a gateway on a simulated clock: its response, and the gateway's state."""

    async def work():
        state = build_gateway("http://127.0.0.1:9/v1", OnlineGrid(), settings=settings or Settings(answer="choice"))
        state.upstream.sample = upstream.sample
        body = {"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}], "pets": pets}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app(state)), base_url="http://gateway") as client:
            response = await client.post("/v1/chat/completions", json=body, timeout=None)
        await state.close()
        return response, state

    return run_simulated(work())


def test_a_deadline_that_leaves_no_time_for_another_round_ends_the_vote():
    upstream = Upstream(seconds=2.0)
    response, state = ask_simulated(upstream, {"timeout": 3.7})
    about = response.json()["pets"]
    assert about["stopped"] == "deadline" and about["traces"] == 4 == upstream.traces and about["answer"] == "A"
    assert about["seconds"] == 2.0 and state.ledger.total.held == 0 and state.ledger.total.spent == 4


def test_a_deadline_before_the_first_trace_is_a_504_and_what_was_sent_is_spent():
    response, state = ask_simulated(Upstream(seconds=60.0), {"timeout": 1.0})
    assert response.status_code == 504 and response.json()["error"]["code"] == "timeout"
    assert state.ledger.total.held == 0 and state.ledger.total.spent == 4


def test_traces_whose_answers_are_still_read_at_the_deadline_count_in_the_plan(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr("pets.gateway.voting._form", lambda kind, one: released.wait(PATIENCE_S) and None)
    try:
        response, state = ask_simulated(Upstream(), {"timeout": 1.0}, Settings(answer="math"))
    finally:
        released.set()
    assert response.status_code == 504
    stream = state.voter.stream
    assert state.ledger.total.spent == 4 == stream.spent()[0] + stream.unpaid


def test_a_client_that_goes_takes_its_traces_with_it():
    body = json.dumps({"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}]}).encode()
    with run_gateway(MockModel(BOOK, faults=Faults(hang=1.0))) as gateway:
        parts = urlsplit(gateway.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            wait_until(lambda: gateway.mock.stats.faults["hang"])  # its four traces are upstream
        wait_until(lambda: not gateway.state.open_requests)
        voter, ledger = gateway.state.voter, gateway.ledger
        assert not voter.polls and voter.in_flight == 0 and ledger.total.held == 0
        assert ledger.total.spent == 4 == ledger.lost
        assert voter.stream.unpaid + voter.stream.spent()[0] == 4  # what was paid counts in the plan


def test_faults_are_survived_and_the_ledger_adds_up():
    faults = Faults(
        rate_limit_bare=0.1, error_500=0.1, half_body=0.05, wrong_json=0.05, disconnect=0.05, one_choice=0.1
    )
    with run_gateway(MockModel(synthetic(40, tokens=8), faults=faults), mean_budget=8) as gateway:
        replies = [gateway.ask(f"Question q{i}") for i in range(40)]
        assert {reply.status_code for reply in replies} <= {200, 503}
        found = [reply.json()["pets"] for reply in replies if reply.status_code == 200]
        assert len(found) >= 36 and sum(about["retries"] for about in found) > 3
        stats, ledger = gateway.mock.stats, gateway.ledger
        assert ledger.delivered == stats.traces  # to the trace
        assert ledger.total.spent == ledger.delivered + ledger.lost and ledger.total.held == 0
        assert stats.traces + stats.lost <= ledger.total.spent
        stream = gateway.state.voter.stream
        assert stream.spent()[0] + stream.unpaid == ledger.total.spent and ledger.lost > 0  # the plan counts them too


def test_one_too_many_is_turned_away():
    request = parse_request(
        json.dumps({"model": "pets/m", "messages": [{"role": "user", "content": "q"}]}).encode(), {}, Settings()
    )

    async def work():
        state = build_gateway("http://127.0.0.1:9/v1", OnlineGrid(), settings=Settings(queue=1))
        voter = state.voter
        reached = asyncio.Event()

        async def wait(*args):
            reached.set()
            await asyncio.Event().wait()

        state.upstream.sample = wait
        first = asyncio.create_task(voter.vote(request, request.options, ANYBODY, "one"))
        await asyncio.wait_for(reached.wait(), PATIENCE_S)
        with pytest.raises(ApiError) as error:
            await voter.vote(request, request.options, ANYBODY, "two")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not voter.polls and voter.in_flight == 0
        await state.close()
        return error.value

    refusal = asyncio.run(work())
    assert (refusal.status, refusal.code, refusal.retry_after) == (503, "overloaded", 1)


def test_a_plain_stream_that_breaks_off_breaks_off_for_the_client_too():
    body = {"model": "mock", "messages": [{"role": "user", "content": "torn"}], "stream": True}
    with run_gateway(MockModel(BOOK, faults=Faults(half_body=1.0))) as gateway:
        with pytest.raises(httpx.RemoteProtocolError):
            gateway.client.post("/v1/chat/completions", json=body)
        assert gateway.client.get("/readyz").status_code == 200


def test_an_upstream_that_is_not_there():
    with run_gateway() as gateway:
        gateway.state.upstream.url = "http://127.0.0.1:9/v1"
        reply = gateway.ask()
        assert reply.status_code == 503 and reply.json()["error"]["code"] == "upstream_busy"
        assert gateway.client.get("/v1/models").status_code == 503 and gateway.ask(model="mock").status_code == 503
        assert gateway.ledger.total.spent == 0
