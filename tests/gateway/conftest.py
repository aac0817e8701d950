"""A gateway over a mock, both on loopback, each in a thread of its own."""

import contextlib

import httpx
import pytest

from pets.gateway import Settings, running
from pets.gateway.books import Books
from pets.gateway.building import gateway
from pets.gateway.keys import Keys
from pets.mock import Known, Mock
from pets.mock import running as mock_running
from pets.policies.online_grid import OnlineGrid

BOOK = Known({"easy": {"A": 1.0}, "torn": {"A": 0.55, "B": 0.45}, "mute": {}}, tokens=12)


class Place:
    """A running gateway, its mock, and a client."""

    def __init__(self, url, desk, mock, client):
        self.url, self.desk, self.mock, self.client = url, desk, mock, client
        self.ledger = desk.voter.ledger

    def ask(self, question="easy", *, model="pets/mock", headers=None, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": question}], **fields}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)


@contextlib.contextmanager
def a_gateway(mock=None, settings=None, policy=None, **options):
    mock = mock or Mock(BOOK)
    settings = settings or Settings(answer="choice")
    with mock_running(mock) as upstream:
        desk = gateway(upstream, policy or OnlineGrid(), settings=settings, **options)
        with running(desk) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            yield Place(url, desk, mock, client)


@pytest.fixture
def place():
    with a_gateway() as found:
        yield found


def add_key(store, name, **options):
    """A key in a store that no gateway has open."""
    books = Books(store)
    try:
        return Keys(books.database).add(name, **options)
    finally:
        books.close()
