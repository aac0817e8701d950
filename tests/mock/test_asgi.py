"""The endpoint over real HTTP: what it answers, when, in which form, and what it refuses."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from scipy.stats import chisquare

from pets.answers.choice import Choice
from pets.mock import DistributionAnswers, PoolAnswers
from pets.pools import Pool, PooledQuestion
from pets.questions import read_questions
from pets.samplers import Prompt

from ..waiting import PATIENCE_S, wait_until
from .conftest import TRACES


def answers(reply):
    """What the choices of a reply say."""
    texts = [choice.get("text") or choice["message"]["content"] for choice in reply.json()["choices"]]
    return [Choice().extract(text) for text in texts]


def events(reply):
    """The JSON events of a stream; it must end as streams do."""
    lines = [line for line in reply.text.split("\n\n") if line]
    assert reply.headers["content-type"].startswith("text/event-stream") and lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_eight_choices_are_the_eight_recorded_traces(serve):
    for reply in (serve().chat(n=8, seed=40), serve().complete(n=8, seed=40)):
        body = reply.json()
        assert Counter(answers(reply)) == Counter(TRACES)
        assert [choice["index"] for choice in body["choices"]] == list(range(8))
        finishes = [choice["finish_reason"] for choice in body["choices"]]
        assert finishes.count("length") == 1 and finishes.count("stop") == 7
        assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 130, "total_tokens": 133}


def test_choice_i_has_seed_plus_i(serve):
    client = serve()
    together = client.chat(n=5, seed=7).json()["choices"]
    alone = [client.chat(seed=7 + at).json()["choices"][0] for at in range(5)]
    assert [choice["message"] for choice in together] == [choice["message"] for choice in alone]
    assert client.chat(n=5, seed=7).json()["choices"] == together


def test_without_a_seed_the_server_draws_by_its_own(serve):
    first, same, other = (serve(seed=seed) for seed in (1, 1, 2))
    said = [[answers(client.chat(n=2)) for _ in range(12)] for client in (first, same, other)]
    assert said[0] == said[1] != said[2] and len(set(map(tuple, said[0]))) > 1


def test_over_many_seeds_answers_come_as_often_as_in_the_pool(serve):
    recorded = ["A"] * 60 + ["B"] * 30 + ["C"] * 10
    client = serve(PoolAnswers(Pool("p", (PooledQuestion("q", tuple(recorded)),))))
    said = Counter()
    for request in range(20):
        said.update(answers(client.complete("q", n=100, seed=request * 1_000_003)))
    assert chisquare([said["A"], said["B"], said["C"]], [1200, 600, 200]).pvalue > 1e-4


def test_temperature_zero_gives_the_vote(serve):
    assert set(answers(serve().chat(n=8, temperature=0))) == {"A"}


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


def test_max_tokens_cuts_and_leaves_no_answer(serve):
    client = serve()
    for reply in (client.chat(max_tokens=5), client.chat(max_completion_tokens=5), client.complete(max_tokens=5)):
        choice = reply.json()["choices"][0]
        assert choice["finish_reason"] == "length" and answers(reply) == [None]
        assert reply.json()["usage"]["completion_tokens"] == 5


def test_stop_cuts_before_the_stop(serve):
    choice = serve().chat("q2", stop=["again", " look"]).json()["choices"][0]
    assert choice["message"]["content"] == "<think> so we" and choice["finish_reason"] == "stop"


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


def test_traces_take_their_time_side_by_side(serve):
    client = serve(DistributionAnswers({"q": {"A": 1.0}}, tokens=100), tokens_per_second=200)
    begun = time.perf_counter()
    with ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(lambda seed: client.chat("q", n=4, seed=seed, max_tokens=60), range(0, 64, 4)))
    took = time.perf_counter() - begun
    longest = max(reply.json()["usage"]["completion_tokens"] for reply in replies) / 4 / 200
    tokens = sum(reply.json()["usage"]["completion_tokens"] for reply in replies)
    assert 0.25 <= longest <= took < tokens / 200 / 2  # one after another they would take twice that and more


def test_a_stream_comes_token_by_token(serve):
    client = serve(DistributionAnswers({"q": {"A": 1.0}}, tokens=60), tokens_per_second=20)
    body = {"model": "mock", "prompt": "q", "stream": True, "max_tokens": 12}
    with client.stream("POST", "/v1/completions", json=body) as reply:
        done = [client.mock.stats.traces for line in reply.iter_lines() if line.startswith("data: {")]
    assert len(done) == 13 and done[0] == 0 and client.mock.stats.traces == 1  # the first came long before the end


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_is_noticed(serve, stream):
    client = serve(tokens_per_second=0.5)
    with pytest.raises(httpx.ReadTimeout):
        body = {"model": "mock", "prompt": "q1", "n": 2, "stream": stream}
        client.post("/v1/completions", json=body, timeout=httpx.Timeout(PATIENCE_S, read=0.2))
    wait_until(lambda: client.stats()["abandoned"])
    stats = client.stats()
    assert (stats["abandoned"], stats["lost"], stats["traces"]) == (1, 2, 0)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
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
    ],
)
def test_a_bad_field_is_named(serve, fields, param):
    client = serve()
    reply = client.chat(**fields)
    error = reply.json()["error"]
    assert reply.status_code == 400 and error["param"] == param
    assert error["type"] == "invalid_request_error" and set(error) == {"message", "type", "param", "code"}
    assert client.stats()["refused"] == 1 and client.stats()["traces"] == 0


@pytest.mark.parametrize("prompt", [None, 5, [], ["a", 5], [1, 2, 3], ["q"] * 129])
def test_a_prompt_is_text(serve, prompt):
    reply = serve().complete(prompt)
    assert reply.status_code == 400 and reply.json()["error"]["param"] == "prompt"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'"x"', b"nul"])
def test_a_body_that_is_no_object_is_refused(serve, body):
    reply = serve().post("/v1/chat/completions", content=body)
    assert reply.status_code == 400 and reply.json()["error"]["type"] == "invalid_request_error"


def test_unknown_models_paths_and_methods_are_refused_in_the_same_form(serve):
    client = serve()
    replies = [client.chat(model="gpt"), client.get("/v1/models/gpt"), client.get("/v1/nothing")]
    assert [reply.status_code for reply in replies] == [404] * 3
    assert [reply.json()["error"]["code"] for reply in replies] == ["model_not_found"] * 2 + ["unknown_url"]
    assert client.get("/v1/completions").status_code == 405


def test_models_are_listed(serve):
    client = serve(model="a/b")
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["a/b"]
    assert client.get("/v1/models/a/b").json()["object"] == "model"


def test_a_key_is_asked_for_where_one_is_set(serve):
    client = serve(api_key="sesame")
    for headers in ({}, {"authorization": "Bearer open"}, {"authorization": "Bearer"}):
        replies = [client.get("/v1/models", headers=headers), client.post("/v1/completions", headers=headers)]
        assert [(reply.status_code, reply.json()["error"]["code"]) for reply in replies] == [
            (401, "invalid_api_key")
        ] * 2
    client.headers["authorization"] = "Bearer sesame"
    assert client.get("/v1/models").status_code == client.chat().status_code == 200


def test_the_books_add_up(serve):
    client = serve()
    tokens = [client.chat(n=3).json()["usage"]["total_tokens"] for _ in range(4)] + [
        client.complete("nothing that is known").json()["usage"]["total_tokens"]
    ]
    client.chat(n=0)
    stats = client.stats()
    assert (stats["requests"], stats["traces"], stats["refused"], stats["unmatched"]) == (6, 13, 1, 1)
    assert stats["prompt_tokens"] + stats["completion_tokens"] == sum(tokens)
    assert stats["lost"] == stats["abandoned"] == 0 and stats["faults"] == {}


def test_the_questions_can_be_had_as_lines_that_pets_reads(serve, tmp_path):
    text = serve().get("/mock/questions").text
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0] == {"id": "q1", "question": "Question q1", "gold": "A", "vote": "A"}
    (tmp_path / "questions.jsonl").write_text(text)
    assert read_questions(tmp_path / "questions.jsonl").problems[0].prompt == Prompt.chat("Question q1")
    assert lines[1]["id"] == "q2" and lines[1]["vote"] == "7"
