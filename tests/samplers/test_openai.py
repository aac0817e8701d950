"""The client against servers that answer well and badly."""

import asyncio
import base64
import contextlib
import errno
import gc
import gzip
import json
import os
import resource
import subprocess
import sys
import threading
import zlib
from urllib.parse import quote

import httpx
import pytest

from pets.errors import BusyError, InputError, RefusedError, ReplyError, SamplerError, UnreachableError
from pets.mock import DistributionAnswers, MockModel, running, synthetic
from pets.openai.response import check_size
from pets.samplers import Prompt, Sampling, Written
from pets.samplers.openai import OpenAISampler

from ..network import answered_by
from ..simulated_time import run_simulated
from ..waiting import until

TEXT, CHAT = Prompt("2 + 2 ="), Prompt.chat("2 + 2?")
TOPS = Sampling(top_logprobs=2, window=2)
CONTENT = [{"token": "4", "logprob": -1.0, "top_logprobs": [{"logprob": -1.0}, {"logprob": -3.0}]}] * 3
DICTS = {"tokens": ["4"] * 3, "token_logprobs": [-1.0] * 3, "top_logprobs": [{"4": -1.0, "5": -3.0}] * 3}


def sample(handler, prompt=TEXT, n=2, sampling=TOPS, **settings):
    async def go():
        async with OpenAISampler("http://server/v1", "m", **settings) as sampler:
            return await sampler.sample(prompt, n, 5, sampling), sampler

    with answered_by(handler):
        return asyncio.run(go())


def choice(index=0, text=" 4", finish="stop", **more):
    return {"index": index, "text": text, "finish_reason": finish, **more}


def answer(*choices, **usage):
    return lambda _: httpx.Response(200, json={"choices": choices, "usage": usage})


def events(*parts, done=True):
    lines = [f"data: {json.dumps(part)}\n\n" for part in parts] + ["data: [DONE]\n\n"] * done
    return lambda _: httpx.Response(200, text=": ping\n\n" + "".join(lines))


@pytest.mark.parametrize("logprobs", [{"content": CONTENT}, DICTS], ids=["chat form", "completions form"])
def test_both_forms_of_log_probabilities(logprobs):
    traces, _ = sample(answer(choice(1, " five", logprobs=logprobs), choice(logprobs=logprobs), prompt_tokens=6))
    assert [trace.text for trace in traces] == [" 4", " five"]  # in the order of the seeds
    assert [trace.tokens for trace in traces] == [3, 3]
    assert [trace.confidence.mean for trace in traces] == [2.0, 2.0]
    assert traces[0].prompt_tokens == 6


def test_a_chat():
    def handler(request):
        assert request.url.path == "/v1/chat/completions"
        assert request.headers["authorization"] == "Bearer secret"
        message = {"role": "assistant", "content": "4"}
        one = {"index": 0, "message": message, "finish_reason": "length", "logprobs": {"content": CONTENT}}
        return httpx.Response(200, json={"choices": [one], "usage": {"completion_tokens": 3}})

    [trace], _ = sample(handler, CHAT, key="secret")
    assert (trace.text, trace.finish, trace.tokens) == ("4", "length", 3)


def test_fewer_choices_come_as_they_are_and_more_are_dropped():
    assert len(sample(answer(choice(), completion_tokens=1), n=8)[0]) == 1
    assert len(sample(answer(choice(0), choice(1), choice(2)), n=2)[0]) == 2


def test_usage_that_counts_one_choice_only_is_noticed():
    both = [choice(index, logprobs={"content": CONTENT}) for index in (0, 1)]
    traces, sampler = sample(answer(*both, completion_tokens=3))
    assert sampler.usage_of_one
    assert sum(trace.tokens for trace in traces) == 6
    _, sampler = sample(answer(*both, completion_tokens=6))
    assert not sampler.usage_of_one


def test_without_log_probabilities_there_is_no_confidence():
    [trace], _ = sample(answer(choice(logprobs=None)), n=1)
    assert trace.confidence is None
    partly = {"content": [CONTENT[0], {"token": "x", "logprob": -1.0}]}
    [trace], _ = sample(answer(choice(logprobs=partly)), n=1)
    assert (trace.confidence, trace.tokens) == (None, 2)


