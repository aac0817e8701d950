"""Serving an application on this machine with uvicorn: in the foreground for a user, in a thread for a test.

:class:`BoundedProtocol` bounds what a client can take before the application has seen its request: uvicorn's parser
takes headers and URLs of any length, from any number of connections, for any time. It also bounds what a client can
leave unread: uvicorn queues every request that is sent before the first is answered, and keeps a reply until it is
read.
"""

import asyncio
import contextlib
import functools
import itertools
import math
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pets.errors import InputError, PetsError
from pets.openai.asgi import TRANSPORT
from pets.openai.errors import ApiError

STOP_TIMEOUT_S = 30.0  # of a thread's server; only a broken machine needs it
START_POLL_S = 0.1
BACKLOG = 4096  # connections that wait to be taken
KEEP_ALIVE_S = 75
FRAMING_BYTES_PER_BODY_BYTE = 8  # of a chunked body: as much as chunks of one byte take
HEADER_FRAMING_BYTES = 4  # the colon, the blank and the line's end
PIPELINED_REQUESTS = 4  # which wait behind the one that is being answered; hardly a client sends any


class Server(uvicorn.Server):
    """uvicorn, which calls ``ready`` when it takes connections; open requests get ``grace_s`` seconds when it stops,
    or none in a thread where it is ``abrupt``."""

    def __init__(
        self, app: Any, limits: "ConnectionLimits", grace_s: int, *, abrupt: bool = False, **settings: Any
    ) -> None:
        settings |= {"log_config": None, "access_log": False, "server_header": False, "proxy_headers": False}
        settings |= {"ws": "none", "backlog": BACKLOG, "timeout_keep_alive": KEEP_ALIVE_S}
        settings |= {"http": functools.partial(BoundedProtocol, limits)}
        super().__init__(uvicorn.Config(app, timeout_graceful_shutdown=grace_s, **settings))
        self.abrupt = abrupt
        self.ready: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()


