"""`pets serve` before a real vLLM, through the OpenAI Python SDK."""

import json
import socket
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from ..waiting import wait_until
from .conftest import VERB_TIMEOUT_S

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

QUESTION = [{"role": "user", "content": "What is 3 + 4? Give the number alone."}]
STORY = {"messages": [{"role": "user", "content": "Tell a long story."}], "max_tokens": 1500, "ignore_eos": True}
VOTED, PASSED = "pets/smollm2", "smollm2"
TRACES = 4


@pytest.fixture
def serve(start):
    """Start a gateway; its URL."""

    def launch(*words):
        bounds = ["--answer", "number", "--budget", f"{TRACES}x", "--max-traces", TRACES, "--policy", "uniform"]
        process = start("serve", "--port", 0, *bounds, *words)
        url = next((line.split()[0] for line in process.stderr if line.startswith("http")), None)
        assert url is not None, "pets serve did not start"
        return url

    return launch


@pytest.fixture
def gateway(vllm, serve):
    return serve("--endpoint", vllm.url)


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=gateway, api_key="none", max_retries=0, timeout=VERB_TIMEOUT_S) as sdk:
        yield sdk.chat.completions


def check_vote(vote, usage, work):
    """A whole vote, whose usage is what vLLM generated for it."""
    assert vote["traces"] == TRACES and vote["lost"] == 0 and len(vote["votes"]) + vote["no_answer"] <= TRACES
    assert vote["answer"] is None or 0.0 < vote["certificate"] <= 1.0
    assert usage.completion_tokens == work["tokens"]
    assert usage.total_tokens == usage.completion_tokens + usage.prompt_tokens


def test_the_gateway_lists_the_model_voted_and_plain(vllm, gateway):
    with openai.OpenAI(base_url=gateway, api_key="none", max_retries=0) as sdk:
        assert [model.id for model in sdk.models.list()] == [VOTED, PASSED]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_voted_answer(vllm, client, weighted):
    with vllm.counting() as work:
        reply = client.create(
            model=VOTED, messages=QUESTION, max_tokens=32, extra_body={"pets": {"weighted": weighted}}
        )
    check_vote(reply.pets, reply.usage, work)
    assert work["requests"] < TRACES  # several traces in one request
    [choice] = reply.choices
    assert reply.pets["answer"] is None or reply.pets["answer"] in choice.message.content
    assert choice.logprobs is None  # asked for to weigh by, and not by the client


def test_votes_go_on_where_one_of_two_servers_is_gone(vllm, serve):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    url = serve("--endpoint", nobody, "--endpoint", vllm.url)
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=VERB_TIMEOUT_S) as sdk:
        replies = [sdk.chat.completions.create(model=VOTED, messages=QUESTION, max_tokens=8) for _ in range(2)]
    assert [(reply.pets["traces"], reply.pets["lost"]) for reply in replies] == [(TRACES, 0)] * 2


def test_a_voted_answer_as_a_stream(vllm, client):
    with vllm.counting() as work:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(client.create(model=VOTED, messages=QUESTION, max_tokens=32, **options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    [vote] = [chunk.pets for chunk in chunks if getattr(chunk, "pets", None)]
    check_vote(vote, chunks[-1].usage, work)
    assert vote["answer"] is None or vote["answer"] in text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] in ("stop", "length")


def test_plain_requests_get_what_vllm_itself_gives(vllm, gateway):
    body = {"model": PASSED, "messages": QUESTION, "max_tokens": 8, "n": 2, "seed": 7, "logprobs": True}
    passed = httpx.post(f"{gateway}/chat/completions", json=body, timeout=VERB_TIMEOUT_S, trust_env=False)
    direct = vllm.http.post("/chat/completions", json=body)
    assert passed.status_code == direct.status_code == 200
    assert passed.headers["content-type"] == direct.headers["content-type"]

    def kept(response):
        body = response.json()
        return [choice["message"] for choice in body["choices"]], body["usage"], body.keys()

    assert kept(passed) == kept(direct)


def test_a_plain_stream(vllm, client):
    options = {"stream": True, "stream_options": {"include_usage": True}, "n": 2, "temperature": 0.7, "seed": 7}
    with vllm.counting() as work:
        chunks = list(client.create(model=PASSED, messages=QUESTION, max_tokens=8, **options))
    assert {chunk.choices[0].index for chunk in chunks if chunk.choices} == {0, 1}
    assert len(chunks) > 4 and chunks[-1].usage.completion_tokens == work["tokens"]


@pytest.mark.parametrize("model", [VOTED, PASSED])
def test_what_vllm_refuses_is_refused_in_its_words(vllm, client, model):
    with pytest.raises(openai.BadRequestError, match="max_model_len=2048"):
        client.create(model=model, messages=QUESTION, max_tokens=4000)
    with pytest.raises(openai.NotFoundError, match="There is no model"):
        client.create(model=model + "-large", messages=QUESTION)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "running"), [(VOTED, TRACES), (PASSED, 2)])
def test_a_client_that_leaves_stops_what_runs_for_it(vllm, gateway, model, running, stream):
    body = STORY | {"model": model, "stream": stream} | ({"n": running} if model == PASSED else {})
    with vllm.counting() as work:
        leave_once(lambda: vllm.load["running"] == running, gateway, body)
    # Nothing was finished: it was stopped.
    assert 0 < work["tokens"] < running * STORY["max_tokens"] / 2


def leave_once(ready, gateway, body):
    """Ask, and hang up as soon as ``ready()``, whether anything came back or not."""
    parts = urlsplit(gateway)
    content = json.dumps(body).encode()
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        wait_until(ready)