def test_a_stream():
    one = {"content": CONTENT[:1]}
    traces, _ = sample(
        events(
            {"choices": [choice(1, " f", None, logprobs=one)]},
            {"choices": [choice(0, " 4", None, logprobs=one)]},
            {"choices": [choice(1, "ive", None, logprobs=one)]},
            {"choices": [choice(0, "", "stop", logprobs=None)]},
            {"choices": [choice(1, "", "length", logprobs=None)]},
            {"choices": [], "usage": {"prompt_tokens": 6, "completion_tokens": 3}},
        ),
        stream=True,
    )
    assert [(t.text, t.finish, t.tokens, t.prompt_tokens) for t in traces] == [
        (" 4", "stop", 1, 6),
        (" five", "length", 2, 6),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_separator_within_a_text_does_not_break_a_stream(end):
    event = json.dumps({"choices": [choice(text="4\u2028\u0085 5")]}, ensure_ascii=False)

    def handler(_):
        whole = f"data: {event}{end}{end}data: [DONE]{end}{end}".encode()
        return httpx.Response(200, content=slices(whole, 7))

    async def slices(whole, size):
        for at in range(0, len(whole), size):
            yield whole[at : at + size]

    [trace], _ = sample(handler, n=1, stream=True)
    assert trace.text == "4\u2028\u0085 5"


def test_a_chat_stream():
    deltas = ({"role": "assistant", "content": None}, {"content": "fo"}, {"content": "ur"}, {})
    parts = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    parts[-1]["choices"][0]["finish_reason"] = "stop"
    [trace], _ = sample(events(*parts), CHAT, n=1, stream=True)
    assert trace.text == "four"


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (lambda _: httpx.Response(200, text='{"choices": [{"ind'), "not JSON"),
        (lambda _: httpx.Response(200, text=""), "not JSON"),
        (lambda _: httpx.Response(200, json={"no": "choices"}), "OpenAI's form"),
        (lambda _: httpx.Response(200, json=["list"]), "OpenAI's form"),
        (lambda _: httpx.Response(200, json={"choices": None}), "OpenAI's form"),
        (lambda _: httpx.Response(200, json={"error": {"message": "out of memory"}}), "out of memory"),
        (answer(), "no choices"),
        (answer(choice(finish=None)), "breaks off"),
        (answer(choice(logprobs={"content": [{"top_logprobs": [{"logprob": "x"}]}]})), "OpenAI's form"),
        (answer(choice("first")), "OpenAI's form"),
        (answer(choice(text=["4"])), "OpenAI's form"),
        (lambda _: httpx.Response(200, text='{"choices": ' + "[" * 100_000), "not JSON"),
    ],
)
def test_replies_that_cannot_be_read(handler, words):
    with pytest.raises(ReplyError, match=words):
        sample(handler)


def test_a_stream_that_breaks_off():
    with pytest.raises(ReplyError, match="breaks off"):
        sample(events({"choices": [choice(0, " 4", None)]}, done=False), stream=True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, RefusedError), (401, RefusedError), (404, RefusedError), (429, BusyError), (503, BusyError)],
)
def test_errors_carry_the_status_and_the_words(status, kind):
    with pytest.raises(kind, match="the words") as caught:
        sample(lambda _: httpx.Response(status, json={"error": {"message": "the words"}}))
    assert (caught.value.status, caught.value.retry_after) == (status, None)


def test_an_error_page_that_is_no_json():
    with pytest.raises(BusyError, match="502: <html>"):
        sample(lambda _: httpx.Response(502, text="<html>\nbad gateway"))


def test_retry_after_and_rate_limits_come_with_the_error():
    headers = {"Retry-After": "7", "X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1m30.5s"}

    async def go():
        async with OpenAISampler("http://server/v1", "m") as sampler:
            assert sampler.rate_limits is None
            with pytest.raises(BusyError) as caught:
                await sampler.sample(TEXT, 1, 0, Sampling())
            return caught.value, sampler.rate_limits

    with answered_by(lambda _: httpx.Response(429, headers=headers)):
        error, limits = asyncio.run(go())
    assert error.retry_after == 7.0
    assert (limits.remaining_requests, limits.reset_requests_s) == (0, 90.5)


