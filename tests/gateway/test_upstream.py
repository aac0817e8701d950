"""What the server behind says, and what it must not do to us."""

import json
from types import SimpleNamespace

import pytest

from pets.errors import ReplyError
from pets.gateway.replies import read_reply
from pets.gateway.upstream import _proxy

from .conftest import run_gateway


def body(usage=None, **choice):
    said = {"message": {"content": "The answer is A."}, "finish_reason": "stop", **choice}
    return json.dumps({"choices": [said], "usage": usage or {}}).encode()


@pytest.mark.parametrize("tokens", [-800, 10**19, "many", 1.5])
def test_a_usage_that_no_trace_can_have_is_no_reply(tokens):
    with pytest.raises(ReplyError, match="cannot be read"):
        read_reply(body({"completion_tokens": tokens}), n=1, weighted=False)


@pytest.mark.parametrize("finish", ["abort", "error"])
def test_a_trace_that_the_server_gave_up_casts_no_vote(finish):
    with pytest.raises(ReplyError, match="gave a trace up"):
        read_reply(body(finish_reason=finish), n=1, weighted=False)


def test_the_proxy_is_the_environments_but_for_this_machine(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert _proxy("http://models.example/v1") == "http://proxy:3128"
    assert _proxy("http://inside.example/v1") is None
    assert _proxy("http://127.0.0.1:8000/v1") is None


@pytest.fixture
def local(gateway):
    """A gateway over a mock that it takes for a model of its own."""

    async def close():
        pass

    gateway.state.upstream._local = SimpleNamespace(weights=SimpleNamespace(name="mock"), close=close)
    return gateway


@pytest.mark.parametrize("model", ["pets/nosuch", "nosuch", "pets/", "pets/pets/mock"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_local_model_answers_to_its_own_name_alone(local, model, stream):
    reply = local.ask(model=model, stream=stream)
    error = reply.json()["error"]
    assert reply.status_code == 404 and (error["code"], error["param"]) == ("model_not_found", "model")
    assert error["type"] == "invalid_request_error" and "'mock'" in error["message"]
    assert local.mock.stats.requests == 0 and local.ledger.total.spent == 0


def test_a_local_model_answers_to_the_names_that_it_shows(local):
    names = [one["id"] for one in local.client.get("/v1/models").json()["data"]]
    assert names == ["pets/mock", "mock"]
    assert [local.ask(model=name).status_code for name in names] == [200, 200]


def test_an_upstream_key_is_never_shown(caplog):
    with run_gateway(key="sk-secret") as gateway, caplog.at_level("DEBUG"):
        replies = [gateway.ask("torn"), gateway.ask(model="pets/none"), gateway.ask(model="none")]
        replies += [gateway.client.get(path) for path in ("/metrics", "/v1/models", "/dashboard/events?once=1")]
    assert all("sk-secret" not in reply.text + str(reply.headers) for reply in replies)
    assert "sk-secret" not in "".join(str(record.__dict__) for record in caplog.records if record.name != "httpcore")
