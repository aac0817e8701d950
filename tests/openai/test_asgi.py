"""One request and its response over ASGI, without a server."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from pets.openai.asgi import TRANSPORT, ClientGoneError, Exchange
from pets.openai.errors import ApiError

GONE = {"type": "http.disconnect"}


class Client:
    """Sends ``messages`` and then waits, or goes where ``goes`` is set; keeps what is answered."""

    def __init__(self, *messages, headers=(), **scope):
        self.messages, self.answers, self.goes = list(messages), [], asyncio.Event()
        self.exchange = Exchange({"headers": list(headers), **scope}, self.receive, self.send, id="abc")

    async def receive(self):
        if not self.messages:
            await self.goes.wait()
            return GONE
        return self.messages.pop(0)

    async def send(self, message):
        self.answers.append(message)

    @property
    def body(self):
        return b"".join(answer.get("body", b"") for answer in self.answers)


def part(body, more=False):
    return {"type": "http.request", "body": body, "more_body": more}


def run(work):
    async def bounded():
        async with asyncio.timeout(30):
            return await work()

    return asyncio.run(bounded())


def test_a_body_in_parts():
    async def go():
        assert await Client(part(b"ab", more=True), part(b"c")).exchange.body(3) == b"abc"

    run(go)


def test_a_body_that_is_too_large_is_refused_by_what_it_declares_and_by_what_comes():
    async def go():
        for client in (
            Client(part(b"ab", more=True), part(b"cd")),
            Client(headers=[(b"content-length", b"4")]),
        ):
            with pytest.raises(ApiError, match="over 3 bytes") as caught:
                await client.exchange.body(3)
            assert caught.value.status == 413

    run(go)


def test_a_body_that_never_ends_and_one_whose_client_goes():
    async def go():
        with pytest.raises(ApiError) as caught:
            await Client(part(b"a", more=True)).exchange.body(3, timeout_s=0.01)
        assert caught.value.status == 408
        with pytest.raises(ClientGoneError):
            await Client(part(b"a", more=True), GONE).exchange.body(3)

    run(go)


def test_a_response_carries_the_requests_id():
    async def go():
        client = Client()
        await client.exchange.respond_error(ApiError("No.", status=404))
        start = client.answers[0]
        assert (start["status"], client.exchange.status) == (404, 404)
        assert {(b"x-request-id", b"abc"), (b"content-length", b"%d" % len(client.body))} <= set(start["headers"])
        assert json.loads(client.body)["error"]["message"] == "No."

    run(go)


def test_work_ends_with_its_result_after_keep_alives():
    async def go():
        client = Client()

        async def work():
            while len(client.answers) < 3:
                await asyncio.sleep(0)
            return 7

        assert await client.exchange.run_unless_gone(work(), b": hold on\n\n", 0.001) == 7
        assert client.exchange.status == 200 and client.body.startswith(b": hold on\n\n: hold on\n\n")

    run(go)


def test_work_is_cancelled_when_the_client_goes():
    async def go():
        client, cancelled = Client(), asyncio.Event()

        async def work():
            client.goes.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        with pytest.raises(ClientGoneError):
            await client.exchange.run_unless_gone(work())
        assert cancelled.is_set() and not client.answers

    run(go)


def test_waiting_ends_early_when_the_client_goes():
    async def go():
        client = Client()
        assert await client.exchange.wait(0.001)
        client.goes.set()
        assert not await client.exchange.wait(60)

    run(go)


def test_a_connection_is_closed_where_the_server_lets_us():
    async def go():
        closed = asyncio.Event()
        client = Client(GONE, state={TRANSPORT: SimpleNamespace(close=closed.set)})
        await client.exchange.drop()
        assert closed.is_set()
        with pytest.raises(ConnectionAbortedError):
            await Client().exchange.drop()

    run(go)
