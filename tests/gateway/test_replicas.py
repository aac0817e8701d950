"""Whole gateways over one PostgreSQL: what one is told holds for all."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pets.gateway import Settings
from pets.gateway.auth import KeyStore
from pets.store.store import open_database

from .conftest import ScriptedSampler, ask_in_process, build_scripted


@pytest.fixture
def replicas(postgres_url):
    """Three gateways in one event loop, each with a server of its own."""
    with contextlib.closing(open_database(postgres_url, create=True)) as database:
        secret = KeyStore(database).add("alice", budget=100)
    states = [
        build_scripted(
            ScriptedSampler(),
            store=postgres_url,
            settings=Settings.of(policy="online_grid", answer="choice"),
            mean_budget=4,
        )
        for _ in range(3)
    ]
    return states, {"authorization": f"Bearer {secret}"}


def test_a_keys_budget_holds_under_a_hundred_requests_spread_over_replicas(replicas, postgres_url):
    states, headers = replicas

    async def work():
        replies = await asyncio.gather(*(ask_in_process(states[n % len(states)], headers=headers) for n in range(100)))
        refused = await ask_in_process(states[0])
        for state in states:
            await state.close()
        return replies, refused

    replies, refused = asyncio.run(work())
    assert {reply.status_code for reply in replies} <= {200, 429} and refused.status_code == 401
    traces = sum(reply.json()["pets"]["traces"] for reply in replies if reply.status_code == 200)
    assert traces <= 100 and sum(reply.status_code == 200 for reply in replies) >= 10
    with contextlib.closing(open_database(postgres_url, create=False)) as database:
        assert KeyStore(database).spent("alice") == {"traces": database.one("SELECT sum(spent) FROM ledger")[0]}
        ((spent, held),) = database.all("SELECT spent, held FROM balances WHERE name = 'key alice'")
        assert traces <= spent <= 100 and held == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_ledger_is_right_after_a_kill_a_restart_and_an_outage(postgres_server):
    """Whole processes, by the benchmark at a small size; over a server that is not ours to stop, without the outage."""
    outage = [] if os.environ.get("PETS_TEST_POSTGRES") else ["--outage", "3"]
    command = [sys.executable, "-m", "benchmarks.replica_crash", "400", "16", *outage]
    reply = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True)
    figures = json.loads(reply.stdout.splitlines()[-1])
    assert figures["right"], figures
    assert (
        figures["statuses"]["200"] > 200 and figures["statuses"]["429"] and (not outage or figures["statuses"]["503"])
    )
