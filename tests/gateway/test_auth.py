"""Keys of a running gateway: what another process adds or revokes counts from the next request on."""

import asyncio
import contextlib
import json
import sqlite3
from itertools import islice

import pytest

from pets.errors import InputError
from pets.gateway import Settings, build_gateway
from pets.gateway.auth import KeyStore
from pets.gateway.sqlite_backend import SQLiteBackend
from pets.policies.online_grid import OnlineGrid
from pets.store.store import open_database

from .conftest import ScriptedSampler, add_key, ask_in_process, build_scripted, run_gateway


@contextlib.contextmanager
def beside(store):
    """The keys over a connection of their own, as `pets keys` has them."""
    database = open_database(store, create=False, durability="machine")
    try:
        yield KeyStore(database)
    finally:
        database.close()


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_added_and_revoked_count_at_once(tmp_path, durability):
    store = tmp_path / "g.db"
    with run_gateway(store=store, durability=durability) as gateway, beside(store) as keys:
        assert gateway.ask().status_code == 200 == gateway.client.get("/metrics").status_code
        alice = keys.add("alice")
        assert gateway.ask().status_code == 401 == gateway.client.get("/metrics").status_code
        assert gateway.ask(headers=bearer("pets-guess")).status_code == 401
        told = [gateway.ask(headers=headers).json()["error"]["message"] for headers in ({}, bearer("pets-guess"))]
        assert told == ["A key is needed: send Authorization: Bearer KEY.", "Incorrect API key provided."]
        assert gateway.ask(headers=bearer(alice)).status_code == 200
        bob = keys.add("bob", budget=0)
        assert gateway.ask(headers=bearer(bob)).status_code == 429  # its budget is known, too
        keys.revoke("alice")
        for model in ("pets/mock", "mock"):
            assert gateway.ask(model=model, headers=bearer(alice)).status_code == 401
        keys.revoke("bob")
        assert gateway.ask().status_code == 401  # the last one to go leaves the door closed


def test_a_first_key_keeps_a_clients_own_from_the_server_behind(tmp_path):
    """Without keys a client's key is the server's; with keys it is the gateway's, which the server must not see."""
    store, seen = tmp_path / "g.db", []
    with run_gateway(store=store) as gateway, beside(store) as keys:
        upstream = gateway.state.upstream
        forward = upstream.forward
        upstream.forward = lambda *sent: (seen.append(sent[2].get("authorization")), forward(*sent))[1]
        gateway.ask(model="mock", headers=bearer("sk-own"))
        gateway.ask(model="mock", headers=bearer(keys.add("alice")))
    assert seen == ["Bearer sk-own", None]


def test_a_dashboard_that_is_open_ends_with_its_key(tmp_path):
    store = tmp_path / "g.db"
    with run_gateway(store=store) as gateway, beside(store) as keys:
        alice = keys.add("alice")
        with gateway.client.stream("GET", "/dashboard/events", headers=bearer(alice)) as reply:
            lines = reply.iter_lines()
            assert json.loads(next(lines).removeprefix("data: "))
            keys.revoke("alice")
            assert len(list(islice(lines, 100))) < 100  # comes to an end


