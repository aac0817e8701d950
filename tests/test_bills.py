"""The same prices and the same traces give the same bill, whichever verb asked for them."""

import asyncio
import contextlib

import httpx
import pytest

from pets.core.budget import Budget
from pets.core.money import Currency
from pets.engine import Engine, RunSpec
from pets.engine.budget import TokenPrice, model_shares
from pets.engine.sources import Servers, sources_of
from pets.engine.stream import Stream
from pets.gateway import Settings, build_gateway
from pets.gateway import running as gateway_running
from pets.mock import MockModel, running, synthetic
from pets.policies.uniform import Uniform
from pets.samplers import Sampling
from pets.samplers import batch as batch_sampling
from pets.store import Store

from .engine.conftest import asked
from .streams import stream_settings
from .waiting import wait_until

QUESTIONS, TRACES, MAX_TOKENS = 6, 4, 2000
PROMPT, OUTPUT, CACHED = 3.0, 7.0, 0.5  # dollars per million tokens
PRICE = f"in={PROMPT},out={OUTPUT},cached={CACHED},batch=1"
CURRENCY = Currency.money(PROMPT, OUTPUT, CACHED, prompt_tokens=200, max_tokens=MAX_TOKENS)
BOOK = synthetic(QUESTIONS, strength=0.3)


def own_bill(mocks):
    """What the servers' own counts come to, in picodollars."""
    stats = [mock.stats for mock in mocks]
    prompt, cached, output = (
        sum(getattr(stat, name) for stat in stats) for name in ("prompt_tokens", "cached_tokens", "completion_tokens")
    )
    assert cached and output and sum(stat.traces for stat in stats)
    return round(1e6 * (PROMPT * (prompt - cached) + CACHED * cached + OUTPUT * output))


def solve(urls, folder, **options):
    async def work():
        (model,) = urls if len(urls) == 1 else (list(urls),)
        more = {
            "budget": "1usd",
            "price": PRICE,
            "max_tokens": MAX_TOKENS,
            "policy": "uniform",
            "max_traces": TRACES,
            **options,
        }
        endpoint = urls if len(urls) > 1 else urls[model]
        engine = Engine(asked(BOOK.ids()), endpoint=endpoint, model=model, store=folder / "runs.db", **more)
        async with engine:
            await engine.run()
            cost = sum(answer.cost for answer in engine.answers())
            return engine.allocator.budget.spent, cost

    spent, cost = asyncio.run(work())
    with Store.open(folder / "runs.db") as store:
        assert store.view().summary().spent == spent  # what `pets runs` shows
    assert cost == pytest.approx(spent / 1e12)
    return spent


def batch_jobs(urls, folder, **options):
    return solve(urls, folder, batch_api=True, policy="okg:waves=2", budget="0.4usd", max_traces=64, **options)


async def arriving():
    for problem in asked(BOOK.ids()):
        yield problem


def stream(urls, folder):
    async def work():
        budget = Budget(10**12, TRACES, CURRENCY)
        models = model_shares(list(urls))
        spec = RunSpec.of(sampling=Sampling(MAX_TOKENS), price=TokenPrice.parse(PRICE), models=models)
        settings = stream_settings(Uniform(), budget, spec, QUESTIONS)
        sources = sources_of(Servers(urls if models else urls["a"], "a"), spec)
        async with Stream(settings.spec, sources, lambda answer: None, budget=budget, store=folder / "runs.db") as live:
            await live.run(arriving())
        return budget.spent

    spent = asyncio.run(work())
    with Store.open(folder / "runs.db") as store:
        assert store.view().summary().spent == spent
    return spent


def gateway(urls, bodies):
    """What a gateway charges for requests to each of the models; several vote together."""
    models = list(urls) if len(urls) > 1 else None
    servers = [f"{name}={url}" for name, url in urls.items()] if models else list(urls.values())
    settings = Settings.of(policy="online_grid", answer="choice")
    state = build_gateway(servers, models=models, settings=settings, currency=CURRENCY, total=10**12)
    with gateway_running(state) as front, httpx.Client(base_url=front, timeout=20, trust_env=False) as client:
        for path, body in bodies:
            for name in ["mixture"] if models and body["model"].startswith("pets/") else urls:
                fields = {"max_tokens": MAX_TOKENS, **body, "model": body["model"].replace("NAME", name)}
                assert client.post(path, json=fields).status_code == 200
        wait_until(lambda: state.ledger.total.held == 0)
        return state.ledger.total.spent


def messages(id):
    return [{"role": "user", "content": f"Question {id}"}]


def serve_votes(urls, folder):
    bodies = [{"model": "pets/NAME", "messages": messages(id)} for id in BOOK.ids()]
    return gateway(urls, [("/v1/chat/completions", body) for body in bodies])


def serve_plain(urls, folder):
    chats = [{"model": "NAME", "messages": messages(id), "n": 2} for id in BOOK.ids()]
    streams = [{"model": "NAME", "messages": messages(id), "stream": True} for id in BOOK.ids()]
    return gateway(urls, [("/v1/chat/completions", body) for body in chats + streams])


def serve_completions(urls, folder):
    bodies = [
        {"model": "NAME", "prompt": f"Question {id}", "stream": flag} for id in BOOK.ids() for flag in (False, True)
    ]
    return gateway(urls, [("/v1/completions", body) for body in bodies])


VERBS = [solve, stream, batch_jobs, serve_votes, serve_plain, serve_completions]
CASES = [(verb, models) for verb in VERBS for models in ("a", "ab")]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    for name in ("GATHER_S", "FIRST_POLL_S", "FIRST_BACKOFF_S"):
        monkeypatch.setattr(batch_sampling, name, 0.01)


@pytest.mark.parametrize(("verb", "models"), CASES, ids=[f"{verb.__name__}-{models}" for verb, models in CASES])
def test_the_bill_is_that_of_the_server_whichever_verb_asked(verb, models, tmp_path):
    mocks = {name: MockModel(BOOK, model=name, prompt_cache=True) for name in models}
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(running(mock)) for name, mock in mocks.items()}
        assert verb(urls, tmp_path) == own_bill(mocks.values())


@pytest.mark.parametrize("verb", [solve, batch_jobs])
def test_models_of_different_prices_are_billed_each_at_its_own(verb, tmp_path):
    prices = {"a": PRICE, "b": "in=30,out=70,cached=5,batch=1"}
    mocks = {name: MockModel(BOOK, model=name, prompt_cache=True) for name in prices}
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(running(mock)) for name, mock in mocks.items()}
        spent = verb(urls, tmp_path, price=prices)
    assert spent == own_bill([mocks["a"]]) + 10 * own_bill([mocks["b"]])
