"""A server in a thread: it has a URL while its block lasts, and says why it could not start."""

import socket

import httpx
import pytest
import uvicorn

from pets.errors import InputError, PetsError
from pets.openai.serving import Server, in_thread


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def server(app=hello, **settings):
    return Server(uvicorn.Config(app, log_config=None, lifespan="off", **settings), abrupt=True)


def test_the_block_has_a_url_and_its_end_frees_the_port():
    with in_thread(server(), "127.0.0.1", 0) as url:
        assert httpx.get(url, trust_env=False).text == "hello"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_a_port_that_is_taken_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}.*Choose another"),
            in_thread(server(), "127.0.0.1", port),
        ):
            pass


def test_a_failure_of_the_start_is_raised_where_the_block_is():
    class Broken(Server):
        async def startup(self, sockets=None):
            raise PetsError("the words")

    with (
        pytest.raises(PetsError, match="the words"),
        in_thread(Broken(uvicorn.Config(hello, log_config=None, lifespan="off")), "127.0.0.1", 0),
    ):
        pass
