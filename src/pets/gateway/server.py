"""Serving a gateway: in the foreground for a user, in a thread for a test."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from pets.errors import InputError
from pets.gateway.app import app
from pets.gateway.desk import Desk

__all__ = ["running", "serve"]

PATIENCE = 30.0  # seconds for a thread's server to start or stop: only a broken machine needs them
GRACE = 30  # seconds that requests under way get when the gateway stops


def serve(
    desk: Desk, host: str = "127.0.0.1", port: int = 8080, *, ready: Callable[[str], None], grace: int = GRACE
) -> None:
    """Serve until interrupted; ``ready`` is told the URL as soon as connections are taken. Port 0 takes a free one."""
    with _bound(host, port) as listener:
        server = _Server(desk, lambda: ready(_url(listener)), grace)
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn stops in good order, then raises it
            server.run(sockets=[listener])


@contextlib.contextmanager
def running(desk: Desk, host: str = "127.0.0.1", port: int = 0, grace: int = 1, refresh: float = 0.1) -> Iterator[str]:
    """A gateway in a thread of its own for as long as the block lasts; the value is its URL, without /v1."""
    started = threading.Event()
    with _bound(host, port) as listener:
        server = _Server(desk, started.set, grace, refresh)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            if not started.wait(PATIENCE):
                raise InputError(f"the gateway did not start within {PATIENCE:g} seconds.")
            yield _url(listener)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


class _Server(uvicorn.Server):
    def __init__(self, desk: Desk, ready: Callable[[], None], grace: int, refresh: float = 1.0) -> None:
        config = uvicorn.Config(
            app(desk, refresh),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=4096,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=grace,
            h11_max_incomplete_event_size=64 << 10,
        )
        super().__init__(config)
        self._desk, self._ready = desk, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, and then say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nothing new begin, then as uvicorn does it: what is under way gets its time."""
        self._desk.stopping = True
        await super().shutdown(sockets)


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
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}. Choose another --port; 0 takes a free one."
        ) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
