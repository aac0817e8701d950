"""A run in a store: broken off in any way, it goes on where it stopped."""

import asyncio
import subprocess
import sys
from collections import Counter

import pytest

from pets.answers.choice import Choice
from pets.core.allocator import Allocator
from pets.core.budget import Budget, whole_traces
from pets.core.money import Currency
from pets.engine import Engine, restored, results
from pets.engine.assemble import assemble
from pets.engine.resume import OpenedRun, lost_traces, rebudgeted, take_up
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.errors import BudgetError, BusyError, InputError, RefusedError, StateError, UnreachableError
from pets.mock import MockModel, running, synthetic
from pets.policies.uniform import Uniform
from pets.questions import write_questions
from pets.samplers.openai import OpenAISampler
from pets.store import Launch, LostLaunch, RunRecord, Store, StoredTrace
from pets.store.records import LOST
from pets.types import Question

from ..waiting import PATIENCE_S, until, wait_until
from .conftest import Scripted, asked
from .test_run import by_seed


def run_to_end(engine):
    async def run():
        async with engine:
            solution = await engine.run()
            return solution, list(engine.answers())

    return asyncio.run(run())


def refuse(prompt, seed):
    raise RefusedError("no such model", status=404)


def test_a_stored_run_gives_the_same_answers_when_read_again(tmp_path):
    path = tmp_path / "runs.db"
    engine = Engine(asked("abcd"), sampler=Scripted(by_seed), budget="5x", store=path)
    solution, answers = run_to_end(engine)
    assert solution.run == 1 and solution.complete
    with Store.open(path) as store:
        view = store.view(1)
        assert [answer.to_plain() for answer in answers] == [
            answer.to_plain() for answer in results(view, restored(view))
        ]
        assert store.runs()[0].state == "finished" and store.runs()[0].traces == 20


def test_every_launch_is_durable_before_it_is_sent_and_every_trace_before_it_counts(tmp_path):
    path = tmp_path / "runs.db"
    engine = Engine(asked("abcd"), sampler=(sampler := Scripted(by_seed)), budget="5x", store=path, concurrency=4)
    seen = []

    def answer(prompt, seed):
        with Store.open(path) as store:
            view = store.view(1)
            launched = len(list(view.lost())) + sum(1 for _ in view.traces())
            seen.append(launched >= sum(sampler.seeds.values()) + 1 and view.summary().traces >= engine.allocator.told)
        return by_seed(prompt, seed)

    sampler.answer = answer
    run_to_end(engine)
    assert len(seen) == 20 and all(seen)


@pytest.mark.timeout(60)
def test_a_trace_whose_reading_took_too_long_is_kept_and_read_when_the_run_goes_on(tmp_path, monkeypatch):
    path, extract = tmp_path / "runs.db", Choice.extract

    def endless(kind, text):
        while True:
            pass

    monkeypatch.setattr(Choice, "reads_at_once", False)
    monkeypatch.setattr(Choice, "reading_seconds", 0.02)
    monkeypatch.setattr(Choice, "extract", endless)
    solution, answers = run_to_end(Engine(asked("a"), sampler=Scripted(), budget=4, store=path, keep_going=True))
    assert solution.spent == 4 and answers[0].answer is None and answers[0].unreadable == 4
    monkeypatch.setattr(Choice, "extract", extract)
    monkeypatch.setattr(Choice, "reading_seconds", 10.0)
    solution, answers = run_to_end(Engine.resume(path, sampler=Scripted(), budget="+1"))
    assert solution.spent == 5 and answers[0].votes == {"A": 5} and answers[0].unreadable == 0
    with Store.open(path) as store:
        assert [(trace.answer, trace.finish) for trace in store.view(1).traces()] == [("A", "stop")] * 5


