"""Responses, whole and as streams: texts, cuts, usage, log-probabilities, function calls, JSON."""

import json

import pytest

from pets.mock import DistributionAnswers, Faults

from .conftest import answers, events


@pytest.mark.parametrize("logprobs", [False, True])
@pytest.mark.parametrize("chat", [True, False])
def test_a_stream_says_what_the_whole_reply_says(serve, chat, logprobs):
    client = serve()
    ask = client.chat if chat else client.complete
    wanted = {"logprobs": True, "top_logprobs": 3} if chat else {"logprobs": 3}
    fields = {"n": 3, "seed": 5} | (wanted if logprobs else {})
    whole = ask(**fields).json()
    stream = events(ask(stream=True, stream_options={"include_usage": True}, **fields))
    assert stream.pop() == {**stream[0], "choices": [], "usage": whole["usage"]}
    assert all(event["usage"] is None and len(event["choices"]) == 1 for event in stream)
    for choice in whole["choices"]:
        mine = [event["choices"][0] for event in stream if event["choices"][0]["index"] == choice["index"]]
        text = "".join(part["delta"].get("content", "") if chat else part["text"] for part in mine)
        assert text == (choice["message"]["content"] if chat else choice["text"])
        assert [part["finish_reason"] for part in mine] == [None] * (len(mine) - 1) + [choice["finish_reason"]]
        parts = [part["logprobs"] for part in mine if part["logprobs"] is not None]
        assert bool(parts) == logprobs
        for key in choice["logprobs"] or ():
            assert [entry for part in parts for entry in part[key]] == choice["logprobs"][key]
    indexes = [event["choices"][0]["index"] for event in stream]
    assert indexes != sorted(indexes)  # interleaved


def test_a_stream_without_usage_has_none(serve):
    stream = events(serve().chat(stream=True))
    assert all("usage" not in event for event in stream)
    assert stream[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_are_withheld(serve, stream):
    client = serve(faults=Faults(no_logprobs=1))
    reply = client.chat(n=2, logprobs=True, top_logprobs=3, stream=stream)
    assert '"logprobs":null' in reply.text and "top_logprobs" not in reply.text
    client.chat()
    assert client.stats()["faults"] == {"no_logprobs": 1}


def test_max_tokens_cuts_and_leaves_no_answer(serve):
    client = serve()
    for reply in (client.chat(max_tokens=5), client.chat(max_completion_tokens=5), client.complete(max_tokens=5)):
        choice = reply.json()["choices"][0]
        assert choice["finish_reason"] == "length" and answers(reply) == [None]
        assert reply.json()["usage"]["completion_tokens"] == 5


def test_stop_cuts_before_the_stop(serve):
    choice = serve().chat("q2", stop=["again", " look"]).json()["choices"][0]
    assert choice["message"]["content"] == "<think> so we" and choice["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_calls_and_json_come_whole_and_streamed(serve, stream):
    client = serve(DistributionAnswers({"q": {"Paris": 1.0}}, tokens=8))

    def ask(**fields):
        reply = client.chat("q", stream=stream, **fields)
        if not stream:
            (choice,) = reply.json()["choices"]
            return choice["message"], choice["finish_reason"]
        choices = [event["choices"][0] for event in events(reply)]
        message = {name: value for choice in choices for name, value in choice["delta"].items() if value}
        return message, choices[-1]["finish_reason"]

    message, finish = ask(tools=[{"type": "function", "function": {"name": "weather"}}])
    (call,) = message["tool_calls"]
    assert finish == "tool_calls" and call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"])["answer"] == "Paris"
    message, finish = ask(response_format={"type": "json_object"})
    assert finish == "stop" and json.loads(message["content"])["answer"] == "Paris"
