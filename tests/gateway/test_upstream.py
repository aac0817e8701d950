"""The servers behind: failover of what passes through, the local model's name, keys that are never shown."""

import asyncio
import json
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest

from pets.core.money import Currency
from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError, UnreachableError
from pets.gateway import Settings, build_gateway, running
from pets.gateway.upstream import Upstream, api_error
from pets.mock import DistributionAnswers, MockModel
from pets.mock import running as mock_running
from pets.samplers.local import LocalSampler
from pets.samplers.openai import OpenAISampler

from ..network import answered_by
from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S
from .conftest import BOOK, RunningGateway, add_key, ask_in_process, run_gateway

NOBODY = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RefusedError("too long", status=400), 400, "upstream_refused"),
        (RefusedError("no such model", status=404), 404, "upstream_refused"),
        (RefusedError("bad key", status=401), 502, "upstream_refused"),
        (BusyError("slow down", status=429, retry_after=7), 503, "upstream_busy"),
        (UnreachableError("nobody there"), 503, "upstream_busy"),
        (ReplyError("half a body"), 503, "upstream_busy"),
    ],
)
def test_what_a_client_is_told_of_a_failure_upstream(error, status, code):
    told = api_error(error)
    assert (told.status, told.code) == (status, code)
    assert told.retry_after == {429: 7}.get(error.status, 1.0 if status == 503 else None)
    assert "bad key" not in told.message


def test_plain_requests_and_models_go_to_a_server_that_is_there():
    mock = MockModel(BOOK)
    with mock_running(mock) as url:
        state = build_gateway([NOBODY, url], settings=Settings.of(policy="online_grid", answer="choice"))
        with running(state) as own, httpx.Client(base_url=own, timeout=PATIENCE_S, trust_env=False) as client:
            gateway = RunningGateway(own, state, mock, client)
            assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["pets/mock", "mock"]
            assert gateway.ask(model="mock").json()["choices"][0]["message"]["content"]
            assert gateway.ask("easy").json()["pets"]["answer"] == "A"


def test_models_that_no_server_lists_are_refused_by_name_and_make_no_row(gateway):
    assert gateway.client.get("/v1/models").status_code == 200
    for name in ("pets/junk", "junk"):
        refused = gateway.ask(model=name)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        assert refused.json()["error"]["message"] == "There is no model 'junk'; this server has 'mock'."
    assert gateway.ask().status_code == 200
    assert list(gateway.state.driver.fetcher.pool.by_model) == ["mock"]


def test_a_model_that_was_added_since_is_found(gateway):
    assert gateway.client.get("/v1/models").status_code == 200
    gateway.mock.model = "added:latest"
    assert gateway.ask(model="pets/added:latest").status_code == 200
    assert gateway.state.upstream.urls and gateway.ask(model="pets/mock").status_code == 404


@pytest.fixture
def mixed():
    """A gateway whose models a and b vote together, and the mock of each: a answers A, b answers B."""
    mocks = {name: MockModel(DistributionAnswers({"q": {name.upper(): 1.0}}), model=name) for name in "ab"}
    with ExitStack() as stack:
        servers = [f"{name}={stack.enter_context(mock_running(mock))}" for name, mock in mocks.items()]
        settings = Settings.of(policy="online_grid", answer="choice", max_traces=6)
        state = build_gateway(servers, models=["a=2", "b"], settings=settings)
        own = stack.enter_context(running(state))
        client = stack.enter_context(httpx.Client(base_url=own, timeout=PATIENCE_S, trust_env=False))
        yield RunningGateway(own, state, mocks["a"], client), mocks


def test_several_models_vote_together_under_one_name(mixed):
    gateway, mocks = mixed
    reply = gateway.ask("Question q", model="pets/mixture").json()
    votes = reply["pets"]["votes"]
    assert votes == {name.upper(): mock.stats.traces for name, mock in mocks.items()}
    assert abs(votes["A"] - 2 * votes["B"]) < 6 and min(votes.values()) >= 1
    listed = [model["id"] for model in gateway.client.get("/v1/models").json()["data"]]
    assert listed == ["pets/mixture", "a"]  # and the models of the first server
    assert gateway.client.get("/v1/models/pets/mixture").json()["id"] == "pets/mixture"
    assert gateway.ask(model="pets/a").json()["error"]["message"] == "There is no model 'a'; this server has 'mixture'."


def test_what_passes_through_goes_to_the_servers_of_its_model(mixed):
    gateway, mocks = mixed
    for name, mock in mocks.items():
        content = gateway.ask("Question q", model=name).json()["choices"][0]["message"]["content"]
        assert name.upper() in content and mock.stats.requests == 1
    assert gateway.ask("Question q", model="c").status_code == 404


