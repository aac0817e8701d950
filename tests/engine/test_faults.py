"""One fault suite for all verbs: the same traces are charged, none is lost that came, and n recovers.

Every case is a server that misbehaves in one way, on a simulated clock, under solve, stream, serve and sample.
"""

import asyncio
import json
from dataclasses import dataclass, field, fields

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine import Engine, RunSpec
from pets.engine.assemble import assemble_submissions
from pets.engine.fetch import MOST_UNKNOWN_TRACES, PROBE_S, Fetcher
from pets.engine.question import Answer
from pets.engine.record import Recording, record
from pets.engine.sources import Servers
from pets.engine.stream import Stream
from pets.engine.submissions import Places, VoteLimits
from pets.errors import BusyError, PetsError, RefusedError, ReplyError, UnreachableError
from pets.policies.uniform import Uniform
from pets.samplers import Completion, Sampler, Sampling
from pets.store import Store

from ..simulated_time import run_simulated
from ..streams import make_stream, stream_settings
from .conftest import asked

QUESTIONS, TRACES = 6, 8
DEADLINE_S = 1000.0


class Faulty(Sampler):
    """Answers after a second; ``fault(request)`` may raise, or return how many choices it gives instead of n."""

    def __init__(self, fault=lambda request: None):
        self.fault = fault
        self.requests, self.delivered, self.lost = [], 0, 0

    async def sample(self, prompt, n, seed, sampling):
        clock = asyncio.get_running_loop().time
        request = Request(prompt.content[-1].content, n, clock(), len(self.requests))
        self.requests.append(request)
        try:
            choices = self.fault(request)
        except WorkedError as error:
            await asyncio.sleep(error.seconds)
            self.lost += n if error.samples else 0
            raise
        except (BusyError, ReplyError) as error:
            if error.status is None and not isinstance(error, UnreachableError):
                await asyncio.sleep(5.0)  # it worked, and nobody can tell what on
                self.lost += n
            raise
        await asyncio.sleep(1.0)
        surplus = max(0, (choices or n) - n)
        choices = min(n, choices or n)
        self.delivered += choices + surplus
        texts = [f"The answer is {'AAAB'[(seed + i) % 4]}." for i in range(choices)]
        return [Completion(text, "stop", 10, 5, surplus=0 if i else surplus) for i, text in enumerate(texts)]


class WorkedError(BusyError):
    """A status that comes after some seconds, in which traces were sampled or not."""

    def __init__(self, status, seconds, samples=True):
        super().__init__(f"{status} after {seconds} s", status=status)
        self.seconds, self.samples = seconds, samples


@dataclass(frozen=True)
class Request:
    prompt: str
    n: int
    time: float
    number: int


@dataclass
class Outcome:
    """What a verb charged, and its rows by question."""

    charged: int
    rows: dict[str, dict] = field(default_factory=dict)
    errors: list[PetsError] = field(default_factory=list)

    @property
    def traces(self):
        return sum(row["traces"] for row in self.rows.values())


async def solve(sampler, problems, folder):
    spec = RunSpec.of(policy="uniform", budget=f"{TRACES}x", max_traces=TRACES, keep_going=True)
    async with Engine(problems, sampler=sampler, spec=spec, store=folder / "runs.db") as engine:
        solution = await engine.run()
        return Outcome(solution.spent, {answer.id: answer.to_plain() for answer in engine.answers()})


async def arriving(problems):
    for problem in problems:
        yield problem


async def stream(sampler, problems, folder):
    answers = []
    budget = Budget(TRACES * len(problems), TRACES)
    spec = RunSpec.of(keep_going=True)
    settings = stream_settings(Uniform(), budget, spec, len(problems), open_questions=len(problems))
    async with make_stream(settings, [sampler], answers.append, store=folder / "runs.db") as running:
        await running.run(arriving(problems))
        return Outcome(budget.spent, {answer.id: answer.to_plain() for answer in answers})


async def serve(sampler, problems, folder, deadline_s=DEADLINE_S, every_s=0.0):
    """The gateway's way: one submission per question, over one driver; all at once, or one ``every_s`` seconds."""
    budget = Budget.per_window(len(problems), TRACES * len(problems), cap=TRACES)
    fetcher = Fetcher([sampler], patience_s=None)
    driver, submissions = assemble_submissions(Allocator(Uniform(), budget), fetcher, Places(256))
    outcome = Outcome(0)

    async def submit(number, problem):
        await asyncio.sleep(number * every_s)
        deadline = asyncio.get_running_loop().time() + deadline_s
        try:
            vote = await submissions.submit(problem, VoteLimits(Sampling(), 4096 * number, TRACES, deadline))
            outcome.rows[problem.id] = vote.result().to_plain()
        except PetsError as error:
            outcome.errors.append(error)

    await asyncio.gather(*(submit(number, problem) for number, problem in enumerate(problems)))
    outcome.charged = budget.spent + driver.allocator.debt
    assert budget.reserved == 0 and driver.questions.in_flight == 0
    return outcome


