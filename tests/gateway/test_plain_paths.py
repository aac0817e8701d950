"""Completions, embeddings and responses pass through: counted, bounded and redacted as plain chats are."""

import asyncio
import json
from collections import Counter

import httpx
import pytest

from pets.core.money import Currency
from pets.gateway import Limits, Settings, build_gateway
from pets.gateway.app import app
from pets.mock import MockModel

from ..network import answered_by
from .conftest import BOOK, add_key, run_gateway, sum_settlements

TOKENS = Currency.tokens(100)
KEY = "sk-upstream-secret-123"
BODIES = {
    "completions": {"model": "m", "prompt": "2 + 2 ="},
    "chat/completions": {"model": "m", "messages": [{"role": "user", "content": "2 + 2?"}]},
    "embeddings": {"model": "m", "input": "four"},
    "responses": {"model": "m", "input": "2 + 2?"},
}
USAGES = {
    "completions": {"prompt_tokens": 5, "completion_tokens": 7},
    "chat/completions": {"prompt_tokens": 5, "completion_tokens": 7},
    "embeddings": {"prompt_tokens": 12, "total_tokens": 12},
    "responses": {"input_tokens": 5, "output_tokens": 7},
}


def post(path, handler, *, settings=None, body=None, headers=None, settled=None, **options):
    """The response to a request for a path, and the ledger of the gateway whose server is ``handler``.

    ``settled`` takes the sums of what it settles.
    """

    async def go():
        state = build_gateway("http://127.0.0.1:9/v1", settings=settings, key=KEY, **options)
        sums = sum_settlements(state.ledger)
        transport = httpx.ASGITransport(app(state))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.post(f"/v1/{path}", json=BODIES[path] | (body or {}), headers=headers)
        await state.close()
        if settled is not None:
            settled.update(sums)
        return response, state.ledger

    with answered_by(handler):
        return asyncio.run(go())


def said(path, text, choices=1):
    """A reply that says so, without a usage."""
    if path == "completions":
        return {"choices": [{"index": at, "text": text, "finish_reason": "stop"} for at in range(choices)]}
    if path == "chat/completions":
        message = {"role": "assistant", "content": text}
        return {"choices": [{"index": at, "message": message, "finish_reason": "stop"} for at in range(choices)]}
    if path == "responses":
        content = [{"type": "output_text", "text": text}]
        return {"status": "completed", "output": [{"type": "message", "content": content}]}
    return {"data": [{"embedding": [0.5]}]}


def saying(path, bodies=None, text="four", choices=1, **more):
    def handler(request):
        assert request.url.path == f"/v1/{path}"
        if bodies is not None:
            bodies.append(json.loads(request.content))
        return httpx.Response(200, json=said(path, text, choices) | {"said": "four", "usage": USAGES[path], **more})

    return handler


@pytest.mark.parametrize("path", BODIES)
def test_a_request_passes_as_it_is(path):
    bodies = []
    response, ledger = post(path, saying(path, bodies), body={"unknown": 1})
    assert response.json()["said"] == "four" and bodies == [BODIES[path] | {"unknown": 1}]
    assert ledger.total.spent == 0


@pytest.mark.parametrize("path", BODIES)
def test_it_is_counted_by_its_usage_and_the_limit_that_was_held_is_sent(path):
    bodies, settings = [], Settings.of(policy="online_grid", limits=Limits(max_tokens=300))
    response, ledger = post(path, saying(path, bodies), currency=TOKENS, total=10**5, settings=settings)
    assert response.status_code == 200 and ledger.total.spent == 12 and ledger.total.held == 0
    limits = {name: value for name, value in bodies[0].items() if name.startswith("max")}
    names = {"embeddings": None, "responses": "max_output_tokens"}
    assert limits == ({name: 300} if (name := names.get(path, "max_tokens")) else {})


