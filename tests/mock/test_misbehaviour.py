"""Every fault, proven over real HTTP, and counted."""

import json
import time
from collections import Counter

import httpx
import pytest

from pets.mock import Faults

from ..waiting import PATIENCE_S, wait_until


def test_a_rate_limit_says_when_to_come_back(serve):
    client = serve(faults=Faults(rate_limit=1, retry_after=2.5))
    reply = client.chat()
    assert reply.status_code == 429 and reply.headers["retry-after"] == "2.5"
    assert reply.json()["error"]["code"] == "rate_limit_exceeded" and client.stats()["faults"] == {"rate_limit": 1}


def test_a_bare_rate_limit_does_not(serve):
    client = serve(faults=Faults(rate_limit_bare=1))
    reply = client.chat()
    assert reply.status_code == 429 and "retry-after" not in reply.headers
    assert client.stats()["faults"] == {"rate_limit_bare": 1} and client.stats()["traces"] == 0


def test_a_server_error(serve):
    client = serve(faults=Faults(error_500=1))
    reply = client.complete()
    assert reply.status_code == 500 and reply.json()["error"]["type"] == "server_error"
    assert client.stats()["faults"] == {"error_500": 1}


def test_a_hang_says_nothing(serve):
    client = serve(faults=Faults(hang=1))
    with pytest.raises(httpx.ReadTimeout):
        body = {"model": "mock", "prompt": "q1"}
        client.post("/v1/completions", json=body, timeout=httpx.Timeout(PATIENCE_S, read=0.2))
    wait_until(lambda: client.stats()["faults"] == {"hang": 1})


def test_a_disconnect_sends_no_byte(serve):
    client = serve(faults=Faults(disconnect=1))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        client.chat()
    assert client.stats()["faults"] == {"disconnect": 1}


def test_half_a_body_ends_before_its_length(serve):
    client = serve(faults=Faults(half_body=1))
    with pytest.raises(httpx.RemoteProtocolError, match=r"incomplete|closed"):
        client.chat(n=2)
    stats = client.stats()
    assert stats["faults"] == {"half_body": 1} and (stats["traces"], stats["lost"]) == (0, 2)


def test_half_a_stream_ends_without_its_end(serve):
    client, lines = serve(faults=Faults(half_body=1)), []
    body = {"model": "mock", "prompt": "q1", "stream": True}
    with (
        pytest.raises(httpx.RemoteProtocolError, match=r"incomplete|closed"),
        client.stream("POST", "/v1/completions", json=body) as reply,
    ):
        lines.extend(reply.iter_lines())
    assert client.stats()["lost"] == 1 and "data: [DONE]" not in lines


def test_wrong_json_comes_whole_but_cannot_be_read(serve):
    client = serve(faults=Faults(wrong_json=1))
    reply = client.chat()
    with pytest.raises(json.JSONDecodeError):
        reply.json()
    assert reply.status_code == 200 and len(reply.content) == int(reply.headers["content-length"])
    assert client.stats()["faults"] == {"wrong_json": 1} and client.stats()["lost"] == 1


def test_wrong_json_in_a_stream_is_one_event(serve):
    lines = [line for line in serve(faults=Faults(wrong_json=1)).chat(stream=True).text.split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    broken = []
    for line in lines:
        try:
            json.loads(line.removeprefix("data: "))
        except json.JSONDecodeError:
            broken.append(line)
    assert len(broken) == 1


def test_fewer_choices_than_asked(serve):
    client = serve(faults=Faults(fewer_choices=1))
    counts = []
    for _ in range(40):
        body = client.chat(n=4, max_tokens=2).json()
        assert [choice["index"] for choice in body["choices"]] == list(range(len(body["choices"])))
        assert body["usage"]["completion_tokens"] == 2 * len(body["choices"])
        counts.append(len(body["choices"]))
    assert set(counts) == {1, 2, 3} and client.stats()["traces"] == sum(counts)
    assert len(client.chat(n=1).json()["choices"]) == 1 and client.stats()["faults"] == {"fewer_choices": 40}


def test_n_is_ignored(serve):
    client = serve(faults=Faults(one_choice=1, fewer_choices=1))
    assert len(client.chat(n=8).json()["choices"]) == 1
    assert client.stats()["faults"] == {"one_choice": 1} and client.stats()["traces"] == 1


def test_n_is_refused_above_a_limit(serve):
    client = serve(n_limit=4, faults=Faults(slow=1, slow_seconds=0))
    reply = client.chat(n=5)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "n" and "4 slots" in reply.text
    assert len(client.chat(n=4).json()["choices"]) == 4 and client.stats()["faults"] == {"n_refused": 1, "slow": 1}


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


def test_the_first_byte_is_slow(serve):
    client = serve(faults=Faults(slow=1, slow_seconds=0.3))
    begun = time.perf_counter()
    assert client.chat().status_code == 200 and time.perf_counter() - begun >= 0.3
    assert client.stats()["faults"] == {"slow": 1} and client.stats()["traces"] == 1


def test_mixed_faults_come_at_their_rates_the_same_way_each_time_and_the_books_add_up(serve):
    def run():
        client = serve(faults=Faults(rate_limit=0.1, error_500=0.05, half_body=0.05, fewer_choices=0.1), seed=3)
        seen, traces = Counter(), 0
        for seed in range(400):
            try:
                reply = client.chat(n=2, seed=2 * seed)
            except httpx.RemoteProtocolError:
                seen["half_body"] += 1
                continue
            choices = len(reply.json()["choices"]) if reply.status_code == 200 else 0
            traces += choices
            seen[{429: "rate_limit", 500: "error_500"}.get(reply.status_code, f"choices {choices}")] += 1
        return client.stats(), seen, traces

    (stats, seen, traces), again = run(), run()
    assert again == (stats, seen, traces)
    assert stats["traces"] == traces and stats["lost"] == 2 * seen["half_body"]
    assert stats["faults"].pop("fewer_choices") == seen["choices 1"]
    assert stats["faults"] == {name: seen[name] for name in ("rate_limit", "error_500", "half_body")}
    assert 20 <= seen["rate_limit"] <= 62 and 5 <= seen["half_body"] <= 38


def test_an_error_within_a_stream_that_had_begun_well(serve):
    client = serve(faults=Faults(error_event=1))
    reply = client.chat(stream=True)
    *begun, last, done = [event for event in reply.text.split("\n\n") if event]
    assert reply.status_code == 200 and begun and done == "data: [DONE]"
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == 500
    assert client.chat().status_code == 500 and client.stats()["faults"] == {"error_event": 2}
    assert (client.stats()["traces"], client.stats()["lost"]) == (0, 2)


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