def test_a_writer_that_takes_its_time_holds_up_no_reading_of_keys(tmp_path):
    store = tmp_path / "g.db"
    with run_gateway(store=store) as gateway, beside(store) as keys:
        alice = keys.add("alice")
        other = sqlite3.connect(store, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            assert gateway.client.get("/metrics").status_code == 401
            assert gateway.client.get("/metrics", headers=bearer(alice)).status_code == 200
        finally:
            other.close()


def test_keys_that_cannot_be_read_let_nobody_in(tmp_path):
    store = tmp_path / "g.db"
    with run_gateway(store=store) as gateway, beside(store) as keys:
        alice = keys.add("alice")
        other = sqlite3.connect(store, isolation_level=None)
        other.execute("DROP TABLE api_keys")
        other.close()
        for headers in ({}, bearer(alice)):
            assert gateway.ask(headers=headers).status_code == 503
            reply = gateway.client.get("/v1/models", headers=headers)
            assert reply.status_code == 503 and reply.json()["error"]["message"] == "The keys cannot be read now."


def test_keys_are_hashed_and_keep_to_their_own_budget(tmp_path):
    store = tmp_path / "g.db"
    alice, bob = add_key(store, "alice", budget=6), add_key(store, "bob")
    with run_gateway(store=store) as gateway:
        assert (
            gateway.ask().status_code == 401 and gateway.ask(headers={"authorization": "Bearer x"}).status_code == 401
        )
        as_alice, as_bob = bearer(alice), bearer(bob)
        assert gateway.ask("torn", headers=as_alice).json()["pets"]["traces"] <= 6
        refused = gateway.ask("torn", headers=as_alice)
        assert refused.status_code == 429 and refused.headers["x-should-retry"] == "false"
        assert gateway.ask("torn", headers=as_bob).status_code == 200
        assert gateway.client.get("/metrics").status_code == 401 and gateway.client.get("/healthz").status_code == 200
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert alice.encode() not in raw and bob.encode() not in raw
    with sqlite3.connect(store) as database:
        assert database.execute("SELECT count(*) FROM api_keys").fetchone() == (2,)
    database.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:8080"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://192.0.2.7"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "192.0.2.7:8080"}, 200),  # no name: nobody else's can point here
        ({"host": "Pets.example.:8080"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://pets.example"}, 200),
        ({"host": "192.0.2.7:8080", "origin": "http://192.0.2.7:8080"}, 200),
        ({"content-type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_without_keys_foreign_sites_are_refused(headers, status):
    async def go():
        state = build_scripted(ScriptedSampler(), settings=Settings(answer="choice", allow_hosts=("pets.example",)))
        response = await ask_in_process(state, headers=headers)
        spent = state.ledger.total.spent
        await state.close()
        return response.status_code, spent

    answered, spent = asyncio.run(go())
    assert answered == status and bool(spent) == (status == 200)


def test_a_foreign_host_reads_nothing_but_whether_the_gateway_lives(gateway):
    foreign = {"host": "evil.example"}
    paths = ["/", "/dashboard/events?once=1", "/metrics", "/v1/models", "/healthz", "/readyz"]
    assert [gateway.client.get(path, headers=foreign).status_code for path in paths] == [403] * 4 + [200] * 2


def test_with_keys_the_key_is_what_counts(tmp_path):
    secret = add_key(tmp_path / "g.db", "alice")
    with run_gateway(store=tmp_path / "g.db") as gateway:
        headers = {"host": "pets.example", "origin": "https://app.example"}
        assert gateway.ask(headers=headers).status_code == 401
        assert gateway.ask(headers=headers | {"authorization": f"Bearer {secret}"}).status_code == 200


def test_a_budget_in_another_unit_than_the_gateways_is_refused(tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "bob", budget=5 * 10**12, unit="picodollars")
    with pytest.raises(InputError, match="budget of key 'bob' is in dollars, this gateway counts traces"):
        build_gateway("http://127.0.0.1:9/v1", OnlineGrid(), store=store)
    with contextlib.closing(SQLiteBackend(store)) as backend:  # nothing keeps the store
        backend.keys.revoke("bob")
    with run_gateway(store=store) as gateway, beside(store) as keys:
        late = keys.add("carol", budget=5, unit="tokens")
        reply = gateway.ask(headers=bearer(late))
        assert reply.status_code == 403 and "in tokens, this gateway counts traces" in reply.json()["error"]["message"]
        assert gateway.ask(headers=bearer(keys.add("dora", budget=50, unit="traces"))).status_code == 200
        assert gateway.ask(headers=bearer(secret)).status_code == 401
