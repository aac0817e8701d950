"""One request's connection: reading it within limits, writing to it, noticing that it is gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Message, Receive, Scope, Send

from pets.gateway.refusals import RefusalError
from pets.gateway.settings import Limits

__all__ = ["ClientGoneError", "Line"]

JSON = (b"content-type", b"application/json")
Result = TypeVar("Result")


class ClientGoneError(Exception):
    """Nobody is there to answer to."""


class Line:
    """What ASGI gives for one request, in words; ``status`` is what was answered, 499 where the client went first."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, id: str) -> None:
        self._receive, self._send, self._id = receive, send, id
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.status = 0

    async def body(self, limits: Limits) -> bytes:
        """The whole request body, if it is small enough and comes in time."""
        declared = self.headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > limits.body:
            raise RefusalError(f"The body is over {limits.body} bytes.", status=413)
        try:
            async with asyncio.timeout(limits.body_seconds):
                return await self._read(limits.body)
        except TimeoutError:
            raise RefusalError(f"The body took over {limits.body_seconds:g} seconds.", status=408) from None

    async def _read(self, most: int) -> bytes:
        parts, size, more = [], 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > most:
                raise RefusalError(f"The body is over {most} bytes.", status=413)
        return b"".join(parts)

    async def whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """A complete JSON response."""
        await self.start(status, [JSON, (b"content-length", b"%d" % len(body)), *(headers or ())])
        await self.more(body, end=True)

    async def refuse(self, refusal: RefusalError) -> None:
        """An error, in OpenAI's form."""
        await self.whole(refusal.status, refusal.body(), refusal.headers())

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        self.status = status
        own = [(b"x-request-id", self._id.encode())]
        message: Message = {"type": "http.response.start", "status": status, "headers": [*headers, *own]}
        await self._send(message)

    async def more(self, body: bytes, end: bool = False) -> None:
        """A part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not end})

    async def unless_gone(self, work: Coroutine[Any, Any, Result], every: float, beat: bytes | None) -> Result:
        """The result of the work, which is cancelled when the client goes; meanwhile a beat is sent now and then.

        The first beat begins the response, so that what goes wrong before it still has a status of its own.
        """
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(self._gone())
        try:
            while not task.done():
                await asyncio.wait({task, gone}, timeout=every, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() and not task.done():
                    raise ClientGoneError
                if beat is not None and not task.done():
                    await self.begin_events()
                    await self.more(beat)
            return task.result()
        finally:
            for one in (task, gone):
                one.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def begin_events(self) -> None:
        """The head of a response in events, once."""
        if not self.status:
            kind = (b"content-type", b"text/event-stream; charset=utf-8")
            await self.start(200, [kind, (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")])

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
