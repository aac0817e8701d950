"""What the endpoints share: open requests, readiness, and closing in order."""

import asyncio

import pytest

from pets.gateway import Settings, build_gateway


@pytest.fixture
def state():
    state = build_gateway("http://127.0.0.1:9/v1", settings=Settings.of(policy="online_grid", open_questions=1))
    yield state
    asyncio.run(state.close())


def test_a_stopping_gateway_is_not_ready(state):
    assert state.readiness() == {"ledger": True, "queue": True, "running": True}
    state.stopping = True
    assert not state.readiness()["running"]


def test_closing_twice_does_no_harm(state):
    asyncio.run(state.close())
    assert state.stopping
