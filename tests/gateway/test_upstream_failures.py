"""Upstream servers and proxies that fail after they have sampled, or before: what keys pay, who is asked again."""

import asyncio

import aiohttp
import httpx
import pytest

from pets.engine.fetch import MOST_UNKNOWN_TRACES, PROBE_S
from pets.errors import BusyError, UnreachableError
from pets.gateway import Settings, build_gateway
from pets.gateway.app import app

from ..network import answered_by
from ..simulated_time import run_simulated
from .conftest import ScriptedSampler, add_key, build_scripted

REQUESTS, EVERY_S, TRACE_S = 60, 10.0, 2.0
MESSAGES = [{"role": "user", "content": "torn"}]


class Proxy:
    """Answers the first ``good`` requests; the others get ``status`` after ``seconds``, in which it has sampled."""

    def __init__(self, status, seconds, good=0):
        self.status, self.seconds, self.good = status, seconds, good
        self.requests = self.sampled = 0
        self.ended_s = 0.0

    async def serve(self, n):
        """Whether these are answered."""
        self.requests += 1
        is_good = self.requests <= self.good
        await asyncio.sleep(TRACE_S if is_good else self.seconds)
        self.sampled += n if is_good or self.seconds else 0
        self.ended_s = asyncio.get_running_loop().time()
        return is_good

    async def answer(self, request):
        """The response to a plain request for four traces."""
        if await self.serve(4):
            choices = [{"index": at, "text": "four", "finish_reason": "stop"} for at in range(4)]
            return httpx.Response(200, json={"choices": choices})
        if self.status is None:
            raise aiohttp.ConnectionTimeoutError("nobody")
        return httpx.Response(self.status, text="bad gateway")


def votes(proxy, **options):
    """A gateway over the proxy, asked for votes."""

    class Sampler(ScriptedSampler):
        async def sample(self, prompt, n, seed, sampling):
            if await proxy.serve(n):
                return await super().sample(prompt, n, seed, sampling)
            raise UnreachableError("nobody") if proxy.status is None else BusyError("no", status=proxy.status)

    state = build_scripted(
        Sampler(), settings=Settings.of(policy="online_grid", answer="choice", timeout=300.0), **options
    )
    return state, "/v1/chat/completions", {"model": "pets/mock", "messages": MESSAGES, "pets": {"max_traces": 4}}


def plain(proxy, **options):
    """The same, asked for plain completions."""

    state = build_gateway("http://127.0.0.1:9/v1", settings=Settings.of(policy="online_grid", timeout=300.0), **options)
    return state, "/v1/completions", {"model": "mock", "prompt": "torn", "n": 4}


kinds = pytest.mark.parametrize("make", [votes, plain])


def ask(make, proxy, folder, budget, requests=REQUESTS):
    """What a key has spent after many requests, one after the other, and their statuses."""
    secret = add_key(folder / "g.db", "alice", budget=budget)

    async def go():
        state, path, body = make(proxy, store=folder / "g.db")
        transport, headers = httpx.ASGITransport(app(state)), {"authorization": f"Bearer {secret}"}
        statuses = []
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            for _ in range(requests):
                statuses.append((await client.post(path, json=body, timeout=None)).status_code)
                await asyncio.sleep(EVERY_S)
        balance = state.ledger.balance_of("alice")
        assert balance.held == 0
        await state.close()
        return balance.spent, statuses

    with answered_by(proxy.answer):
        return run_simulated(go())


@kinds
@pytest.mark.parametrize("status", [500, 502, 504])
def test_what_a_proxy_says_after_the_time_of_a_trace_is_charged_to_the_key(make, status, tmp_path):
    proxy = Proxy(status, TRACE_S, good=1)
    spent, statuses = ask(make, proxy, tmp_path, budget=40)
    assert statuses[0] == 200 and statuses[-1] == 429 and spent == proxy.sampled == 40


@kinds
@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_proxy_that_fails_from_the_start_costs_nothing_and_is_asked_now_and_then(make, status, tmp_path):
    proxy = Proxy(status, TRACE_S)
    spent, statuses = ask(make, proxy, tmp_path, budget=40)
    assert spent == 0 and not {200, 429} & set(statuses)
    assert MOST_UNKNOWN_TRACES <= proxy.sampled <= MOST_UNKNOWN_TRACES + 4 * (1 + proxy.ended_s / PROBE_S)
    assert proxy.requests < REQUESTS


@kinds
@pytest.mark.parametrize("status", [None, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("good", [0, 1], ids=["from the start", "after a trace"])
def test_an_honest_outage_costs_nothing(make, status, good, tmp_path):
    proxy = Proxy(status, 0.0, good)
    spent, statuses = ask(make, proxy, tmp_path, budget=40, requests=20)
    assert spent == proxy.sampled == 4 * good and statuses.count(200) == good
