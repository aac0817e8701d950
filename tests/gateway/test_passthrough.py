"""Plain requests: what is sent is what was checked, and it is counted, bounded and settled as votes are."""

import asyncio
import functools
import gzip
import json
from collections import Counter

import aiohttp
import httpx
import pytest

from pets.core.money import Currency
from pets.errors import StateError
from pets.gateway import Settings, build_gateway
from pets.gateway.app import app
from pets.gateway.auth import KeyStore
from pets.gateway.settings import Limits
from pets.mock import Faults, MockModel

from ..network import answered_by
from ..simulated_time import run_simulated
from ..waiting import wait_until
from .conftest import BOOK, add_key, run_gateway, sum_settlements

JSON = {"content-type": "application/json"}
TOKENS = Currency.tokens(100)
PLAIN = {"model": "mock", "messages": [{"role": "user", "content": "easy"}]}
ENDLESS = b'{"model": "mock", "messages": [{"role": "user", "content": "easy"}], "temperature": 1e999}'
USAGE = {"prompt_tokens": 5, "completion_tokens": 7}


def choice(index=0, text="four words of it", finish="stop"):
    return {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": finish}


def event(data):
    return f"data: {json.dumps(data)}\n\n"


def delta(text, finish=None):
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


STREAM = delta("four words ") + delta("of it", "stop")
STREAM_USAGE = event({"choices": [], "usage": USAGE})
DONE = "data: [DONE]\n\n"


def plain(handler, *, run=asyncio.run, settings=None, requests=1, settled=None, **fields):
    """The responses to plain requests that are all there at once, and the ledger of the gateway to ``handler``.

    ``settled`` takes the sums of what it settles.
    """
    options = {name: fields.pop(name) for name in ("total", "currency", "store") if name in fields}

    async def go():
        state = build_gateway("http://127.0.0.1:9/v1", settings=settings, **options)
        sums = sum_settlements(state.ledger)
        transport = httpx.ASGITransport(app(state))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            posts = [client.post("/v1/chat/completions", json=PLAIN | fields, timeout=None) for _ in range(requests)]
            responses = await asyncio.gather(*posts, return_exceptions=True)
        await state.close()
        if settled is not None:
            settled.update(sums)
        return responses, state.ledger

    with answered_by(handler):
        responses, ledger = run(go())
    return responses if requests > 1 else responses[0], ledger


def answers(*choices, **more):
    return lambda _: httpx.Response(200, json={"choices": choices, **more})


def test_without_keys_and_budgets_plain_requests_are_free(gateway):
    assert gateway.ask(model="mock", n=3).status_code == 200
    assert gateway.ledger.total.spent == 0 and gateway.mock.stats.traces == 3


def test_under_a_budget_plain_requests_are_counted_with_votes_and_end_with_it(tmp_path):
    with run_gateway(total=12, store=tmp_path / "g.db") as gateway:
        assert gateway.ask(model="mock", n=3).status_code == 200
        assert gateway.ledger.total.spent == 3
        voted = gateway.ask("easy", pets={"max_traces": 4}).json()["pets"]["traces"]
        assert [gateway.ask(model="mock", n=3).status_code for _ in range(2)] == [200, 429]
        refused = gateway.ask(model="mock", n=3)
        assert refused.json()["error"]["code"] == "insufficient_quota"
        wait_until(lambda: gateway.ledger.total.held == 0)
        assert gateway.ledger.total.spent == 6 + voted == gateway.mock.stats.traces and gateway.ledger.total.held == 0
    again = build_gateway("http://127.0.0.1:9/v1", Settings.of(policy="online_grid"), store=tmp_path / "g.db", total=12)
    assert again.ledger.total.spent == 6 + voted  # also in the next process
    asyncio.run(again.close())


def test_a_keys_budget_bounds_its_plain_requests(tmp_path):
    secret = add_key(tmp_path / "g.db", "alice", budget=4)
    with run_gateway(store=tmp_path / "g.db") as gateway:
        headers = {"authorization": f"Bearer {secret}"}
        statuses = [gateway.ask(model="mock", n=2, headers=headers).status_code for _ in range(3)]
        assert statuses == [200, 200, 429] and gateway.mock.stats.traces == 4


def test_the_body_that_is_checked_is_the_body_that_is_sent(gateway):
    twice = b'{"n": 1000, "model": "mock", "messages": [{"role": "user", "content": "easy"}], "n": 1}'
    assert gateway.client.post("/v1/chat/completions", content=twice, headers=JSON).status_code == 200
    assert gateway.mock.stats.traces == 1
    assert gateway.client.post("/v1/chat/completions", content=ENDLESS, headers=JSON).status_code == 400


def test_a_body_that_cannot_be_sent_costs_nothing():
    with run_gateway(total=12) as gateway:
        assert gateway.client.post("/v1/chat/completions", content=ENDLESS, headers=JSON).status_code == 400
        assert gateway.ledger.total.spent == gateway.ledger.total.held == 0 == gateway.mock.stats.requests


def test_tokens_are_settled_by_the_usage():
    settled = Counter()
    response, ledger = plain(answers(choice(), usage=USAGE), currency=TOKENS, total=10**6, settled=settled)
    assert response.json()["choices"] == [choice()]
    assert ledger.total.spent == 12 == settled["spent"] and ledger.total.held == 0 == settled["estimated"]


def test_a_reply_without_usage_is_charged_by_its_bytes():
    settled = Counter()
    _, ledger = plain(answers(choice(text="x" * 400)), currency=TOKENS, total=10**6, settled=settled)
    assert ledger.total.spent > 100 and settled["estimated"] == 1


def test_no_claim_costs_more_than_was_held():
    usage, settled = {"prompt_tokens": 2**53, "completion_tokens": 2**53}, Counter()
    _, ledger = plain(answers(choice(), usage=usage), currency=TOKENS, total=10**6, max_tokens=50, settled=settled)
    assert 50 < ledger.total.spent < 10**4 and settled["claimed_more"] == 1


@pytest.mark.parametrize("asked", [False, True])
def test_a_streams_usage_is_read_and_shown_to_whoever_asked_for_it(asked):
    def handler(request):
        assert json.loads(request.content)["stream_options"] == {"include_usage": True}
        return httpx.Response(200, text=STREAM + STREAM_USAGE + DONE)

    options = {"stream_options": {"include_usage": True}} if asked else {}
    response, ledger = plain(handler, currency=TOKENS, total=10**6, stream=True, **options)
    assert ("usage" in response.text) == asked and STREAM in response.text and DONE in response.text
    assert ledger.total.spent == 12


def test_a_stream_passes_as_it_is_where_traces_are_counted():
    response, ledger = plain(lambda _: httpx.Response(200, text=STREAM + DONE), total=10, stream=True)
    assert response.text == STREAM + DONE and ledger.total.spent == 1


@pytest.mark.parametrize("status", [400, 429, 500, 307])
def test_what_the_server_did_not_sample_is_free(status):
    response, ledger = plain(lambda _: httpx.Response(status, json={"error": {"message": "No."}}), total=10, n=4)
    assert response.status_code == status and ledger.total.spent == ledger.total.held == 0


def test_nobody_there_is_free_too():
    def handler(request):
        raise aiohttp.ConnectionTimeoutError("nobody")

    response, ledger = plain(handler, total=10, n=4)
    assert response.status_code == 503 and ledger.total.spent == ledger.total.held == 0


@pytest.mark.parametrize("text", ["<html>", '{"choices": []}', '{"choices": [{"index": 0, "message": {}}]}'])
def test_a_reply_that_cannot_be_read_passes_and_costs_what_was_held(text):
    settled = Counter()
    response, ledger = plain(lambda _: httpx.Response(200, text=text), total=10, n=4, settled=settled)
    assert response.text == text and ledger.total.spent == 4 == settled["lost"]


def test_a_reply_that_breaks_off_costs_what_was_held():
    with run_gateway(MockModel(BOOK, faults=Faults(half_body=1.0)), total=10) as gateway:
        with pytest.raises(httpx.RemoteProtocolError):
            gateway.ask(model="mock", n=2)
        wait_until(lambda: gateway.ledger.total.held == 0)
        assert gateway.ledger.total.spent == 2 == gateway.settled["lost"] and gateway.ledger.total.held == 0
        assert gateway.state.driver.fetcher.pool.of_model("mock").unknown_traces == 2  # as of a vote


def test_a_client_that_goes_pays_for_what_was_sent():
    with run_gateway(MockModel(BOOK, faults=Faults(hang=1.0)), total=10) as gateway:
        body = {**PLAIN, "n": 2}
        with pytest.raises(httpx.ReadTimeout):
            gateway.client.post("/v1/chat/completions", json=body, timeout=0.2)
        wait_until(lambda: gateway.ledger.total.held == 0)
        assert gateway.ledger.total.spent == 2 and gateway.ledger.total.held == 0


class Trickle(httpx.AsyncByteStream):
    """A byte per second, without an end."""

    async def __aiter__(self):
        while True:
            await asyncio.sleep(1.0)
            yield b" "


async def silent(request):
    await asyncio.sleep(10**6)


def test_a_plain_request_has_a_total_time():
    settings = Settings.of(policy="online_grid", timeout=20.0)
    response, ledger = plain(silent, run=run_simulated, settings=settings, total=10)
    assert response.status_code == 504 and ledger.total.spent == 1 and ledger.total.held == 0
    response, ledger = plain(
        lambda _: httpx.Response(200, stream=Trickle()), run=run_simulated, settings=settings, total=10
    )
    assert isinstance(response, AssertionError)  # httpx's word for a response that does not end
    assert ledger.total.spent == 1 and ledger.total.held == 0


def test_more_than_the_concurrency_are_turned_away():
    async def slow(request):
        await asyncio.sleep(1.0)
        return httpx.Response(200, json={"choices": [choice()]})

    settings = Settings.of(policy="online_grid", concurrency=4)
    responses, _ = plain(slow, run=run_simulated, settings=settings, requests=3, n=2)
    assert sorted(response.status_code for response in responses) == [200, 200, 503]
    responses, _ = plain(slow, run=run_simulated, settings=settings, n=8)
    assert responses.status_code == 200  # alone


def test_one_limit_of_tokens_is_sent_and_it_is_the_one_that_is_held():
    bodies = []

    def handler(request):
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [choice()], "usage": USAGE})

    settings = Settings.of(policy="online_grid", limits=Limits(max_tokens=300))
    plain(handler, currency=TOKENS, total=10**6, settings=settings, max_tokens=200, max_completion_tokens=1)
    plain(handler, currency=TOKENS, total=10**6, settings=settings)
    limits = [{name: body[name] for name in body if name.startswith("max")} for body in bodies]
    assert limits == [{"max_tokens": 1}, {"max_tokens": 300}]


