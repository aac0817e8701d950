"""What the dashboard is told: budgets and their end, health of servers, one key's share, one question in full."""

import asyncio
import contextlib

import pytest

from pets.core.money import Currency
from pets.errors import UnreachableError
from pets.gateway import Settings
from pets.gateway.auth import ANYBODY, ApiKey, KeyStore
from pets.gateway.ledger_store import SpendRateLimit
from pets.gateway.pages import SHOWN_KEYS, Dashboard
from pets.openai.errors import ApiError
from pets.store.store import open_database

from ..simulated_time import run_simulated
from ..waiting import until
from .conftest import ScriptedSampler, add_key, ask_in_process, build_scripted

ADMIN = ApiKey("root", admin=True)


def closing(state, work):
    """Run ``work`` on a simulated clock and close the gateway after it."""

    async def run():
        try:
            return await work()
        finally:
            await state.close()

    return run_simulated(run())


def unreachable(n, now):
    raise UnreachableError("http://127.0.0.1:9 cannot be reached")


def test_a_budget_says_what_is_left_and_when_it_ends():
    state = build_scripted(ScriptedSampler(), total=100, rate_limit=SpendRateLimit(50, 3600.0))
    dashboard = Dashboard(state)

    async def work():
        assert [limit["ends_in_s"] for limit in dashboard.snapshot(ANYBODY)["budget"]["limits"]] == [None, None]
        await ask_in_process(state)
        return dashboard.snapshot(ANYBODY)["budget"]

    budget = closing(state, work)
    total, window = budget["limits"]
    assert (total["name"], window["name"], window["seconds"]) == ("total", "window", 3600.0)
    for limit in (total, window):
        assert (
            limit["spent"] + limit["held"] + limit["left"] == limit["limit"] and limit["spent"] == budget["spent"] > 0
        )
        assert limit["ends_in_s"] == pytest.approx(limit["left"] / (budget["per_hour"] / 3600))
    assert budget["left"] == window["left"] and 0 < window["refills_in_s"] <= 3600


def test_a_server_that_cannot_be_reached_is_down_and_another_up():
    state = build_scripted(ScriptedSampler(unreachable), ScriptedSampler())
    dashboard = Dashboard(state)

    async def work():
        before = dashboard.snapshot(ANYBODY)["upstream"]["servers"]
        reply = await ask_in_process(state)
        assert reply.status_code == 200
        return before, dashboard.snapshot(ANYBODY)["upstream"], dashboard.snapshot(ApiKey("alice"))["upstream"]

    before, shown, to_tenant = closing(state, work)
    assert [row["state"] for row in before] == ["not asked", "not asked"]
    down, up = shown["servers"]
    assert (down["state"], up["state"]) == ("down", "up") and down["failures"] == 1 and down["retry_in_s"] > 0
    assert down["url"] == "http://127.0.0.1:9/v1" and (up["server"], up["model"]) == (2, "mock")
    assert shown["faults"]["unreachable"] == 1
    assert to_tenant["faults"] == {} and not {"url", "in_flight"} & to_tenant["servers"][0].keys()


def test_money_and_tokens_are_counted_by_model_and_by_key(tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice")
    currency = Currency.money(1.0, 2.0, prompt_tokens=0, max_tokens=100)
    state = build_scripted(ScriptedSampler(), store=store, currency=currency)
    dashboard = Dashboard(state)

    async def work():
        reply = await ask_in_process(state, headers={"authorization": f"Bearer {secret}"}, max_tokens=50)
        return reply.json(), dashboard.snapshot(ADMIN), dashboard.history(ADMIN, "day")

    reply, shown, history = closing(state, work)
    (model,), (key,), (row,) = shown["models"], shown["keys"]["rows"], shown["questions"]
    assert shown["unit"] == "usd" and (model["model"], key["name"]) == ("mock", "alice")
    usage = reply["usage"]
    assert (model["tokens"], model["prompt_tokens"]) == (usage["completion_tokens"], usage["prompt_tokens"])
    spent = (usage["prompt_tokens"] + 2 * usage["completion_tokens"]) / 1e6
    assert model["spent"] == key["spent"] == row["spent"] == shown["budget"]["spent"] == pytest.approx(spent)
    assert sum(amount or 0 for amount in history["spent"]) == pytest.approx(spent)


def test_an_admin_looks_at_one_key_and_others_at_their_own(tmp_path):
    store = tmp_path / "g.db"
    secrets = {name: add_key(store, name, budget=90) for name in ("alice", "bob")}
    state = build_scripted(ScriptedSampler(), store=store)
    dashboard = Dashboard(state)

    async def work():
        for name in ("alice", "bob", "bob"):
            await ask_in_process(state, headers={"authorization": f"Bearer {secrets[name]}"})
        views = [(ADMIN, None), (ADMIN, "bob"), (ApiKey("alice", 90), "bob")]
        with pytest.raises(ApiError, match="no such key"):
            dashboard.snapshot(ADMIN, "carol")
        return [dashboard.snapshot(*view) for view in views], dashboard.history(ApiKey("alice"), "hour", "bob")

    (everybody, bob, alice), history = closing(state, work)
    assert [view["totals"]["votes"] for view in (everybody, bob, alice)] == [3, 2, 1]
    assert bob["budget"]["left"] == 90 - bob["totals"]["traces"] and bob["budget"]["limits"][0]["name"] == "key"
    assert [key["name"] for key in alice["keys"]["rows"]] == ["alice"] and alice["of_key"] == "alice"
    assert {row["key"] for row in alice["questions"]} == {"alice"}
    assert sum(votes or 0 for votes in history["votes"]) == 1


def test_a_question_is_shown_in_full_to_its_key_and_to_nobody_else(tmp_path):
    store = tmp_path / "g.db"
    secret = add_key(store, "alice")
    state = build_scripted(ScriptedSampler(), store=store)
    dashboard = Dashboard(state)
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "x"},
    ]

    async def work():
        await ask_in_process(state, headers={"authorization": f"Bearer {secret}"}, messages=messages)
        (row,) = dashboard.snapshot(ADMIN)["questions"]
        with pytest.raises(ApiError) as refused:
            dashboard.question(ApiKey("bob"), row["id"])
        return row, dashboard.question(ApiKey("alice"), row["id"]), refused.value

    row, detail, refused = closing(state, work)
    assert refused.status == 404 and (row["question"], detail["message"], detail["messages"]) == ("x", "x", 3)
    assert sum(votes for _, _, votes in row["parts"]) == row["traces"] == len(detail["trace_list"])
    assert {trace["answer"] for trace in detail["trace_list"]} == {"A", "B"}
    assert sum(votes for _, votes in detail["answers"]) == row["traces"]
    assert detail["trace_list"][0]["text"].startswith("The answer is")


