"""Function calls and JSON in place of prose."""

import json

import httpx
import pytest

from pets.mock import DistributionAnswers, MockModel, running
from pets.mock.structured import function_called, wants_json

TOOL = {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize(
    ("fields", "function"),
    [
        ({"tools": [TOOL]}, "weather"),
        ({"tools": [TOOL], "tool_choice": "none"}, None),
        ({"tools": []}, None),
        ({"tools": ["odd"]}, None),
        ({"tools": "odd"}, None),
        ({}, None),
    ],
)
def test_the_first_function_is_called(fields, function):
    assert function_called(fields) == function


@pytest.mark.parametrize(
    ("form", "wanted"), [({"type": "json_object"}, True), ({"type": "text"}, False), ("odd", False)]
)
def test_json_is_given_where_it_is_asked_for(form, wanted):
    assert wants_json({"response_format": form}) is wanted


@pytest.mark.parametrize("stream", [False, True])
def test_calls_and_json_come_whole_and_streamed(stream):
    with running(MockModel(DistributionAnswers({"q": {"Paris": 1.0}}, tokens=8))) as url:

        def ask(**fields):
            body = {"model": "mock", "messages": [{"role": "user", "content": "q"}], "stream": stream, **fields}
            text = httpx.post(f"{url}/chat/completions", json=body, trust_env=False).text
            if not stream:
                (choice,) = json.loads(text)["choices"]
                return choice["message"], choice["finish_reason"]
            events = [json.loads(line[6:])["choices"][0] for line in text.splitlines() if line.startswith("data: {")]
            message = {name: value for event in events for name, value in event["delta"].items() if value}
            return message, events[-1]["finish_reason"]

        message, finish = ask(tools=[TOOL])
        (call,) = message["tool_calls"]
        assert finish == "tool_calls" and call["function"]["name"] == "weather"
        assert json.loads(call["function"]["arguments"])["answer"] == "Paris"
        message, finish = ask(response_format={"type": "json_object"})
        assert finish == "stop" and json.loads(message["content"])["answer"] == "Paris"