@pytest.mark.parametrize(
    ("field", "currency", "status"),
    [
        ({"best_of": 100}, Currency(), 400),
        ({"n_predict": 10**6}, TOKENS, 400),
        ({"max_new_tokens": 10**6}, TOKENS, 400),
        ({"max_new_tokens": 10**6}, Currency(), 400),
        ({"n_cmpl": 4}, Currency(), 400),
        ({"num_return_sequences": 4}, Currency(), 400),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, TOKENS, 200),
        ({"tools": [{"type": "web_search"}]}, TOKENS, 400),
        ({"tools": "web_search"}, TOKENS, 400),
        ({"tools": [{"type": "web_search"}]}, Currency(), 200),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, TOKENS, 400),
    ],
)
def test_fields_whose_cost_nobody_knows_are_refused_under_a_budget(field, currency, status):
    response, ledger = plain(answers(choice(), usage=USAGE), currency=currency, total=10**6, **field)
    assert response.status_code == status and bool(ledger.total.spent) == (status == 200)


@pytest.mark.parametrize(
    ("allowed", "fields"),
    [
        ("frobnicate", {"frobnicate": 1}),
        ("n_cmpl", {"n_cmpl": 4}),
        ("web_search", {"tools": [{"type": "web_search"}]}),
    ],
)
@pytest.mark.parametrize("currency", [Currency(), TOKENS], ids=["traces", "tokens"])
def test_what_the_operator_allows_by_name_is_sent_on(allowed, fields, currency):
    sent, usage = [], {"prompt_tokens": 5, "completion_tokens": 28}

    def handler(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [choice(at) for at in range(4)], "usage": usage})

    settings = Settings.of(policy="online_grid", allow_fields=(allowed,))
    response, ledger = plain(handler, currency=currency, total=10**6, settings=settings, **fields)
    assert response.status_code == 200 and fields.items() <= sent[0].items()
    assert ledger.total.spent == (4 if currency.counts_traces else 33)