async def sample(sampler, problems, folder):
    path = folder / "pool.jsonl"
    recording = Recording(problems, TRACES, RunSpec.of(open_questions=len(problems)))
    try:
        await record(recording, sampler, path)
    except RefusedError as error:
        return Outcome(sampler.delivered + sampler.lost, errors=[error])
    rows = {row["id"]: {"traces": len(row["answers"])} for row in map(json.loads, path.read_text().splitlines())}
    return Outcome(sampler.delivered + sampler.lost, rows)


VERBS = [solve, stream, serve, sample]
verbs = pytest.mark.parametrize("verb", VERBS, ids=[verb.__name__ for verb in VERBS])


def run(verb, sampler, folder, questions=QUESTIONS, **options):
    return run_simulated(verb(sampler, asked([f"q{i}" for i in range(questions)]), folder, **options))


@verbs
def test_without_faults_all_is_bought_and_charged(verb, tmp_path):
    sampler = Faulty()
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES
    assert {request.n for request in sampler.requests} == {TRACES}


@verbs
def test_a_server_that_refuses_n_above_4_is_asked_for_4(verb, tmp_path):
    def refuse(request):
        if request.n > 4:
            raise RefusedError("n must be at most 4", status=400)

    sampler = Faulty(refuse)
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES
    served = [request.n for request in sampler.requests if request.n <= 4]
    assert set(served) == {4}


@verbs
def test_one_question_that_is_refused_costs_nothing_and_makes_no_request_small(verb, tmp_path):
    def refuse(request):
        if request.prompt == "Question q2":
            raise RefusedError("this prompt is too long", status=400)

    sampler = Faulty(refuse)
    outcome = run(verb, sampler, tmp_path)
    others = [request.n for request in sampler.requests if request.prompt != "Question q2"]
    assert max(others) == TRACES
    if verb is sample:  # a pool without one of its questions is not what was asked for
        assert "too long" in str(outcome.errors[0])
        return
    assert outcome.charged == sampler.delivered
    if verb is serve:
        assert "too long" in str(outcome.errors[0]) and len(outcome.rows) == QUESTIONS - 1
    else:
        assert "too long" in outcome.rows["q2"]["error"] and outcome.rows["q2"]["traces"] == 0
    answered = [row for id, row in outcome.rows.items() if id != "q2"]
    assert all(row["traces"] >= TRACES - 1 and row["answer"] == "A" for row in answered)


@verbs
def test_an_outage_of_150_seconds_is_waited_out_and_charges_nothing(verb, tmp_path):
    def away(request):
        if 0.5 < request.time < 150.5:
            raise UnreachableError("nobody is there")

    sampler = Faulty(lambda request: away(request) if request.number else None)
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES
    assert not outcome.errors


@verbs
def test_an_outage_that_begins_after_the_first_reply_is_waited_out(verb, tmp_path):
    def away(request):
        if request.number >= 2 and request.time < 150.0:
            raise UnreachableError("nobody is there")

    sampler = Faulty(away)
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES


def test_an_outage_longer_than_the_deadline_is_told_and_nothing_is_charged(tmp_path):
    def away(request):
        raise UnreachableError("nobody is there")

    sampler = Faulty(away)
    outcome = run(serve, sampler, tmp_path, deadline_s=60.0)
    assert outcome.charged == 0 and len(outcome.errors) == QUESTIONS
    assert all(isinstance(error, UnreachableError) for error in outcome.errors)


@verbs
def test_retry_after_is_never_undercut(verb, tmp_path):
    def busy(request):
        if request.time < 30.0:
            raise BusyError("slow down", status=429, retry_after=30.0 - request.time)

    sampler = Faulty(busy)
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES
    early = [request for request in sampler.requests if 0.0 < request.time < 30.0]
    assert not early


@verbs
def test_fewer_choices_than_asked_for_are_made_up(verb, tmp_path):
    sampler = Faulty(lambda request: min(3, request.n))
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES


@verbs
def test_choices_that_nobody_asked_for_are_charged_and_cast_no_vote(verb, tmp_path):
    sampler = Faulty(lambda request: request.n + 3 if request.number == 1 else None)
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == sampler.delivered >= QUESTIONS * TRACES
    if verb is not sample:
        assert sum(sum(row["votes"].values()) for row in outcome.rows.values()) == sampler.delivered - 3
    if verb in (solve, stream):
        assert spent_in(tmp_path) == sampler.delivered


def broken(error):
    """Every fourth request of the first twelve fails so."""

    def fault(request):
        if request.number < 12 and request.number % 4 == 1:
            raise error

    return fault


