"""A server in a thread: it has a URL while its block lasts, and says why it could not start."""

import asyncio
import contextlib
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from pets.errors import InputError, PetsError
from pets.openai.asgi import Exchange
from pets.openai.serving import ConnectionLimits, Server, in_thread

from ..waiting import PATIENCE_S, wait_until


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def server(app=hello, **settings):
    return Server(uvicorn.Config(app, log_config=None, lifespan="off", **settings), abrupt=True)


def test_the_block_has_a_url_and_its_end_frees_the_port():
    with in_thread(server(), "127.0.0.1", 0) as url:
        assert httpx.get(url, trust_env=False).text == "hello"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_a_port_that_is_taken_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}.*Choose another"),
            in_thread(server(), "127.0.0.1", port),
        ):
            pass


def test_a_failure_of_the_start_is_raised_where_the_block_is():
    class Broken(Server):
        async def startup(self, sockets=None):
            raise PetsError("the words")

    with (
        pytest.raises(PetsError, match="the words"),
        in_thread(Broken(uvicorn.Config(hello, log_config=None, lifespan="off")), "127.0.0.1", 0),
    ):
        pass


async def echo(scope, receive, send):
    exchange = Exchange(scope, receive, send)
    await exchange.respond(200, await exchange.body(1 << 20))


@contextlib.contextmanager
def bounded(app=echo, connections=100, **limits):
    """A server under limits: its URL, and a function that connects to it."""
    granted = ConnectionLimits(connections, **limits)
    with in_thread(server(app, http=granted.protocol), "127.0.0.1", 0) as url, contextlib.ExitStack() as stack:
        parts = urlsplit(url)

        def connect(*sent):
            client = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S))
            for data in sent:
                client.sendall(data)
            return client

        yield url, connect


def status(client):
    """The status that a connection was closed with, 0 where it was closed without a word."""
    reply = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(1 << 16):
            reply += part
    return int(reply.split()[1]) if reply else 0


@pytest.mark.parametrize(
    "sent",
    [
        [b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 70_000 + b"\r\n\r\n"],
        [b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"],
        [b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n"],
        [b"GET / HTTP/1.1\r\nx: ", b"x" * 70_000],  # and no end
    ],
    ids=["header", "url", "headers", "endless"],
)
def test_a_head_that_is_too_large_is_refused_before_the_application_sees_it(sent):
    def forbidden(scope, receive, send):
        raise AssertionError

    with bounded(forbidden) as (_, connect):
        assert status(connect(*sent)) == 431


@pytest.mark.parametrize(
    "start",
    [b"GET / HTTP/1.1\r\nx: ", b"GET /", b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: "],
)
def test_tens_of_megabytes_of_head_or_trailers_are_not_read(start):
    with bounded() as (url, connect):
        client, sent = connect(start), 0
        with contextlib.suppress(ConnectionError):
            while sent < 50 << 20:
                client.sendall(b"x" * (1 << 16))
                sent += 1 << 16
        assert sent < 50 << 20  # what is in the buffers of two sockets
        assert httpx.get(url, trust_env=False).status_code == 200


@pytest.mark.parametrize("sent", [[], [b"GET / HTTP/1.1\r\nhost:"], [b"\r\n"]], ids=["silent", "half", "blank"])
def test_a_head_that_does_not_come_in_time_is_given_up(sent):
    with bounded(head_seconds=0.05) as (_, connect):
        assert status(connect(*sent)) == 408


def test_a_second_request_has_its_time_too():
    with bounded(head_seconds=0.05) as (_, connect):
        client = connect(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET / HT")
        assert status(client) == 408


def test_what_is_within_the_limits_is_served():
    with bounded() as (url, connect), httpx.Client(base_url=url, trust_env=False) as client:
        for _ in range(3):
            assert (
                client.post("/" + "u" * 30_000, headers={"x": "x" * 30_000}, content=b"b" * 900_000).status_code == 200
            )
        assert client.post("/", content=iter([b"x"] * 20_000)).content == b"x" * 20_000  # chunks of one byte
        pipelined = connect(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 2 + b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
        reply = b""
        while part := pipelined.recv(1 << 16):
            reply += part
        assert reply.count(b"HTTP/1.1 200") == 3


def test_one_connection_too_many_takes_the_place_of_the_one_that_is_idle_for_longest():
    with bounded(connections=3) as (url, connect):
        silent = [connect() for _ in range(3)]
        kept = connect(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert kept.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert status(silent[0]) == 0
        assert [httpx.get(url, trust_env=False).status_code for _ in range(5)] == [200] * 5


def test_where_all_connections_are_at_work_one_more_is_refused():
    begun, released = threading.Semaphore(0), threading.Event()

    async def slow(scope, receive, send):
        begun.release()
        assert await asyncio.to_thread(released.wait, PATIENCE_S)
        await echo(scope, receive, send)

    with bounded(slow, connections=2) as (url, connect):
        busy = [connect(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n") for _ in range(2)]
        assert all(begun.acquire(timeout=PATIENCE_S) for _ in busy)
        assert status(connect()) == 503
        released.set()
        assert [status(client) for client in busy] == [200, 200]
        wait_until(lambda: httpx.get(url, trust_env=False).status_code == 200)
