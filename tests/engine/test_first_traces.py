"""A run's first traces: a bad start ends it early, a good one costs no wait."""

import asyncio

import pytest

from pets.core.budget import Budget
from pets.core.money import Currency
from pets.engine import Engine, RunSpec
from pets.engine.pacing import FirstTraces
from pets.engine.sources import Servers
from pets.engine.stream import Stream
from pets.errors import BusyError, FirstTracesError
from pets.policies.uniform import Uniform
from pets.samplers import Completion, Sampler
from pets.store import Store

from ..simulated_time import run_simulated
from ..streams import make_stream, stream_settings
from ..waiting import until
from .conftest import Scripted, asked, solve

READ, CUT = Completion("The answer is A.", "stop", 10, 5), Completion("Let me think", "length", 1024, 5)
REFUSED, UNREADABLE = Completion("", "content_filter", 1, 5), Completion("Who knows?", "stop", 10, 5)
TWENTY = asked([f"q{i}" for i in range(20)])


class Model(Sampler):
    """Request k (from 0) gives ``completion(k)`` for each of its traces after ``seconds(k)``."""

    def __init__(self, completion=lambda request: READ, seconds=lambda request: 1.0):
        self.completion, self.seconds, self.requests, self.traces = completion, seconds, [], 0

    async def sample(self, prompt, n, seed, sampling):
        request = len(self.requests)
        self.requests.append(asyncio.get_running_loop().time())
        self.traces += n
        await asyncio.sleep(self.seconds(request))
        return [self.completion(request)] * n


async def spend(problems, sampler, **options):
    async with Engine(problems, sampler=sampler, **options) as engine:
        return await engine.run()


def test_a_tenth_of_the_budget_but_neither_more_than_twenty_nor_less_than_three():
    assert [FirstTraces.of(Budget(total)).size for total in (10_000, 160, 30, 9, 1)] == [20, 16, 3, 3, 3]
    assert FirstTraces.of(Budget(100_000, currency=Currency.tokens(1000))).size == 10
    assert FirstTraces.of(Budget.per_window(100, 1600)).size == 20


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        (CUT, "16 of 16 traces were cut at 1,024 tokens: raise --max-tokens, or go on as it is with --keep-going."),
        (REFUSED, "16 of 16 traces were refused by the server's content filter: ask another model"),
        (UNREADABLE, "16 of 16 traces hold no answer that `choice:options=4` can read: choose how answers are read"),
    ],
)
def test_a_bad_start_spends_a_tenth_and_says_why(completion, words):
    model = Model(lambda request: completion)
    with pytest.raises(FirstTracesError, match="16 of 16") as stopped:
        run_simulated(spend(TWENTY, model, budget="8x", max_tokens=1024))
    assert str(stopped.value).startswith(words)
    assert stopped.value.excerpt == completion.text
    assert model.traces == 16


def test_traces_that_failed_and_were_charged_are_a_bad_start_too():
    def fail(request):
        raise BusyError("the server did not answer in time.")

    with pytest.raises(FirstTracesError, match=r"16 of 16 traces failed \(the server did not answer in time\): check"):
        run_simulated(spend(TWENTY, Model(fail), budget="8x", tries=1))


def test_several_reasons_are_told_the_most_frequent_first():
    model = Model(lambda request: UNREADABLE if request < 6 else CUT)
    with pytest.raises(FirstTracesError, match=r"^10 of 16 traces were cut .* and 6 of 16 traces hold no .*: raise"):
        run_simulated(spend(TWENTY, model, budget="8x", max_tokens=1024))


def test_the_servers_own_limit_is_named_where_the_run_sets_none():
    with pytest.raises(FirstTracesError, match="16 of 16 traces were cut at the server's own limit: give the server a"):
        run_simulated(spend(TWENTY, Model(lambda request: CUT), budget="8x"))


def test_half_of_the_first_traces_is_enough_to_go_on():
    assert run_simulated(spend(TWENTY, Model(lambda request: CUT if request % 2 else READ), budget="8x")).spent == 160


def test_keep_going_spends_on_traces_that_cast_no_vote():
    assert run_simulated(spend(TWENTY, Model(lambda request: CUT), budget="8x", keep_going=True)).spent == 160


