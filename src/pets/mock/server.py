"""Serving a mock: in the foreground for a user, in a thread for a test."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from pets.mock.asgi import app
from pets.mock.mind import Mock
from pets.openai.asgi import CLOSE_CONNECTION
from pets.openai.serving import Server, foreground, in_thread

__all__ = ["running", "serve"]


class _Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's own, which also tells the application how to close the connection: ASGI has no word for it."""

    app_state: dict[str, object]

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, CLOSE_CONNECTION: transport.close}


def serve(mock: Mock, host: str = "127.0.0.1", port: int = 8000, *, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; ``ready`` is told the URL as soon as connections are taken. Port 0 takes a free one."""
    foreground(_server(mock), host, port, lambda url: ready(f"{url}/v1"))


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
    with in_thread(_server(mock), host, port) as url:
        yield f"{url}/v1"


def _server(mock: Mock) -> Server:
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
    return Server(config, abrupt=True)