def test_without_texts_only_answers_are_shown():
    state = build_scripted(ScriptedSampler(), settings=Settings.of(policy="online_grid", answer="choice", texts=False))
    dashboard = Dashboard(state)

    async def work():
        await ask_in_process(state)
        (row,) = dashboard.snapshot(ANYBODY)["questions"]
        return row, dashboard.question(ANYBODY, row["id"])

    row, detail = closing(state, work)
    assert row["question"] == detail["message"] == "" and {trace["text"] for trace in detail["trace_list"]} == {""}


def test_of_many_keys_those_are_shown_that_have_spent_most(tmp_path):
    store = tmp_path / "g.db"
    with contextlib.closing(open_database(store, create=True)) as database:
        secrets = [KeyStore(database).add(f"key{number}") for number in range(SHOWN_KEYS + 5)]
    state = build_scripted(ScriptedSampler(), store=store)
    dashboard = Dashboard(state)

    async def work():
        await ask_in_process(state, headers={"authorization": f"Bearer {secrets[-1]}"})
        return dashboard.snapshot(ADMIN)["keys"]

    keys = closing(state, work)
    assert keys["rows"][0]["name"] == f"key{SHOWN_KEYS + 4}" and keys["rows"][0]["spent"] > 0
    assert (len(keys["rows"]), keys["number"]) == (SHOWN_KEYS, SHOWN_KEYS + 5)


def test_a_history_that_is_not_kept_is_refused():
    state = build_scripted(ScriptedSampler())
    with pytest.raises(ApiError, match="'span' is one of hour, day"):
        Dashboard(state).history(ANYBODY, "year")
    asyncio.run(state.close())


def agrees(shown, traces):
    return shown["keys"]["rows"][0]["spent"] == traces and shown["replica"]["replicas"] == 2


def test_what_a_key_has_spent_elsewhere_is_no_pace_of_now(postgres_url):
    """A replica hears of a key's balance after the key: until then it is not 0, but not known."""
    states = [build_scripted(ScriptedSampler(), store=postgres_url) for _ in range(2)]
    with contextlib.closing(open_database(postgres_url, create=False)) as database:
        secret = KeyStore(database).add("alice")
    dashboard = Dashboard(states[1])

    async def work():
        for state in states:
            state.ledger.backend.begin()
        await until(lambda: (key := states[0].keys.find(secret)) and key.name == "alice")
        assert (await ask_in_process(states[0], headers={"authorization": f"Bearer {secret}"})).status_code == 200
        await until(lambda: dashboard.snapshot(ApiKey("alice"))["budget"]["spent"])
        shown = dashboard.snapshot(ApiKey("alice"))["budget"]
        for state in states:
            await state.close()
        return shown

    shown = asyncio.run(work())
    assert shown["spent"] > 0 and shown["per_hour"] == 0


def test_replicas_share_budget_and_spend_by_key_and_count_their_own(postgres_url):
    with contextlib.closing(open_database(postgres_url, create=True)) as database:
        secret = KeyStore(database).add("alice", budget=100)
    states = [build_scripted(ScriptedSampler(), store=postgres_url) for _ in range(2)]
    dashboards = [Dashboard(state) for state in states]

    async def work():
        for state in states:
            state.ledger.backend.begin()
        reply = await ask_in_process(states[0], headers={"authorization": f"Bearer {secret}"})
        traces = reply.json()["pets"]["traces"]
        await until(lambda: all(agrees(dashboard.snapshot(ADMIN), traces) for dashboard in dashboards))
        shown = [dashboard.snapshot(ADMIN) for dashboard in dashboards]
        assert dashboards[1].snapshot(ApiKey("alice"))["replica"] == {"replicas": 2}  # the machine's name is not hers
        for state in states:
            await state.close()
        return traces, shown

    traces, (first, second) = asyncio.run(work())
    assert first["budget"]["spent"] == second["budget"]["spent"] == traces
    assert (first["totals"]["traces"], second["totals"]["traces"]) == (traces, 0)
    assert second["questions"] == [] and second["replica"]["name"]
