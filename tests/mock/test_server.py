"""The endpoint over HTTP: paths, keys, time, faults on the wire; a URL that works at once."""

import asyncio
import contextlib
import json
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest

from pets.errors import InputError
from pets.mock import DistributionAnswers, Faults, MockModel, RequestLimit, app, running
from pets.questions import read_questions
from pets.samplers import Prompt

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, wait_until

ANSWERS = DistributionAnswers({"q": {"A": 1.0}})


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


def test_the_questions_can_be_had_as_lines_that_pets_reads(serve, tmp_path):
    text = serve().get("/mock/questions").text
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0] == {"id": "q1", "question": "Question q1", "gold": "A", "vote": "A"}
    (tmp_path / "questions.jsonl").write_text(text)
    assert read_questions(tmp_path / "questions.jsonl").problems[0].prompt == Prompt.chat("Question q1")
    assert lines[1]["id"] == "q2" and lines[1]["vote"] == "7"


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


def test_an_error_within_a_stream_that_had_begun_well(serve):
    client = serve(faults=Faults(error_event=1))
    reply = client.chat(stream=True)
    *begun, last, done = [event for event in reply.text.split("\n\n") if event]
    assert reply.status_code == 200 and begun and done == "data: [DONE]"
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == 500
    assert client.chat().status_code == 500 and client.stats()["faults"] == {"error_event": 2}
    assert (client.stats()["traces"], client.stats()["lost"]) == (0, 2)


def test_the_port_is_given_back(port):
    with running(MockModel(ANSWERS), port=port) as url:
        assert httpx.get(f"{url}/models").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/models")
    with running(MockModel(ANSWERS), port=port) as again:
        assert again == url


def test_a_busy_port_is_one_clear_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*Choose another"),
            running(MockModel(ANSWERS), port=port),
        ):
            pass


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(InputError, match="cannot listen"), running(MockModel(ANSWERS), port=port):
        pass


def test_a_pipeline_that_is_too_long_is_answered_in_part_then_closed():
    with running(MockModel(ANSWERS)) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as client:
            client.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n" * 100)
            reply = b""
            with contextlib.suppress(ConnectionError):
                while part := client.recv(1 << 16):
                    reply += part
    assert 1 <= reply.count(b"HTTP/1.1 200") < 10


def test_hanging_clients_do_not_hold_up_the_end():
    mock = MockModel(ANSWERS, faults=Faults(hang=1))
    ends = []

    def ask(url):
        try:
            ends.append(httpx.post(f"{url}/completions", json={"model": "mock", "prompt": "q"}, timeout=PATIENCE_S))
        except httpx.HTTPError as error:
            ends.append(error)

    with running(mock) as url:
        threads = [threading.Thread(target=ask, args=[url]) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: mock.stats.faults["hang"] == 3)
        assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(ends) == 3 and not any(isinstance(end, httpx.TimeoutException) for end in ends)


def test_an_error_inside_the_block_gets_out():
    with pytest.raises(ZeroDivisionError), running(MockModel(ANSWERS)):
        _ = 1 / 0


def test_under_another_server_a_disconnect_is_an_error():
    transport = httpx.ASGITransport(app(MockModel(ANSWERS, faults=Faults(disconnect=1))))

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://mock") as client:
            await client.post("/v1/completions", json={"model": "mock", "prompt": "q"})

    with pytest.raises(ConnectionAbortedError):
        asyncio.run(ask())


async def exchange(mock, leaves_after_s=None, **fields):
    """What the mock sends for one request, each message with its time; without a socket, for simulated clocks."""
    loop = asyncio.get_running_loop()
    started, sent = loop.time(), []
    body = json.dumps({"model": "mock", "prompt": "q", **fields}).encode()
    incoming = [{"type": "http.request", "body": body}]

    async def receive():
        if incoming:
            return incoming.pop()
        if leaves_after_s is None:
            await asyncio.Event().wait()
        await asyncio.sleep(started + leaves_after_s - loop.time())
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append((loop.time() - started, message))

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [], "query_string": b""}
    await app(mock)(scope, receive, send)
    return sent


def test_traces_take_their_time_side_by_side():
    mock = MockModel(DistributionAnswers({"q": {"A": 1.0}}, tokens=100), tokens_per_second=200)

    async def ask_all():
        return await asyncio.gather(*(exchange(mock, n=4, seed=seed, max_tokens=60) for seed in range(0, 64, 4)))

    times = [sent[-1][0] for sent in run_simulated(ask_all())]
    assert max(times) == pytest.approx(60 / 200) and min(times) >= 50 / 200 - 1e-9
    assert mock.stats.traces == 64


def test_a_stream_comes_token_by_token():
    mock = MockModel(DistributionAnswers({"q": {"A": 1.0}}, tokens=60), tokens_per_second=20)
    sent = run_simulated(exchange(mock, stream=True, max_tokens=12))
    parts = [(seconds, message["body"]) for seconds, message in sent if message.get("body")]
    assert [seconds for seconds, _ in parts] == pytest.approx([number / 20 for number in range(1, 13)])
    assert b"".join(part for _, part in parts).count(b"data: {") == 13


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_is_noticed(stream):
    mock = MockModel(ANSWERS, tokens_per_second=0.5)
    run_simulated(exchange(mock, leaves_after_s=5.0, n=2, stream=stream))
    assert (mock.stats.abandoned, mock.stats.lost, mock.stats.traces) == (1, 2, 0)


def test_a_client_that_goes_before_its_request_is_whole_is_noticed():
    mock = MockModel(ANSWERS)
    with running(mock) as url, socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        wait_until(lambda: mock.stats.requests == 1)
        client.close()
        wait_until(lambda: mock.stats.abandoned == 1)
    assert mock.stats.refused == 0


def test_a_hang_says_nothing_until_the_client_goes():
    mock = MockModel(ANSWERS, faults=Faults(hang=1))
    assert run_simulated(exchange(mock, leaves_after_s=10_000.0)) == []
    assert mock.stats.faults == {"hang": 1}


@pytest.mark.parametrize("stream", [False, True])
def test_the_first_byte_is_slow(stream):
    mock = MockModel(ANSWERS, faults=Faults(slow=1, slow_seconds=7.5))
    sent = run_simulated(exchange(mock, stream=stream))
    assert sent[0][0] == pytest.approx(7.5) and sent[0][1]["status"] == 200
    assert mock.stats.faults == {"slow": 1} and mock.stats.traces == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_limit_on_requests_is_told_and_kept(serve, stream):
    client = serve(request_limit=RequestLimit(2, per_s=3600.0))
    replies = [client.chat(stream=stream) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert [reply.headers["x-ratelimit-remaining-requests"] for reply in replies] == ["1", "0", "0"]
    assert all(reply.headers["x-ratelimit-limit-requests"] == "2" for reply in replies)
    assert 1700 < int(replies[2].headers["retry-after"]) <= 1800
    assert client.stats()["faults"] == {"request_limit": 1} and client.stats()["refused"] == 0