def test_stopped_at_once_what_was_in_flight_is_charged_and_told(tmp_path):
    path = tmp_path / "runs.db"
    sampler = Scripted(by_seed)

    async def stop():
        async with Engine(asked("abc"), sampler=sampler, budget=90, store=path, concurrency=5) as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: sum(sampler.seeds.values()) >= 10, task)
            sampler.gate = asyncio.Event()
            await until(lambda: sampler.in_flight >= 5, task)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(stop())
    sampler.gate = None
    solution, answers = run_to_end(Engine.resume(path, sampler=sampler))
    assert solution.spent == 90 and 1 <= solution.lost <= 5
    assert sum(answer.traces for answer in answers) == 90
    assert solution.failed == solution.lost
    again, _ = run_to_end(Engine.resume(path, sampler=sampler))
    assert again.spent == 90 and again.lost == solution.lost


def test_a_top_up_goes_on_and_samples_nothing_twice(tmp_path):
    path = tmp_path / "runs.db"
    sampler = Scripted(by_seed)
    run_to_end(Engine(asked("abc"), sampler=sampler, budget="2x", store=path))
    solution, _ = run_to_end(Engine.resume(path, sampler=sampler, budget="+12"))
    assert solution.spent == solution.total == 18
    assert len(sampler.seeds) == 18 and set(sampler.seeds.values()) == {1}
    with pytest.raises(ValueError, match="counts traces"):
        Engine.resume(path, sampler=sampler, budget="+1Mtok")


@pytest.mark.parametrize("options", [{"budget": "+8"}, {"keep_going": True}], ids=str)
def test_a_refused_top_up_changes_nothing_and_lets_go_of_the_run(tmp_path, options):
    path = tmp_path / "runs.db"
    run_to_end(Engine(asked("abcd"), sampler=Scripted(by_seed), budget="8x", policy="uniform", store=path))
    with Store.open(path) as store:
        before = store.runs()
    for _ in range(2):  # not held by the first
        with pytest.raises(InputError, match="can only raise that"):
            Engine.resume(path, sampler=Scripted(by_seed), max_traces=3, **options)
    with Store.open(path) as store:
        assert store.runs() == before and before[0].state == "finished"
        store.open_run(1).close()


def test_a_run_that_nobody_answered_keeps_its_whole_budget(tmp_path):
    path = tmp_path / "runs.db"
    dead = OpenAISampler("http://127.0.0.1:9/v1", "m", loopback=True)
    with pytest.raises(BusyError, match="cannot be reached"):
        run_to_end(Engine(asked("ab"), sampler=dead, budget="3x", store=path))
    solution, _ = run_to_end(Engine.resume(path, sampler=Scripted(by_seed)))
    assert solution.spent == 6 and solution.lost == solution.failed == 0


def test_refused_questions_do_not_end_a_run_that_had_traces_before(tmp_path):
    path = tmp_path / "runs.db"

    def refuse(prompt, seed):
        if str(prompt.content[-1].content)[-1] in "abc":
            raise RefusedError("this prompt is too long", status=400)
        return by_seed(prompt, seed)

    run_to_end(
        Engine(asked("xabc"), sampler=Scripted(refuse), budget="1x", concurrency=1, policy="uniform", store=path)
    )
    solution, answers = run_to_end(Engine.resume(path, sampler=Scripted(refuse), budget="+4"))
    assert solution.spent > 4 and answers[0].traces == solution.spent
    assert all("too long" in answer.error for answer in answers[1:])


def test_a_run_is_held_by_one_process(tmp_path):
    path = tmp_path / "runs.db"
    engine = Engine(asked("ab"), sampler=Scripted(by_seed), budget="2x", store=path)

    async def twice():
        async with engine:
            await engine.run()
            with pytest.raises(StateError):
                Engine.resume(path, sampler=Scripted(by_seed))

    asyncio.run(twice())


