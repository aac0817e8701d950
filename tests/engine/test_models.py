"""Several models, one vote: whose values are whose, and mixture runs over real HTTP, one model failing half-way."""

import asyncio
import contextlib

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.mixture import ModelMixture
from pets.engine import Engine
from pets.engine.budget import ModelShare, TokenPrice, model_shares, with_prices
from pets.engine.sources import keys_by_model, values_by_model
from pets.engine.spec import RunSpec
from pets.errors import InputError, RefusedError, ReplyError, UnreachableError
from pets.mock import Faults, MockModel, running, synthetic
from pets.registry import make_policy
from pets.samplers import Sampling
from pets.samplers.openai import OpenAISampler
from pets.store import Store
from pets.store.cache import trace_keys
from pets.types import Question, Trace

from .conftest import Scripted, asked, solve

QUESTIONS, BUDGET = 20, 160


@pytest.fixture
def two_models():
    """Two mocks with answers of their own: their books, mocks, urls and samplers, by model."""
    with contextlib.ExitStack() as stack:
        books = {"a": synthetic(QUESTIONS, strength=0.3, seed=1), "b": synthetic(QUESTIONS, strength=0.3, seed=2)}
        mocks = {name: MockModel(book, model=name) for name, book in books.items()}
        urls = {name: stack.enter_context(running(mock)) for name, mock in mocks.items()}
        yield books, mocks, urls


def samplers(urls):
    return {name: OpenAISampler(url, name, timeout=20.0, loopback=True) for name, url in urls.items()}


def failing_half_way(mock):
    """Called with every trace: the mock says 429 to everything from the half of the budget on."""
    told = []

    def note(trace):
        told.append(trace)
        if len(told) == BUDGET // 2:
            mock.faults = Faults(rate_limit_bare=1.0)

    return told, note


def places(problems):
    """The questions' places among the seeds, which follow from their prompts."""
    return RunSpec().seeds(QUESTIONS).blocks(trace_keys(problems, Sampling(), None, 0))


def nominal(trace, weights, places):
    return ModelMixture(weights).model_of(places[trace.question] + trace.number)


@pytest.mark.parametrize("weights", [(1, 1), (3, 1)])
def test_a_mixture_with_a_model_that_fails_half_way_keeps_its_budget_and_its_verdicts(two_models, tmp_path, weights):
    books, mocks, urls = two_models
    told, note = failing_half_way(mocks["b"])
    problems, models = asked(books["a"].ids()), dict(zip("ab", weights, strict=True))

    async def run():
        engine = Engine(
            problems, model=models, sampler=samplers(urls), store=tmp_path / "runs.db", budget=str(BUDGET),
            concurrency=1, backoff=0.0, policy="okg", on_trace=note,
        )  # fmt: skip
        async with engine:
            return engine, await engine.run(), list(engine.answers())

    engine, solution, answers = asyncio.run(run())
    assert solution.spent == solution.traces == BUDGET and solution.failed == 0
    first, second = told[: BUDGET // 2], told[BUDGET // 2 :]
    assert [trace.model for trace in first] == [nominal(trace, weights, places(problems)) for trace in first]
    assert {trace.model for trace in second} == {0}
    handed_on = sum(nominal(trace, weights, places(problems)) == 1 for trace in second)
    assert solution.faults["handed on by b"] == handed_on > 0
    assert solution.models == {"a": BUDGET - sum(t.model for t in first), "b": sum(t.model for t in first)}
    assert sum(mock.stats.traces for mock in mocks.values()) == BUDGET

    seeds, given = engine.spec.seeds(QUESTIONS), {trace.launch: trace.model for trace in told}
    allocator = Allocator(make_policy("okg"), Budget(BUDGET, 64), [Question(p.id, options=4) for p in problems],
                          horizon=QUESTIONS)  # fmt: skip
    while launches := allocator.ask():
        (launch,) = launches
        book = books["ab"[given[launch]]]
        spec = book.draw(launch.question, seeds.at(places(problems)[launch.question], launch.number))
        allocator.tell(Trace(*launch, spec.answer, tokens=spec.tokens))
    replayed = {verdict.question: (verdict.answer, dict(verdict.votes)) for verdict in allocator.verdicts()}
    assert {answer.id: (answer.answer, answer.votes) for answer in answers} == replayed


def test_the_shares_are_those_of_the_weights_whatever_is_in_flight(two_models):
    books, mocks, urls = two_models
    solution = solve(
        asked(books["a"].ids()), model=["a=2", "b"], endpoint=urls, budget=str(BUDGET), concurrency=16, policy="okg"
    )
    assert solution.spent == BUDGET
    assert solution.models == {name: mock.stats.traces for name, mock in mocks.items()}
    assert abs(solution.models["b"] - BUDGET / 3) < QUESTIONS


def test_a_resumed_run_gives_every_launch_the_same_model(two_models, tmp_path):
    books, _, urls = two_models
    problems, store = asked(books["a"].ids()), tmp_path / "runs.db"
    options = {"model": {"a": 1, "b": 2}, "endpoint": urls, "store": store, "budget": str(BUDGET)}

    async def broken_off():
        seen = []
        engine = Engine(problems, **options, concurrency=4, on_trace=lambda trace: (seen.append(trace), stop(seen)))

        def stop(seen):
            if len(seen) == 60:
                engine.drain()

        async with engine:
            return await engine.run()

    assert not asyncio.run(broken_off()).complete
    solution = solve(problems, **options)
    with Store.open(store) as opened:
        traces = list(opened.view("last").traces())
        settings = opened.view("last").settings
    assert solution.spent == BUDGET == len(traces) and len(settings.endpoints) == 2
    assert [trace.model for trace in traces] == [nominal(trace, (1, 2), places(problems)) for trace in traces]
    assert solution.models["b"] == sum(trace.model for trace in traces)


def test_models_and_weights_are_part_of_what_a_run_is(two_models, tmp_path):
    books, _, urls = two_models
    problems, store = asked(books["a"].ids()), tmp_path / "runs.db"
    for model in ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 1}):
        solve(problems, model=model, endpoint=urls, store=store, budget="2x")
    with Store.open(store) as opened:
        assert [run.settings.model for run in opened.runs()] == ["a, b", "a=2, b"]


