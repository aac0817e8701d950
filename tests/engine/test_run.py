"""The run itself: budgets, targets, concurrency, launch order."""

import asyncio
import json
import subprocess
import sys
import threading
from dataclasses import dataclass

import httpx
import pytest

from pets.answers.base import AnswerType
from pets.confidence import Confidence
from pets.engine import Engine, TokenPrice
from pets.engine.resume import restored, results
from pets.errors import BudgetError, BusyError, InputError, RefusedError, UnreachableError
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.samplers import Completion, Prompt, Sampler
from pets.samplers.openai import OpenAISampler
from pets.store import Store

from ..network import answered_by
from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S, until
from .conftest import Scripted, asked, solve


def by_seed(prompt, seed):
    return "The answer is " + "AAAB"[seed % 4] + "."


def test_concurrency_is_kept_and_used():
    sampler = Scripted(by_seed)

    async def run():
        sampler.gate = asyncio.Event()
        questions = asked([f"q{i}" for i in range(40)])
        async with Engine(questions, sampler=sampler, budget="8x", concurrency=4, keep_going=True) as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: sampler.in_flight >= 4, task)
            assert engine.snapshot().in_flight == engine.pace.concurrency == 4
            sampler.gate.set()
            return await task

    assert asyncio.run(run()).spent == 320
    assert sampler.widest == 4


def test_a_question_that_is_a_text_alone_is_asked_with_an_instruction_and_resumed_with_it(tmp_path):
    prompts, store = set(), tmp_path / "runs.db"

    def answer(prompt, seed):
        prompts.add(prompt)
        return "The answer is 4."

    questions = ["2 + 2?", Problem("own", Prompt.chat("Add 2 and 2."))]
    solve(questions, sampler=Scripted(answer), budget="2x", answer="number", store=store)
    instruction = make_answer_type("number").instruction
    expected = {Prompt.chat(f"2 + 2?\n\n{instruction}"), Prompt.chat("Add 2 and 2.")}
    assert prompts == expected
    prompts.clear()

    async def go_on():
        async with Engine.resume(store, sampler=Scripted(answer), budget="+4x") as engine:
            await engine.run()

    asyncio.run(go_on())
    assert prompts == expected
    prompts.clear()
    solve(questions, sampler=Scripted(answer), budget="2x", instruct=False)
    assert prompts == {Prompt.chat("2 + 2?"), Prompt.chat("Add 2 and 2.")}


def numbers(prompt, seed):
    return "I am not sure." if seed % 7 == 0 else f"It is easy. The answer is {4 + (seed % 5 == 0)}.0"


def test_without_a_type_the_first_traces_choose_one_and_the_run_keeps_it(tmp_path):
    """Each question its own. Those that name a type, or list options, are read by these."""
    store = tmp_path / "runs.db"
    own = Problem("own", Prompt.chat("2 + 2 in words?"), "text")
    options = Problem("options", Prompt.question("2 + 2?\nA) 4\nB) 5"), "auto")
    questions = [*[Problem(f"q{i}", Prompt.question("2 + 2?"), "auto") for i in range(8)], own, options]
    questions.append(Problem("who", Prompt.question("Who?"), "auto"))

    def answer(prompt, seed):
        text = prompt.content[-1].content
        other = "The answer is A." if "B) 5" in text else "It was Ann." if "Who" in text else None
        other = "The answer is Paris." if "words" in text else other
        return other or numbers(prompt, seed)

    async def run(engine):
        async with engine:
            await engine.run()
            return {row.id: row for row in engine.answers()}

    first = asyncio.run(run(Engine(questions, sampler=Scripted(answer), budget="10x", store=store)))
    kinds = {id: row.read_as for id, row in first.items()}
    assert kinds == {**{f"q{i}": "number" for i in range(8)}, "own": None, "options": "choice", "who": "text"}
    assert all(set(first[f"q{i}"].votes) <= {"4.0", "5.0"} for i in range(8)) and first["options"].answer == "A"
    assert (first["own"].answer, first["own"].canonical) == ("Paris", "paris")
    again = asyncio.run(run(Engine.resume(store, sampler=Scripted(answer), budget="+2x")))
    assert all(set(again[f"q{i}"].votes) <= {"4.0", "5.0"} for i in range(8))
    assert kinds == {id: row.read_as for id, row in again.items()}
    assert sum(row.traces for row in again.values()) == 132
    with Store.open(store) as opened:
        chosen = {problem.id: problem.answer_type for problem in opened.view(1).problems()}
    assert (chosen["q0"], chosen["who"], chosen["own"]) == ("auto:type=number", "auto:type=text", "text")


