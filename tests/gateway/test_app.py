"""Stopping in good order, and saying so."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

from pets.gateway import Settings, build_gateway, running
from pets.mock import Mock
from pets.mock import running as mock_running
from pets.policies.online_grid import OnlineGrid

from ..waiting import PATIENCE_S, wait_until
from .conftest import BOOK, hold_upstream


def listens(url):
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S).close()
    except ConnectionError:
        return False
    return True


def test_open_requests_are_answered_when_it_stops_and_no_new_one_begins(tmp_path):
    body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}
    released = threading.Event()
    with mock_running(Mock(BOOK)) as upstream, ThreadPoolExecutor(2) as pool:
        settings = Settings(answer="choice")
        state = build_gateway(upstream, OnlineGrid(), settings=settings, store=tmp_path / "g.db")
        waiting = hold_upstream(state, released)
        with running(state, grace=60) as url, httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_S) as client:
            assert client.get("/readyz").status_code == 200
            first = pool.submit(
                httpx.post, f"{url}/v1/chat/completions", json=body, timeout=PATIENCE_S, trust_env=False
            )
            assert waiting.wait(PATIENCE_S)
            state.stopping = True
            assert client.get("/readyz").json() == {"ledger": True, "queue": True, "running": False}
            late = client.post("/v1/chat/completions", json=body)
            assert late.status_code == 503 and late.json()["error"]["code"] == "stopping"
            stopped = pool.submit(wait_until, lambda: not listens(url))
            stopped.add_done_callback(lambda _: released.set())  # only when it takes no connections any more
        reply = first.result(PATIENCE_S)
        stopped.result(PATIENCE_S)
    assert reply.status_code == 200 and reply.json()["pets"]["answer"] == "A"
    again = build_gateway("http://127.0.0.1:9/v1", OnlineGrid(), store=tmp_path / "g.db")  # the store was released
    assert again.ledger.total.spent == reply.json()["pets"]["traces"]
    asyncio.run(again.close())
