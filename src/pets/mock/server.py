"""Serving a mock: in the foreground for a user, in a thread for a test."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from pets.errors import InputError
from pets.mock.asgi import app
from pets.mock.mind import Mock

__all__ = ["running", "serve"]

PATIENCE = 30.0  # seconds for a thread's server to start or stop: only a broken machine needs them


class _Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's own, which also tells the application how to close the connection: ASGI has no word for it."""

    app_state: dict[str, object]

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "pets.close": transport.close}


def serve(mock: Mock, host: str = "127.0.0.1", port: int = 8000, *, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; ``ready`` is told the URL as soon as connections are taken. Port 0 takes a free one."""
    with _bound(host, port) as listener:
        server = _Server(mock, lambda: ready(_url(listener)))
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn stops in good order, then raises it
            server.run(sockets=[listener])


@contextlib.contextmanager
def running(mock: Mock, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """A mock in a thread of its own for as long as the block lasts; the value is the URL for an OpenAI client.

    >>> import httpx
    >>> from pets.mock import Known
    >>> with running(Mock(Known({"capital": {"Paris": 1.0}}))) as url:
    ...     reply = httpx.post(f"{url}/completions", json={"model": "mock", "prompt": "capital", "max_tokens": 3})
    >>> reply.json()["choices"][0]["text"]
    '<think> so we'
    """
    started = threading.Event()
    with _bound(host, port) as listener:
        server = _Server(mock, started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            if not started.wait(PATIENCE):
                raise InputError(f"the mock did not start within {PATIENCE:g} seconds.")
            yield _url(listener)
        finally:
            server.should_exit = server.force_exit = True
            thread.join(PATIENCE)


class _Server(uvicorn.Server):
    def __init__(self, mock: Mock, ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app(mock),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            backlog=4096,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, and then say so."""
        await super().startup(sockets)
        self._ready()


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
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