def test_keep_going_chooses_a_type_too():
    solution = solve(["2 + 2?"] * 4, sampler=Scripted(numbers), budget="8x", keep_going=True)
    assert all(set(row.votes) <= {"4.0", "5.0"} for row in solution.answers)


def test_what_no_type_fits_is_text():
    solution = solve(["Where?"] * 4, sampler=Scripted(lambda prompt, seed: "The answer is Paris."), budget="8x")
    assert {(row.answer, row.canonical) for row in solution.answers} == {("Paris", "paris")}


@dataclass(frozen=True, slots=True)
class OwnCode(AnswerType):
    runs_code = True

    def canonical(self, answer):
        return answer

    def extract(self, text):
        return threading.current_thread().name


def test_code_of_the_users_own_runs_outside_the_event_loop():
    solution = solve(asked(["q"]), sampler=Scripted(by_seed), budget=4, answer=OwnCode())
    assert "MainThread" not in solution.answers[0].votes and sum(solution.answers[0].votes.values()) == 4


def test_drain_brings_home_what_is_in_flight_and_run_goes_on_later():
    sampler = Scripted(by_seed)

    async def run():
        async with Engine(asked(["a", "b", "c"]), sampler=sampler, budget=60, concurrency=6) as engine:
            sampler.gate = asyncio.Event()
            task = asyncio.create_task(engine.run())
            await until(lambda: sampler.in_flight >= 6, task)
            engine.drain()
            sampler.gate.set()
            first = await task
            assert not first.complete and first.spent == 6 and engine.allocator.budget.reserved == 0
            return await engine.run()

    assert asyncio.run(run()).spent == 60
    assert len(sampler.seeds) == 60


def test_the_target_ends_the_run_early():
    sampler = Scripted()
    solution = solve(asked([f"q{i}" for i in range(30)]), sampler=sampler, budget="64x", target_consistency=0.9)
    assert solution.complete and solution.spent < 64 * 30 / 4
    assert solution.consistency[0] >= 0.9


def test_an_answer_comes_with_votes_tokens_cost_and_its_best_trace():
    class Sure(Scripted):
        async def sample(self, prompt, n, seed, sampling):
            found = await super().sample(prompt, n, seed, sampling)
            return [
                Completion(f"{one.text} ({seed + at})", one.finish, 100, 10, Confidence(1, seed + at, 1, 1, 100))
                for at, one in enumerate(found)
            ]

    sampler = Sure(lambda prompt, seed: "The answer is A because")
    solution = solve(
        asked(["q"]), sampler=sampler, budget=6, price=TokenPrice(1.0, 2.0), confidence="tail", concurrency=2, model="m"
    )
    (answer,) = solution.answers
    assert answer.votes == {"A": 6} and answer.tokens == 600 and answer.traces == 6
    assert answer.text.endswith(f"({max(sampler.seeds)})")
    assert answer.cost == pytest.approx((answer.prompt_tokens + 2 * 600) / 1e6)
    assert solution.cost == pytest.approx(answer.cost)


def test_a_budget_under_one_trace_a_question_is_refused():
    with pytest.raises(BudgetError, match="a budget of 1 trace leaves some of 3 questions without one"):
        solve(asked(["a", "b", "c"]), sampler=Scripted(), budget=1)


def test_an_unknown_option_is_named():
    with pytest.raises(InputError, match="there is no option 'temprature'"):
        solve(asked(["a"]), sampler=Scripted(), temprature=1)


@pytest.mark.parametrize(("budget", "price"), [("40ktok", None), ("0.04usd", TokenPrice(1.0, 1.0))])
def test_tokens_and_money_are_met_without_throttling_to_the_worst_case(budget, price):
    rising = {}

    class Long(Sampler):
        in_flight = widest = 0

        async def sample(self, prompt, n, seed, sampling):
            self.in_flight += n
            self.widest = max(self.widest, self.in_flight)
            await asyncio.sleep(0)
            self.in_flight -= n
            tokens = rising[seed] = 50 + seed % 101
            return [Completion(f"The answer is {'AB'[seed % 2]}.", "stop", tokens, 20)] * n  # never settled

    sampler = Long()
    solution = solve(
        asked([f"q{i}" for i in range(20)]), sampler=sampler, budget=budget, price=price, max_tokens=2000,
        concurrency=32, max_traces=None,
    )  # fmt: skip
    assert 0.95 * solution.total < solution.spent <= 1.1 * solution.total
    assert sampler.widest == 32  # of which 19 at the worst would have filled the budget