@pytest.mark.parametrize("path", BODIES)
def test_a_claim_costs_at_most_what_was_held(path):
    usage = dict.fromkeys(("input_tokens", "prompt_tokens", "output_tokens", "completion_tokens"), 2**50)
    settings, settled = Settings.of(policy="online_grid", limits=Limits(max_tokens=300)), Counter()
    _, ledger = post(path, saying(path, usage=usage), currency=TOKENS, total=10**5, settings=settings, settled=settled)
    held = len(json.dumps(BODIES[path])) + 64 + (0 if path == "embeddings" else 300)
    assert held <= ledger.total.spent <= held + 40  # the limit and what a stream is asked are in the body, too
    assert (settled["claimed_more"], settled["estimated"]) == (1, 0)


def usage_of(prompt, output):
    return {"prompt_tokens": prompt, "input_tokens": prompt, "completion_tokens": output, "output_tokens": output}


FALSE_USAGES = {
    "none": None,
    "empty": {},
    "no object": "many",
    "no number": usage_of("5", [7]),
    "zero": usage_of(0, 0),
    "negative": usage_of(-5, -7000),
    "yes": usage_of(True, True),
    "huge": usage_of(2**70, 2**70),
    "one token for all": usage_of(0, 1),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", ["chat/completions", "completions", "responses"])
@pytest.mark.parametrize("usage", FALSE_USAGES.values(), ids=FALSE_USAGES)
def test_a_usage_that_cannot_be_true_is_replaced_by_the_estimate(path, usage, streamed):
    """6,000 bytes are 1,500 tokens or more, whatever else the reply repeats of the request or says in its texts."""
    free = {"usage": usage_of(1, 0)}
    text = (json.dumps(free) + "four words of it ") * 80
    reply = said(path, text) | {"usage": usage, "metadata": free, "id": json.dumps(free)}
    events = [reply]
    if path == "responses":
        events = [{"type": "response.created", "response": free}, {"type": "response.completed", "response": reply}]
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    def handler(request):
        if streamed:
            return httpx.Response(200, text=lines, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, json=reply)

    settings, body = (
        Settings.of(policy="online_grid", limits=Limits(max_tokens=30_000)),
        {"stream": streamed, "metadata": {"a": "usage"}},
    )
    settled = Counter()
    _, ledger = post(path, handler, currency=TOKENS, total=10**5, settings=settings, body=body, settled=settled)
    assert len(text) / 4 < ledger.total.spent < 10_000
    assert settled["estimated"] == 1 and ledger.total.held == 0


@pytest.mark.parametrize("usage", [usage for name, usage in FALSE_USAGES.items() if name != "one token for all"])
def test_the_prompt_of_an_embedding_is_estimated_too(usage):
    body, settled = {"input": "four words of it " * 100}, Counter()
    handler = saying("embeddings", usage=usage)
    _, ledger = post("embeddings", handler, currency=TOKENS, total=10**5, body=body, settled=settled)
    assert len(body["input"]) / 4 < ledger.total.spent <= len(body["input"]) + 200 and settled["estimated"] == 1


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
@pytest.mark.parametrize("currency", [Currency(), TOKENS], ids=["traces", "tokens"])
def test_choices_that_nobody_asked_for_are_charged(path, currency):
    handler, settled = saying(path, choices=4, usage=usage_of(5, 4 * 100)), Counter()
    _, ledger = post(path, handler, currency=currency, total=10**5, body={"max_tokens": 100}, settled=settled)
    assert ledger.total.spent == (4 if currency.counts_traces else 405) and settled["delivered"] == 4


@pytest.mark.parametrize("status", ["failed", "in_progress"])
def test_a_response_that_does_not_come_to_its_end_costs_what_was_held(status):
    handler, settled = saying("responses", status=status, usage=None), Counter()
    _, ledger = post("responses", handler, total=10, settled=settled)
    assert ledger.total.spent == 1 == settled["lost"]


@pytest.mark.parametrize(
    ("body", "traces"), [({}, 1), ({"n": 3}, 3), ({"prompt": ["a", "b"], "n": 2}, 4), ({"prompt": [1, 2]}, 1)]
)
def test_every_choice_of_a_completion_is_a_trace(body, traces):
    response, ledger = post("completions", saying("completions", choices=traces), total=10, body=body)
    assert response.status_code == 200 and ledger.total.spent == traces


@pytest.mark.parametrize(
    ("path", "body", "currency", "status"),
    [
        ("completions", {"best_of": 9}, Currency(), 400),
        ("completions", {"unknown": 9}, Currency(), 400),
        ("completions", {"n_cmpl": 9}, Currency(), 400),
        ("responses", {"num_return_sequences": 9}, Currency(), 400),
        ("completions", {"unknown": 9}, TOKENS, 400),
        ("responses", {"previous_response_id": "r"}, TOKENS, 400),
        ("responses", {"tools": [{"type": "web_search"}]}, TOKENS, 400),
        ("responses", {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}, TOKENS, 200),
        ("responses", {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, TOKENS, 400),
        ("responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "?"}]}]}, TOKENS, 200),
        ("responses", {"max_output_tokens": 10**9}, TOKENS, 400),
        ("embeddings", {"input": ["a"] * 3000}, TOKENS, 400),
        ("embeddings", {"input": []}, TOKENS, 400),
        ("embeddings", {"model": "pets/m"}, TOKENS, 400),
        ("embeddings", {"model": 7}, TOKENS, 400),
    ],
)
def test_what_no_budget_can_hold_is_refused_and_costs_nothing(path, body, currency, status):
    response, ledger = post(path, saying(path), currency=currency, total=10**6, body=body)
    assert response.status_code == status and bool(ledger.total.spent) == (status == 200)


@pytest.mark.parametrize("path", ["completions", "responses"])
def test_streams_pass_and_are_counted(path):
    bodies = []
    usage = json.dumps({"choices": [], "usage": USAGES[path]} if path == "completions" else
                       {"type": "response.completed", "response": {"usage": USAGES[path]}})  # fmt: skip

    def handler(request):
        bodies.append(json.loads(request.content))
        text = 'data: {"choices": [{"text": "four", "finish_reason": "stop"}]}\n\n' + f"data: {usage}\n\n"
        return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})

    response, ledger = post(path, handler, currency=TOKENS, total=10**5, body={"stream": True})
    assert ledger.total.spent == 12 and "four" in response.text
    assert ("response.completed" in response.text) == (path == "responses")
    assert '"choices": []' not in response.text  # which the gateway alone asked for
    assert bodies[0].get("stream_options") == ({"include_usage": True} if path == "completions" else None)


@pytest.mark.parametrize("path", BODIES)
def test_the_key_of_the_server_does_not_come_back(path):
    def echo(_):
        return httpx.Response(418, json={"error": {"message": f"Bearer {KEY}"}, "usage": KEY})

    response, ledger = post(path, echo, total=10)
    assert response.status_code == 418 and KEY not in response.text and "[redacted]" in response.text
    assert ledger.total.spent == 0


def test_keys_are_needed_and_their_budgets_hold(tmp_path):
    secret = add_key(tmp_path / "g.db", "alice", budget=1)
    headers = {"authorization": f"Bearer {secret}"}
    for expected in (200, 429):
        response, _ = post("embeddings", saying("embeddings"), store=tmp_path / "g.db", headers=headers)
        assert response.status_code == expected
    assert post("embeddings", saying("embeddings"), store=tmp_path / "g.db")[0].status_code == 401


def test_without_pass_through_there_are_no_such_paths():
    response, _ = post(
        "embeddings", saying("embeddings"), settings=Settings.of(policy="online_grid", passthrough=False)
    )
    assert response.status_code == 404


def test_openais_client_completes_a_prompt(openai):
    with run_gateway(MockModel(BOOK)) as gateway:
        http = httpx.Client(trust_env=False)
        with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", http_client=http) as client:
            whole = client.completions.create(model="mock", prompt="easy", max_tokens=64)
            parts = list(client.completions.create(model="mock", prompt="easy", stream=True))
        assert "A" in whole.choices[0].text and len(parts) > 2
