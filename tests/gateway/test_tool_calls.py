"""Votes on tool calls and on JSON, as OpenAI's client sees them."""

import json

import httpx
import pytest

from pets.gateway import Settings
from pets.mock import DistributionAnswers, MockModel

from .conftest import run_gateway

ANSWERS = DistributionAnswers({"weather": {"Paris": 0.8, "Rome": 0.2}, "sure": {"Paris": 1.0}, "mute": {}}, tokens=8)
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
IGNORE = {"pets": {"ignore": ["reason"]}}


@pytest.fixture(scope="module")
def gateway():
    with run_gateway(MockModel(ANSWERS), Settings.of(policy="online_grid", answer="text")) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def sdk(openai, gateway):
    with openai.OpenAI(
        base_url=f"{gateway.url}/v1", api_key="none", http_client=httpx.Client(trust_env=False)
    ) as client:
        yield client.chat.completions


def ask(sdk, question="weather", **fields):
    messages = [{"role": "user", "content": question}]
    return sdk.create(model="pets/mock", messages=messages, seed=0, **fields)


def test_traces_vote_on_the_function_and_its_arguments(sdk):
    reply = ask(sdk, tools=TOOLS, extra_body=IGNORE)
    (choice,) = reply.choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert call.id.startswith("call_") and call.function.name == "weather"
    assert json.loads(call.function.arguments)["answer"] == "Paris"
    assert reply.pets["answer"] == 'call weather({"answer":"Paris"})'
    assert set(reply.pets["votes"]) <= {f'call weather({{"answer":"{city}"}})' for city in ("Paris", "Rome")}


def test_fields_that_matter_keep_calls_apart(sdk):
    reply = ask(sdk, "sure", tools=TOOLS)
    assert len(reply.pets["votes"]) > 1  # the mock gives a reason that varies


def test_a_streamed_vote_carries_the_call(sdk):
    with ask(sdk, "sure", tools=TOOLS, extra_body=IGNORE, stream=True) as stream:
        chunks = list(stream)
    calls = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()]
    assert [(call.index, call.function.name) for call in calls] == [(0, "weather")]
    assert json.loads(calls[0].function.arguments)["answer"] == "Paris"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "tool_calls"


@pytest.mark.parametrize("form", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x"}}])
def test_json_votes_by_what_it_says(sdk, form):
    reply = ask(sdk, "sure", response_format=form, extra_body=IGNORE)
    assert reply.pets["votes"] == {'{"answer":"Paris"}': reply.pets["traces"]}
    assert json.loads(reply.choices[0].message.content)["answer"] == "Paris"  # the winner's own text, reason and all
    assert "reason" in json.loads(reply.choices[0].message.content)


def test_a_client_may_vote_on_one_field(sdk):
    body = {"pets": {"answer": "json:field=answer"}}
    reply = ask(sdk, "sure", response_format={"type": "json_object"}, extra_body=body)
    assert reply.pets["votes"] == {"Paris": reply.pets["traces"]}


def test_traces_without_a_call_or_an_answer_cast_no_vote(sdk):
    reply = ask(sdk, "mute", tools=TOOLS, extra_body={"pets": {"max_traces": 4}})
    assert reply.pets["votes"] == {} and reply.pets["no_answer"] == reply.pets["traces"]


@pytest.mark.parametrize("ignore", [7, {"a": 1}, ["a b"], [""], ["a,b"], ["a"] * 33, [None]])
def test_fields_to_ignore_are_names(gateway, ignore):
    reply = gateway.ask("sure", pets={"ignore": ignore})
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "pets.ignore"


def test_a_header_names_fields_to_ignore(gateway):
    reply = gateway.ask("sure", tools=TOOLS, headers={"x-pets-ignore": "reason other"}).json()
    assert reply["pets"]["answer"] == 'call weather({"answer":"Paris"})'