@pytest.mark.parametrize("usage", [None, {}, {"completion_tokens": 0}, {"completion_tokens": 2**53}, "late"])
@pytest.mark.parametrize("concurrency", [16, 400])
def test_what_a_server_claims_costs_no_more_than_the_longest_traces_and_silence_is_not_free(usage, concurrency):
    sizes, max_tokens = [], 300

    def reply(request):
        body = json.loads(request.content)
        sizes.append(body["max_tokens"])
        message = {"content": f"The answer is {'AAB'[len(sizes) % 3]}.", "reasoning": "hmm " * 200}  # never settled
        claim = {"completion_tokens": 110 if len(sizes) < 200 else 2**53} if usage == "late" else usage
        return httpx.Response(200, json={"choices": [{"message": message, "finish_reason": "stop"}], "usage": claim})

    sampler, price = OpenAISampler("http://up/v1", "m"), TokenPrice(1.0, 1.0)
    with answered_by(reply):
        solution = solve(
            asked([f"q{i}" for i in range(20)]), sampler=sampler, budget="0.05usd", price=price, max_tokens=max_tokens,
            concurrency=concurrency, max_traces=None,
        )  # fmt: skip
    worst = 10**6 * (max_tokens + 200)
    assert set(sizes) == {max_tokens} and solution.traces == len(sizes)
    assert 0.5 * solution.total < solution.spent <= 1.1 * solution.total + concurrency * worst
    assert solution.spent <= len(sizes) * worst
    told = usage not in (None, {}, {"completion_tokens": 0})
    assert bool(solution.faults.get("usage over the limit")) == told
    if not told:
        assert solution.faults["tokens estimated"] == solution.traces and solution.tokens >= 200 * solution.traces


def test_a_budget_that_cannot_pay_for_one_trace_is_refused():
    with pytest.raises(BudgetError, match="does not pay for one trace"):
        solve(asked(["q"]), sampler=Scripted(), budget="500tok", max_tokens=2000)


def test_drained_while_nobody_is_there_it_ends_at_once_and_can_be_resumed(tmp_path):
    gone, store = threading.Event(), tmp_path / "runs.db"

    def answer(prompt, seed):
        if gone.is_set():
            raise UnreachableError("nobody is there.")
        return f"The answer is {'AB'[seed % 2]}."  # never settled

    flaky = Scripted(answer)

    async def run():
        engine = Engine(
            asked(["a", "b"]),
            sampler=flaky,
            budget=100,
            concurrency=8,
            store=store,
            on_trace=lambda trace: gone.set() if engine.allocator.told >= 20 else None,
        )
        async with engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: engine.begun and engine.snapshot(look=False).faults.get("unreachable"), task)
            engine.drain()
            async with asyncio.timeout(PATIENCE_S):
                await task

    with pytest.raises(UnreachableError, match="nobody is there"):
        asyncio.run(run())
    gone.clear()
    engine = Engine.resume(store, sampler=Scripted(by_seed))
    solution, _ = run_to_the_end(engine)
    assert solution.spent == 100 and solution.lost == 0  # nothing of it was ever sent


@pytest.mark.parametrize("stored", [False, True])
def test_drained_while_servers_answer_with_errors_alone_nothing_is_asked_again_and_nothing_charged(tmp_path, stored):
    well, store = False, tmp_path / "runs.db" if stored else None

    def answer(prompt, seed):
        if not well:
            raise BusyError("the server says 500.", status=500)
        return by_seed(prompt, seed)

    sampler = Scripted(answer)

    async def run():
        nonlocal well
        clock = asyncio.get_running_loop().time
        async with Engine(asked(["a", "b"]), sampler=sampler, budget=40, concurrency=8, store=store) as engine:
            task = asyncio.create_task(engine.run())
            while sampler.requests < 8 or sampler.in_flight:
                await asyncio.sleep(0.1)
            requests, drained_at = sampler.requests, clock()
            engine.drain()
            solution = await task
            assert sampler.requests == requests and (stored or clock() == drained_at)  # a store takes real time
            assert not solution.complete and solution.spent == 0
            assert not any("given up" in name for name in solution.faults)
            assert engine.allocator.budget.reserved == 0
            well = True
            if not stored:
                return await engine.run()
        async with Engine.resume(store, sampler=sampler) as engine:
            return await engine.run()

    solution = run_simulated(run(), thread_s=lambda: 0.01)  # else the clock may outrun the store
    assert solution.complete and solution.spent == 40 and solution.lost == 0


