"""Requests are read for both endpoints; a field that is wrong is named."""

import json

import pytest

from pets.mock import DistributionAnswers, Faults
from pets.mock.completions import parse_request

from .conftest import answers, events

BAD_FIELDS = [
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"n": True}, "n"),
    ({"n": 10**400}, "n"),
    ({"seed": "7"}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"temperature": 2.5}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": -1}, "top_p"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a", 5]}, "stop"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"stream": True, "stream_options": 3}, "stream_options"),
    ({"top_logprobs": 5}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": 5}, "logprobs"),
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [{"content": "no role"}]}, "messages"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages"),
    ({"model": None}, "model"),
]


def test_a_bad_field_is_named(serve):
    client = serve()
    for refused, (fields, param) in enumerate(BAD_FIELDS, 1):
        reply = client.chat(**fields)
        error = reply.json()["error"]
        assert (reply.status_code, error["param"]) == (400, param), fields
        assert error["type"] == "invalid_request_error", fields
        assert set(error) == {"message", "type", "param", "code"}, fields
        assert (client.stats()["refused"], client.stats()["traces"]) == (refused, 0), fields


@pytest.mark.parametrize("prompt", [None, 5, [], ["a", 5], [1, 2, 3], ["q"] * 129])
def test_a_prompt_is_text(serve, prompt):
    reply = serve().complete(prompt)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "prompt"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'"x"', b"nul"])
def test_a_body_that_is_no_object_is_refused(serve, body):
    reply = serve().post("/v1/chat/completions", content=body)
    assert reply.status_code == 400 and reply.json()["error"]["type"] == "invalid_request_error"


def test_the_last_user_message_names_the_question(serve):
    turns = [
        {"role": "user", "content": "q1"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": [{"type": "text", "text": "q2?"}]},
        {"role": "assistant", "content": "q1"},
    ]
    client = serve()
    client.chat(messages=turns, n=2)
    assert client.get("/mock/stats?questions=1").json()["questions"] == {"q2": 2}


def test_several_prompts_give_n_choices_each_in_order(serve):
    client = serve()
    body = client.complete(["q1", "q2"], n=2, seed=0).json()
    texts = [choice["text"] for choice in body["choices"]]
    alone = [
        client.complete(prompt, n=2, seed=0).json()["choices"][at]["text"] for prompt in ("q1", "q2") for at in (0, 1)
    ]
    assert texts == alone


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
    assert parse_request(body(fields), "mock", chat=True).function == function


@pytest.mark.parametrize(
    ("form", "wanted"), [({"type": "json_object"}, True), ({"type": "text"}, False), (None, False)]
)
def test_json_is_given_where_it_is_asked_for(form, wanted):
    assert parse_request(body({"response_format": form}), "mock", chat=True).json is wanted


def body(fields):
    return json.dumps({"model": "mock", "messages": [{"role": "user", "content": "q"}], **fields}).encode()


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
