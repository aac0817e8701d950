"""Serving a gateway: in the foreground for a user, in a thread for a test."""

import contextlib
import gc
import socket
from collections.abc import Callable, Iterator

import uvicorn

from pets.gateway.app import app
from pets.gateway.desk import Desk
from pets.serving import Server, foreground, in_thread

__all__ = ["running", "serve"]

GRACE = 30  # seconds that requests under way get when the gateway stops


def serve(
    desk: Desk, host: str = "127.0.0.1", port: int = 8080, *, ready: Callable[[str], None], grace: int = GRACE
) -> None:
    """Serve until interrupted; ``ready`` is told the URL as soon as connections are taken. Port 0 takes a free one."""
    gc.collect()
    gc.freeze()  # what is here now stays: looking through it again and again would hold up requests
    foreground(_Server(desk, grace), host, port, ready)


@contextlib.contextmanager
def running(desk: Desk, host: str = "127.0.0.1", port: int = 0, grace: int = 1, refresh: float = 0.1) -> Iterator[str]:
    """A gateway in a thread of its own for as long as the block lasts; the value is its URL, without /v1."""
    with in_thread(_Server(desk, grace, refresh), host, port) as url:
        yield url


class _Server(Server):
    def __init__(self, desk: Desk, grace: int, refresh: float = 1.0) -> None:
        config = uvicorn.Config(
            app(desk, refresh),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=4096,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=grace,
            h11_max_incomplete_event_size=64 << 10,
        )
        super().__init__(config)
        self._desk = desk

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """With the server behind: a local model starts first and ends last."""
        upstream = self._desk.voter.upstream
        await upstream.open()
        try:
            await super().serve(sockets)
        finally:
            await upstream.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nothing new begin, then as uvicorn does it: what is under way gets its time."""
        self._desk.stopping = True
        await super().shutdown(sockets)
