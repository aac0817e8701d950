"""Keys of a running gateway: what another process adds or revokes counts from the next request on."""

import asyncio
import contextlib
import json
import sqlite3
from datetime import UTC, datetime
from itertools import islice

import pytest

from pets.errors import InputError
from pets.gateway import Settings, build_gateway
from pets.gateway.auth import BUDGET_WINDOWS, DAY_S, ApiKey, KeyStore, RequestRates, window_number, window_start
from pets.gateway.sqlite_store import SQLiteStore
from pets.openai.errors import ApiError
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
        state = build_scripted(
            ScriptedSampler(),
            settings=Settings.of(policy="online_grid", answer="choice", allow_hosts=("pets.example",)),
        )
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
        build_gateway("http://127.0.0.1:9/v1", Settings.of(policy="online_grid"), store=store)
    with contextlib.closing(SQLiteStore(store)) as backend:  # nothing keeps the store
        backend.keys.revoke("bob")
    with run_gateway(store=store) as gateway, beside(store) as keys:
        late = keys.add("carol", budget=5, unit="tokens")
        reply = gateway.ask(headers=bearer(late))
        assert reply.status_code == 403 and "in tokens, this gateway counts traces" in reply.json()["error"]["message"]
        assert gateway.ask(headers=bearer(keys.add("dora", budget=50, unit="traces"))).status_code == 200
        assert gateway.ask(headers=bearer(secret)).status_code == 401


def sdk(gateway, secret):
    import openai

    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=secret, max_retries=0)


def chat(client, model="pets/mock"):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "easy"}])


def test_a_key_s_rate_is_that_of_any_minute():
    now, alice = [0.0], ApiKey("alice", rpm=2)
    rates = RequestRates(clock=lambda: now[0])
    rates.check(alice)
    now[0] = 50
    rates.check(alice)
    now[0] = 59
    with pytest.raises(ApiError, match="2 requests per minute") as refused:
        rates.check(alice)
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    now[0] = 60
    rates.check(alice)
    now[0] = 61
    with pytest.raises(ApiError) as refused:
        rates.check(alice)
    assert refused.value.retry_after == 49
    with pytest.raises(ApiError) as refused:
        rates.check(ApiKey("alice", rpm=1))  # it was made slower: both of the last minute count
    assert refused.value.retry_after == 59
    rates.check(ApiKey("bob", rpm=1))
    rates.check(ApiKey("alice"))
    rates.check(alice)


def test_of_several_gateways_each_takes_its_share_of_a_rate():
    rates, alice = RequestRates(clock=lambda: 0.0), ApiKey("alice", rpm=5)
    rates.check(alice, gateways=2)
    rates.check(alice, gateways=2)
    with pytest.raises(ApiError, match="5 requests per minute, 2 of them to each of 2 gateways"):
        rates.check(alice, gateways=2)