def test_a_drained_run_waits_for_what_is_in_flight_and_keeps_the_charge_of_attempts_that_were_lost(tmp_path):
    class Losing(Sampler):
        requests = 0

        async def sample(self, prompt, n, seed, sampling):
            self.requests += 1
            await asyncio.sleep(10)
            raise BusyError("no answer in time.")

    async def run():
        sampler = Losing()
        async with Engine(asked(["a"]), sampler=sampler, budget=8, concurrency=1, store=tmp_path / "runs.db") as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: sampler.requests, task)
            engine.drain()
            solution = await task
            return sampler.requests, solution.spent, solution.failed, engine.allocator.budget.reserved

    assert run_simulated(run()) == (1, 1, 1, 0)


@pytest.mark.parametrize(("seconds", "abandoned"), [(0.5, 2), (1.01, 0)])
def test_broken_off_a_run_tells_how_many_traces_were_in_flight(seconds, abandoned):
    class Slow(Sampler):
        async def sample(self, prompt, n, seed, sampling):
            await asyncio.sleep(1)
            raise BusyError("the server says 500.", status=500)

    async def run():
        async with Engine(asked(["a", "b"]), sampler=Slow(), budget=2, policy="uniform") as engine:
            task = asyncio.create_task(engine.run())
            await asyncio.sleep(seconds)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return engine.traces_abandoned

    assert run_simulated(run()) == abandoned


def test_formulas_that_turn_out_to_be_one_answer_vote_together():
    said = [r"\boxed{x+1}", r"\boxed{1+x}", r"\boxed{7}", r"\boxed{7}", r"\boxed{x + 1}"]
    problem = Problem("f", Prompt("Simplify."), "math")
    (answer,) = solve([problem], sampler=Scripted(lambda prompt, seed: said[seed % 4096]), budget=5).answers
    assert answer.answer == "x+1" and list(answer.votes.values()) == [3, 2]


@dataclass(frozen=True, slots=True)
class Near(AnswerType):
    """Whole numbers; neighbours are one answer, so that 2 makes one class of 1 and 3."""

    def canonical(self, answer):
        return answer if answer.isdigit() else None

    def same(self, one, other):
        return abs(int(one) - int(other)) <= 1


@pytest.fixture
def near(monkeypatch):
    monkeypatch.setattr("pets.engine.question.cached_answer_type", lambda spec: Near())


def run_to_the_end(engine):
    async def run():
        async with engine:
            solution = await engine.run()
            return solution, list(engine.answers())

    return asyncio.run(run())


def test_classes_that_become_one_late_are_one_to_the_policy_too(near):
    said = ["1", "3", "9", "9", "2"]
    sampler = Scripted(lambda prompt, seed: said[seed % 4096])
    engine = Engine([Problem("f", Prompt("?"), "math")], sampler=sampler, budget=5, concurrency=1)
    _, (answer,) = run_to_the_end(engine)
    assert engine.allocator.tally("f").counts == (3, 2)
    assert (answer.answer, answer.votes) == ("1", {"1": 3, "9": 2})


def test_a_resumed_run_knows_the_classes_of_what_it_has(near, tmp_path):
    said, store = ["1", "3", "9", "9", "2", "3"], tmp_path / "runs.db"
    sampler = Scripted(lambda prompt, seed: said[seed % 4096])
    problem = Problem("f", Prompt("?"), "math")
    solution, _ = run_to_the_end(Engine([problem], sampler=sampler, budget=5, concurrency=1, store=store))
    engine = Engine.resume(store, solution.run, sampler=sampler, budget="+1")
    _, (answer,) = run_to_the_end(engine)
    assert engine.allocator.verdict("f").votes == (("1", 4.0), ("9", 2.0))
    assert (answer.canonical, answer.votes) == ("1", {"3": 4, "9": 2})


def test_a_system_message_and_an_answer_type_for_all():
    seen = []
    sampler = Scripted(lambda prompt, seed: seen.append(prompt) or "So it is 12.")
    (answer,) = solve(["How many?"], sampler=sampler, budget=1, system="Be brief.", answer="number").answers
    assert answer.answer == "12" and [one.role for one in seen[0].content] == ["system", "user"]


def raise_(error):
    raise error


def test_a_bad_key_ends_the_run_with_the_servers_words(serve):
    _, _, problems, sampler = serve(3, api_key="secret")
    with pytest.raises(RefusedError, match="401: Incorrect API key"):
        solve(problems, sampler=sampler)


def test_no_such_model_ends_the_run(serve):
    _, url, problems, _ = serve(3)
    with pytest.raises(RefusedError, match="404"):
        solve(problems, sampler=OpenAISampler(url, "no-such-model", loopback=True))