def test_a_good_start_waits_for_half_of_the_first_traces_and_not_for_the_slowest():
    model = Model(seconds=lambda request: 500.0 if request < 5 else 1.0)
    questions = asked([f"q{i}" for i in range(100)])
    run_simulated(spend(questions, model, budget="1x", policy="uniform"))
    begun = sorted(time - model.requests[0] for time in model.requests)
    assert begun[:10] == [0.0] * 10 and begun[10] == 1.0 and begun[-1] <= 3.0  # a tenth of 100, then all the others


@pytest.mark.parametrize("policy", ["okg", "uniform", "asc", "esc"])
@pytest.mark.parametrize("budget", [1, 2, 4, 40])
def test_small_budgets_are_spent_or_stopped_under_every_policy(policy, budget):
    (question,) = asked(["q"])
    assert run_simulated(spend([question], Model(), budget=budget, policy=policy)).spent >= 1
    model = Model(lambda request: CUT)
    if budget <= 3:  # nothing is left to save
        assert run_simulated(spend([question], model, budget=budget, policy=policy)).spent == budget
    else:
        with pytest.raises(FirstTracesError):
            run_simulated(spend([question], model, budget=budget, policy=policy))
        assert model.traces <= 4


def test_a_stopped_run_is_not_over_and_stops_again_unless_told_to_keep_going(tmp_path):
    path, model = tmp_path / "runs.db", Model(lambda request: CUT)
    with pytest.raises(FirstTracesError):
        run_simulated(spend(TWENTY, model, budget="8x", store=path))
    with Store.open(path) as store:
        assert store.runs()[0].state == "stopped" and store.runs()[0].traces == 16

    async def resume(**options):
        async with Engine.resume(path, sampler=model, **options) as engine:
            return await engine.run()

    with pytest.raises(FirstTracesError, match="16 of 16") as stopped:
        run_simulated(resume())
    assert stopped.value.excerpt == CUT.text and model.traces == 16
    assert run_simulated(resume(keep_going=True)).spent == 160
    assert run_simulated(resume(budget="+40")).spent == 200  # it was said once, and holds


def test_a_run_broken_off_among_its_first_traces_goes_on_with_them(tmp_path):
    class Stuck(Model):
        async def sample(self, prompt, n, seed, sampling):
            if len(self.requests) >= 3:
                self.traces += n
                await asyncio.Event().wait()
            return await super().sample(prompt, n, seed, sampling)

    path, slow = tmp_path / "runs.db", Stuck(seconds=lambda request: 0.0)

    async def broken_off():
        async with Engine(TWENTY, sampler=slow, budget="8x", store=path, concurrency=5) as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: slow.traces == 8, task)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(broken_off())
    model = Model(lambda request: CUT)

    async def resume():
        async with Engine.resume(path, sampler=model, concurrency=64) as engine:
            with pytest.raises(FirstTracesError, match="13 of 16 traces were cut"):
                await engine.run()
            return engine.allocator.told, engine.launches_lost

    assert run_simulated(resume()) == (3 + 5 + 13, 5)  # what was lost is paid for, and says nothing
    assert model.traces == 13


async def arriving(problems):
    for problem in problems:
        yield problem


def test_a_stream_that_begins_badly_answers_nothing_and_can_go_on(tmp_path):
    answers, model, path = [], Model(lambda request: CUT), tmp_path / "runs.db"
    settings = stream_settings(Uniform(), Budget(160, 8), RunSpec.of(), 20, open_questions=8)

    async def begin():
        async with make_stream(settings, [model], answers.append, store=path) as stream:
            await stream.run(arriving(TWENTY))

    with pytest.raises(FirstTracesError, match="16 of 16 traces were cut"):
        run_simulated(begin())
    assert model.traces == 16 and not answers

    async def resume(**options):
        async with Stream.resume(path, "last", Servers(sampler=[model]), answers.append, **options) as stream:
            await stream.run(arriving(TWENTY))

    with pytest.raises(FirstTracesError):
        run_simulated(resume())
    assert model.traces == 16 and not answers
    run_simulated(resume(keep_going=True))
    assert model.traces == 160 and len(answers) == 20


def test_solve_raises_what_the_first_traces_say():
    with pytest.raises(FirstTracesError):
        solve(TWENTY, sampler=Scripted(lambda prompt, seed: "no idea"), budget="8x")