@pytest.mark.slow
def test_killed_and_resumed_every_trace_is_there_once(tmp_path):
    book = synthetic(12, strength=0.3)
    path, questions = tmp_path / "runs.db", tmp_path / "questions.jsonl"
    with questions.open("w") as file:
        write_questions(asked(book.ids()), file)
    mock = MockModel(book, tokens_per_second=400)
    with running(mock) as url:
        flags = ["--endpoint", url, "--model", "mock", "--budget", "10x", "--concurrency", "8", "--store", str(path)]
        command = [sys.executable, "-c", "from pets.cli.main import main; main()", "solve", str(questions), *flags]
        child = subprocess.Popen([*command, "-o", str(tmp_path / "out.jsonl")])
        wait_until(lambda: mock.stats.traces >= 20 or child.poll() is not None)
        assert child.poll() is None, "it ended by itself"
        child.kill()
        child.wait(PATIENCE_S)
        sampler = OpenAISampler(url, "mock", loopback=True)
        solution, answers = run_to_end(Engine.resume(path, sampler=sampler))
    assert solution.spent == solution.total == 120
    assert solution.lost <= 8
    with Store.open(path) as store:
        view = store.view()
        traces = list(view.traces())
        assert len({trace.launch for trace in traces}) == len(traces) and not list(view.lost())
        parts = whole_traces(sum(trace.part or 0 for trace in traces))
        assert parts + sum(trace.part is None for trace in traces) == 120
        replayed = restored(view)
        for answer in answers:
            votes = Counter(t.answer for t in traces if t.question == answer.id and t.answer is not None)
            assert answer.votes == dict(votes)
            assert replayed.verdict(answer.id).answer == answer.answer


def test_the_same_questions_model_and_options_go_on_with_the_run_of_the_store(tmp_path):
    path, sampler = tmp_path / "runs.db", Scripted(by_seed)

    def engine(questions="abcd", **options):
        options = {"model": "scripted", "budget": "5x", "concurrency": 2, **options}
        return Engine(asked(questions), sampler=sampler, store=path, **options)

    async def stopped():
        async with engine() as first:
            sampler.gate = asyncio.Event()
            task = asyncio.create_task(first.run())
            await until(lambda: sampler.in_flight >= 2, task)
            first.drain()
            sampler.gate.set()
            await task
            sampler.gate = None
            return first.origin, first.stored_run.id

    assert asyncio.run(stopped()) == ("new", 1)
    on = engine(concurrency=4)
    assert (on.origin, on.spec.pacing.concurrency, on.stored_run.id) == ("unfinished", 4, 1)
    _, answers = run_to_end(on)
    assert sum(sampler.seeds.values()) == 20
    over = engine()
    assert over.origin == "finished"
    assert run_to_end(over)[1] == answers and sum(sampler.seeds.values()) == 20
    engine(keep_going=True).close()
    with Store.open(path) as store:
        assert store.runs()[0].state == "finished"
    changes = ({"seed": 1}, {"temperature": 0.5}, {"policy": "uniform"}, {"model": "other"}, {"new": True})
    for others in ({"questions": "abc"}, *changes):
        another = engine(**others)
        another.close()
        assert another.origin == "new"
    more = engine(budget="6x")
    assert more.origin == "new"
    solution, _ = run_to_end(more)
    assert solution.traces == 24 and sum(sampler.seeds.values()) == 20 + 24 - solution.reused[1]


def test_a_sampler_that_no_name_tells_from_another_begins_a_run_of_its_own(tmp_path):
    for answer in "AB":
        sampler = Scripted(lambda prompt, seed, answer=answer: f"The answer is {answer}.")
        engine = Engine(asked("ab"), sampler=sampler, budget="2x", store=tmp_path / "runs.db")
        assert engine.origin == "new" and not engine.repeatable
        assert {row.answer for row in run_to_end(engine)[1]} == {answer}


def test_a_sampler_is_told_from_another_by_its_spec(tmp_path):
    origins = []
    for port in (9, 9, 8):
        spec = f"openai:url=http://127.0.0.1:{port}/v1,model=m"
        engine = Engine(asked("ab"), sampler=spec, budget="2x", store=tmp_path / "runs.db", tries=1)
        origins.append(engine.origin)
        with pytest.raises(UnreachableError):
            run_to_end(engine)
    assert origins == ["new", "unfinished", "new"]


