"""Serving an application on this machine with uvicorn: in the foreground for a user, in a thread for a test."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from pets.errors import InputError, PetsError

__all__ = ["Server", "foreground", "in_thread"]

STOP_TIMEOUT_S = 30.0  # of a thread's server; only a broken machine needs it
START_POLL_S = 0.1


class Server(uvicorn.Server):
    """uvicorn's, which says when it takes connections; an ``abrupt`` one drops what is under way at its block's end."""

    def __init__(self, config: uvicorn.Config, *, abrupt: bool = False) -> None:
        super().__init__(config)
        self.abrupt = abrupt
        self.ready: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, and then say so."""
        await super().startup(sockets)
        self.ready()


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
        except PetsError as error:  # whoever waits for the start is told
            failures.append(error)

    with _bound(host, port) as listener:
        server.ready = started.set
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while not started.wait(START_POLL_S):
            if not thread.is_alive():
                raise failures[0] if failures else InputError("the server did not start; its log says why.")
        try:
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
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}. Choose another --port; 0 takes a free one."
        ) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