def test_each_model_is_charged_at_its_own_price(two_models, tmp_path):
    books, mocks, urls = two_models
    solution = solve(
        asked(books["a"].ids()), model=["a", "b"], endpoint=urls, budget="0.02usd", max_tokens=200,
        price={"a": "in=0,out=1", "b": TokenPrice(0, 10)}, concurrency=4, store=tmp_path / "runs.db",
    )  # fmt: skip
    paid = (mocks["a"].stats.completion_tokens + 10 * mocks["b"].stats.completion_tokens) / 1e6
    assert solution.spent == pytest.approx(paid) == solution.cost and 0.015 < paid <= 0.022
    assert sum(answer.cost for answer in solution.answers) == pytest.approx(paid)
    with Store.open(tmp_path / "runs.db") as opened:
        assert opened.view("last").summary().spent == pytest.approx(paid * 1e12)


def test_models_of_one_price_pay_less_for_cached_prompts_and_say_so():
    books = [synthetic(QUESTIONS, strength=0.3, seed=seed) for seed in (1, 2)]
    mocks = {name: MockModel(book, model=name, prompt_cache=True) for name, book in zip("ab", books, strict=True)}
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(running(mock)) for name, mock in mocks.items()}
        solution = solve(
            asked(books[0].ids()), model=["a", "b"], endpoint=urls, budget="0.05usd", max_tokens=200,
            price="in=100,out=2,cached=1", concurrency=4,
        )  # fmt: skip
    stats = [mock.stats for mock in mocks.values()]
    paid = sum(s.prompt_tokens * 100 - s.cached_tokens * 99 + s.completion_tokens * 2 for s in stats) / 1e6
    assert all(s.cached_tokens for s in stats) and solution.spent == pytest.approx(paid) == solution.cost
    assert sum(answer.cost for answer in solution.answers) == pytest.approx(paid)


def test_replies_that_are_lost_are_charged_with_the_trace_whatever_its_model_s_price(tmp_path):
    lost = []

    def loses_two(prompt, seed):
        if len(lost) < 2:
            lost.append(seed)
            raise ReplyError("half a body")
        return "The answer is B."

    sampler = {"a": Scripted(loses_two), "b": Scripted()}
    solution = solve(
        asked([f"q{i}" for i in range(4)]), model=["a", "b"], sampler=sampler, budget="1usd", max_tokens=100,
        price={"a": "in=1,out=0", "b": "in=1,out=40"}, max_traces=4, concurrency=1, backoff=0.0,
        store=tmp_path / "runs.db",
    )  # fmt: skip
    with Store.open(tmp_path / "runs.db") as opened:
        traces = list(opened.view("last").traces())
        spent = opened.view("last").summary().spent
    wasted = [trace for trace in traces if trace.wasted]
    assert [trace.model for trace in wasted] == [0] and wasted[0].cost > 5_000_000 and wasted[0].tokens > 10
    sampled = sum(5 + (40 * 10 if trace.model else 0) for trace in traces) / 1e6
    assert solution.spent == pytest.approx(spent / 1e12) == solution.cost and solution.spent > sampled