@dataclass(slots=True)
class ConnectionLimits:
    """What one server grants: ``connections``, bytes and seconds of each head, and the seconds in which a client reads.

    A head is the request line with its headers. A client that has a reply waiting takes ``write_bytes`` of it, or the
    rest, in every ``write_seconds``, or is cut off. One connection too many closes the one that has been ``idle`` for
    longest, then the one that has left a reply ``unread`` for longest; where all others are at work, it is refused.
    """

    connections: int
    head_bytes: int = 64 << 10
    head_seconds: float = 10.0
    write_bytes: int = 64 << 10
    write_seconds: float = 30.0
    idle: dict["BoundedProtocol", None] = field(default_factory=dict)  # in the order in which they became so
    unread: dict["BoundedProtocol", None] = field(default_factory=dict)  # likewise


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol under :class:`ConnectionLimits`; what is over them gets a 408, 431 or 503 and is closed.

    Of requests that are sent before the first is answered, :data:`PIPELINED_REQUESTS` wait; those behind them are not
    read, and the connection is closed when the last that was read is answered, which HTTP tells clients to expect.
    """

    def __init__(self, limits: ConnectionLimits, **settings: Any) -> None:
        super().__init__(**settings)
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._answering: RequestResponseCycle | None = None  # `cycle` is the latest, which may wait behind it
        self._reads_no_more = False  # there were too many requests
        self._head_bytes = 0  # of the request line and the headers so far
        self._framing_bytes = 0  # of this request so far, without its body
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, in place of another connection where there is no room."""
        super().connection_made(transport)
        self.app_state = self.app_state | {TRANSPORT: transport}
        transport.set_write_buffer_limits(0)  # `pause_writing` is called for all that the client has not taken at once
        if len(self.connections) > self._limits.connections:
            oldest = next(itertools.chain(self._limits.idle, self._limits.unread), None)
            if oldest is None:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.")
                return
            oldest._abort()
        self._limits.idle[self] = None
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._limits.idle.pop(self, None)
        self.resume_writing()
        self.pipeline.clear()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, as long as what it keeps is within the limits."""
        if self.transport.is_closing() or self._reads_no_more:
            return
        self._framing_bytes += len(data)
        super().data_received(data)
        if self._reads_no_more:
            return
        most = self._limits.head_bytes + FRAMING_BYTES_PER_BODY_BYTE * self._body_bytes
        if self._framing_bytes > most:
            self._refuse_head()
        elif self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._arm()  # the next request has begun, or the rest of an answered one still comes

    def on_message_begin(self) -> None:
        """Count anew, unless too many requests wait."""
        if len(self.pipeline) >= PIPELINED_REQUESTS:
            self._reads_no_more = True
            self.cycle.keep_alive = False
            raise ValueError("too many requests wait")  # which stops the parser
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + HEADER_FRAMING_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request: from here on, the application has its own limits."""
        self._disarm()
        self._limits.idle.pop(self, None)
        super().on_headers_complete()
        if not self.pipeline:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        self._framing_bytes -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._framing_bytes = self._body_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The response is sent: answer the next request, or wait for it."""
        if self.pipeline:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:  # no request was waiting behind this one
            self._limits.idle[self] = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser cannot read, or was not let read."""
        if self._head_bytes > self._limits.head_bytes:
            self._refuse_head()
        elif not (self._reads_no_more or self.transport.is_closing()):
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """The client has not taken all of a reply: the application waits, but not for ever."""
        super().pause_writing()
        self._limits.unread[self] = None
        self._watch_writing(math.inf)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._limits.unread.pop(self, None)
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _watch_writing(self, bytes_before: float) -> None:
        """Look again in ``write_seconds``, unless too much is left of what was unread ``write_seconds`` ago."""
        unread = self.transport.get_write_buffer_size()
        if unread <= bytes_before - self._limits.write_bytes:
            self._write_timer = self.loop.call_later(self._limits.write_seconds, self._watch_writing, unread)
        else:
            self._abort()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            raise ValueError("the head is too large")  # which stops the parser

    def _refuse_head(self) -> None:
        message = f"The request line and the headers are over {self._limits.head_bytes} bytes."
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer with an error and close; only close where an answer is under way."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = ApiError(message, status=status).body()
            head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self._close()

    def _arm(self) -> None:
        seconds = self._limits.head_seconds
        late = HTTPStatus.REQUEST_TIMEOUT, f"The headers took over {seconds:g} seconds."
        self._head_timer = self.loop.call_later(seconds, self._refuse, *late)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        self._disarm()
        self._limits.idle.pop(self, None)
        self.transport.close()

    def _abort(self) -> None:
        """Close without waiting for the client to read."""
        self._close()
        self.transport.abort()


def foreground(server: Server, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; ``ready`` is told the URL as soon as connections are taken. Port 0 takes a free one."""
    with _bound(host, port) as listener:
        server.ready = lambda: ready(_url(listener))
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn stops in good order, then raises it
            server.run(sockets=[listener])


@contextlib.contextmanager
def in_thread(server: Server, host: str, port: int) -> Iterator[str]:
    """The URL of a server that runs in a thread of its own for as long as the block lasts."""
    started, failures = threading.Event(), list[PetsError]()

    def work() -> None:
        try:
            server.run(sockets=[listener])
        except PetsError as error:  # raised by the thread that waits for the start
            failures.append(error)

    with _bound(host, port) as listener:
        server.ready = started.set
        thread = threading.Thread(target=work, daemon=True)  # a process that ends does not wait for it
        thread.start()
        try:
            while not started.wait(START_POLL_S):
                if not thread.is_alive():
                    raise failures[0] if failures else InputError("the server did not start; its log says why.")
            yield _url(listener)
        finally:
            server.should_exit, server.force_exit = True, server.abrupt
            thread.join(STOP_TIMEOUT_S)


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, or one clear line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        words = f"cannot listen on {host}:{port}: {reason}. Choose another --port; 0 takes a free one."
        raise InputError(words) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
