"""A gateway over a mock, both on loopback, each in a thread of its own."""

import asyncio
import contextlib
import threading

import httpx
import pytest

from pets.gateway import Settings, build_gateway, running
from pets.gateway.auth import KeyStore
from pets.gateway.ledger_store import LedgerWriter
from pets.mock import DistributionAnswers, MockModel
from pets.mock import running as mock_running
from pets.policies.online_grid import OnlineGrid

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
    waiting, sample = threading.Event(), state.upstream.sample

    async def held(*args):
        waiting.set()
        assert await asyncio.to_thread(released.wait, PATIENCE_S)
        return await sample(*args)

    state.upstream.sample = held
    return waiting
