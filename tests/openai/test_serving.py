"""A server in a thread: it has a URL while its block lasts, and says why it could not start."""

import asyncio
import contextlib
import socket
import threading
from types import MappingProxyType
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from pets.errors import InputError, PetsError
from pets.openai.asgi import Exchange
from pets.openai.serving import PIPELINED_REQUESTS, BoundedProtocol, ConnectionLimits, Server, in_thread

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, wait_until


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def server(app=hello, limits=None, **settings):
    return Server(app, limits or ConnectionLimits(100), 1, abrupt=True, lifespan="off", **settings)


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
        in_thread(Broken(hello, ConnectionLimits(100), 1, lifespan="off"), "127.0.0.1", 0),
    ):
        pass


async def echo(scope, receive, send):
    exchange = Exchange(scope, receive, send)
    await exchange.respond(200, await exchange.body(1 << 20))


@contextlib.contextmanager
def bounded(app=echo, connections=100, settings=MappingProxyType({}), made=None, **limits):
    """A server under limits: its URL, a function that connects to it, the limits; ``made`` gets its connections."""
    granted = ConnectionLimits(connections, **limits)
    bound = server(app, granted, **settings)
    if made is not None:
        protocol = bound.config.http

        def make(**given):
            made.append(protocol(**given))
            return made[-1]

        bound.config.http = make
    with in_thread(bound, "127.0.0.1", 0) as url, contextlib.ExitStack() as stack:
        parts = urlsplit(url)

        def connect(*sent):
            client = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S))
            for data in sent:
                client.sendall(data)
            return client

        yield url, connect, granted


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

    with bounded(forbidden) as (_, connect, _):
        assert status(connect(*sent)) == 431


