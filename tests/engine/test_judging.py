"""A judged run: meanings vote together, every judgement is paid by its trace, and what fails merges nothing."""

import asyncio
import json

import pytest

from pets.engine import Engine, TokenPrice
from pets.engine.judging import judge_of
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.engine.stream import Stream
from pets.errors import BudgetError, BusyError, InputError, RefusedError
from pets.policies.uniform import Uniform
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Store
from pets.store.records import LOST

from ..waiting import until
from .conftest import Scripted, solve

NAMES = ["Shakespeare", "William Shakespeare", "W. Shakespeare", "Marlowe"]
PROBLEMS = [Problem(f"q{i}", Prompt.chat("Who wrote Hamlet?")) for i in range(3)]


class Judged(Scripted):
    """Says one of the names by seed; as a judge, knows who is who, unless ``verdict`` says otherwise."""

    def __init__(self, verdict=None):
        super().__init__(self.text)
        self.verdict, self.judgements = verdict, []

    def text(self, prompt, seed):
        if len(prompt.content) == 1:
            return f"The answer is {NAMES[seed % 4]}."
        data = json.loads(prompt.content[-1].content.split("\n")[1])
        self.judgements.append((data["new"], *data["known"].values()))
        if self.verdict is not None:
            return self.verdict()
        return next((n for n, known in data["known"].items() if known[-4:] == data["new"][-4:]), "0")


def votes(solution):
    return [dict(answer.votes) for answer in solution.answers]


def test_answers_of_one_meaning_vote_together_for_a_linear_number_of_judgements():
    sampler = Judged()
    solution = solve(PROBLEMS, sampler=sampler, budget="16x", policy="uniform", answer="judge")
    assert all(len(counts) == 2 and sorted(counts.values()) == [4, 12] for counts in votes(solution))
    assert len(sampler.judgements) == 9  # per question: three new answers after the first, each once
    assert solution.tokens == 10 * (48 + 9) and solution.spent == 48


@pytest.mark.parametrize("reply", ["1 or 2", "yes", "", "7", "Ignore this: 1"])
def test_what_is_no_number_merges_nothing(reply):
    solution = solve(PROBLEMS[:1], sampler=Judged(lambda: reply), budget=16, policy="uniform", answer="judge")
    assert sorted(votes(solution)[0].values()) == [4, 4, 4, 4] and solution.faults == {"judge: no number": 3}


@pytest.mark.parametrize(("error", "paid"), [(BusyError("down", status=503), 0), (BusyError("no reply"), 3),
                                             (RefusedError("no", status=400), 0)])  # fmt: skip
def test_a_judge_that_fails_merges_nothing_and_is_charged_where_it_may_have_answered(error, paid):
    def fail():
        raise error

    solution = solve(PROBLEMS[:1], sampler=Judged(fail), budget=16, policy="uniform", answer="judge")
    assert sorted(votes(solution)[0].values()) == [4, 4, 4, 4] and solution.failed == 0
    assert solution.tokens == 160 + 16 * paid


def test_a_resumed_run_pays_for_no_judgement_twice(tmp_path):
    store = tmp_path / "runs.db"
    first = Judged()
    before = solve(PROBLEMS[:1], sampler=first, budget=16, policy="uniform", answer="judge", store=store)
    again = Judged()

    async def go_on():
        async with Engine.resume(store, sampler=again, budget="+16") as engine:
            solution = await engine.run()
            return solution, [dict(answer.votes) for answer in engine.answers()]

    solution, rows = asyncio.run(go_on())
    assert len(first.judgements) == 3 and len(again.judgements) <= 2  # spellings that the run does not keep, once each
    assert sorted(rows[0].values()) == [8, 24] and set(rows[0]) == set(votes(before)[0])
    assert solution.tokens == before.tokens + 10 * (16 + len(again.judgements))


def test_the_budget_holds_the_judgement_before_the_trace_goes_out():
    plain = Engine(PROBLEMS, sampler=Judged(), budget="1Mtok", max_tokens=100, answer="text")
    judged = Engine(PROBLEMS, sampler=Judged(), budget="1Mtok", max_tokens=100, answer="judge")
    assert judged.record.currency.hold == plain.record.currency.hold + 4096 + 16
    solution = solve(PROBLEMS, sampler=Judged(), budget="20ktok", max_tokens=100, answer="judge")
    assert solution.spent == solution.tokens + solution.prompt_tokens <= 22_000


def test_a_trace_whose_judgement_is_out_when_the_run_breaks_off_costs_what_both_may_have_used(tmp_path):
    asked = []

    class Silent(Judged):
        async def sample(self, prompt, n, seed, sampling):
            if len(prompt.content) > 1:
                asked.append(prompt.max_tokens)
                await asyncio.Event().wait()
            return await super().sample(prompt, n, seed, sampling)

    async def broken_off():
        options = {"budget": "1Mtok", "max_tokens": 100, "policy": "uniform", "concurrency": 1}
        async with Engine(PROBLEMS[:1], sampler=Silent(), answer="judge", store=path, **options) as engine:
            task = asyncio.create_task(engine.run())
            await until(lambda: asked, task)
            task.cancel()
            await asyncio.wait([task])

    path = tmp_path / "runs.db"
    asyncio.run(broken_off())
    with Store.open(path) as store:
        *_, trace = store.view().traces()
        assert (trace.error, trace.answer, trace.tokens, trace.prompt_tokens) == (LOST, None, 10 + 16, 5 + asked[0])
        assert store.runs()[0].lost == 0


def test_dollars_are_of_one_model():
    price = TokenPrice(1, 2)
    with pytest.raises(BudgetError, match="one model's price"):
        Engine(PROBLEMS, sampler=Judged(), budget="1usd", price=price, max_tokens=100, answer="judge:model=big")
    Engine(PROBLEMS, sampler=Judged(), budget="1usd", price=price, max_tokens=100, answer="judge")


def test_a_judged_stream_counts_traces():
    spec = RunSpec.of(policy=Uniform(), budget="10ktok", horizon=3, max_tokens=100, answer="judge")
    with pytest.raises(InputError, match="counts traces"):
        Stream(spec, Sources(), print)


def test_whose_judge_it_is():
    assert judge_of(PROBLEMS, None) is None and judge_of(PROBLEMS, "judge:model=m").model == "m"
    assert judge_of([Problem("q", Prompt("?"), "judge")], None) is not None


def test_another_server_is_asked_where_one_is_named(serve):
    mock, url, *_ = serve()
    sampler = Judged()
    judge = f"judge:endpoint={url},model=mock"
    solution = solve(PROBLEMS[:1], sampler=sampler, budget=16, policy="uniform", answer=judge)
    assert mock.stats.requests == 3 and not sampler.judgements
    assert sorted(votes(solution)[0].values()) == [4, 4, 4, 4] and sum(solution.faults.values()) == 3
