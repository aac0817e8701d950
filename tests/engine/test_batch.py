"""Runs by batch jobs: the budget is kept whatever jobs bring, and whoever goes on with a run pays nothing twice."""

import asyncio
import contextlib

import pytest

from pets.engine import Engine
from pets.engine.batch import BatchFetcher, launches_in_jobs
from pets.engine.sources import Servers, sources_of
from pets.engine.spec import RunSpec
from pets.errors import InputError, JobError, RefusedError
from pets.mock import Faults, MockModel, running
from pets.openai.batch import BatchJob
from pets.openai.errors import ApiError
from pets.samplers import Prompt, Sampling, Seeds
from pets.samplers import batch as samplers
from pets.samplers.transport import HttpClient
from pets.store import LostLaunch, Store
from pets.types import Launch

from ..agreeing_judge import AgreeingJudge
from ..waiting import until


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    for name in ("GATHER_S", "FIRST_POLL_S", "FIRST_BACKOFF_S"):
        monkeypatch.setattr(samplers, name, 0.01)


@pytest.fixture
def begin(serve, tmp_path):
    """``begin(faults=..., policy=..., ...)`` gives a mock and a function that makes the engine of one run."""

    def start(questions=12, budget="6x", policy="okg:prior=1", options=None, **settings):
        mock, url, problems, _ = serve(questions, **settings)

        def engine(**changes):
            store = tmp_path / "runs.db"
            more = {"budget": budget, "policy": policy, "batch_api": True, **(options or {}), **changes}
            return Engine(problems, endpoint=url, model="mock", store=store, **more)

        return mock, engine

    return start


def run(engine):
    async def work():
        async with engine:
            return await engine.run(), list(engine.answers())

    return asyncio.run(work())


def stored(tmp_path):
    with Store.open(tmp_path / "runs.db") as store:
        return list(store.view().traces())


def test_every_wave_is_one_job_and_the_budget_is_spent_to_the_trace(begin, tmp_path):
    mock, engine = begin(policy="okg")
    solution, answers = run(engine())
    assert (solution.spent, solution.traces, solution.answered) == (72, 72, 12) and solution.complete
    assert 2 <= mock.stats.batches <= 4 and mock.stats.requests == 0
    assert (mock.stats.traces, mock.stats.completion_tokens) == (72, solution.tokens)
    assert mock.stats.prompt_tokens == solution.prompt_tokens < 72 * 3  # paid for once per request, not per trace
    assert all(answer.answer for answer in answers) and len(stored(tmp_path)) == 72


def test_a_single_question_is_one_job_as_there_is_nothing_to_allocate(begin):
    mock, engine = begin(questions=1, budget="24x")
    assert run(engine())[0].spent == 24 and mock.stats.batches == 1


@pytest.mark.parametrize(
    ("budget", "options"),
    [("24x", {"target_consistency": 0.999999}), ("20ktok", {"max_tokens": 1000})],
    ids=["target", "tokens"],
)
def test_a_single_question_is_several_jobs_where_what_comes_back_decides(begin, budget, options):
    mock, engine = begin(questions=1, budget=budget, options=options)
    live = engine()
    assert live.pace.waves == 4
    run(live)
    assert mock.stats.batches > 1


@pytest.mark.parametrize(
    "faults",
    [
        Faults(batch_expired=0.5),
        Faults(batch_error=0.2),
        Faults(batch_seconds=0.05),
        Faults(one_choice=0.4),
        Faults(batch_expired=0.3, batch_error=0.1, one_choice=0.2),
    ],
    ids=lambda faults: "-".join(
        name for name in ("batch_expired", "batch_error", "batch_seconds", "one_choice") if getattr(faults, name)
    ),
)
def test_what_costs_nothing_is_handed_in_again_and_the_budget_is_exact(begin, faults):
    mock, engine = begin(faults=faults, seed=3)
    solution, _ = run(engine())
    assert (solution.spent, solution.failed) == (72, 0)
    assert (mock.stats.traces, mock.stats.lost) == (72, 0) and mock.stats.completion_tokens == solution.tokens


def test_replies_that_were_paid_for_and_did_not_come_are_charged_once(begin, tmp_path):
    mock, engine = begin(faults=Faults(batch_partial=1.0))
    solution, _ = run(engine())
    assert solution.spent == 72 == mock.stats.traces + mock.stats.lost and solution.failed == mock.stats.lost > 0
    assert sum(trace.error is not None for trace in stored(tmp_path)) == solution.failed


def test_a_server_that_takes_one_choice_is_asked_for_one(begin):
    mock, engine = begin(n_limit=1)
    solution, _ = run(engine())
    assert solution.spent == mock.stats.traces == 72 and solution.failed == 0


def test_a_job_that_is_not_valid_ends_the_run_which_can_go_on(begin):
    mock, engine = begin(faults=Faults(batch_invalid=1.0))
    with pytest.raises(JobError, match="failed validation"):
        run(engine())
    mock.faults = Faults()
    solution, _ = run(engine())
    assert solution.spent == mock.stats.traces == 72