@pytest.mark.parametrize(("budget", "status"), [(None, 200), (10, 400)])
def test_a_key_without_a_budget_may_send_what_it_likes(budget, status, tmp_path):
    secret = add_key(tmp_path / "g.db", "alice", budget=budget)
    with run_gateway(store=tmp_path / "g.db") as gateway:
        response = gateway.ask(model="mock", frobnicate=1, headers={"authorization": f"Bearer {secret}"})
        assert response.status_code == status
        assert status == 200 or "--allow-field frobnicate" in response.json()["error"]["message"]


def test_a_compressed_reply_is_unpacked_within_bounds():
    class Packed(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield gzip.compress(json.dumps({"choices": [choice()], "usage": USAGE}).encode())

    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    response, ledger = plain(
        lambda _: httpx.Response(200, stream=Packed(), headers=headers), currency=TOKENS, total=10**6
    )
    assert response.json()["choices"] == [choice()] and "content-encoding" not in response.headers
    assert ledger.total.spent == 12


def test_room_is_given_back():
    async def go():
        state = build_gateway("http://127.0.0.1:9/v1", settings=Settings.of(policy="online_grid", concurrency=1))
        transport = httpx.ASGITransport(app(state))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(5):
                response = await client.post("/v1/chat/completions", json=PLAIN)
                assert response.status_code == 200
        await state.close()

    with answered_by(answers(choice())):
        asyncio.run(go())


def test_one_keys_slow_requests_turn_away_no_other_keys(tmp_path):
    alice, bob = ({"authorization": f"Bearer {add_key(tmp_path / 'g.db', name)}"} for name in ("alice", "bob"))

    async def slow(request):
        await asyncio.sleep(20.0)
        return httpx.Response(200, json={"choices": [choice()]})

    async def go():
        state = build_gateway("http://127.0.0.1:9/v1", Settings.of(policy="online_grid"), store=tmp_path / "g.db")
        transport = httpx.ASGITransport(app(state))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            post = functools.partial(client.post, "/v1/chat/completions", json=PLAIN, timeout=None)
            flood = [asyncio.create_task(post(headers=alice)) for _ in range(300)]
            await asyncio.sleep(1.0)
            others = await asyncio.gather(*(post(headers=bob) for _ in range(20)))
            statuses = Counter(response.status_code for response in await asyncio.gather(*flood))
        await state.close()
        return statuses, {response.status_code for response in others}

    with answered_by(slow):
        assert run_simulated(go()) == ({200: 224, 503: 76}, {200})


def test_a_request_whose_keys_cannot_be_read_holds_and_costs_nothing(tmp_path, monkeypatch):
    def cannot_be_read(keys):
        raise StateError("the store is away")

    secret = add_key(tmp_path / "g.db", "alice", budget=4)
    with run_gateway(store=tmp_path / "g.db") as gateway:
        monkeypatch.setattr(KeyStore, "required", property(cannot_be_read))
        reply = gateway.ask(model="mock", headers={"authorization": f"Bearer {secret}"})
        assert reply.status_code == 503 and not gateway.settled and not gateway.ledger.total.held
        assert gateway.mock.stats.requests == 0
