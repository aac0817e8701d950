"""One request's connection: reading it, writing to it, letting time pass, closing it."""

import asyncio

from starlette.types import Receive, Scope, Send

from pets.mock.asking import RequestError

__all__ = ["JSON", "Line"]

LARGEST = 32 << 20  # bytes in a request
JSON = (b"content-type", b"application/json")


class Line:
    """What ASGI gives for one request, in words."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send

    async def body(self) -> bytes:
        """The whole request body."""
        parts, size, more = [], 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RequestError("The client went before its request was complete.")
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > LARGEST:
                raise RequestError(f"The body is over {LARGEST} bytes.", status=413)
        return b"".join(parts) if len(parts) > 1 else parts[0]

    async def whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """A complete JSON response."""
        await self.start(status, [JSON, (b"content-length", b"%d" % len(body)), *(headers or ())])
        await self.more(body, end=True)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, body: bytes, end: bool = False) -> None:
        """A part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": not end})

    async def wait(self, seconds: float) -> bool:
        """Let time pass; false as soon as the client has gone."""
        try:
            async with asyncio.timeout(seconds):
                await self.gone()
        except TimeoutError:
            return True
        return False

    async def gone(self) -> None:
        """Until the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def drop(self) -> None:
        """Close the connection, whatever was promised in the headers."""
        close = self._scope.get("state", {}).get("pets.close")
        if close is None:
            raise ConnectionAbortedError("a fault asked for the connection to be closed, which this server cannot do")
        close()
        await self.gone()
