"""One ASGI request and its response: reading within limits, writing, noticing that the client has gone.

Plain ASGI, because Starlette's requests and responses cost more than most of what they would carry.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pets.openai.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

TRANSPORT = "pets.transport"  # the name of the connection in a scope's state: ASGI has no words for its end
JSON = (b"content-type", b"application/json")
Result = TypeVar("Result")


class ClientGoneError(Exception):
    """The client has closed its connection and reads no answer."""


class Exchange:
    """One request and its response; ``status`` is what was answered, 0 until something was.

    ``id`` goes back to the client as ``x-request-id``.
    """

    def __init__(self, scope: "Scope", receive: "Receive", send: "Send", id: str | None = None) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._own_headers = [] if id is None else [(b"x-request-id", id.encode())]
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.status = 0

    async def body(self, max_bytes: int, timeout_s: float | None = None) -> bytes:
        """The whole request body; one that is too large or takes too long raises an :class:`ApiError`."""
        declared = self.headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > max_bytes:
            raise ApiError(f"The body is over {max_bytes} bytes.", status=413)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(timeout_s):
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > max_bytes:
                        raise ApiError(f"The body is over {max_bytes} bytes.", status=413)
        except TimeoutError:
            raise ApiError(f"The body took over {timeout_s:g} seconds.", status=408) from None
        return b"".join(parts)

    async def respond(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Send a complete JSON response."""
        await self.start(status, [JSON, (b"content-length", b"%d" % len(body)), *(headers or ())])
        await self.send(body, end=True)

    async def respond_error(self, error: ApiError) -> None:
        """Send an error: as the response, or as the last event of a stream that has begun."""
        if self.status:
            await self.send(b"data: " + error.body() + b"\n\n", end=True)
        else:
            await self.respond(error.status, error.body(), error.headers())

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        headers = [*headers, *self._own_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def start_events(self, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Send the head of a response in server-sent events, once."""
        if not self.status:
            kind = (b"content-type", b"text/event-stream; charset=utf-8")
            unbuffered = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
            await self.start(200, [kind, *unbuffered, *(headers or ())])

    async def send(self, body: bytes, end: bool = False) -> None:
        """Send a part of the body, the last one with ``end``."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not end})

    async def run_unless_gone(
        self, work: Coroutine[Any, Any, Result], keepalive: bytes | None = None, every_s: float | None = None
    ) -> Result:
        """The result of the work, which is cancelled when the client goes; a keep-alive goes out every ``every_s``.

        The first keep-alive begins the response, so that what goes wrong before it still has a status of its own.
        """
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self.wait_gone())
        try:
            while not task.done():
                await asyncio.wait({task, gone}, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() and not task.done():
                    raise ClientGoneError
                if keepalive is not None and not task.done():
                    await self.start_events()
                    await self.send(keepalive)
            return task.result()
        finally:
            for future in (task, gone):
                future.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def wait(self, seconds: float) -> bool:
        """Let time pass; false as soon as the client has gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait_gone()
                return False
        return True

    async def wait_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    @property
    def is_closing(self) -> bool:
        """Whether what is sent now would not arrive, as far as the server tells."""
        transport = self._scope.get("state", {}).get(TRANSPORT)
        return transport is not None and transport.is_closing()

    async def drop(self) -> None:
        """Close the connection, whatever was promised in the headers; the server must have left the means to do so."""
        transport = self._scope.get("state", {}).get(TRANSPORT)
        if transport is None:
            raise ConnectionAbortedError("the connection is to be closed, which this server cannot do")
        transport.close()
        await self.wait_gone()
