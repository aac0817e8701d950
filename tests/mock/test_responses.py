"""Responses, whole and as streams: texts, cuts, usage, log-probabilities, thoughts apart."""

import json

import pytest

from pets.mock import Faults

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
def test_usage_counts_one_choice_only(serve, stream):
    client = serve(faults=Faults(usage_of_one=1))
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    reply = client.chat(n=4, max_tokens=2, **options)
    body = json.loads(reply.text.split("data: ")[-2]) if stream else reply.json()
    assert body["usage"]["completion_tokens"] == 2
    stats = client.stats()
    assert stats["completion_tokens"] == 8 and stats["faults"] == {"usage_of_one": 1}


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_are_withheld(serve, stream):
    client = serve(faults=Faults(no_logprobs=1, extra_logprob=1))
    reply = client.chat(n=2, logprobs=True, top_logprobs=3, stream=stream)
    assert '"logprobs":null' in reply.text and "top_logprobs" not in reply.text
    client.chat()
    assert client.stats()["faults"] == {"no_logprobs": 1}


def test_one_log_probability_too_many(serve):
    client = serve(faults=Faults(extra_logprob=1))
    content = client.chat(logprobs=True, top_logprobs=3).json()["choices"][0]["logprobs"]["content"]
    tops = client.complete(logprobs=3).json()["choices"][0]["logprobs"]["top_logprobs"]
    assert {len(entry["top_logprobs"]) for entry in content} == {4} == set(map(len, tops))
    assert all(entry["logprob"] == min(top["logprob"] for top in entry["top_logprobs"]) for entry in content)
    assert client.stats()["faults"] == {"extra_logprob": 2}


def test_thoughts_apart_say_together_what_the_text_says(serve):
    client = serve(faults=Faults(reasoning_apart=1))
    message = client.chat(seed=0).json()["choices"][0]["message"]
    assert "<think>" not in message["reasoning"] and message["content"].startswith(" The answer is")
    deltas = [
        json.loads(event[6:])["choices"][0]["delta"]
        for event in client.chat(seed=0, stream=True).text.split("\n\n")
        if event.startswith("data: {")
    ]
    for part in ("reasoning", "content"):
        assert "".join(delta.get(part) or "" for delta in deltas) == message[part]
    assert client.complete().json()["choices"][0]["text"].startswith("<think>")  # it concerns chats alone
    assert client.stats()["faults"] == {"reasoning_apart": 2}


def test_max_tokens_cuts_and_leaves_no_answer(serve):
    client = serve()
    for reply in (client.chat(max_tokens=5), client.chat(max_completion_tokens=5), client.complete(max_tokens=5)):
        choice = reply.json()["choices"][0]
        assert choice["finish_reason"] == "length" and answers(reply) == [None]
        assert reply.json()["usage"]["completion_tokens"] == 5


def test_stop_cuts_before_the_stop(serve):
    choice = serve().chat("q2", stop=["again", " look"]).json()["choices"][0]
    assert choice["message"]["content"] == "<think> so we" and choice["finish_reason"] == "stop"