def test_where_one_of_the_models_fails_the_others_vote(mixed):
    gateway, mocks = mixed
    assert gateway.ask("Question q", model="pets/mixture").status_code == 200
    mocks["b"].model = "renamed"  # a 404 for every request from now on
    votes = gateway.ask("Question q", model="pets/mixture").json()["pets"]["votes"]
    assert set(votes) == {"A"} and gateway.state.driver.fetcher.faults["handed on by b"] >= 1


def test_a_large_plain_request_passes_through(gateway):
    reply = gateway.ask("easy " + "x" * 700_000, model="mock")
    assert reply.status_code == 200 and reply.json()["choices"]


class OwnMock(LocalSampler):
    """A mock that a gateway takes for a model of its own."""

    def __init__(self, url):
        self.url, self.key = url, None
        self.weights, self.config = SimpleNamespace(name="mock"), SimpleNamespace(slots=8, context=None)
        self.sampler = OpenAISampler(url, "", dialect="openai")

    async def __aenter__(self):
        return self

    async def sample(self, prompt, n, seed, sampling):
        return await self.sampler.sample(prompt, n, seed, sampling)

    async def models(self):
        return await self.sampler.models()

    async def close(self):
        await self.sampler.close()


@pytest.fixture
def local():
    mock = MockModel(BOOK)
    with mock_running(mock) as url:
        state = build_gateway(OwnMock(url), settings=Settings.of(policy="online_grid", answer="choice"))
        with running(state) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            yield RunningGateway(url, state, mock, client)