@pytest.mark.parametrize(
    "start",
    [b"GET / HTTP/1.1\r\nx: ", b"GET /", b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: "],
)
def test_tens_of_megabytes_of_head_or_trailers_are_not_read(start):
    with bounded() as (url, connect, _):
        client, sent = connect(start), 0
        with contextlib.suppress(ConnectionError):
            while sent < 50 << 20:
                client.sendall(b"x" * (1 << 16))
                sent += 1 << 16
        assert sent < 50 << 20  # what is in the buffers of two sockets
        assert httpx.get(url, trust_env=False).status_code == 200


@pytest.mark.parametrize("sent", [[], [b"GET / HTTP/1.1\r\nhost:"], [b"\r\n"]], ids=["silent", "half", "blank"])
def test_a_head_that_does_not_come_in_time_is_given_up(sent):
    with bounded(head_seconds=0.05) as (_, connect, _):
        assert status(connect(*sent)) == 408


def test_a_second_request_has_its_time_too():
    with bounded(head_seconds=0.05) as (_, connect, _):
        client = connect(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET / HT")
        assert status(client) == 408


def test_what_is_within_the_limits_is_served():
    with bounded() as (url, connect, _), httpx.Client(base_url=url, trust_env=False) as client:
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
    with bounded(connections=3) as (url, connect, _):
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

    with bounded(slow, connections=2) as (url, connect, _):
        busy = [connect(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n") for _ in range(2)]
        assert all(begun.acquire(timeout=PATIENCE_S) for _ in busy)
        assert status(connect()) == 503
        released.set()
        assert [status(client) for client in busy] == [200, 200]
        wait_until(lambda: httpx.get(url, trust_env=False).status_code == 200)


REPLY_BYTES = 32 << 20  # more than the sockets of both sides hold
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class LargeReplies:
    """Answers every request with :data:`REPLY_BYTES`, in parts or at once, and counts."""

    def __init__(self, part_bytes=REPLY_BYTES):
        self.part_bytes, self.begun, self.sent, self.ended = part_bytes, 0, 0, 0

    async def __call__(self, scope, receive, send):
        self.begun += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for start in range(0, REPLY_BYTES, self.part_bytes):
                more = start + self.part_bytes < REPLY_BYTES
                await send({"type": "http.response.body", "body": b"x" * self.part_bytes, "more_body": more})
                self.sent += self.part_bytes
        finally:
            self.ended += 1


LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


@LOOPS
@pytest.mark.parametrize("request_bytes", [GET, GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")])
def test_a_reply_that_is_not_read_is_freed_with_its_connection(loop, request_bytes):
    replies, made = LargeReplies(), []
    with bounded(replies, settings={"loop": loop}, made=made, write_seconds=0.05) as (_, connect, granted):
        client = connect(request_bytes)
        wait_until(lambda: replies.ended and not made[0].connections)
        assert made[0].transport.get_write_buffer_size() == 0
        assert not granted.unread
        received = 0
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 20):
                received += len(part)
        assert received < REPLY_BYTES


@LOOPS
def test_a_reply_in_parts_waits_in_the_application_and_ends_with_the_connection(loop):
    replies, made = LargeReplies(part_bytes=1 << 16), []
    with bounded(replies, settings={"loop": loop}, made=made, write_seconds=0.05) as (_, connect, granted):
        connect(GET)
        wait_until(lambda: granted.unread)
        assert made[0].transport.get_write_buffer_size() < 1 << 17
        wait_until(lambda: replies.ended and not made[0].connections)


class UnreadTransport(asyncio.Transport):
    """A transport whose client has ``unread`` bytes still to take."""

    unread, aborted = 1 << 20, False

    def get_write_buffer_size(self):
        return self.unread

    def set_write_buffer_limits(self, high=None, low=None):
        assert high == 0

    def is_closing(self):
        return self.aborted

    def close(self):
        pass  # it waits for the client

    def abort(self):
        self.aborted = True


@pytest.mark.parametrize(
    ("taken", "kept"),
    [([70_000, 65_536, 900_000], True), ([70_000, 65_535], False), ([0], False)],
    ids=["reads", "drips", "sleeps"],
)
def test_a_client_keeps_its_connection_as_long_as_it_takes_enough_of_its_reply(taken, kept):
    transport, limits = UnreadTransport(), ConnectionLimits(1, head_seconds=1e6, write_bytes=1 << 16)

    async def read():
        config = uvicorn.Config(hello, log_config=None)
        connection = BoundedProtocol(limits, config=config, server_state=ServerState(), app_state={})
        connection.connection_made(transport)
        connection.pause_writing()
        for size in taken:
            transport.unread -= size
            await asyncio.sleep(limits.write_seconds + 0.01)
        assert transport.aborted is not kept
        connection.connection_lost(None)

    run_simulated(read())
    assert not limits.unread


@LOOPS
@pytest.mark.parametrize(
    "sent", [GET, GET.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\ncontent-length: 60\r\n\r\n") + b"b" * 60]
)
def test_of_a_pipeline_that_nobody_reads_a_few_requests_are_kept(loop, sent):
    replies, made = LargeReplies(), []
    with bounded(replies, settings={"loop": loop}, made=made, write_seconds=0.05) as (_, connect, _):
        client = connect()
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            for _ in range(2_000):
                client.send(sent * 100)
        wait_until(lambda: replies.begun)
        assert len(made[0].pipeline) <= PIPELINED_REQUESTS
        wait_until(lambda: not made[0].connections)
        assert replies.begun <= 2  # one whose reply is not read, and one that waits to answer
        assert not made[0].pipeline


@LOOPS
def test_a_pipeline_that_is_too_long_is_answered_as_far_as_it_was_read_then_closed(loop):
    with bounded(settings={"loop": loop}) as (_, connect, _):
        client, reply = connect(GET * 100), b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 16):
                reply += part
        assert reply.count(b"HTTP/1.1 200") == 1 + PIPELINED_REQUESTS
        assert reply.count(b"connection: close") == 1


def test_one_connection_too_many_takes_the_place_of_the_one_that_has_not_read_for_longest():
    made = []
    with bounded(LargeReplies(1 << 20), connections=3, made=made, write_seconds=PATIENCE_S) as (url, connect, granted):
        for number in range(3):
            connect(GET)
            wait_until(lambda number=number: len(granted.unread) > number)
        assert httpx.get(url, trust_env=False).status_code == 200
        assert made[0].transport.is_closing()
        assert not made[1].transport.is_closing()
        assert not made[2].transport.is_closing()


@LOOPS
def test_the_request_under_way_is_told_that_its_client_left_though_others_wait_behind_it(loop):
    begun, told = threading.Event(), threading.Event()

    async def patient(scope, receive, send):
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        told.set()

    with bounded(patient, settings={"loop": loop}) as (_, connect, _):
        client = connect(GET * 3)
        assert begun.wait(PATIENCE_S)
        client.close()
        assert told.wait(PATIENCE_S)