def test_a_run_that_is_told_to_end_leaves_its_job_and_goes_on_with_it(begin):
    mock, engine = begin(faults=Faults(batch_seconds=0.5))

    async def interrupted():
        async with engine() as first:
            task = asyncio.create_task(first.run())
            await until(lambda: mock.stats.batches == 1, task)
            first.drain()
            return await task, first.jobs_left_note

    solution, left = asyncio.run(interrupted())
    assert not solution.complete and "stay with the provider" in left
    again = engine()
    assert again.origin == "unfinished"
    solution, _ = run(again)
    assert (solution.spent, solution.lost, solution.failed) == (72, 0, 0) and mock.stats.traces == 72


def test_what_is_in_a_job_is_awaited_though_another_run_has_paid_for_its_traces_meanwhile(begin):
    mock, engine = begin(faults=Faults(batch_seconds=0.5))

    async def interrupted():
        async with engine() as first:
            task = asyncio.create_task(first.run())
            await until(lambda: mock.stats.batches == 1, task)
            first.drain()
            await task

    asyncio.run(interrupted())
    with_own_requests, _ = run(engine(batch_api=False, reuse="nothing"))
    assert with_own_requests.spent == 72
    solution, _ = run(engine())
    assert (solution.spent, solution.lost, solution.failed) == (72, 0, 0) and solution.reused


class RefusesAll(MockModel):
    """Takes no request of any job."""

    def admit(self, request):
        super().admit(request)
        raise ApiError("Such requests are not answered here.")


def test_jobs_of_which_every_request_is_refused_end_the_run_with_the_servers_words(begin):
    mock, engine = begin(kind=RefusesAll)
    with pytest.raises(RefusedError, match="not answered here"):
        run(engine())
    assert mock.stats.traces == 0


def break_off(monkeypatch, moment, answered=True):
    """The process ends before a request is sent, or after it was answered and before anybody heard of it."""
    requests, request = 0, HttpClient.request

    @contextlib.asynccontextmanager
    async def deadly(self, *arguments, **fields):
        nonlocal requests
        requests = number = requests + 1
        if number == moment and not answered:
            raise JobError("killed")
        async with request(self, *arguments, **fields) as response:
            if number == moment:
                raise JobError("killed")
            yield response

    monkeypatch.setattr(HttpClient, "request", deadly)


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("moment", range(1, 9))
def test_a_run_that_is_broken_off_at_any_request_loses_and_pays_nothing(begin, monkeypatch, moment, answered, tmp_path):
    mock, engine = begin(questions=6, budget="5x")
    break_off(monkeypatch, moment, answered)
    with pytest.raises(JobError, match="killed"):
        run(engine())
    solution, _ = run(engine())
    assert (solution.spent, solution.lost, solution.failed) == (30, 0, 0)
    assert mock.stats.traces == 30 == len(stored(tmp_path))


@pytest.mark.parametrize("moment", [None, 1, 2, 4])
def test_jobs_bring_what_the_store_lacks_and_nothing_else(begin, monkeypatch, moment, tmp_path):
    mock, engine = begin(questions=6, policy="uniform")
    run(engine(budget="3x", batch_api=False))
    if moment is not None:
        break_off(monkeypatch, moment)
        with pytest.raises(JobError, match="killed"):
            run(engine())
    solution, _ = run(engine())
    assert (solution.traces, solution.reused, solution.lost, mock.stats.traces) == (36, {1: 18}, 0, 36)
    solution, _ = run(engine(batch_api=False, policy="asc"))  # and what jobs brought is reused as well
    assert mock.stats.traces <= 36 + solution.traces - sum(solution.reused.values()) and 2 in solution.reused


def test_a_run_that_gets_more_budget_spends_it_in_waves_again(begin, tmp_path):
    mock, engine = begin()
    run(engine())
    before = mock.stats.batches
    solution, _ = run(Engine.resume(tmp_path / "runs.db", budget="+6x"))
    assert solution.spent == mock.stats.traces == 144 and 2 <= mock.stats.batches - before <= 4


def test_a_budget_in_money_counts_half_prices_and_every_prompt(begin):
    mock, engine = begin(budget="0.08usd", options={"price": "in=10,out=40", "max_tokens": 200})
    solution, _ = run(engine())
    paid = (mock.stats.prompt_tokens * 10 + mock.stats.completion_tokens * 40) / 1e6 / 2
    assert (
        solution.spent == pytest.approx(paid)
        and solution.cost == pytest.approx(paid)
        and 0.06 < solution.spent <= 0.088
    )


def test_cached_prompt_tokens_cost_less(begin):
    price = {"price": "in=10,out=40,cached=1", "max_tokens": 200}
    mock, engine = begin(budget="0.08usd", options=price, prompt_cache=True)
    solution, answers = run(engine())
    stats = mock.stats
    full = (stats.prompt_tokens * 10 + stats.completion_tokens * 40) / 1e6 / 2
    paid = full - stats.cached_tokens * 9 / 1e6 / 2
    assert stats.cached_tokens > 0 and solution.spent == pytest.approx(paid) and solution.cost == pytest.approx(paid)
    assert sum(answer.cost for answer in answers) == pytest.approx(paid)
    again = engine()
    assert again.stored_run.summary().spent == pytest.approx(paid * 1e12)
    again.close()