def test_a_rate_is_changed_while_the_gateway_runs(openai, tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice", rpm=1)
    with run_gateway(store=store) as gateway, beside(store) as keys, sdk(gateway, secret) as client:
        chat(client)
        with pytest.raises(openai.RateLimitError, match="1 request per minute") as refused:
            chat(client)
        assert refused.value.code == "rate_limit_exceeded"
        assert 0 < int(refused.value.response.headers["retry-after"]) <= 60
        assert len(client.models.list().data) == 2  # which asks for nothing
        keys.change("alice", {"rpm": 2})
        chat(client, "mock")
        keys.change("alice", {"rpm": None})
        for _ in range(3):
            chat(client)


def test_a_key_that_expires_opens_nothing_and_says_so(openai, tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice", expires=1e9)
    with run_gateway(store=store) as gateway, beside(store) as keys, sdk(gateway, secret) as client:
        for ask in (lambda: chat(client), client.models.list):
            with pytest.raises(openai.AuthenticationError, match="expired at 2001-09-09 01:46 UTC") as refused:
                ask()
            assert refused.value.code == "expired_api_key"
        assert gateway.client.get("/metrics", headers=bearer(secret)).status_code == 401
        keys.change("alice", {"expires": 1e11})
        chat(client)


def test_a_key_asks_for_the_models_that_its_patterns_match(openai, tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice", models=["pets/*", "other"])
    with run_gateway(store=store) as gateway, beside(store) as keys, sdk(gateway, secret) as client:
        chat(client)
        assert [model.id for model in client.models.list()] == ["pets/mock"]
        for ask in (lambda: chat(client, "mock"), lambda: client.models.retrieve("mock")):
            with pytest.raises(openai.PermissionDeniedError, match="'mock', only for pets/\\*, other") as refused:
                ask()
            assert (refused.value.code, refused.value.param) == ("model_not_allowed", "model")
        with pytest.raises(openai.BadRequestError, match="takes no field 'models'"):  # by which servers take others
            keys.change("alice", {"models": ["mock"]})
            client.chat.completions.create(
                model="mock", messages=[{"role": "user", "content": "easy"}], extra_body={"models": ["dear"]}
            )
        keys.change("alice", {"models": []})
        assert [model.id for model in client.models.list()] == ["pets/mock", "mock"]
        chat(client, "mock")


@pytest.mark.parametrize(
    ("pattern", "model", "allowed"),
    [
        ("pets/*", "pets/a/b", True),
        ("pets/*", "Pets/a", False),
        ("*-mini", "gpt-4o-mini", True),
        ("*-mini", "gpt-4o-mini-2", False),
        ("gpt-*-20*", "gpt-4o-2024", True),
        ("a.b", "axb", False),
        ("é*", "été", True),
        ("*", "a\nb", True),
        ("", "a", False),
        ("a[b]", "a[b]", True),
    ],
)
def test_a_star_is_any_text_and_nothing_else_is_special(pattern, model, allowed):
    assert ApiKey("alice", models=(pattern,)).allows(model) is allowed


def test_a_rate_beyond_reason_is_refused(tmp_path):
    with pytest.raises(InputError, match="1,000,000"):
        add_key(tmp_path / "g.db", "alice", rpm=10_000_000)


def test_pages_of_an_allowed_origin_may_ask_and_read_and_others_may_not():
    app = "https://app.example"
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    with run_gateway(settings=Settings.of(policy="online_grid", answer="choice", cors_origins=(app,))) as gateway:
        asked = gateway.client.options("/v1/chat/completions", headers={"origin": app, **preflight})
        assert asked.status_code == 200 and asked.headers["access-control-allow-origin"] == app
        assert "authorization" in asked.headers["access-control-allow-headers"]
        reply = gateway.ask(headers={"origin": app})
        assert reply.status_code == 200 and reply.headers["access-control-allow-origin"] == app
        wrong = gateway.ask(headers={"origin": app}, model="")
        assert wrong.status_code == 400 and wrong.headers["access-control-allow-origin"] == app  # it may read why
        other = {"origin": "https://evil.example"}
        asked = gateway.client.options("/v1/chat/completions", headers=other | preflight)
        assert asked.status_code == 400 and "access-control-allow-origin" not in asked.headers
        assert gateway.ask(headers=other).status_code == 403
    with run_gateway() as gateway:
        reply = gateway.client.options("/v1/chat/completions", headers={"origin": app, **preflight})
        assert "access-control-allow-origin" not in reply.headers


def test_any_origin_is_welcome_with_keys_alone(tmp_path):
    settings, origin = (
        Settings.of(policy="online_grid", answer="choice", cors_origins=("*",)),
        {"origin": "https://app.example"},
    )
    with run_gateway(store=tmp_path / "g.db", settings=settings) as gateway, beside(tmp_path / "g.db") as keys:
        assert gateway.ask(headers=origin).status_code == 403
        reply = gateway.ask(headers=origin | bearer(keys.add("alice")))
        assert reply.status_code == 200 and reply.headers["access-control-allow-origin"] == "*"


def test_a_budget_per_month_is_set_while_the_gateway_runs(openai, tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice")
    with run_gateway(store=store) as gateway, beside(store) as keys, sdk(gateway, secret) as client:
        for _ in range(3):
            chat(client, "mock")
        keys.change("alice", {"budget": 4, "window": "month", "unit": "traces"})
        chat(client, "mock")
        with pytest.raises(openai.RateLimitError, match="used up this key's budget of 4 traces per month") as refused:
            chat(client, "mock")
        assert "This request may take 1 trace" in refused.value.message and "begins anew at 20" in refused.value.message
        assert refused.value.code == "insufficient_quota"
        assert 0 < int(refused.value.response.headers["retry-after"]) <= 31 * 86400
        page = gateway.client.get("/dashboard/events?once=1", headers=bearer(secret)).json()
        (limit,) = page["budget"]["limits"]
        assert (limit["spent"], limit["limit"], page["budget"]["left"]) == (4, 4, 0)
        assert 0 < limit["refills_in_s"] <= limit["seconds"] <= 31 * 86400
        keys.change("alice", {"budget": 2, "window": "day"})  # below what was spent
        with pytest.raises(openai.RateLimitError, match="budget of 2 traces per day"):
            chat(client, "mock")
        keys.change("alice", {"budget": 9, "window": None})
        chat(client, "mock")
        keys.change("alice", {"budget": None})
        chat(client)


def test_a_window_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="a day, a week, a month or the key's life; got 'year'"):
        add_key(tmp_path / "g.db", "alice", budget=4, window="year")


DAYS = range(20_000, 21_600)  # over leap years and the ends of years


@pytest.mark.parametrize("window", BUDGET_WINDOWS)
def test_windows_follow_each_other_without_a_gap(window):
    for day in DAYS:
        start, end = window_start(window, day), window_start(window, day, 1)
        assert start <= day * DAY_S < end == window_start(window, end // DAY_S)
        assert (
            window_number(window, start // DAY_S)
            == window_number(window, day)
            == window_number(window, end // DAY_S) - 1
        )
        assert window_start(window, end // DAY_S, -1) == start


def test_weeks_begin_on_monday_and_months_on_their_first():
    for day in DAYS:
        then = datetime.fromtimestamp(day * DAY_S, UTC)
        week, month = (datetime.fromtimestamp(window_start(window, day), UTC) for window in ("week", "month"))
        assert week.isocalendar()[:2] == then.isocalendar()[:2] and week.isoweekday() == 1
        assert (month.year, month.month, month.day) == (then.year, then.month, 1)
