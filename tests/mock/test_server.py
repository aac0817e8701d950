"""Serving: a URL that works at once, a port that is given back, hanging clients that hold nothing up."""

import asyncio
import socket
import threading

import httpx
import pytest

from pets.errors import InputError
from pets.mock import DistributionAnswers, Faults, MockModel, app, running

from ..waiting import PATIENCE_S, wait_until

ANSWERS = DistributionAnswers({"q": {"A": 1.0}})


def test_the_port_is_given_back(port):
    with running(MockModel(ANSWERS), port=port) as url:
        assert httpx.get(f"{url}/models").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/models")
    with running(MockModel(ANSWERS), port=port) as again:
        assert again == url


def test_a_busy_port_is_one_clear_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*Choose another"),
            running(MockModel(ANSWERS), port=port),
        ):
            pass


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(InputError, match="cannot listen"), running(MockModel(ANSWERS), port=port):
        pass


def test_hanging_clients_do_not_hold_up_the_end():
    mock = MockModel(ANSWERS, faults=Faults(hang=1))

    ends = []

    def ask(url):
        try:
            ends.append(httpx.post(f"{url}/completions", json={"model": "mock", "prompt": "q"}, timeout=PATIENCE_S))
        except httpx.HTTPError as error:
            ends.append(error)

    with running(mock) as url:
        threads = [threading.Thread(target=ask, args=[url]) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: mock.stats.faults["hang"] == 3)
        assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(ends) == 3 and not any(isinstance(end, httpx.TimeoutException) for end in ends)


def test_an_error_inside_the_block_gets_out():
    with pytest.raises(ZeroDivisionError), running(MockModel(ANSWERS)):
        _ = 1 / 0


def test_under_another_server_a_disconnect_is_an_error():
    transport = httpx.ASGITransport(app(MockModel(ANSWERS, faults=Faults(disconnect=1))))

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://mock") as client:
            await client.post("/v1/completions", json={"model": "mock", "prompt": "q"})

    with pytest.raises(ConnectionAbortedError):
        asyncio.run(ask())


@pytest.mark.parametrize("wrong", [{"tokens_per_second": -1}, {"n_limit": 0}, {"model": ""}, {"api_key": ""}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError):
        MockModel(ANSWERS, **wrong)
