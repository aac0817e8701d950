"""Voted and plain requests: what a client gets, what is charged, whatever the server behind does."""

import asyncio
import contextlib
import json
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from pets.core.money import Currency
from pets.errors import BusyError, RefusedError, ReplyError, UnreachableError
from pets.gateway import Limits, Settings, build_gateway, running
from pets.gateway.ledger_store import SpendRateLimit
from pets.mock import Faults, MockModel, synthetic
from pets.store.store import open_database

from ..hostile_server import HostileServer
from ..network import answered_by
from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, wait_until
from .conftest import (
    BOOK,
    RunningGateway,
    ScriptedSampler,
    add_key,
    ask_in_process,
    build_scripted,
    hold_upstream,
    run_gateway,
)

NOBODY = "http://127.0.0.1:9/v1"
EASY = [{"role": "user", "content": "Question easy"}]
TORN = [{"role": "user", "content": "Question torn"}]


@pytest.fixture
def sdk(openai, gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_a_voted_answer(sdk, gateway):
    how = {"pets": {"answer": "choice"}}
    reply = sdk.chat.completions.create(model="pets/mock", messages=TORN, seed=0, extra_body=how)
    about = reply.pets
    assert about["answer"] in ("A", "B") and sum(about["votes"].values()) == about["traces"] > 4
    assert f"\\boxed{{{about['answer']}}}" in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop" and reply.model == "pets/mock"
    assert 0.3 < about["certificate"] < 1 and about["warmup"] in {"4", "3-1", "2-2", "2-1-1"}
    assert reply.usage.completion_tokens == gateway.mock.stats.completion_tokens
    assert reply.usage.total_tokens == reply.usage.completion_tokens + reply.usage.prompt_tokens
    assert gateway.mock.stats.traces == about["traces"] == gateway.ledger.total.spent


def test_a_streamed_voted_answer_with_usage(sdk):
    text, last, usage = "", None, None
    with sdk.chat.completions.create(
        model="pets/mock", messages=TORN, stream=True, stream_options={"include_usage": True}
    ) as stream:
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                if choice.finish_reason:
                    last = chunk
    assert last.choices[0].finish_reason == "stop" and last.pets["answer"] in text
    assert usage.completion_tokens > 0


def test_a_slow_streamed_vote_sends_signs_of_life(openai):
    released = threading.Event()
    with run_gateway(settings=Settings.of(policy="online_grid", answer="choice", keepalive=0.02)) as gateway:
        hold_upstream(gateway.state, released)
        body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}], "stream": True}
        with gateway.client.stream("POST", "/v1/chat/completions", json=body, timeout=PATIENCE_S) as reply:
            lines = reply.iter_lines()
            for _ in range(3):
                assert (next(lines), next(lines)) == (": voting", "")
            released.set()
            assert [line for line in lines if line.startswith("data")][-1] == "data: [DONE]"
        with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none") as client:  # it reads past them
            chunks = list(client.chat.completions.create(model="pets/mock", messages=EASY, stream=True))
        assert chunks[-1].pets["answer"] == "A"