def test_a_run_that_paid_for_nothing_leaves_nothing_to_reuse(tmp_path):
    path, limits = tmp_path / "runs.db", {"model": "scripted", "max_tokens": 2000}
    with pytest.raises(BudgetError, match="does not pay for one trace"):
        run_to_end(Engine(asked("a"), sampler=Scripted(), budget="500tok", store=path, **limits))
    with Store.open(path) as store:
        assert not store.runs()
    with pytest.raises(RefusedError):
        run_to_end(Engine(asked("a"), sampler=Scripted(refuse), budget="30ktok", store=path, **limits))
    engine = Engine(asked("a"), sampler=Scripted(), budget="40ktok", store=path, **limits)
    assert engine.origin == "new" and run_to_end(engine)[0].traces


def test_a_run_whose_prompts_were_deleted_is_begun_anew(tmp_path):
    path = tmp_path / "runs.db"
    run_to_end(Engine(asked("ab"), sampler=Scripted(by_seed), model="m", budget="2x", store=path))
    with Store.open(path) as store:
        store.delete(1, texts=True)
    engine = Engine(asked("ab"), sampler=Scripted(by_seed), model="m", budget="2x", store=path)
    assert engine.origin == "new"
    engine.close()


@pytest.mark.parametrize(("output", "tokens", "prompt_tokens"), [(40, 100, 0), (0, 0, 10)])
def test_a_launch_that_never_came_back_costs_what_was_held_in_about_as_many_tokens(output, tokens, prompt_tokens):
    currency = Currency.money(1, output, prompt_tokens=10, max_tokens=100)
    (trace,) = lost_traces([LostLaunch("q", 0, currency.hold)], currency)
    assert (trace.tokens, trace.prompt_tokens) == (tokens, prompt_tokens)
    assert 0 <= currency.hold - currency.cost(trace) < 40_000_000  # picodollars: one token


@pytest.mark.parametrize(
    ("text", "words"), [("+1Mtok", "counts traces"), ("20", "Write \\+20"), ("=50", "has spent 60 traces")]
)
def test_another_budget_is_in_the_runs_currency_and_pays_for_what_was_spent(text, words):
    assert rebudgeted(RunRecord(100), "=7x", questions=10, spent=60).total == 70
    with pytest.raises(BudgetError, match=words):
        rebudgeted(RunRecord(100), text, questions=10, spent=60)


SPEC = RunSpec.of(policy="uniform", budget="4x")


def broken_off(store, problems):
    run = store.create(RunRecord(8, spec=SPEC.to_plain()), problems)
    run.write([Launch("a", 0), Launch("a", 1), Launch("b", 0)], [])
    run.write([], [StoredTrace("a", 0, "A", "The answer is A.", "stop", tokens=3)])
    return run


def taken_up(store, run, problems, counted):
    """A driver that took in the run, and the launches that it awaits."""
    allocator = Allocator(Uniform(), Budget(8), [Question(problem.id, options=4) for problem in problems])
    sources, awaited = Sources([Scripted()]), []
    opened = OpenedRun.stored(store, run, SPEC, run.settings, sources)

    def past(wiring):
        awaited.extend(take_up(opened, wiring, on_trace=counted.append))
        return awaited

    return assemble(SPEC, allocator, sources, problems, past=past), awaited


def test_a_launch_that_never_came_back_is_charged_once(tmp_path):
    with Store.open(tmp_path / "runs.db") as store, broken_off(store, asked("ab")) as run:
        for _ in range(2):
            taken_up(store, run, asked("ab"), [])
            assert [(trace.launch, trace.error) for trace in run.traces() if trace.error] == [
                (Launch("a", 1), LOST),
                (Launch("b", 0), LOST),
            ]
        assert run.summary().spent == 3


def test_a_driver_takes_in_all_that_was_paid_for(tmp_path):
    counted = []
    with Store.open(tmp_path / "runs.db") as store, broken_off(store, asked("ab")) as run:
        driver, awaited = taken_up(store, run, asked("ab"), counted)
    assert driver.allocator.told == len(counted) == 3 and driver.allocator.budget.spent == 3
    assert driver.allocator.tally("a").counts == (1,) and not awaited
