"""A gateway over a mock, both on loopback, each in a thread of its own."""

import asyncio
import contextlib
import threading

import httpx
import pytest

from pets.core.budget import Currency
from pets.gateway import Settings, build_gateway, running
from pets.gateway.app import app
from pets.gateway.auth import KeyStore
from pets.gateway.ledger_store import LedgerWriter
from pets.gateway.shared_store import SharedWriter
from pets.mock import DistributionAnswers, MockModel
from pets.mock import running as mock_running
from pets.policies.online_grid import OnlineGrid
from pets.samplers import Completion, Sampler

from ..waiting import PATIENCE_S

BOOK = DistributionAnswers({"easy": {"A": 1.0}, "torn": {"A": 0.55, "B": 0.45}, "mute": {}}, tokens=12)


class RunningGateway:
    """A running gateway, its mock, and a client."""

    def __init__(self, url, state, mock, client):
        self.url, self.state, self.mock, self.client = url, state, mock, client
        self.ledger = state.ledger

    def ask(self, question="easy", *, model="pets/mock", headers=None, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": question}], **fields}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)


@contextlib.contextmanager
def run_gateway(mock=None, settings=None, policy=None, **options):
    mock = mock or MockModel(BOOK)
    settings = settings or Settings(answer="choice")
    with mock_running(mock) as upstream:
        state = build_gateway(upstream, policy or OnlineGrid(), settings=settings, **options)
        with running(state) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            yield RunningGateway(url, state, mock, client)


@pytest.fixture
def gateway():
    with run_gateway() as gateway:
        yield gateway


def add_key(store, name, **options):
    """A key in a store that no gateway has open."""
    writer = LedgerWriter(store)
    try:
        return KeyStore(writer.database).add(name, **options)
    finally:
        writer.close()


def hold_upstream(state, released):
    """Let no request reach the server behind before ``released`` is set; an event says that one waits for it."""
    (endpoint,) = state.driver.fetcher.pool.endpoints
    waiting, sample = threading.Event(), endpoint.sampler.sample

    async def held(*args):
        waiting.set()
        assert await asyncio.to_thread(released.wait, PATIENCE_S)
        return await sample(*args)

    endpoint.sampler.sample = held
    return waiting


class ScriptedSampler(Sampler):
    """Answers A and B in turn after ``seconds``; ``misbehave(n, now)`` may raise instead."""

    def __init__(self, misbehave=lambda n, now: None, seconds=0.0):
        self.misbehave, self.seconds, self.traces, self.requests = misbehave, seconds, 0, []
        self.in_flight = self.widest = 0

    async def sample(self, prompt, n, seed, sampling):
        now = asyncio.get_running_loop().time()
        self.requests.append((now, n))
        self.misbehave(n, now)
        self.traces += n
        self.in_flight += n
        self.widest = max(self.widest, self.in_flight)
        try:
            if self.seconds:
                await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= n
        return [_completion("AB"[(seed + place) % 2]) for place in range(n)]


def _completion(answer):
    text = f"The answer is {answer}."
    raw = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Completion(text, "stop", tokens=8, prompt_tokens=8, raw=raw)


def build_scripted(*samplers, settings=None, **options):
    """A gateway whose servers are scripted."""
    settings = settings or Settings(answer="choice")
    state = build_gateway(["http://127.0.0.1:9/v1"] * len(samplers), OnlineGrid(), settings=settings, **options)
    for endpoint, sampler in zip(state.driver.fetcher.pool.endpoints, samplers, strict=True):
        endpoint.sampler = sampler
    return state


async def ask_in_process(state, pets=None, headers=None, **fields):
    """The response to a voted request, without a socket: on a simulated clock, for example."""
    body = {"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}], "seed": 0, "pets": pets, **fields}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app(state)), base_url="http://localhost") as client:
        return await client.post("/v1/chat/completions", json=body, headers=headers, timeout=None)


@pytest.fixture
def replica_writer(postgres_url):
    """The writer of a replica whose thread was never started: transactions are the test's own."""
    with contextlib.closing(SharedWriter(postgres_url)) as writer:
        writer.register(Currency())
        yield writer