CHARGED = {
    "half a JSON": ReplyError("the server's reply is not JSON"),
    "a hang": BusyError("no answer in time"),
    "a disconnect": ReplyError("the server broke off its reply"),
}


@verbs
@pytest.mark.parametrize("error", CHARGED.values(), ids=CHARGED)
def test_what_may_have_been_sampled_is_charged_and_tried_again(verb, error, tmp_path):
    sampler = Faulty(broken(error))
    outcome = run(verb, sampler, tmp_path)
    assert sampler.lost > 0 and outcome.charged == sampler.delivered + sampler.lost
    if verb is sample:
        assert outcome.traces == QUESTIONS * TRACES  # nobody set a limit: what was lost is made up for
        return
    assert outcome.traces == outcome.charged
    if verb is not serve:  # whose plan makes up for it later
        assert outcome.charged == QUESTIONS * TRACES
    assert sum(row["failed"] for row in outcome.rows.values()) == sampler.lost


@verbs
@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_a_server_says_it_did_not_sample_is_free(verb, status, tmp_path):
    sampler = Faulty(broken(BusyError("not now", status=status)))
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES


@pytest.mark.parametrize("verb", [solve, stream, serve], ids=["solve", "stream", "serve"])
def test_every_verb_gives_rows_of_the_same_fields(verb, tmp_path):
    outcome = run(verb, Faulty(), tmp_path)
    names = {field.name for field in fields(Answer)} - {"gold", "right", "error", "zone", "read_as", "level"}
    assert all(set(row) == names for row in outcome.rows.values())


def test_a_question_that_a_server_always_fails_on_is_given_up_and_its_budget_goes_to_the_others(tmp_path):
    def fail(request):
        if request.prompt == "Question q1":
            raise BusyError("something is wrong with this prompt", status=500)

    async def okg(sampler, problems, folder):
        async with Engine(problems, sampler=sampler, budget=24, max_traces=12, tries=3) as engine:
            solution = await engine.run()
            return solution, list(engine.answers())

    solution, answers = run(okg, Faulty(fail), tmp_path, questions=3)
    assert solution.spent == 24 and [answer.traces for answer in answers] == [12, 0, 12]
    assert "something is wrong" in answers[1].error


def test_a_trace_that_is_lost_too_often_is_given_up_and_charged_for_every_try(tmp_path):
    def fail(request):
        if request.prompt == "Question q1":
            raise ReplyError("half a reply")

    async def uniform(sampler, problems, folder):
        async with Engine(problems, sampler=sampler, budget=12, policy="uniform", tries=2) as engine:
            solution = await engine.run()
            return solution, list(engine.answers())

    sampler = Faulty(fail)
    solution, (good, bad) = run(uniform, sampler, tmp_path, questions=2)
    assert solution.spent == 12 == sampler.delivered + sampler.lost
    assert bad.answer is None and bad.traces == bad.failed == bad.no_answer == sampler.lost
    assert good.answer == "A" and good.failed == 0


def test_a_question_that_is_refused_after_a_lost_reply_shows_what_it_was_charged(tmp_path):
    failures = iter([ReplyError("half a reply")])

    def fail(request):
        if request.prompt == "Question q1":
            raise next(failures, RefusedError("this prompt is too long", status=400))

    async def okg(sampler, problems, folder):
        async with Engine(problems, sampler=sampler, budget=40, max_traces=4) as engine:
            solution = await engine.run()
            return solution, list(engine.answers())

    sampler = Faulty(fail)
    solution, (_, bad, _) = run(okg, sampler, tmp_path, questions=3)
    assert solution.spent == solution.traces == sampler.delivered + sampler.lost
    assert bad.traces == bad.no_answer == bad.failed == solution.failed == sampler.lost > 0


PROXY_STATUSES = [500, 502, 504, 524]


@verbs
@pytest.mark.parametrize("status", PROXY_STATUSES)
def test_a_status_after_the_time_of_a_trace_is_charged(verb, status, tmp_path):
    def fault(request):
        if request.time >= 1.0 and request.number % 8 == 1 and request.number < 33:
            raise WorkedError(status, 0.9)  # where traces take a second
        return 1

    sampler = Faulty(fault)
    outcome = run(verb, sampler, tmp_path)
    assert sampler.lost > 0 and outcome.charged == sampler.delivered + sampler.lost


@verbs
@pytest.mark.parametrize("status", PROXY_STATUSES)
def test_a_status_before_a_trace_can_have_been_made_is_free(verb, status, tmp_path):
    """An outage behind a proxy: 150 seconds of it, after the first traces."""

    def away(request):
        if 1.0 <= request.time < 150.0:
            raise WorkedError(status, 0.4, samples=False)
        return 1

    sampler = Faulty(away)
    outcome = run(verb, sampler, tmp_path)
    assert outcome.charged == outcome.traces == sampler.delivered == QUESTIONS * TRACES