def test_a_plain_model_passes_through(sdk, gateway):
    reply = sdk.chat.completions.create(model="mock", messages=TORN, n=3, seed=1)
    assert len(reply.choices) == 3 and reply.model == "mock" and not hasattr(reply, "pets")
    assert gateway.ledger.total.spent == 0 and gateway.mock.stats.traces == 3
    chunks = list(sdk.chat.completions.create(model="mock", messages=TORN, stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_errors_are_openai_errors(openai, sdk, tmp_path):
    with pytest.raises(openai.NotFoundError):
        sdk.chat.completions.create(model="pets/other", messages=TORN)
    with pytest.raises(openai.BadRequestError, match="max_traces") as error:
        sdk.chat.completions.create(model="pets/mock", messages=TORN, extra_body={"pets": {"max_traces": -1}})
    assert error.value.param == "pets.max_traces" and error.value.type == "invalid_request_error"
    add_key(tmp_path / "g.db", "alice")
    with (
        run_gateway(store=tmp_path / "g.db") as gateway,
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="pets-guess") as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()


def test_a_used_up_budget_is_a_rate_limit_error(openai):
    with run_gateway(total=5) as gateway, openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x") as client:
        first = client.chat.completions.create(model="pets/mock", messages=TORN)
        assert first.pets["traces"] <= 5
        with pytest.raises(openai.RateLimitError) as error:
            client.chat.completions.create(model="pets/mock", messages=TORN)
        assert error.value.code == "insufficient_quota" and int(error.value.response.headers["retry-after"]) >= 1
        assert gateway.ledger.total.spent <= 5


def test_a_used_up_budget_may_fall_back_to_one_trace():
    settings = Settings.of(policy="online_grid", answer="choice", over_budget="single")
    with run_gateway(total=0, settings=settings) as gateway:
        about = gateway.ask("torn").json()["pets"]
        assert about["stopped"] == "fallback" and about["traces"] == 1 and gateway.ledger.total.spent == 0


def test_a_request_may_ask_for_less(gateway):
    about = gateway.ask("torn", pets={"max_traces": 6}).json()["pets"]
    assert about["traces"] == 6 and about["stopped"] == "max_traces"
    assert gateway.ask("torn", pets={"max_traces": 4}).json()["pets"]["traces"] == 4
    assert gateway.ask("torn", headers={"x-pets-max-traces": "5"}).json()["pets"]["traces"] == 5
    one = gateway.ask("torn", temperature=0).json()["pets"]
    assert (one["traces"], one["stopped"]) == (1, "single")


def test_the_mean_budget_is_kept_over_many_questions():
    settings = Settings.of(policy="online_grid", answer="choice", budget_window=20)
    with run_gateway(MockModel(synthetic(60, tokens=8)), settings, mean_budget=8) as gateway:
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


def test_the_answers_fields_are_those_of_every_verb(gateway):
    about = gateway.ask("torn").json()["pets"]
    assert {"id", "answer", "votes", "certificate", "traces", "no_answer", "failed", "tokens", "prompt_tokens", "cost",
            "warmup", "text", "complete"} <= about.keys()  # fmt: skip


def ask_simulated(sampler, pets, settings=None, **options):
    """One voted request to a gateway on a simulated clock: its response, and the gateway's state."""

    async def work():
        state = build_scripted(sampler, settings=settings, **options)
        response = await ask_in_process(state, pets=pets)
        await state.close()
        return response, state

    return run_simulated(work())


def planned(state):
    """Traces that the plan counts as spent, or has yet to make up for."""
    return state.driver.allocator.budget.spent + state.driver.allocator.debt


def test_a_client_that_goes_takes_its_traces_with_it():
    body = json.dumps({"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}]}).encode()
    with run_gateway(MockModel(BOOK, faults=Faults(hang=1.0))) as gateway:
        parts = urlsplit(gateway.url)
        with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as client:
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n" % len(body)
            )
            client.sendall(body)
            wait_until(lambda: gateway.mock.stats.faults["hang"])  # its four traces are upstream
        state, ledger = gateway.state, gateway.ledger
        wait_until(lambda: gateway.settled and not state.submissions.votes)
        assert state.driver.questions.in_flight == 0 and ledger.total.held == 0
        assert ledger.total.spent == 4 == gateway.settled["lost"]
        assert planned(gateway.state) == 4  # what was paid counts in the plan


def test_faults_are_survived_and_the_ledger_adds_up(monkeypatch):
    # Now and then 20 traces in a row are lost, after which a gateway rightly turns requests away.
    monkeypatch.setattr("pets.engine.fetch.MOST_UNKNOWN_TRACES", 1000)
    faults = Faults(
        rate_limit_bare=0.1, error_500=0.1, half_body=0.05, wrong_json=0.05, disconnect=0.05, one_choice=0.1
    )
    with run_gateway(MockModel(synthetic(40, tokens=8), faults=faults), mean_budget=8) as gateway:
        with ThreadPoolExecutor(8) as clients:
            replies = [*clients.map(lambda i: gateway.ask(f"Question q{i}", seed=i), range(40))]
        assert {reply.status_code for reply in replies} <= {200, 503}
        votes = [reply.json()["pets"] for reply in replies if reply.status_code == 200]
        assert len(votes) >= 36 and sum(about["retries"] for about in votes) > 3
        stats, ledger, settled = gateway.mock.stats, gateway.ledger, gateway.settled
        assert settled["delivered"] == stats.traces  # to the trace
        assert ledger.total.spent == settled["delivered"] + settled["lost"] and ledger.total.held == 0
        assert stats.traces + stats.lost <= ledger.total.spent
        assert planned(gateway.state) == ledger.total.spent and settled["lost"] > 0  # the plan counts them too


def test_a_plain_stream_that_breaks_off_breaks_off_for_the_client_too():
    body = {"model": "mock", "messages": [{"role": "user", "content": "torn"}], "stream": True}
    with run_gateway(MockModel(BOOK, faults=Faults(half_body=1.0))) as gateway:
        with pytest.raises(httpx.RemoteProtocolError):
            gateway.client.post("/v1/chat/completions", json=body)
        assert gateway.client.get("/readyz").status_code == 200


def test_an_upstream_that_is_not_there():
    state = build_gateway(
        "http://127.0.0.1:9/v1", settings=Settings.of(policy="online_grid", answer="choice", timeout=1.0)
    )
    with running(state) as url, httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
        gateway = RunningGateway(url, state, None, client)
        reply = gateway.ask()
        assert reply.status_code == 503 and reply.json()["error"]["code"] == "upstream_busy"
        assert gateway.client.get("/v1/models").status_code == 503 and gateway.ask(model="mock").status_code == 503
        assert gateway.ledger.total.spent == 0


def test_a_deadline_that_leaves_no_time_for_another_round_ends_the_vote():
    sampler = ScriptedSampler(seconds=2.0)
    response, state = ask_simulated(sampler, {"timeout": 3.7})
    about = response.json()["pets"]
    assert about["stopped"] == "deadline" and about["traces"] == 4 == sampler.traces and about["answer"] == "A"
    assert about["seconds"] == 2.0 == about["upstream_seconds"]
    assert state.ledger.total.held == 0 and state.ledger.total.spent == 4


def test_a_deadline_before_the_first_trace_is_a_504_and_what_was_sent_is_spent():
    response, state = ask_simulated(ScriptedSampler(seconds=60.0), {"timeout": 1.0})
    assert response.status_code == 504 and response.json()["error"]["code"] == "timeout"
    assert state.ledger.total.held == 0 and state.ledger.total.spent == 4 == planned(state)


def test_traces_whose_answers_are_still_read_at_the_deadline_are_charged_and_count_in_the_plan(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr("pets.answers.math.Math.reads_at_once", False)
    monkeypatch.setattr("pets.engine.question.OpenQuestion.read", lambda *args: [released.wait(PATIENCE_S) and None])
    try:
        response, state = ask_simulated(
            ScriptedSampler(), {"timeout": 1.0}, Settings.of(policy="online_grid", answer="math")
        )
    finally:
        released.set()
    assert response.status_code == 504
    assert state.ledger.total.spent == 4 == planned(state) and state.ledger.total.held == 0


def test_a_server_that_refuses_a_large_n_sells_as_many_traces_as_one_that_does_not():
    def refuse(n, now):
        if n > 4:
            raise RefusedError("at most 4 choices.", status=400)

    whole, _ = ask_simulated(ScriptedSampler(), {"max_traces": 32})
    split, state = ask_simulated(ScriptedSampler(refuse), {"max_traces": 32})
    votes = [response.json()["pets"] for response in (whole, split)]
    assert votes[0]["traces"] == votes[1]["traces"] == state.ledger.total.spent > 4
    assert [about["no_answer"] for about in votes] == [0, 0] and votes[0]["votes"] == votes[1]["votes"]


def test_a_retry_never_comes_before_the_server_wants_it():
    def busy_first(n, now):
        if now < 30.0:
            raise BusyError("slow down", status=429, retry_after=30.0)

    sampler = ScriptedSampler(busy_first)
    response, state = ask_simulated(sampler, {"max_traces": 4})
    assert [now for now, _ in sampler.requests] == [0.0, 30.0]
    assert response.json()["pets"]["traces"] == 4 == state.ledger.total.spent


def outage(n, now):
    if now < 150.0:
        raise UnreachableError("nobody is there")


def test_an_outage_that_ends_before_the_deadline_costs_time_alone():
    response, state = ask_simulated(ScriptedSampler(outage), {"max_traces": 4, "timeout": 600})
    about = response.json()["pets"]
    assert about["traces"] == 4 == state.ledger.total.spent and about["failed"] == 0
    assert about["seconds"] >= 150 and about["upstream_seconds"] == 0


def test_an_outage_longer_than_the_deadline_is_a_503_and_nothing_is_charged():
    response, state = ask_simulated(ScriptedSampler(outage), {"timeout": 60})
    assert response.status_code == 503 and response.json()["error"]["code"] == "upstream_busy"
    assert state.ledger.total.spent == state.ledger.total.held == 0 == planned(state)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_attempt_that_the_server_turned_down_is_free(status):
    def turn_down(n, now):
        raise BusyError("not now", status=status)

    response, state = ask_simulated(ScriptedSampler(turn_down), {})
    assert response.status_code == 503 and state.ledger.total.spent == 0 == planned(state)


@pytest.mark.parametrize("error", [BusyError("no answer in time"), ReplyError("half a body")])
def test_an_attempt_that_may_have_been_sampled_is_charged(error):
    def first_breaks(n, now, broken=[]):  # noqa: B006 (remembers)
        if not broken:
            broken.append(n)
            raise error

    response, state = ask_simulated(ScriptedSampler(first_breaks), {"max_traces": 4})
    about = response.json()["pets"]
    assert (about["traces"], about["lost"], about["failed"]) == (8, 4, 4) and sum(about["votes"].values()) == 4
    assert state.ledger.total.spent == 8 == planned(state)


def test_losing_the_race_for_the_budget_is_a_429_with_the_reason():
    async def work():
        state = build_scripted(ScriptedSampler(seconds=1.0), total=4)
        responses = await asyncio.gather(ask_in_process(state), ask_in_process(state))
        await state.close()
        return sorted(responses, key=lambda response: response.status_code), state

    (first, second), state = run_simulated(work())
    assert first.status_code == 200 and first.json()["pets"]["traces"] == 4 == state.ledger.total.spent
    assert second.status_code == 429 and "used up this gateway's budget" in second.json()["error"]["message"]


async def ask_all(state, count, **fields):
    """The status codes and errors of many requests at once."""
    responses = await asyncio.gather(*(ask_in_process(state, **fields) for _ in range(count)))
    await state.close()
    return Counter(response.status_code for response in responses), responses


def test_a_hundred_at_once_on_a_key_of_forty_get_an_answer_or_a_429(tmp_path):
    secret = add_key(tmp_path / "g.db", "alice", budget=40)

    async def work():
        state = build_scripted(ScriptedSampler(seconds=1.0), store=tmp_path / "g.db")
        headers = {"authorization": f"Bearer {secret}"}
        statuses, responses = await ask_all(state, 100, headers=headers)
        return statuses, responses, state.ledger.total.spent

    statuses, responses, spent = run_simulated(work())
    assert statuses.keys() == {200, 429} and statuses.total() == 100 and spent <= 40
    messages = {response.json()["error"]["message"] for response in responses if response.status_code == 429}
    assert messages == {"You have used up this key's budget of 40 traces."}


def test_losing_the_race_for_the_budget_falls_back_to_one_trace_where_that_is_served():
    async def work():
        settings = Settings.of(policy="online_grid", answer="choice", over_budget="single")
        state = build_scripted(ScriptedSampler(seconds=1.0), settings=settings, total=20)
        statuses, responses = await ask_all(state, 30)
        return statuses, [response.json()["pets"]["stopped"] for response in responses], state.ledger.total.spent

    statuses, stopped, spent = run_simulated(work())
    assert statuses == {200: 30} and spent <= 20 and stopped.count("fallback") >= 25


LIMIT, ANSWER = 1000, "The answer is A."
CLAIMS = {
    "honest": {"prompt_tokens": 9},
    "without a usage": None,
    "a usage of nothing": {"completion_tokens": 0, "prompt_tokens": 0},
    "2^53 tokens": {"completion_tokens": 2**53, "prompt_tokens": 2**53},
    "2^53 tokens of prompt": {"completion_tokens": 5, "prompt_tokens": 2**53},
    "one more than all": {"completion_tokens": 16 * LIMIT + 1, "prompt_tokens": 9},
}
PRICE = Currency.money(3.0, 15.0, prompt_tokens=0, max_tokens=LIMIT)


class HostileUpstream:
    """Writes as much as the largest limit that it is sent allows, thinks and calls tools, and claims ``usage``."""

    def __init__(self, usage):
        self.usage, self.tokens, self.bodies = usage, 0, []

    async def __call__(self, request):
        body = json.loads(request.content)
        self.bodies.append(body)
        limit = max(body.get(name, 0) for name in ("max_tokens", "max_completion_tokens", "n_predict")) or 10**5
        self.tokens += body["n"] * limit
        thoughts, calls = "hmm " * (limit // 2), [{"function": {"arguments": "call " * (limit // 2)}}]
        message = {"role": "assistant", "content": ANSWER, "reasoning_content": thoughts, "tool_calls": calls}
        choices = [{"index": i, "message": message, "finish_reason": "stop"} for i in range(body["n"])]
        usage = {} if self.usage is None else {"usage": {"completion_tokens": body["n"] * limit} | self.usage}
        await asyncio.sleep(1.0)
        return httpx.Response(200, json={"choices": choices, **usage})


@pytest.mark.parametrize("currency", [Currency.tokens(LIMIT), PRICE], ids=["tokens", "money"])
@pytest.mark.parametrize("claim", CLAIMS)
def test_budgets_in_tokens_and_money_hold_whatever_is_claimed_by_many_requests_at_once(claim, currency, tmp_path):
    total = 24 * currency.hold
    upstream = HostileUpstream(CLAIMS[claim])

    async def work():
        settings = Settings.of(policy="online_grid", answer="choice", limits=Limits(max_tokens=LIMIT))
        options = {"currency": currency, "total": total, "store": tmp_path / "g.db"}
        state = build_gateway(NOBODY, settings=settings, **options)
        statuses, _ = await ask_all(state, 48, max_completion_tokens=LIMIT)
        assert state.ledger.backend.failure is None
        return statuses, state

    with answered_by(upstream):
        statuses, state = run_simulated(work())
    ledger = state.ledger
    assert statuses.keys() <= {200, 429} and statuses[200] > 0
    assert ledger.total.held == 0 and 0 < ledger.total.spent <= total
    assert all(body["max_completion_tokens"] == LIMIT and "max_tokens" not in body for body in upstream.bodies)
    with contextlib.closing(open_database(tmp_path / "g.db", create=False)) as database:
        rows = database.one("SELECT sum(spent), sum(delivered), sum(estimated), sum(claimed_more) FROM ledger")
    spent, delivered, estimated, claimed_more = rows
    assert spent == ledger.total.spent
    if claim in ("without a usage", "a usage of nothing"):  # then what was written is paid for, as bytes tell
        assert estimated == delivered > 0 == claimed_more
        assert upstream.tokens * currency.per_token <= spent
    elif claim == "honest":
        assert estimated == claimed_more == 0 and upstream.tokens * currency.per_token <= spent
    else:
        assert claimed_more == delivered > 0


@pytest.mark.parametrize("currency", [Currency.tokens(LIMIT), PRICE], ids=["tokens", "money"])
def test_the_reply_says_what_a_vote_has_cost_in_dollars_where_there_is_a_price(currency):
    with run_gateway(
        currency=currency, settings=Settings.of(policy="online_grid", answer="choice", limits=Limits(max_tokens=LIMIT))
    ) as gateway:
        about = gateway.ask("easy").json()["pets"]
        spent, unit = currency.shown(gateway.ledger.total.spent)
    assert spent > 0 and about["cost"] == (spent if unit == "usd" else None)


def test_two_limits_are_one_to_the_server_and_to_the_budget():
    upstream = HostileUpstream(None)

    async def work():
        settings = Settings.of(policy="online_grid", answer="choice")
        options = {"currency": Currency.tokens(32_768), "total": 100_000}
        state = build_gateway(NOBODY, settings=settings, **options)
        statuses, responses = await ask_all(state, 50, max_completion_tokens=1, max_tokens=32_768)
        return statuses, responses, state

    with answered_by(upstream):
        statuses, responses, state = run_simulated(work())
    assert statuses.keys() <= {200, 429} and 0 < state.ledger.total.spent <= 100_000 and upstream.tokens <= 100_000
    assert all(body["max_tokens"] == 1 and "max_completion_tokens" not in body for body in upstream.bodies)
    about = next(response.json()["pets"] for response in responses if response.status_code == 200)
    assert about["estimated"] == about["traces"] and about["claimed_more"] == 0
    metrics = state.metrics.share_of(None).text().decode()
    estimated = sum(response.json()["pets"]["estimated"] for response in responses if response.status_code == 200)
    assert f'pets_usage_faults_total{{kind="estimated"}} {estimated:.1f}' in metrics
    assert 'pets_usage_faults_total{kind="claimed_more"} 0.0' in metrics


def test_a_budget_in_tokens_ends_every_trace_and_one_in_traces_leaves_that_to_the_client():
    upstream = HostileUpstream(CLAIMS["2^53 tokens"])

    async def work(**options):
        settings = Settings.of(policy="online_grid", answer="choice", limits=Limits(max_tokens=70))
        state = build_gateway(NOBODY, settings=settings, **options)
        response = await ask_in_process(state, pets={"max_traces": 1})
        await state.close()
        return response.json()["usage"]["completion_tokens"]

    with answered_by(upstream):
        assert run_simulated(work(currency=Currency.tokens(70), total=10_000)) == 70
        assert upstream.bodies.pop()["max_tokens"] == 70
        assert run_simulated(work(total=10_000)) == 1 << 24
    assert not {"max_tokens", "max_completion_tokens"} & upstream.bodies.pop().keys()


def test_a_model_that_is_busy_for_a_minute_holds_up_no_other():
    with run_gateway(HostileServer(MockModel(BOOK))) as gateway:
        busy = gateway.ask(model="pets/hostile/retry_after_minute", pets={"timeout": 0.2})
        assert busy.status_code == 503
        assert gateway.ask(pets={"timeout": 20}).status_code == 200


def test_another_server_takes_over():
    async def work():
        dead, alive = ScriptedSampler(outage), ScriptedSampler()
        state = build_scripted(dead, alive)
        responses = [await ask_in_process(state, pets={"max_traces": 4}) for _ in range(3)]
        await state.close()
        return responses, alive.traces, state

    responses, traces, state = run_simulated(work())
    assert [response.status_code for response in responses] == [200] * 3
    assert traces == 12 == state.ledger.total.spent


def test_one_too_many_is_turned_away():
    async def work():
        state = build_scripted(
            ScriptedSampler(seconds=1.0), settings=Settings.of(policy="online_grid", answer="choice", open_questions=1)
        )
        responses = await asyncio.gather(ask_in_process(state), ask_in_process(state))
        assert not state.submissions.votes and state.driver.questions.in_flight == 0
        await state.close()
        return sorted(responses, key=lambda response: response.status_code)

    _, refused = run_simulated(work())
    assert refused.status_code == 503 and refused.json()["error"]["code"] == "overloaded"
    assert refused.headers["retry-after"] == "1"


ONE_TRACE = {"max_traces": 1}


@pytest.mark.parametrize("open_questions", [2, 100])
@pytest.mark.parametrize(
    "kinds",
    [
        ["one"],
        ["fallback"],
        ["vote"],
        ["one", "vote"],
        ["fallback", "vote"],
        ["one", "fallback"],
        ["one", "fallback", "vote"],
    ],
    ids="+".join,
)
def test_no_kind_of_request_has_more_in_flight_or_open_than_is_allowed(kinds, open_questions, tmp_path):
    headers = {
        name: {"authorization": f"Bearer {add_key(tmp_path / 'g.db', name, budget=budget)}"}
        for name, budget in (("alice", None), ("poor", 0))
    }
    settings = Settings.of(
        policy="online_grid", answer="choice", concurrency=2, open_questions=open_questions, over_budget="single"
    )

    async def work():
        sampler = ScriptedSampler(seconds=1.0)
        state = build_scripted(sampler, settings=settings, store=tmp_path / "g.db")
        most_open = 0

        def misbehave(n, now):
            nonlocal most_open
            most_open = max(most_open, len(state.submissions.votes), state.questions.taken)

        sampler.misbehave = misbehave
        asked = [kinds[place % len(kinds)] for place in range(30)]
        responses = await asyncio.gather(
            *(
                ask_in_process(
                    state, ONE_TRACE if kind == "one" else None, headers["poor" if kind == "fallback" else "alice"]
                )
                for kind in asked
            )
        )
        assert not state.submissions.votes and state.questions.taken == state.submissions.places.taken == 0
        await state.close()
        return responses, sampler.widest, most_open, state.ledger.balance_of("alice").spent

    responses, widest, most_open, spent = run_simulated(work())
    answered = [response.json()["pets"] for response in responses if response.status_code == 200]
    assert 1 <= widest <= 2 and 1 <= most_open <= open_questions
    assert {response.status_code for response in responses} == ({200, 503} if open_questions == 2 else {200})
    assert spent == sum(about["traces"] for about in answered if about["stopped"] != "fallback")


def test_a_request_for_one_trace_is_paid_for_by_its_key_and_its_window(tmp_path):
    headers = {"authorization": f"Bearer {add_key(tmp_path / 'g.db', 'alice', budget=5)}"}

    async def work(**options):
        state = build_scripted(ScriptedSampler(seconds=1.0), store=tmp_path / "g.db", **options)
        asked = [ask_in_process(state, ONE_TRACE, headers) for _ in range(8)]
        statuses = Counter(response.status_code for response in await asyncio.gather(*asked))
        await state.close()
        return statuses

    assert run_simulated(work(rate_limit=SpendRateLimit(3, 1e12))) == {200: 3, 429: 5}
    assert run_simulated(work()) == {200: 2, 429: 6}  # what is left of the key's five


def test_one_keys_slow_votes_hold_up_no_other_keys(tmp_path):
    alice, bob = ({"authorization": f"Bearer {add_key(tmp_path / 'g.db', name)}"} for name in ("alice", "bob"))

    async def work():
        sampler = ScriptedSampler(seconds=20.0)
        settings = Settings.of(policy="online_grid", answer="choice", concurrency=64, open_questions=64)
        state = build_scripted(sampler, settings=settings, store=tmp_path / "g.db")
        clock = asyncio.get_running_loop().time
        slow = [asyncio.create_task(ask_in_process(state, {"max_traces": 4}, alice)) for _ in range(70)]
        await asyncio.sleep(1.0)
        begun, sampler.seconds = clock(), 1.0
        quick = await ask_in_process(state, {"max_traces": 4}, bob, model="pets/other")
        took = clock() - begun
        statuses = Counter(response.status_code for response in await asyncio.gather(*slow))
        await state.close()
        return quick.json()["pets"]["traces"], took, statuses, sampler.widest

    traces, took, statuses, widest = run_simulated(work())
    assert traces == 4 and took == 1.0 and widest <= 64
    assert statuses == {200: 56, 503: 14}  # of 64 that may be open, another key could still have had 8