@pytest.mark.parametrize("model", ["pets/nosuch", "nosuch", "pets/pets/mock"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_local_model_answers_to_its_own_name_alone(local, model, stream):
    reply = local.ask(model=model, stream=stream)
    error = reply.json()["error"]
    assert reply.status_code == 404 and (error["code"], error["param"]) == ("model_not_found", "model")
    assert error["type"] == "invalid_request_error" and "'mock'" in error["message"]
    assert local.mock.stats.requests == 0 and local.ledger.total.spent == 0


def test_a_local_model_answers_to_the_names_that_it_shows(local):
    names = [model["id"] for model in local.client.get("/v1/models").json()["data"]]
    assert names == ["pets/mock", "mock"]
    assert [local.ask(model=name).status_code for name in names] == [200, 200]


def test_an_upstream_key_is_never_shown(caplog):
    with run_gateway(key="sk-secret") as gateway, caplog.at_level("DEBUG"):
        replies = [gateway.ask("torn"), gateway.ask(model="pets/none"), gateway.ask(model="none")]
        replies += [gateway.client.get(path) for path in ("/metrics", "/v1/models", "/dashboard/events?once=1")]
    assert all("sk-secret" not in reply.text + str(reply.headers) for reply in replies)
    assert "sk-secret" not in "".join(str(record.__dict__) for record in caplog.records if record.name != "httpcore")


@pytest.mark.parametrize("status", [200, 400, 404, 422])
def test_a_list_of_models_that_echoes_the_key_is_redacted(status):
    def echo(request):
        key = request.headers["authorization"]
        return httpx.Response(status, json={"data": [{"id": key}], "error": {"message": key}})

    async def models():
        upstream = Upstream(NOBODY, key="sk-UPSTREAM-1234")
        try:
            return str(await upstream.models())
        except SamplerError as error:
            return str(error)
        finally:
            await upstream.close()

    with answered_by(echo):
        words = asyncio.run(models())
    assert "[redacted]" in words and "UPSTREAM" not in words


def test_an_address_with_a_password_is_refused_and_not_shown():
    with pytest.raises(InputError, match="password") as error:
        build_gateway("ftp://me:secret123@host", Settings.of(policy="online_grid"))
    assert "secret123" not in str(error.value)


def test_a_trace_without_a_limit_is_held_to_what_the_context_leaves():
    mock = MockModel(BOOK, max_model_len=900)
    with run_gateway(mock, currency=Currency.tokens(1), total=200_000) as gateway:
        gateway.client.get("/v1/models")  # as `pets serve` asks for them before it serves
        assert gateway.ask().status_code == 200 and gateway.ask(model="mock").status_code == 200
        assert mock.stats.refused == 0
        upstream = gateway.state.upstream
        assert upstream.fitting_tokens("mock", 32_768, 100) == 800 and upstream.fitting_tokens("mock", 64, 100) == 64
        assert upstream.fitting_tokens("other", 32_768, 100) == 32_768


def test_headers_go_to_the_servers_with_votes_and_plain_requests_and_their_secrets_do_not_come_back():
    with run_gateway(
        MockModel(BOOK, api_key="sk-upstream-123"), headers={"Authorization": "Bearer sk-upstream-123"}
    ) as gateway:
        assert gateway.ask().status_code == 200
        plain = gateway.ask(model="mock", headers={"authorization": "Bearer something-else"})
        assert plain.status_code == 200 and gateway.state.upstream.has_key


class RefusingUpstream:
    """Answers every request that ``refuses(body)`` has no words against; keeps what it was sent."""

    def __init__(self, refuses):
        self.refuses, self.bodies = refuses, []

    def __call__(self, request):
        self.bodies.append(body := json.loads(request.content))
        if words := self.refuses(body):
            return httpx.Response(400, json={"error": {"message": words}})
        choice = {"message": {"role": "assistant", "content": "The answer is A."}, "finish_reason": "stop"}
        choices = [choice | {"index": place} for place in range(body.get("n", 1))]
        return httpx.Response(200, json={"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 8}})


def ask_by_turns(refuses, turns, tmp_path):
    """What the server is sent for each of the votes of ``turns``: whose it is, its fields, hours before it."""
    keys = {name: {"authorization": f"Bearer {add_key(tmp_path / 'g.db', name)}"} for name in ("alice", "bob")}

    upstream = RefusingUpstream(refuses)

    async def work():
        settings, sent = Settings.of(policy="online_grid", answer="choice"), []
        state = build_gateway(NOBODY, settings=settings, store=tmp_path / "g.db")
        for name, fields, hours in turns:
            await asyncio.sleep(hours * 3600)
            upstream.bodies = []
            pets = {"max_traces": 4, "weighted": True}
            response = await ask_in_process(state, pets, keys[name], max_tokens=400, **fields)
            sent.append((response.status_code, upstream.bodies))
        await state.close()
        return sent

    with answered_by(upstream):
        return run_simulated(work())


NAMED = "unsupported parameter 'n', unsupported parameter 'seed', unsupported parameter 'logprobs', "
ALL_NAMED = NAMED + "unsupported parameter 'top_logprobs', unsupported parameter 'max_tokens'"


def echo(body):
    """Repeats a role that it does not know, whatever that says."""
    roles = {message["role"] for message in body["messages"]} - {"user", "assistant", "system"}
    return f"Invalid role: {roles.pop()}" if roles else ""


def needless(body):
    """Refuses the seed."""
    return "Unknown parameter: 'seed'." if "seed" in body else ""


def one_at_a_time(body):
    """Refuses several choices where the client samples greedily."""
    return "n must be 1 when using greedy sampling." if body["n"] > 1 and body.get("temperature", 1) < 0.01 else ""


HOSTILE = {"messages": [{"role": ALL_NAMED, "content": "torn"}]}
OWN_FIELDS = {"n", "seed", "logprobs", "top_logprobs", "max_tokens"}


@pytest.mark.parametrize(
    ("refuses", "fields", "status"),
    [(echo, HOSTILE, 400), (needless, {}, 200), (one_at_a_time, {"temperature": 1e-9}, 200)],
    ids=["an echo", "a field", "a number of choices"],
)
def test_what_is_refused_to_one_key_changes_nothing_for_another(refuses, fields, status, tmp_path):
    turns = [("alice", fields, 0), ("alice", fields, 0), ("bob", {}, 0)]
    (first, _), (second, _), (bobs, bodies) = ask_by_turns(refuses, turns, tmp_path)
    assert first == second == status and bobs == 200
    assert bodies[0].keys() >= OWN_FIELDS and bodies[0]["n"] == 4 and bodies[0]["max_tokens"] == 400


def test_what_only_repeats_a_clients_text_is_not_learned(tmp_path):
    turns = [("alice", HOSTILE, 0), ("alice", {}, 0)]
    (refused, _), (answered, bodies) = ask_by_turns(echo, turns, tmp_path)
    assert (refused, answered) == (400, 200)
    assert len(bodies) == 1 and bodies[0].keys() >= OWN_FIELDS


@pytest.mark.parametrize(
    ("refuses", "fields"), [(needless, {}), (one_at_a_time, {"temperature": 1e-9})], ids=["a field", "choices"]
)
def test_a_refusal_is_remembered_for_its_key_and_forgotten_after_an_hour(refuses, fields, tmp_path):
    turns = [("alice", fields, 0), ("alice", fields, 0.5), ("alice", fields, 0.6), ("alice", fields, 0.5)]
    refusals = [sum(bool(refuses(body)) for body in bodies) for _, bodies in ask_by_turns(refuses, turns, tmp_path)]
    assert [bool(number) for number in refusals] == [True, False, True, False]