def several_models(serve, tmp_path, b_settings=None, **options):
    """Two mocks, and a function that makes the engine of one run over both."""
    a, url_a, problems, _ = serve(12, model="a")
    b, url_b, _, _ = serve(12, model="b", **(b_settings or {}))
    more = {"budget": "6x", "policy": "okg", "batch_api": True, **options}
    servers = {"a": url_a, "b": url_b}
    return a, b, lambda: Engine(problems, model=["a=2", "b"], endpoint=servers, store=tmp_path / "runs.db", **more)


def test_several_models_have_jobs_of_their_own_each_at_its_price(serve, tmp_path):
    prices = {"a": "in=10,out=40", "b": "in=1,out=80"}
    a, b, engine = several_models(serve, tmp_path, budget="0.3usd", price=prices, max_tokens=200)
    solution, answers = run(engine())
    stats = (a.stats, b.stats)
    assert all(s.requests == 0 and 2 <= s.batches <= 5 for s in stats)
    tokens = [(s.prompt_tokens, s.completion_tokens) for s in stats]
    paid = (tokens[0][0] * 10 + tokens[0][1] * 40 + tokens[1][0] * 1 + tokens[1][1] * 80) / 1e6 / 2
    assert solution.spent == pytest.approx(paid) == solution.cost
    assert sum(answer.cost for answer in answers) == pytest.approx(paid)
    assert solution.models == {"a": a.stats.traces, "b": b.stats.traces} and 0.24 < paid <= 0.33
    with Store.open(tmp_path / "runs.db") as store:
        assert store.view().summary().spent == pytest.approx(paid * 1e12)


class Choosy(MockModel):
    """Refuses two of the questions."""

    def admit(self, request):
        super().admit(request)
        if any(prompt.endswith(("Question q1", "Question q4")) for prompt in request.prompts):
            raise ApiError("This question is not answered here.")


@pytest.mark.parametrize("moment", [1, 4, 7, 11])
def test_jobs_of_several_models_that_are_broken_off_are_taken_up_where_they_are(serve, tmp_path, monkeypatch, moment):
    a, b, engine = several_models(serve, tmp_path, {"kind": Choosy}, budget="5x")
    break_off(monkeypatch, moment)
    with pytest.raises(JobError, match="killed"):
        run(engine())
    solution, _ = run(engine())
    assert (solution.spent, solution.lost, solution.failed) == (60, 0, 0)
    assert a.stats.traces + b.stats.traces == 60 == len(stored(tmp_path)) and solution.models["b"] == b.stats.traces
    assert {trace.model for trace in stored(tmp_path) if trace.question in ("q1", "q4")} == {0}


def test_batch_jobs_need_a_store_and_one_provider(serve):
    _, url, problems, _ = serve(2)
    with pytest.raises(InputError, match="store"):
        Engine(problems, endpoint=url, model="mock", batch_api=True)
    with pytest.raises(InputError, match="one provider"):
        Engine(problems, endpoint=[url, url], model="mock", batch_api=True, store=":memory:")
    with pytest.raises(InputError, match="--to FILE"):
        Engine(problems, model="mock", batch_api=True, store=":memory:")


def test_a_judge_of_the_jobs_own_model_is_refused_before_anything_is_handed_in(begin):
    mock, engine = begin(options={"answer": "judge:model=other"})
    with pytest.raises(InputError, match="batch jobs cannot judge: name the judge's server"):
        engine()
    assert mock.stats.batches == mock.stats.requests == 0


def test_a_judge_with_a_server_of_its_own_judges_what_jobs_bring(begin):
    judge = AgreeingJudge()
    with running(judge) as url:
        mock, engine = begin(options={"answer": f"judge:endpoint={url},model=judge"})
        solution, answers = run(engine())
    assert (solution.spent, solution.faults, mock.stats.requests) == (72, {}, 0) and judge.stats.traces > 0
    assert solution.tokens == mock.stats.completion_tokens + judge.stats.completion_tokens
    assert all(len(answer.votes) == 1 for answer in answers)


def test_a_request_beside_traces_joins_no_job():
    (sampler,) = sources_of(Servers("http://provider/v1", "m"), RunSpec.of(batch_api=True)).samplers
    with pytest.raises(InputError, match="cannot judge"):
        asyncio.run(BatchFetcher([sampler]).ask(Prompt("?"), Sampling()))


def test_launches_of_jobs_are_told_from_those_that_were_never_sent():
    seeds = Seeds()
    lines = ((seeds.at(0, 0), 4), (seeds.at(1, 2), 2))
    lost = [LostLaunch("a", 2, 1), LostLaunch("a", 3, 1), LostLaunch("b", 2, 1), LostLaunch("b", 9, 1)]
    requests, never_sent = launches_in_jobs([BatchJob("k", "/v1", lines, 0.0)], lost, {"a": 0, "b": 1}, seeds)
    assert requests == [("a", range(2, 4)), ("b", range(2, 3))] and never_sent == [Launch("b", 9)]