def test_a_model_with_a_wrong_name_ends_the_run_before_anything_is_handed_on():
    def unknown(prompt, seed):
        raise RefusedError("no such model", status=404)

    sampler = {"a": Scripted(), "b": Scripted(unknown)}
    with pytest.raises(RefusedError, match="no such model"):
        solve(asked(["q0", "q1", "q2"]), model=["a", "b"], sampler=sampler, budget="4x")


def test_a_model_at_a_wrong_address_ends_the_run():
    def nobody(prompt, seed):
        raise UnreachableError("nobody there")

    sampler = {"a": Scripted(), "b": Scripted(nobody)}
    with pytest.raises(UnreachableError, match="nobody there"):
        solve(asked([f"q{i}" for i in range(20)]), model=["a", "b"], sampler=sampler, budget="8x", concurrency=4)


def test_a_model_that_is_withdrawn_later_hands_on_its_share(caplog):
    asked_of_b = []

    def withdrawn(prompt, seed):
        asked_of_b.append(seed)
        if len(asked_of_b) > 10:
            raise RefusedError("no such model any more", status=404)
        return "The answer is B."

    sampler = {"a": Scripted(), "b": Scripted(withdrawn)}
    problems = asked([f"q{i}" for i in range(10)])
    solution = solve(problems, model=["a", "b"], sampler=sampler, budget="8x", concurrency=1, policy="uniform")
    assert solution.spent == 80 and solution.models == {"a": 70, "b": 10}
    assert len(asked_of_b) == 11 and solution.faults["handed on by b"] == 30
    assert "the other models take its turns" in caplog.text


def test_a_question_that_one_model_refuses_goes_to_the_other():
    def picky(prompt, seed):
        if "q1" in str(prompt):
            raise RefusedError("too long for me", status=400)
        return "The answer is B."

    sampler = {"a": Scripted(), "b": Scripted(picky)}
    solution = solve(asked(["q0", "q1"]), model=["a", "b"], sampler=sampler, budget="4x", policy="uniform")
    votes = {answer.id: answer.votes for answer in solution.answers}
    assert votes == {"q0": {"A": 2, "B": 2}, "q1": {"A": 4}} and solution.spent == 8


def test_a_question_that_every_model_refuses_is_given_up():
    def refuses(prompt, seed):
        if "q1" in str(prompt):
            raise RefusedError("too long", status=400)
        return "The answer is B."

    sampler = {"a": Scripted(refuses), "b": Scripted(refuses)}
    solution = solve(asked(["q0", "q1"]), model=["a", "b"], sampler=sampler, budget="2x", max_traces=2)
    assert [answer.error for answer in solution.answers] == [None, "too long"] and solution.spent == 2


@pytest.mark.parametrize(
    ("models", "message"),
    [(["a", "a"], "named twice"), (["a=2", "a=1"], "named twice"), ({"a": 0, "b": 1}, "greater than 0")],
)
def test_models_that_make_no_mixture_are_refused(models, message):
    with pytest.raises(InputError, match=message):
        model_shares(models)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": ["a", "b"], "sampler": Scripted()}, "a sampler each"),
        ({"model": ["a", "b"], "sampler": {"a": Scripted()}}, "samplers of a for the models a, b"),
        ({"model": "a", "sampler": {"a": Scripted()}}, "name them"),
        ({"model": ["a", "b"], "endpoint": {"c": "http://c/v1"}}, "names c"),
        ({"model": ["a", "b"], "endpoint": ["http://a/v1", "c=http://c/v1"]}, "names c"),
        ({"model": ["a", "b"], "endpoint": "http://a/v1", "price": {"c": "in=1,out=1"}}, "a price for c"),
        ({"model": ["a", "b"], "endpoint": "http://a/v1", "key": ["one", "two"]}, "2 keys for the model a"),
    ],
)
def test_values_that_belong_to_no_model_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Engine(asked(["q0"]), budget="1x", **options)


def test_a_name_with_an_equals_sign_or_a_colon_is_a_name():
    assert ModelShare.parse("org/x=y") == ModelShare("org/x=y")
    assert ModelShare.parse("qwen3:8b=1.5") == ModelShare("qwen3:8b", 1.5)


def test_own_values_come_before_shared_ones_and_the_longest_name_counts():
    names = ["m", "m=x"]
    assert values_by_model("--endpoint", names, ["m=x=http://1", "http://2"]) == {
        "m": ["http://2"],
        "m=x": ["http://1"],
    }
    assert keys_by_model(names, "all") == {"m": "all", "m=x": "all"}
    assert keys_by_model(names, [None, "m=one"]) == {"m": "one", "m=x": None}


def test_models_may_have_prices_of_their_own():
    shares = with_prices(model_shares(["a=2", "b"]), {"b": "in=1,out=2"})
    assert [share.price for share in shares] == [None, TokenPrice(1, 2)]
