"""Stopping in good order, and saying so."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from pets.gateway import Settings, build_gateway, running
from pets.mock import Known, Mock
from pets.mock import running as mock_running
from pets.policies.online_grid import OnlineGrid


def test_what_is_under_way_is_finished_and_nothing_new_begins(tmp_path):
    slow = Mock(Known({"easy": {"A": 1.0}}, tokens=20), tokens_per_second=40)
    body = {"model": "pets/mock", "messages": [{"role": "user", "content": "easy"}]}
    with mock_running(slow) as upstream, ThreadPoolExecutor(1) as pool:
        settings = Settings(answer="choice")
        state = build_gateway(upstream, OnlineGrid(), settings=settings, store=tmp_path / "g.db")
        begun = threading.Event()
        sample = state.upstream.sample

        async def noticed(*args):
            begun.set()
            return await sample(*args)

        state.upstream.sample = noticed
        with running(state, grace=20) as url:
            assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
            asked = pool.submit(httpx.post, f"{url}/v1/chat/completions", json=body, timeout=30, trust_env=False)
            assert begun.wait(20)
            state.stopping = True
            assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 503
            late = httpx.post(f"{url}/v1/chat/completions", json=body, trust_env=False)
            assert late.status_code == 503 and late.json()["error"]["code"] == "stopping"
        reply = asked.result(30)
    assert reply.status_code == 200 and reply.json()["pets"]["answer"] == "A"
    again = build_gateway("http://127.0.0.1:9/v1", OnlineGrid(), store=tmp_path / "g.db")  # the store was given back
    assert again.ledger.total.spent == reply.json()["pets"]["traces"]
    asyncio.run(again.close())