@verbs
@pytest.mark.parametrize("seconds", [0.0, 5.0], ids=["at once", "after seconds"])
def test_a_server_that_fails_from_the_start_costs_nothing_and_is_not_asked_without_end(verb, seconds, tmp_path):
    def fail(request):
        raise WorkedError(502, seconds)

    sampler, questions = Faulty(fail), 40
    if verb is serve:
        outcome = run(serve, sampler, tmp_path, questions=questions, every_s=60.0)
        assert outcome.charged == 0 and len(outcome.errors) == questions
        assert MOST_UNKNOWN_TRACES <= sampler.lost <= 2 * MOST_UNKNOWN_TRACES + questions * 60.0 / PROBE_S * TRACES
        return
    with pytest.raises(BusyError, match=r"may have sampled and billed them.* 502 after"):
        run(verb, sampler, tmp_path, questions=questions)
    assert MOST_UNKNOWN_TRACES <= sampler.lost <= 2 * questions * TRACES  # with what was in flight
    if verb is not sample:
        assert spent_in(tmp_path) == 0


def spent_in(folder):
    with Store.open(folder / "runs.db") as store:
        (stored,) = store.runs()
        return stored.spent


class FailsLater(Faulty):
    """Gives what it is asked for in its first four requests; then 502 after what a trace takes, until ``end_s``."""

    def __init__(self, end_s=float("inf")):
        super().__init__(self.fail)
        self.end_s = end_s

    def fail(self, request):
        if request.number >= 4 and request.time < self.end_s:
            raise WorkedError(502, 0.8)


@pytest.mark.parametrize("budget", [200, 1600])
def test_a_run_that_loses_too_much_ends_with_the_reason_and_goes_on_when_it_is_resumed(budget, tmp_path):
    sampler, most, in_flight = FailsLater(), max(20, budget // 20), 4
    options = {"budget": budget, "policy": "uniform", "concurrency": in_flight, "keep_going": True}

    async def solve(engine):
        async with engine:
            return await engine.run()

    def resumed(sampler):
        return Engine.resume(tmp_path / "runs.db", sampler=sampler)

    problems = asked([f"q{i}" for i in range(40)])
    engine = Engine(problems, sampler=sampler, store=tmp_path / "runs.db", **options)
    for attempt in (1, 2):
        with pytest.raises(BusyError, match="traces came to nothing, and the server may have sampled"):
            run_simulated(solve(engine))
        assert attempt * most <= sampler.lost <= attempt * (most + in_flight)
        assert spent_in(tmp_path) == sampler.delivered + sampler.lost  # what a trace takes is known again, too
        engine = resumed(sampler)
    engine.close()
    good = Faulty()
    solution = run_simulated(solve(resumed(good)))
    assert solution.complete and solution.spent == budget == sampler.delivered + sampler.lost + good.delivered


def test_a_stream_that_loses_too_much_ends_with_the_reason_and_goes_on_when_it_is_resumed(tmp_path):
    problems, sampler = asked([f"q{i}" for i in range(40)]), FailsLater()
    spec = RunSpec.of(tries=1000, concurrency=8, keep_going=True)
    settings = stream_settings(Uniform(), Budget(40 * TRACES, TRACES), spec, 40)
    answers = []

    async def go(stream):
        async with stream:
            await stream.run(arriving(problems))

    with pytest.raises(BusyError, match="traces came to nothing, and the server may have sampled"):
        run_simulated(go(make_stream(settings, [sampler], answers.append, store=tmp_path / "runs.db")))
    assert 20 <= sampler.lost <= 20 + 8 and spent_in(tmp_path) == sampler.delivered + sampler.lost
    good = Faulty()
    run_simulated(go(Stream.resume(tmp_path / "runs.db", "last", Servers(sampler=[good]), answers.append)))
    assert sorted(answer.id for answer in answers) == sorted(problem.id for problem in problems)
    assert spent_in(tmp_path) == sampler.delivered + sampler.lost + good.delivered <= 40 * TRACES


def test_a_gateways_server_that_fails_after_work_is_asked_now_and_then_until_it_serves(tmp_path):
    sampler = FailsLater(end_s=3000.0)
    outcome = run(serve, sampler, tmp_path, questions=200, every_s=20.0)
    asked_meanwhile = sum(request.number >= 4 and request.time < 3000.0 for request in sampler.requests)
    # 20 traces in a row, then one request every half a minute; what was sampled is charged.
    assert 20 < asked_meanwhile <= 20 + 3000.0 / PROBE_S and outcome.charged == sampler.delivered + sampler.lost
    assert outcome.errors and outcome.rows["q199"]["answer"] == "A"