def test_nobody_at_the_address_ends_the_run():
    with pytest.raises(UnreachableError, match="cannot be reached"):
        solve(asked(["q"]), sampler=OpenAISampler("http://127.0.0.1:9/v1", "m", loopback=True))


def test_of_two_endpoints_one_of_which_is_dead_the_other_does_the_work(serve):
    mock, _, problems, sampler = serve(10)
    dead = OpenAISampler("http://127.0.0.1:9/v1", "mock", loopback=True)
    solution = solve(problems, sampler=[dead, sampler], budget="3x", concurrency=8, backoff=0.0)
    assert solution.spent == mock.stats.traces == 30 and solution.failed == 0
    assert 0 < solution.faults["unreachable"] <= 16


def test_a_question_that_is_refused_does_not_end_the_run():
    sampler = Scripted(
        lambda prompt, seed: raise_(RefusedError("too long", status=400)) if "q2" in str(prompt) else "C"
    )
    solution = solve(asked(["q1", "q2", "q3"]), sampler=sampler, budget="4x")
    assert [answer.answer for answer in solution.answers] == ["C", None, "C"] and solution.spent == 12


def test_inside_a_loop_the_main_threads_interrupt_stops_the_run_and_keeps_its_store(tmp_path):
    code = f"""
import asyncio, os, signal, threading
from pets import solve
from pets.samplers import Completion, Sampler

class Slow(Sampler):
    async def sample(self, prompt, n, seed, sampling):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        await asyncio.sleep(600)

async def cell():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook's kernel does
    try:
        solve(["2 + 2?"], sampler=Slow(), budget=1, store={str(tmp_path / "runs.db")!r})
    except KeyboardInterrupt:
        print("stopped", [thread.name for thread in threading.enumerate() if thread.name == "pets-run"])

asyncio.run(cell())
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert result.stdout == "stopped []\n"
    with Store.open(tmp_path / "runs.db") as store:
        assert store.runs()[0].state == "stopped" and store.runs()[0].lost == 1


def test_a_resumed_run_has_the_waves_that_are_left_and_a_top_up_as_many_again(tmp_path):
    store, ids = tmp_path / "runs.db", [f"q{i}" for i in range(6)]

    def waves_of(**options):
        async def run():
            waves = []
            engine = Engine.resume(
                store,
                sampler=Scripted(by_seed),
                on_trace=lambda trace: waves.append(engine.allocator.wave),
                **options,
            )
            async with engine:
                solution = await engine.run()
            return waves, solution.spent

        return asyncio.run(run())

    async def broken_off():
        sampler, traces = Scripted(by_seed), []
        options = {"budget": "6x", "policy": "okg:waves=3", "store": store, "on_trace": traces.append}
        async with Engine(asked(ids), sampler=sampler, **options) as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: engine.begun and engine.allocator.wave == 1, task)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return len(traces)

    assert asyncio.run(broken_off()) < 36
    waves, spent = waves_of()
    assert spent == 36 and set(waves) == {1, 2}
    waves, spent = waves_of(budget="+36")
    assert spent == 72 and set(waves) == {0, 1, 2}


@pytest.mark.parametrize("policy", ["okg", "asc:cap=8", "uniform"])
@pytest.mark.parametrize("stored", [False, True])
def test_rows_are_complete_where_the_policy_had_all_that_it_wanted(tmp_path, policy, stored):
    sampler, ids = Scripted(by_seed), ["a", "b", "c"]
    store = tmp_path / "runs.db" if stored else None

    async def run():
        engine = Engine(asked(ids), sampler=sampler, model="m", budget=30, concurrency=3, policy=policy, store=store)
        async with engine:
            sampler.gate = asyncio.Event()
            task = asyncio.create_task(engine.run())
            await until(lambda: sampler.in_flight >= 3, task)
            engine.drain()
            sampler.gate.set()
            assert not (await task).complete
            early = [answer.complete for answer in engine.answers()]
            assert (await engine.run()).complete
            return early, [answer.complete for answer in engine.answers()]

    early, late = asyncio.run(run())
    assert not any(early) and all(late)
    if stored:
        with Store.open(store) as opened:
            view = opened.view("last")
            assert all(answer.complete for answer in results(view, restored(view)))


def test_a_question_that_the_budget_left_wanting_is_not_complete():
    solution = solve(asked(["a", "b"]), sampler=Scripted(by_seed), budget=8, policy="lead:votes=9", concurrency=1)
    assert solution.complete and not any(answer.complete for answer in solution.answers)