def test_a_body_is_sent_as_it_is_and_its_choices_come_back_whole():
    body = {"model": "other", "messages": [{"role": "user", "content": "2 + 2?"}], "temperature": 0.3, "tools": []}
    message = {"role": "assistant", "content": "4", "annotations": ["kept"]}
    seen = []

    def handler(request):
        seen.append((request.url.path, json.loads(request.content)))
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return httpx.Response(200, json={"choices": choices, "usage": {"completion_tokens": 3}})

    [trace], _ = sample(handler, Prompt.of_body(body), n=2, sampling=Sampling(), stream=True)
    assert seen == [("/v1/chat/completions", body | {"n": 2, "seed": 5})]
    assert (trace.text, trace.tokens, trace.raw["message"]) == ("4", 3, message)
    [trace], _ = sample(handler, CHAT, n=1)
    assert trace.raw is None


def test_a_large_body_arrives_whole():
    long = Prompt("x" * 3_000_000)

    def handler(request):
        assert json.loads(request.content)["prompt"] == long.content
        assert int(request.headers["content-length"]) == len(request.content)
        return answer(choice())(request)

    assert sample(handler, long, n=1)[0][0].text == " 4"


REPLY = json.dumps({"choices": [choice()], "usage": {"completion_tokens": 1}}).encode()


class LoopbackServer:
    """A server of this machine that keeps connections; ``heads`` of the requests it had, ``release`` lets it answer."""

    def __init__(self):
        self.connections, self.heads, self.bodies, self.release = [], [], [], asyncio.Event()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *error):
        self._server.close()
        await asyncio.gather(*self.connections)

    async def _serve(self, reader, writer):
        self.connections.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length:")[1].split("\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                self.heads.append(head)
                await self.release.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(REPLY), REPLY))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def test_hundreds_of_requests_are_in_flight_at_once():
    async def go():
        async with LoopbackServer() as server, OpenAISampler(server.url, "m") as sampler:
            requests = [asyncio.create_task(sampler.sample(TEXT, 1, seed, Sampling())) for seed in range(200)]
            await until(lambda: len(server.heads) == 200)
            server.release.set()
            return await asyncio.gather(*requests)

    assert len(asyncio.run(go())) == 200


def test_one_sampler_serves_several_blocks_each_in_a_loop_of_its_own():
    with running(MockModel(DistributionAnswers({"q": {"A": 1.0}}))) as url:
        sampler = OpenAISampler(url, "mock")

        async def go():
            async with sampler:
                return await sampler.sample(Prompt("q"), 2, 0, Sampling())

        assert asyncio.run(go()) == asyncio.run(go())


@pytest.mark.parametrize(("loopback", "connections"), [(False, 1), (True, 3)])
def test_connections_are_kept_but_to_servers_of_this_machine(loopback, connections):
    async def go():
        async with LoopbackServer() as server, OpenAISampler(server.url, "m", loopback=loopback) as sampler:
            server.release.set()
            for seed in range(3):
                await sampler.sample(TEXT, 1, seed, Sampling())
            return len(server.connections)

    assert asyncio.run(go()) == connections


