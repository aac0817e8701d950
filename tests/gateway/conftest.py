"""A gateway over a mock, both on loopback, each in a thread of its own."""

import asyncio
import contextlib
import threading
import time
from collections import Counter

import httpx
import pytest

from pets.gateway import Settings, build_gateway, running
from pets.gateway.app import app
from pets.gateway.auth import KeyStore
from pets.gateway.ledger import GatewayLedger, RequestAccount
from pets.gateway.ledger_backend import LedgerBackend
from pets.gateway.shared_store import SharedStore
from pets.gateway.sqlite_store import SQLiteStore
from pets.mock import DistributionAnswers, MockModel
from pets.mock import running as mock_running
from pets.samplers import Completion, Sampler
from pets.store.database import is_shared
from pets.store.store import open_database

from ..waiting import PATIENCE_S

BOOK = DistributionAnswers({"easy": {"A": 1.0}, "torn": {"A": 0.55, "B": 0.45}, "mute": {}}, tokens=12)


class RunningGateway:
    """A running gateway, its mock, a client, and what it has settled."""

    def __init__(self, url, state, mock, client):
        self.url, self.state, self.mock, self.client = url, state, mock, client
        self.ledger, self.settled = state.ledger, sum_settlements(state.ledger)

    def ask(self, question="easy", *, model="pets/mock", headers=None, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": question}], **fields}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)


def sum_settlements(ledger):
    """The sums of all that a ledger settles from now on, and of the traces that were charged and ``lost``."""
    sums, then = Counter(), ledger.on_settled

    def count(reservation, charge):
        sums.update(charge._asdict())
        sums["lost"] += reservation.traces if charge.spent and not charge.delivered else 0
        then(reservation, charge)

    ledger.on_settled = count
    return sums


@contextlib.contextmanager
def run_gateway(mock=None, settings=None, policy="online_grid", **options):
    mock = mock or MockModel(BOOK)
    settings = settings or Settings.of(policy=policy, answer="choice", hurry=0.0)
    with mock_running(mock) as upstream:
        state = build_gateway(upstream, settings=settings, **options)
        with running(state) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            yield RunningGateway(url, state, mock, client)


@pytest.fixture
def gateway():
    with run_gateway() as gateway:
        yield gateway


def add_key(store, name, **options):
    """A key in a store."""
    with contextlib.closing(open_database(store, create=True)) as database:
        return KeyStore(database).add(name, **options)


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
    settings = settings or Settings.of(policy="online_grid", answer="choice", hurry=0.0)
    state = build_gateway(["http://127.0.0.1:9/v1"] * len(samplers), settings=settings, **options)
    for endpoint, sampler in zip(state.driver.fetcher.pool.endpoints, samplers, strict=True):
        endpoint.sampler = sampler
    return state


async def ask_in_process(state, pets=None, headers=None, **fields):
    """The response to a voted request, without a socket: on a simulated clock, for example."""
    body = {"model": "pets/mock", "messages": [{"role": "user", "content": "torn"}], "seed": 0, "pets": pets, **fields}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app(state)), base_url="http://localhost") as client:
        return await client.post("/v1/chat/completions", json=body, headers=headers, timeout=None)


@contextlib.contextmanager
def open_ledger(location, clock=time.time, durability="process", **options):
    """The ledger of a store, a file's or a server's; what is left is written at the end."""
    is_server = is_shared(location)
    store = SharedStore(location, clock=clock) if is_server else SQLiteStore(location, durability, clock)
    backend = LedgerBackend(store)
    with contextlib.closing(backend):
        yield GatewayLedger(backend, **options)


async def reserve(ledger, key, traces, request="r", **account):
    """Reserve for traces of a request; ``account`` says more of it."""
    return await ledger.reserve(RequestAccount(key, request, **account), traces)
