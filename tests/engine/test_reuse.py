"""A trace is paid for once: whatever is edited around a question, what a store holds of it is taken first."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from pets.engine import Engine
from pets.engine.arrivals import reused_parts
from pets.engine.endpoints import EndpointPool
from pets.engine.fetch import TraceRequest
from pets.errors import ReplyError
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.store import Store, StoredTrace


class Named(Sampler):
    """Says a letter by its seed; its ``source`` tells it from others, and it counts every seed of every prompt."""

    def __init__(self, source="m at http://one/v1", answer=lambda seed: f"The answer is {'ABAC'[seed % 4]}."):
        self.source, self.answer, self.asked = source, answer, Counter()

    async def sample(self, prompt, n, seed, sampling):
        await asyncio.sleep(0)
        texts = [self.answer(own) for own in range(seed, seed + n)]
        self.asked.update((prompt.content[-1].content.split("\n")[0], own) for own in range(seed, seed + n))
        return [Completion(text, "stop", 10, 5) for text in texts]

    @property
    def traces(self):
        return sum(self.asked.values())


def questions(ids, gold=None):
    return [Problem(id, Prompt.question(f"Which of A to D is {id}?"), "choice:options=4", gold) for id in ids]


def run(path, sampler, problems, **options):
    """A run to its end: how it went, and its answers."""

    async def to_the_end():
        async with Engine(problems, sampler=sampler, store=path, **{"budget": "4x", **options}) as engine:
            return await engine.run(), list(engine.answers()), engine

    return asyncio.run(to_the_end())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def test_an_added_question_is_all_that_is_paid_for(path):
    sampler = Named()
    run(path, sampler, questions("abcd"), policy="uniform")
    solution, _, engine = run(path, sampler, questions("xabcd"), policy="uniform")
    assert (solution.traces, solution.spent, solution.reused, sampler.traces) == (20, 20, {1: 16}, 20)
    assert (engine.cache.held.traces, engine.cache.held.by_question) == (16, [4] * 4)
    assert set(sampler.asked.values()) == {1}
    with Store.open(path) as store:
        view, first = store.view(2), store.view(1)
        assert view.summary().reused == 16 and view.reused() == {1: 16} and view.shared_with(first) == 16
        texts = {(t.question, t.number): t.text for t in first.traces()}
        assert all(texts[t.question, t.number] == t.text for t in view.traces() if t.reused_from)


@pytest.mark.parametrize(
    "change",
    [
        {"problems": questions("abcd", gold="A")},
        {"problems": questions("dcba")},
        {"problems": [replace(problem, id=f"row {problem.id}") for problem in questions("abcd")]},
        {"answer": "text"},
        {"policy": "asc"},
        {"budget": "3x"},
        {"budget": "16"},
        {"max_traces": 4, "concurrency": 1},
    ],
)
def test_what_is_never_sent_to_a_model_costs_nothing_to_change(path, change):
    sampler = Named()
    run(path, sampler, questions("abcd"), policy="uniform")
    change = {"policy": "uniform", "problems": questions("abcd"), "budget": "4x", **change}
    solution, answers, _ = run(path, sampler, change.pop("problems"), **change)
    assert sampler.traces == 16 and solution.reused == {1: solution.traces} and all(a.answer for a in answers)


def test_a_larger_budget_pays_for_the_rest(path):
    sampler = Named()
    run(path, sampler, questions("ab"), policy="uniform", budget="2x")
    solution, _, _ = run(path, sampler, questions("ab"), policy="uniform", budget="5x")
    assert (solution.reused, solution.traces, sampler.traces) == ({1: 4}, 10, 10)
    assert set(sampler.asked.values()) == {1}  # no seed is sent twice for one prompt


@pytest.mark.parametrize(
    "change",
    [{"new": True}, {"temperature": 0.5}, {"seed": 1}, {"system": "Be brief."}, {"soft": True}],
)
def test_what_a_model_is_asked_otherwise_is_paid_for(path, change):
    sampler = Named()
    run(path, sampler, questions("ab"))
    assert not run(path, sampler, questions("ab"), **change)[0].reused and sampler.traces == 16


def test_another_server_is_another_model_unless_the_user_says_otherwise(path):
    run(path, Named(), questions("ab"))
    other = Named("m at http://two/v1")
    assert run(path, other, questions("ab"), reuse="model")[0].reused == {1: 8} and other.traces == 0
    third, model = Named("m at http://three/v1"), Named("other at http://one/v1")
    assert not run(path, third, questions("ab"))[0].reused and third.traces == 8
    assert not run(path, model, questions("ab"), reuse="model")[0].reused and model.traces == 8


def test_traces_that_another_server_gave_to_a_resumed_run_are_that_servers(path):
    one, two = Named(), Named("m at http://two/v1")
    broken_off(path, one, questions("abcd"), after=7)
    before = one.traces

    async def resumed():
        async with Engine.resume(path, sampler=two) as engine:
            return await engine.run()

    assert asyncio.run(resumed()).traces == before + two.traces == 16
    for sampler, own in ((one, before), (two, 16 - before)):
        asked = sampler.traces
        solution, _, engine = run(path, sampler, questions("abcd"), policy="uniform", budget="16")
        assert engine.cache.held.traces == own and solution.reused == {1: own}
        assert sampler.traces == asked + 16 - own
        with Store.open(path) as store:
            store.delete(2)


def test_a_row_that_is_inserted_shifts_no_turn_of_a_mixture(path):
    models = {name: Named(f"{name} at http://one/v1") for name in "ab"}
    run(path, models, questions("abcd"), model=["a", "b=2"], policy="uniform")
    before = {name: sampler.traces for name, sampler in models.items()}
    assert before["b"] > before["a"] > 0
    solution, _, _ = run(path, models, questions("xabcd"), model=["a", "b=2"], policy="uniform")
    assert solution.reused == {1: 16} and sum(sampler.traces for sampler in models.values()) == 20
    with Store.open(path) as store:
        given = [
            {(t.question, t.number): t.model for t in store.view(id).traces() if t.question != "x"} for id in (1, 2)
        ]
    assert given[0] == given[1]
    alone = run(path, models["b"], questions("abcd"), model="b", policy="uniform")[0]  # a vote of one of them alone
    assert sum(alone.reused.values()) == before["b"]


def test_a_sampler_that_nothing_tells_from_others_is_never_reused(path):
    sampler = Named(None)
    for _ in range(2):
        assert not run(path, sampler, questions("ab"))[0].reused
    assert sampler.traces == 16


def test_a_prompt_that_stands_twice_in_a_file_has_traces_of_its_own_each_time(path):
    sampler = Named()
    twice = [replace(questions("a")[0], id=id) for id in ("first", "second")]
    run(path, sampler, twice, policy="uniform")
    assert sampler.traces == 8 and set(sampler.asked.values()) == {1}
    solution, _, _ = run(path, sampler, [*twice, *questions("b")], policy="uniform")
    assert solution.reused == {1: 8} and sampler.traces == 12


def test_a_trace_that_failed_is_asked_for_again(path):
    broken = True

    def answer(seed):
        if broken and seed % 4 == 3:
            raise ReplyError("half a body")
        return "The answer is A."

    sampler = Named(answer=answer)
    first, _, _ = run(path, sampler, questions("abcd"), policy="uniform", tries=1, concurrency=1)
    assert first.failed
    broken = False
    solution, _, _ = run(path, sampler, [*questions("abcd"), *questions("e")], policy="uniform")
    assert solution.reused == {1: 16 - first.failed} and solution.failed == 0


def test_traces_without_texts_are_counted_and_not_reused(path):
    sampler = Named()
    run(path, sampler, questions("ab"), keep_texts=False)
    solution, _, engine = run(path, sampler, questions("abc"))
    assert not solution.reused and engine.cache.held.without_texts == 8


def test_traces_that_were_asked_under_another_instruction_are_counted(path):
    sampler = Named()
    run(path, sampler, questions("ab"))
    _, _, engine = run(path, sampler, questions("ab"), answer="text")
    (instruction,) = engine.cache.held.instructions
    assert "letter of your choice" in instruction and engine.cache.held.instructions[instruction] == 8


def broken_off(path, sampler, problems, after):
    """A run that ends ``after`` so many traces."""

    async def to_the_middle():
        seen = []

        def stop(trace):
            seen.append(trace)
            if len(seen) == after:
                engine.drain()

        engine = Engine(
            problems, sampler=sampler, store=path, budget="4x", policy="uniform", concurrency=2, on_trace=stop
        )
        async with engine:
            return await engine.run()

    assert not asyncio.run(to_the_middle()).complete


def test_a_run_that_reuses_is_broken_off_and_goes_on_without_paying_twice(path):
    sampler = Named()
    run(path, sampler, questions("abcd"), policy="uniform")
    broken_off(path, sampler, questions("xabcd"), after=7)
    solution, _, engine = run(path, sampler, questions("xabcd"), policy="uniform")
    assert engine.origin == "unfinished" and solution.lost == 0
    assert (solution.traces, solution.reused, sampler.traces) == (20, {1: 16}, 20)


def test_hits_are_delivered_alone_and_what_is_missing_is_asked_for_together():
    class Held:
        def find(self, question, number, endpoints):
            return StoredTrace(question, number, text="x", reused_from=1) if number in (1, 2) else None

    request = TraceRequest("q", 0, 5, Prompt("?"), 70, Sampling(), (1,) * 5)
    parts = list(reused_parts(request, Held(), EndpointPool([Named()], 16)))
    assert [(p.first, p.size, p.seed, p.reused is not None) for p in parts] == [
        (0, 1, 70, False), (1, 1, 71, True), (2, 1, 72, True), (3, 2, 73, False),
    ]  # fmt: skip
