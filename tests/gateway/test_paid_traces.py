"""``serve --reuse``: the same question of the same key is answered with the traces that it has paid for."""

import asyncio
from contextlib import closing

import pytest

from pets.confidence import Confidence
from pets.core.money import Currency
from pets.errors import InputError, StateError
from pets.gateway import Settings, build_gateway
from pets.gateway.auth import KeyStore
from pets.gateway.paid_traces import PaidTraces
from pets.prompts import Completion, Prompt, Sampling
from pets.store import StoredTrace
from pets.store.store import open_database

from .conftest import add_key, run_gateway

REUSING = Settings.of(policy="online_grid", answer="choice", reuse=True)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "2 + 2?"}]}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "gateway.db"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request, store):
    return store if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def test_the_same_question_of_the_same_key_is_paid_for_once(store):
    alice, bob = (add_key(store, name) for name in ("alice", "bob"))
    with run_gateway(settings=REUSING, store=store) as gateway:
        first = gateway.ask("torn", headers=bearer(alice)).json()
        paid = gateway.mock.stats.traces
        assert first["pets"]["traces"] == paid == gateway.ledger.total.spent and first["pets"]["reused"] == 0
        again = gateway.ask("torn", headers=bearer(alice)).json()
        assert again["choices"] == first["choices"] and again["pets"]["votes"] == first["pets"]["votes"]
        assert again["pets"]["reused"] >= paid
        assert again["pets"]["traces"] == gateway.mock.stats.traces - paid == gateway.ledger.total.spent - paid
        for question, key, fields in (
            ("torn", bob, {}),
            ("easy", alice, {}),
            ("torn", alice, {"temperature": 0.5}),
            ("torn", alice, {"seed": 7}),
        ):
            asked = gateway.ask(question, headers=bearer(key), **fields).json()["pets"]
            assert asked["reused"] == 0 and asked["traces"] >= 4
        alone = gateway.ask("torn", headers=bearer(alice), pets={"max_traces": 1}).json()
        assert (alone["pets"]["reused"], alone["pets"]["traces"]) == (1, 0) and alone["choices"][0]["message"]


def test_a_key_without_budget_is_answered_with_what_it_has_paid_for(store):
    key = add_key(store, "alice", budget=4)
    with run_gateway(settings=REUSING, store=store) as gateway:
        first = gateway.ask("easy", headers=bearer(key), pets={"max_traces": 4})
        assert first.json()["pets"]["traces"] == 4 and gateway.ask("torn", headers=bearer(key)).status_code == 429
        again = gateway.ask("easy", headers=bearer(key), pets={"max_traces": 4}).json()
        assert again["pets"]["reused"] == 4 and again["pets"]["answer"] == first.json()["pets"]["answer"]


def test_without_the_option_nothing_is_kept(store):
    key = add_key(store, "alice")
    with run_gateway(store=store) as gateway:
        for _ in range(2):
            assert gateway.ask("easy", headers=bearer(key)).json()["pets"]["reused"] == 0
    with closing(open_database(store, create=False)) as database:
        assert database.one("SELECT count(*) FROM paid_traces") == (0,)


def test_traces_need_a_store():
    with pytest.raises(InputError, match="--store FILE"):
        build_gateway("http://127.0.0.1:1/v1", REUSING)


def test_a_gateway_that_is_refused_leaves_nothing_open(postgres_url, monkeypatch):
    opened = []

    def open_and_note(*location, **options):
        opened.append(open_database(*location, **options))
        return opened[-1]

    monkeypatch.setattr("pets.gateway.app.open_database", open_and_note)
    running = build_gateway("http://127.0.0.1:1/v1", REUSING, store=postgres_url)
    monkeypatch.setattr("pets.gateway.shared_store.BEAT_S", 1.0)  # the other one beats meanwhile
    with closing(running.ledger.backend), closing(running.ledger.paid):
        with pytest.raises(StateError, match="in use by the gateway"):
            build_gateway("http://127.0.0.1:1/v1", REUSING, store=postgres_url, currency=Currency(per_token=1))
        assert [database.connection.closed for database in opened] == [False, True]


def test_a_trace_comes_back_as_it_was_kept_and_goes_with_its_key(location):
    with closing(open_database(location, create=True)) as database:
        KeyStore(database).add("alice")
    confidence = Confidence(1.0, 2.0, 0.5, 0.25, 7)
    traces = [
        StoredTrace("q", 0, text="\0A", finish="stop", confidences=confidence, tokens=9, prompt_tokens=3, model=1),
        StoredTrace("q", 1, error="gone"),
        StoredTrace("q", 2, text="B", finish="unread", tokens=2),
    ]

    async def kept(source="servers"):
        paid = PaidTraces(open_database(location, create=False), source)
        question = paid.digest(Prompt.of_body(CHAT), Sampling(), None)
        if source == "servers":
            paid.keep("alice", question, traces, {0: {"message": {"content": "A"}}})
            paid.keep("alice", question, traces, {})  # another request was as fast
        try:
            return await paid.find("alice", question), await paid.find("bob", question)
        finally:
            paid.close()

    found, other = asyncio.run(kept())
    raw = {"message": {"content": "A"}}
    assert found[0] == Completion("\0A", "stop", 9, 3, confidence, raw, model=1, reused_from=0)
    assert set(found) == {0, 2} and found[2].finish == "stop" and not other
    assert asyncio.run(kept("other servers")) == ({}, {})
    with closing(open_database(location, create=False)) as database:
        KeyStore(database).revoke("alice")
    traces.clear()
    assert asyncio.run(kept()) == ({}, {})