def test_a_large_body_goes_over_the_wire_whole_and_logins_of_netrc_do_not(monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\ndefault login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def go():
        async with LoopbackServer() as server, OpenAISampler(server.url, "m") as sampler:
            server.release.set()
            await sampler.sample(Prompt("x" * 3_000_000), 1, 0, Sampling())
            return server.heads[0], server.bodies[0]

    head, body = asyncio.run(go())
    assert len(json.loads(body)["prompt"]) == 3_000_000
    assert "authorization" not in head and "transfer-encoding" not in head and head.count("content-type") == 1


def real(raw: bytes) -> SamplerError:
    """What the sampler raises when a server of this machine sends ``raw`` and hangs up."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()
        await writer.wait_closed()

    async def go():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, OpenAISampler(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "m") as sampler:
            with pytest.raises(SamplerError) as caught:
                await sampler.sample(TEXT, 1, 0, Sampling())
            return caught.value

    return asyncio.run(go())


def test_half_a_body():
    assert isinstance(real(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices": ['), ReplyError)


def test_a_connection_that_ends_without_a_word():
    assert isinstance(real(b""), ReplyError)


def test_nobody_listens():
    async def go():
        async with OpenAISampler("http://127.0.0.1:9/v1", "m", loopback=True) as sampler:
            await sampler.sample(TEXT, 1, 0, Sampling())

    reason = os.strerror(errno.ECONNREFUSED)
    with pytest.raises(UnreachableError, match=rf":9/v1 cannot be reached: {reason}\. Is the server running\?$"):
        asyncio.run(go())


def test_a_server_that_is_silent_for_too_long():
    async def go():
        released = asyncio.Event()

        async def silent(reader, writer):
            await released.wait()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, OpenAISampler(url, "m", timeout=0.5) as sampler:
            with pytest.raises(BusyError, match="in time") as caught:
                await sampler.sample(TEXT, 1, 0, Sampling())
            released.set()
            return caught.value

    assert not isinstance(asyncio.run(go()), UnreachableError)


class Parts(httpx.AsyncByteStream):
    """A body as a server sends it, part by part."""

    def __init__(self, content, size=1 << 14):
        self.content, self.size = content, size

    async def __aiter__(self):
        for start in range(0, len(self.content), self.size):
            yield self.content[start : start + self.size]


def compressed(data, encoding="gzip"):
    return lambda _: httpx.Response(200, stream=Parts(data), headers={"content-encoding": encoding})


WHOLE = json.dumps({"choices": [choice()]}).encode()


@pytest.mark.parametrize("handler", [compressed(gzip.compress(WHOLE)), compressed(zlib.compress(WHOLE), "deflate")])
def test_a_compressed_reply_is_read(handler):
    traces, _ = sample(handler, sampling=Sampling())
    assert [trace.text for trace in traces] == [" 4"]


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (compressed(gzip.compress(b" " * 5000)), "over 1000 bytes"),
        (compressed(gzip.compress(WHOLE) + b"x" * 5000), "over 1000 bytes"),
        (lambda _: httpx.Response(200, content=b" " * 1001), "over 1000 bytes"),
        (compressed(gzip.compress(WHOLE)[:-9]), "broke off"),
        (compressed(b"not gzip"), "cannot be decompressed"),
        (compressed(WHOLE, "br"), "not asked for"),
        (compressed(gzip.compress(gzip.compress(WHOLE)), "gzip, gzip"), "not asked for"),
    ],
)
def test_a_reply_that_is_too_large_or_cannot_be_unpacked_is_said_so(handler, words):
    with pytest.raises(ReplyError, match=words):
        sample(handler, max_reply_bytes=1000)


@pytest.mark.parametrize(("sampling", "fits"), [(Sampling(), False), (TOPS, True)])
def test_a_reply_with_log_probabilities_may_be_longer(sampling, fits):
    handler = answer(choice(text="x" * 500))
    with contextlib.nullcontext() if fits else pytest.raises(ReplyError, match="over 250 bytes"):
        sample(handler, sampling=sampling, max_reply_bytes=1000)


def test_a_bomb_is_not_unpacked():
    packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    bomb = b"".join([packer.compress(bytes(1 << 20)) for _ in range(1000)] + [packer.flush()])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ReplyError, match="over 67108864 bytes"):
        sample(compressed(bomb))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # kB


def test_the_words_of_an_error_are_cut_and_its_status_kept():
    with pytest.raises(RefusedError, match="says 400"):
        sample(lambda _: httpx.Response(400, content=b"x" * (1 << 20)))


class Endless(httpx.AsyncByteStream):
    """A body of one part again and again."""

    def __init__(self, part):
        self.part = part

    async def __aiter__(self):
        while True:
            yield self.part
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (b"data: " + b"x" * 4096, "a line of over 250000 bytes"),
        (b'data: {"choices": []}\n' * 500, "over 2097152 bytes"),
        (b": ping\n\n" * 500, "over 1048576 bytes between two events"),
        (b" " * 4096, "a line of over 250000 bytes"),
    ],
)
def test_a_stream_without_an_end_is_left(part, words):
    sampling = Sampling(max_tokens=1024)
    handler = lambda _: httpx.Response(200, stream=Endless(part))  # noqa: E731
    with pytest.raises(ReplyError, match=words):
        sample(handler, n=2, sampling=sampling, stream=True, max_reply_bytes=1_000_000)


def test_one_long_line_is_read_in_time_that_grows_with_its_length():
    event = json.dumps({"choices": [choice(text="x" * 4_000_000)]}).encode()
    line = b"data: " + event + b"\n\ndata: [DONE]\n\n"
    stream = Parts(line, 64)  # 62,500 of them: the square of that would take minutes
    traces, _ = sample(lambda _: httpx.Response(200, stream=stream), n=1, sampling=Sampling(), stream=True)
    assert len(traces[0].text) == 4_000_000


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_trickles_ends_with_the_time_of_its_request(stream):
    async def go():
        async with OpenAISampler("http://server/v1", "m", timeout=600.0, stream=stream) as sampler:
            clock = asyncio.get_running_loop().time
            with pytest.raises(BusyError, match="no answer in time"):
                await sampler.sample(TEXT, 1, 5, Sampling())
            return clock()

    class Trickle(httpx.AsyncByteStream):
        async def __aiter__(self):
            while True:
                await asyncio.sleep(1.0)
                yield b" "

    with answered_by(lambda _: httpx.Response(200, stream=Trickle())):
        assert 600.0 <= run_simulated(go()) <= 602.0


def test_a_request_goes_through_the_proxy(monkeypatch):
    async def go():
        lines = []

        async def proxy(reader, writer):
            lines.append(await reader.readline())
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with server, OpenAISampler("http://nowhere.example/v1", "m") as sampler:
            with pytest.raises(BusyError, match="503"):
                await sampler.sample(TEXT, 1, 0, Sampling())
        return lines

    assert asyncio.run(go()) == [b"POST http://nowhere.example/v1/completions HTTP/1.1\r\n"]


@pytest.mark.parametrize("address", ["nowhere", "ftp://x", "localhost:8000/v1", "http://", "http://[", ""])
def test_what_is_no_address_of_a_server_is_refused_when_the_sampler_is_made(address):
    with pytest.raises(InputError, match="begins with http:// or https://") as error:
        OpenAISampler(address, "m")
    assert f'"{address}" is no address of a server' in str(error.value)


@pytest.mark.parametrize("key", ["secret\n", "s\u00e9cret"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key):
    with pytest.raises(InputError, match="line break") as caught:
        OpenAISampler("http://server/v1", "m", key=key)
    assert "cret" not in str(caught.value)


def test_top_k_for_openai_is_refused_before_anything_is_sent():
    with pytest.raises(InputError, match="--top-k"):
        sample(answer(choice()), sampling=Sampling(top_k=3), dialect="openai")


def test_the_client_alone_imports_nothing_of_a_server():
    code = "import sys, pets.samplers.openai; print({'starlette', 'uvicorn', 'aiohttp', 'httpx'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


KEY = "sk-UPSTREAM/secret+123"
ECHOES = {
    "200": lambda echo: httpx.Response(200, json={"choices": [choice(text=echo), choice(1, echo)], "id": echo}),
    "200 no JSON": lambda echo: httpx.Response(200, text=echo),
    "200 another form": lambda echo: httpx.Response(200, json={"choices": echo}),
    "200 with an error": lambda echo: httpx.Response(200, json={"error": {"message": echo, "code": 400}}),
    **{
        f"{status} {name}": lambda echo, status=status, body=body: httpx.Response(status, text=body(echo))
        for status in (307, 400, 401, 404, 422, 429, 500, 503)
        for name, body in {
            "message": lambda echo: json.dumps({"error": {"message": echo}}),
            "escaped": lambda echo: json.dumps({"error": echo}).replace("-", "\\u002d"),
            "text": str,
        }.items()
    },
}


@pytest.mark.parametrize("name", ECHOES)
@pytest.mark.parametrize("form", [str, lambda key: base64.b64encode(key.encode()).decode(), quote])
def test_the_key_does_not_come_back(name, form):
    def handler(request):
        key = request.headers["authorization"].removeprefix("Bearer ")
        assert key == KEY
        return ECHOES[name](f"authorization: {form(key)}")

    try:
        words = str(sample(handler, sampling=Sampling(), key=KEY)[0])
    except SamplerError as error:
        words = str(error)
    assert "[redacted]" in words and KEY not in words and form(KEY) not in words


def test_a_key_that_is_spelled_out_over_a_stream_does_not_come_back():
    parts = [{"choices": [{"index": 0, "text": letter, "finish_reason": None}]} for letter in KEY]
    stream = events(*parts, {"choices": [choice(text="!")]})
    (trace,), _ = sample(stream, n=1, sampling=Sampling(), key=KEY, stream=True)
    assert trace.text == "[redacted]!"


def models_of(**settings):
    async def scenario(url):
        async with OpenAISampler(url, settings.get("asked", "mock"), key=settings.get("key"), loopback=True) as sampler:
            return [model["id"] for model in await sampler.models()], await sampler.max_model_len()

    model = MockModel(synthetic(2), **settings.get("mock", {}))
    with running(model) as url:
        return asyncio.run(scenario(settings.get("url", url)))


def test_the_models_of_a_server_and_the_context_that_it_says():
    assert models_of() == (["mock"], None)
    assert models_of(mock={"max_model_len": 4096, "api_key": "sk-12345678"}, key="sk-12345678") == (["mock"], 4096)
    assert models_of(mock={"max_model_len": 4096}, asked="other") == (["mock"], None)
    with pytest.raises(RefusedError, match="401"):
        models_of(mock={"api_key": "sk-12345678"})
    with pytest.raises(UnreachableError):
        models_of(url="http://127.0.0.1:9/v1")


def test_a_server_without_a_list_of_models_says_nothing_of_its_context():
    def length(status, content):
        with answered_by(lambda _: httpx.Response(status, content=content)):
            return asyncio.run(OpenAISampler("http://x/v1", "m").max_model_len())

    assert length(404, b"nothing here") is None and length(200, b"<html>") is None


@pytest.mark.parametrize("address", ["http://me:{}@127.0.0.1:9/v1", "ftp://{}@host", "//{}@[", "{}@host"])
def test_an_address_with_a_password_is_refused_and_not_shown(address):
    with pytest.raises(InputError, match="password") as error:
        OpenAISampler(address.format("secret123"), "m")
    assert "secret123" not in str(error.value)


def test_a_users_headers_and_fields_go_with_every_request_and_their_secrets_do_not_come_back():
    requests = []

    def echo(request):
        requests.append(request)
        return httpx.Response(200, json={"choices": [choice(text=request.headers["api-key"])]})

    sampling = Sampling(extra_body={"chat_template_kwargs": {"enable_thinking": False}}, reasoning_effort="low")
    headers = {"api-key": "sk-123456789", "authorization": "Basic abcdefgh12"}
    [trace], _ = sample(echo, n=1, sampling=sampling, key="sk-other-key", headers=headers)
    assert trace.text == "[redacted]" and requests[0].headers["authorization"] == "Basic abcdefgh12"
    sent = json.loads(requests[0].content)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False} and sent["reasoning_effort"] == "low"


def test_a_401_without_a_key_says_how_to_give_one():
    refusal = httpx.Response(401, json={"error": {"message": "Incorrect API key provided."}})
    with pytest.raises(RefusedError, match=r"provided\. No key was sent: set OPENAI_API_KEY") as caught:
        sample(lambda _: refusal)
    assert caught.value.status == 401
    with pytest.raises(RefusedError, match=r"provided\.$"):
        sample(lambda _: refusal, key="sk-12345678")


def test_refusals_are_remembered_by_model():
    bodies = []

    def strict(request):
        bodies.append(body := json.loads(request.content))
        if body["model"] == "strict" and "seed" in body:
            return httpx.Response(400, json={"error": {"message": "Unknown parameter: 'seed'."}})
        return httpx.Response(200, json={"choices": [choice()]})

    async def ask_twice():
        async with OpenAISampler("http://x/v1", "") as sampler:
            for model in ("strict", "strict", "other"):
                body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
                await sampler.sample(Prompt.of_body(body), 1, 5, Sampling())

    with answered_by(strict):
        asyncio.run(ask_twice())
    assert [("seed" in body, body["model"]) for body in bodies] == [
        (True, "strict"), (False, "strict"), (False, "strict"), (True, "other"),
    ]  # fmt: skip


def test_a_host_that_will_not_stream_is_read_whole():
    def whole(request):
        if json.loads(request.content).get("stream"):
            return httpx.Response(
                400, json={"error": {"message": "Unsupported value: 'stream' ...", "param": "stream"}}
            )
        return httpx.Response(200, json={"choices": [choice()]})

    [trace], _ = sample(whole, n=1, stream=True)
    assert trace.text == " 4"


def test_a_large_reply_is_read_in_a_thread_and_a_flood_of_lists_is_not_read(monkeypatch):
    threads, texts = [], ["four " * 300_000, None]

    def reply(request):
        if (text := texts.pop(0)) is None:
            return httpx.Response(200, content=b'{"choices": [' + b"[]," * 500_000)
        return httpx.Response(200, json={"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})

    def note(content):
        threads.append(threading.current_thread())
        check_size(content)

    monkeypatch.setattr("pets.samplers.openai.check_size", note)

    async def run():
        async with OpenAISampler("http://up/v1", "m") as sampler:
            traces = await sampler.sample(Prompt.chat("?"), 1, 0, Sampling())
            assert traces[0].text == "four " * 300_000
            with pytest.raises(ReplyError, match="objects and lists"):
                await sampler.sample(Prompt.chat("?"), 1, 0, Sampling())

    with answered_by(reply):
        asyncio.run(run())
    assert len(threads) == 2 and threading.main_thread() not in threads and gc.isenabled()


def cancelled_after(tokens, url):
    """What is known of traces that are cancelled as soon as so many tokens of each have come."""

    async def go():
        async with OpenAISampler(url, "mock") as sampler:
            written = [Written() for _ in tokens]
            tasks = [
                asyncio.ensure_future(sampler.sample_streamed(Prompt.chat("q"), seed, Sampling(), own))
                for seed, own in enumerate(written)
            ]
            for enough, task, own in zip(tokens, tasks, written, strict=True):
                await until(lambda enough=enough, own=own: own.tokens >= enough)
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)
            return written

    return asyncio.run(go())


def test_a_stream_that_is_cancelled_is_read_until_the_server_has_closed_it():
    mock = MockModel(DistributionAnswers({"q": {"A": 1.0}}, tokens=5000), tokens_per_second=300)
    with running(mock) as url:
        written = cancelled_after([1, 3, 10, 30], url)
        assert all(own.ended and own.told for own in written)
        assert sum(own.tokens_by(1e9) for own in written) == mock.stats.completion_tokens
        assert mock.stats.abandoned == len(written)


def test_a_server_that_does_not_mind_a_closed_client_is_left_after_a_while_and_soon_at_once(monkeypatch):
    monkeypatch.setattr("pets.samplers.openai.ENDING_S", 0.05)

    async def go():
        async with LoopbackServer() as server, OpenAISampler(server.url, "m") as sampler:
            ended = []
            for _ in range(5):
                task = asyncio.ensure_future(sampler.sample_streamed(TEXT, 0, Sampling(), written := Written()))
                await until(lambda: len(server.heads) == len(ended) + 1)
                task.cancel()
                await asyncio.wait([task])
                ended.append(written.ended)
            server.release.set()
            return ended

    assert asyncio.run(go()) == [False] * 5
