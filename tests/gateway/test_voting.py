"""Rounds, deadlines, disconnects and faults."""

import asyncio
import json
import threading

import httpx
import pytest

from pets.gateway import Settings, build_gateway
from pets.gateway.auth import ANYBODY
from pets.gateway.refusals import RefusalError
from pets.gateway.requests import parse_request
from pets.mock import Faults, Known, Mock, synthetic
from pets.policies.online_grid import OnlineGrid

from .conftest import BOOK, run_gateway


def test_a_request_may_ask_for_less(gateway):
    about = gateway.ask("torn", pets={"max_traces": 6}).json()["pets"]
    assert about["traces"] == 6 and about["stopped"] == "max_traces"
    assert gateway.ask("torn", pets={"rounds": 0}).json()["pets"]["traces"] == 4
    assert gateway.ask("torn", headers={"x-pets-max-traces": "5"}).json()["pets"]["traces"] == 5
    one = gateway.ask("torn", temperature=0).json()["pets"]
    assert (one["traces"], one["stopped"]) == (1, "single")


def test_the_mean_budget_is_kept_over_many_questions():
    with run_gateway(Mock(synthetic(60, tokens=8)), mean_budget=8, window=20) as gateway:
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


def test_a_deadline_cuts_rounds_and_counts_what_was_sent():
    slow = Mock(Known({"torn": {"A": 0.5, "B": 0.5}}, tokens=20), tokens_per_second=10)
    with run_gateway(slow) as gateway:
        about = gateway.ask("torn", seed=0, pets={"timeout": 3.7}).json()["pets"]  # its first four take 2.7 s
        assert about["stopped"] == "deadline" and about["traces"] == 4 and about["answer"] in {"A", "B"}
        assert gateway.ledger.total.held == 0 and gateway.ledger.total.spent == 4
    with run_gateway(Mock(BOOK, faults=Faults(hang=1.0))) as gateway:
        late = gateway.ask("torn", pets={"timeout": 1.0})
        assert late.status_code == 504 and late.json()["error"]["code"] == "timeout"
        assert gateway.ledger.total.held == 0 and gateway.ledger.total.spent == 4  # sent is spent


def test_a_client_that_goes_takes_its_traces_with_it():
    hanging = Mock(BOOK, faults=Faults(hang=1.0))
    with run_gateway(hanging) as gateway:
        body = {"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}]}
        with pytest.raises(httpx.ReadTimeout):
            gateway.client.post("/v1/chat/completions", json=body, timeout=0.5)
        voter = gateway.state.voter
        gone = threading.Event()

        def look():
            if voter.polls or gateway.state.open_requests:
                threading.Timer(0.02, look).start()
            else:
                gone.set()

        look()
        assert gone.wait(10) and voter.in_flight == 0 and gateway.ledger.total.held == 0
        assert gateway.ledger.total.spent == 4 == gateway.ledger.lost
        assert voter.stream.unpaid + voter.stream.spent()[0] == 4  # what was paid counts in the plan


def test_traces_whose_answers_are_still_read_at_the_deadline_count_in_the_plan(monkeypatch):
    let_go = threading.Event()
    monkeypatch.setattr("pets.gateway.voting.form_of", lambda kind, one: let_go.wait(10) and None)
    with run_gateway(settings=Settings(answer="math")) as gateway:
        threading.Timer(1.5, let_go.set).start()
        assert gateway.ask("easy", pets={"timeout": 1.0}).status_code == 504
        stream = gateway.state.voter.stream
        assert gateway.ledger.total.spent == 4 == stream.spent()[0] + stream.unpaid


def test_faults_are_survived_and_the_ledger_adds_up():
    faults = Faults(
        rate_limit_bare=0.1, error_500=0.1, half_body=0.05, wrong_json=0.05, disconnect=0.05, one_choice=0.1
    )
    with run_gateway(Mock(synthetic(40, tokens=8), faults=faults), mean_budget=8) as gateway:
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
        await reached.wait()
        with pytest.raises(RefusalError) as error:
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
    with run_gateway(Mock(BOOK, faults=Faults(half_body=1.0))) as gateway:
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
