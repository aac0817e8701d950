"""Streams: the budget is kept and used, every question is answered once, and whatever breaks off loses nothing."""

import asyncio
from collections import Counter

import pytest

from pets.answers.recorded import Recorded
from pets.confidence import Confidence
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.tally import majority
from pets.engine import RunSpec, TokenPrice
from pets.engine.sources import Servers
from pets.engine.stream import RecordedStream, Stream, stream_budget
from pets.errors import BudgetError, BusyError, InputError, RefusedError, ReplyError, StateError, UnreachableError
from pets.plans import Drift, left_by_windows
from pets.policies.lead import Lead
from pets.policies.price import PriceRule
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler
from pets.store import Store
from pets.types import Question

from ..simulated_time import run_simulated
from ..streams import make_stream, stream_settings
from ..waiting import until
from .conftest import GoesOn, asked, solve

SEEDS_PER_QUESTION = RunSpec.of().seeds(0).cap


def settings_of(policy, budget, horizon=None, open_questions=8, answer=None, options=4, **more):
    """A stream of questions that are known by their ids, four options each."""
    spec = RunSpec.of(answer=answer or Recorded(), backoff=0, **more)
    return stream_settings(policy, budget, spec, horizon, open_questions, options={"text": options})


def recorded(toys, answers):
    return RecordedStream(toys.traces_of(answers), SEEDS_PER_QUESTION)


def run_stream(stream, questions):
    async def run():
        async with stream:
            await stream.run(questions)

    run_simulated(run())


def streamed(settings, sampler, questions, **watching):
    """Answers in the order in which they came, and the stream."""
    answers = []
    stream = make_stream(settings, [sampler], answers.append, **watching)
    run_stream(stream, questions)
    return answers, stream


def lab(policy, traces, total, options=4):
    """What the replay lab does: one question after another, straight on the allocator."""
    allocator = Allocator(policy, Budget(total, 64), horizon=len(traces))
    for id, path in traces.items():
        allocator.add(Question(id, options=options))
        while launches := allocator.ask(64):
            for launch in launches:
                allocator.tell(path[launch.number])
    return {verdict.question: verdict for verdict in allocator.verdicts()}


@pytest.mark.parametrize("open_questions", [1, 8])
def test_the_budget_is_never_exceeded_and_used_to_within_2_percent(plan, toys, open_questions):
    texts = toys.drawn(80, seed=1)
    budget = Budget(80 * 12, 64)
    answers, spent = [], []

    def note(answer):
        answers.append(answer)
        spent.append(budget.spent + budget.reserved)

    settings = settings_of(plan.policy(use_up=True), budget, 80, open_questions)
    run_stream(make_stream(settings, [recorded(toys, texts)], note), toys.arriving(texts))
    assert max(spent) <= 80 * 12
    assert budget.spent == 80 * 12 == sum(answer.traces for answer in answers)
    assert sorted(answer.id for answer in answers) == sorted(texts)
    assert sum(answer.answer == majority(texts[answer.id]) for answer in answers) >= 72


def test_one_at_a_time_it_is_the_replay_lab_to_the_trace(plan, toys):
    texts = toys.drawn(40, seed=2)
    expected = lab(plan.policy(), toys.traces_of(texts), 480)
    settings = settings_of(plan.policy(), Budget(480, 64), 40, open_questions=1)
    answers, _ = streamed(settings, recorded(toys, texts), toys.arriving(texts))
    assert [answer.id for answer in answers] == list(texts)
    assert {answer.id: (answer.answer, answer.traces) for answer in answers} == {
        id: (verdict.answer, verdict.traces) for id, verdict in expected.items()
    }


@pytest.mark.parametrize("strength", [0.01, 2.0])
def test_a_stream_unlike_the_plan_is_planned_again_on_what_remains(plan, toys, strength):
    """Much easier or much harder than the training: the price follows the budget that is left."""
    texts = toys.drawn(60, strength=strength, seed=3)
    budget = Budget(720, 64)
    answers, _ = streamed(
        settings_of(plan.policy(use_up=True), budget, 60), recorded(toys, texts), toys.arriving(texts)
    )
    assert budget.spent == 720
    assert min(answer.traces for answer in answers) >= 4


@pytest.mark.parametrize("open_questions", [1, 5])
def test_what_is_left_at_a_known_end_goes_to_the_last_questions(plan, toys, open_questions):
    texts = {f"q{i}": ["A"] * 64 for i in range(30)}
    spent = []
    for use_up in (False, True):
        budget = Budget(30 * 50, 64)
        settings = settings_of(plan.policy(use_up=use_up), budget, 30, open_questions)
        streamed(settings, recorded(toys, texts), toys.arriving(texts))
        spent.append(budget.spent)
    assert spent[0] < spent[1] == 30 * 50


def test_an_endless_stream_gets_its_budget_window_by_window(plan, toys):
    texts = toys.drawn(60, seed=4)
    budget = Budget.per_window(20, 240, cap=64)
    seen = []
    settings = settings_of(plan.policy(), budget, open_questions=4)
    stream = make_stream(
        settings, [recorded(toys, texts)], lambda _: seen.append((budget.spent + budget.reserved, budget.total))
    )
    run_stream(stream, toys.arriving(texts))
    assert {total for _, total in seen} == {240, 480, 720}
    assert all(spent <= total for spent, total in seen)
    assert budget.spent >= 0.98 * 720


@pytest.mark.parametrize("open_questions", [1, 4])
def test_a_window_leaves_2_percent_at_most(plan, toys, open_questions):
    texts = {f"q{i}": ["A"] * 64 for i in range(30)}  # nothing that a price would buy
    budget = Budget.per_window(10, 500, cap=64)
    settings = settings_of(plan.policy(use_up=True, leave=left_by_windows(budget)), budget, None, open_questions)
    spent = []
    run_stream(
        make_stream(settings, [recorded(toys, texts)], lambda _: spent.append(budget.spent)), toys.arriving(texts)
    )
    assert 1490 <= spent[-1] <= 1500
    assert open_questions > 1 or all(490 <= spent[end] - end // 10 * 500 <= 500 for end in (9, 19))


def test_an_endless_stream_forgets_what_it_has_answered(plan, toys):
    texts = toys.drawn(40, seed=4)
    budget = Budget.per_window(20, 240, cap=64)
    settings = settings_of(plan.policy(), budget, open_questions=4)
    answers, stream = streamed(settings, recorded(toys, texts), toys.arriving([*texts, "q0"]))
    assert len(answers) == 41 and not any(answer.error for answer in answers)  # so a question may come again
    assert stream.driver.allocator.verdicts() == []
    assert budget.spent == sum(answer.traces for answer in answers)


def test_a_question_beyond_the_horizon_is_refused_with_its_reason(plan, toys):
    texts = toys.drawn(12, seed=5)
    budget = Budget(48, 64)
    settings = settings_of(plan.policy(), budget, 10, open_questions=1)
    answers, _ = streamed(settings, recorded(toys, texts), toys.arriving(texts))
    refused = [answer for answer in answers if answer.error]
    assert refused
    assert "Raise the budget" in refused[-1].error
    assert len(answers) == 12
    assert budget.spent <= 48


def test_a_question_that_others_left_no_trace_for_says_so_in_a_full_row(plan, toys):
    texts = toys.drawn(8, seed=5)
    settings = settings_of(plan.policy(use_up=True), Budget(24, 64), 2)  # eight are let in, and two expected
    answers, stream = streamed(settings, recorded(toys, texts), toys.arriving(texts))
    refused = [answer for answer in answers if answer.error]
    assert sorted(answer.id for answer in answers) == sorted(texts)
    assert all(answer.traces and answer.answer for answer in answers if not answer.error)
    assert stream.driver.arrivals.arrived == 8 and refused
    assert refused[0].error.startswith("the budget has no trace left for this question: 24 of 24 are ")
    rows = [{*answer.to_plain()} - {"error"} for answer in answers]
    assert all(row == rows[0] for row in rows)


def test_a_question_that_comes_twice_or_was_never_recorded_says_so_and_costs_nothing(plan, toys):
    texts = toys.drawn(2, seed=6)
    budget = Budget(96, 64)
    settings = settings_of(plan.policy(), budget, 4, open_questions=1)
    answers, _ = streamed(settings, recorded(toys, texts), toys.arriving(["q0", "q0", "q9", "q1"]))
    assert [(answer.id, answer.error is None) for answer in answers] == [
        ("q0", True), ("q0", False), ("q9", False), ("q1", True),
    ]  # fmt: skip
    assert "nothing was recorded for question 'q9'" in answers[2].error
    assert answers[2].traces == 0 and budget.spent == answers[0].traces + answers[3].traces


class Gated(Sampler):
    """Says A and B in turn, when it is let go; counts the traces that each question was asked for."""

    def __init__(self):
        self.released, self.asked = asyncio.Event(), Counter()

    async def sample(self, prompt, n, seed, sampling):
        self.asked[prompt.content] += n
        await self.released.wait()
        first = seed % SEEDS_PER_QUESTION
        return [Completion("AB"[number % 2], "stop", 5, 2) for number in range(first, first + n)]


async def endless():
    number = 0
    while True:
        number += 1
        yield Problem(f"q{number}", Prompt(f"q{number}"))


def test_drain_brings_home_what_is_in_flight_and_answers_every_open_question(plan):
    budget, answers = Budget.per_window(10, 120, cap=64), []

    async def run():
        sampler = Gated()
        stream = make_stream(settings_of(plan.policy(), budget, open_questions=3), [sampler], answers.append)
        task = asyncio.create_task(stream.run(endless()))
        await until(lambda: len(sampler.asked) == 3, task)
        stream.drain()
        sampler.released.set()
        await task
        return sampler

    sampler = asyncio.run(run())
    assert sorted(answer.id for answer in answers) == sorted(sampler.asked)
    assert {(answer.answer, answer.traces, answer.complete) for answer in answers} == {("A", 4, False)}
    assert budget.spent == 4 * len(answers)
    assert budget.reserved == 0


def test_a_stream_that_is_drained_before_it_begins_ends(plan, toys):
    async def run():
        async with make_stream(settings_of(plan.policy(), Budget(48), 4), [Gated()], print) as stream:
            stream.drain()
            task = asyncio.create_task(stream.run(toys.arriving(["q0"])))
            done, _ = await asyncio.wait([task], timeout=60.0)
            return task in done

    assert run_simulated(run())


def test_a_question_that_is_being_written_down_when_the_stream_is_drained_is_answered(plan, toys, tmp_path):
    answers, taken = [], []

    async def source():
        for id in ("q0", "q1", "q2"):
            taken.append(id)
            yield Problem(id, Prompt(id))

    async def run():
        settings = in_store(plan.policy(), Budget(48), 4)
        async with make_stream(settings, [Gated()], answers.append, store=tmp_path / "runs.db") as stream:
            task = asyncio.create_task(stream.run(source()))
            await asyncio.sleep(0.5)  # a write takes a second
            stream.drain()
            await task

    run_simulated(run(), thread_s=lambda: 1.0)
    assert taken == [answer.id for answer in answers] == ["q0"]


def test_an_endless_stream_remembers_neither_faults_nor_costs_of_what_it_has_answered(plan, toys):
    texts = toys.drawn(40, seed=4)

    class Busy(Spoken):
        async def sample(self, prompt, n, seed, sampling):
            if self.launches.total() % 3 == 0:
                self.launches["busy"] += 1
                raise BusyError("later", status=429)
            return await super().sample(prompt, n, seed, sampling)

    budget = stream_budget(RunSpec.of(budget="4Mtok", budget_window=20, max_tokens=200))
    answers, stream = streamed(settings_of(plan.policy(), budget), Busy(texts), toys.arriving(texts))
    assert len(answers) == 40 and stream.faults["429"] > 1
    costs = stream.driver.settlement.costs
    assert stream.driver.stops.failures == {} and costs.expected("q0") == costs.expected("new")


def test_no_more_questions_are_open_and_traces_in_flight_than_allowed(plan):
    async def run():
        sampler = Gated()
        settings = settings_of(plan.policy(), Budget.per_window(10, 120, cap=64), open_questions=3, concurrency=6)
        stream = make_stream(settings, [sampler], lambda answer: None)
        task = asyncio.create_task(stream.run(endless()))
        await until(lambda: sum(sampler.asked.values()) >= 6, task)
        for _ in range(20):
            await asyncio.sleep(0)
        asked = dict(sampler.asked)
        stream.drain()
        sampler.released.set()
        await task
        return asked

    asked = asyncio.run(run())
    assert len(asked) <= 3
    assert sum(asked.values()) == 6


class AnyCase(Recorded):
    """B and b turn out to be one answer."""

    def same(self, one, other):
        return one.lower() == other.lower()


class Mixed(Sampler):
    """Of every four launches one is lost by the server, in every request; B and b are said, and A."""

    async def sample(self, prompt, n, seed, sampling):
        await asyncio.sleep(0)
        if n > 1:
            raise RefusedError("one at a time", status=400)
        number = seed % SEEDS_PER_QUESTION
        if number % 4 == 3:
            raise ReplyError("half a body")
        return [Completion(["B", "b", "A"][number % 4], "stop", 10, 2, Confidence(1, 9 - number, 1, 1, 3))]


def test_an_answer_holds_votes_failures_and_merged_classes(plan, toys):
    budget = Budget(10, 8)
    settings = settings_of(plan.policy(use_up=True), budget, 1, answer=AnyCase(), tries=2)
    drift = Drift.of(plan)
    (answer,), _ = streamed(settings, Mixed(), toys.arriving(["q"]), drift=drift)
    assert (answer.answer, answer.text, answer.votes) == ("B", "B", {"B": 4, "A": 2})
    # Launches 3 and 7 were tried twice; each attempt may have been sampled, so each is paid for.
    assert (answer.traces, answer.no_answer, answer.failed, answer.tokens) == (10, 4, 4, 60)
    assert budget.spent == 10
    assert answer.warmup is None and drift.seen == 0  # a warm-up with failures says nothing of the model
    assert 0 < answer.certificate < 1
    assert answer.to_plain()["complete"]
    assert "error" not in answer.to_plain()


def test_the_drift_alarm_is_raised_once(plan, toys):
    texts = {f"q{i}": list("ABCD") * 16 for i in range(40)}
    alarms = []
    drift = Drift.of(plan, on_alarm=alarms.append)
    settings = settings_of(plan.policy(), Budget(480, 64), 40)
    streamed(settings, recorded(toys, texts), toys.arriving(texts), drift=drift)
    assert alarms == [drift]
    assert drift.alarm
    assert drift.seen == 40


class Failing(Sampler):
    """Raises at once for every question that ``errors`` names; a trace takes a second."""

    def __init__(self, **errors):
        self.errors, self.requests = errors, Counter()

    async def sample(self, prompt, n, seed, sampling):
        self.requests[prompt.content] += 1
        if prompt.content in self.errors:
            raise self.errors[prompt.content]
        await asyncio.sleep(1)
        return [Completion("A", "stop", 5, 2)] * n


def test_what_breaks_for_everybody_ends_the_stream_with_its_own_error(plan, toys):
    error = RefusedError("the key is wrong", status=401)
    with pytest.raises(RefusedError, match="the key is wrong"):
        streamed(
            settings_of(plan.policy(), Budget(96, 64), 4), Failing(q1=error, q2=error), toys.arriving(["q1", "q2"])
        )


def test_a_question_that_the_server_will_not_serve_is_given_up_free_of_charge(plan, toys):
    budget = Budget(48, 64)
    sampler = Failing(
        q1=RefusedError("too long", status=400), q2=BusyError("server error", status=500, retry_after=0.0)
    )
    settings = settings_of(plan.policy(use_up=True), budget, 4, open_questions=1, tries=3)
    answers, _ = streamed(settings, sampler, toys.arriving(["q0", "q1", "q2", "q3"]))
    assert [(answer.id, answer.error) for answer in answers] == [
        ("q0", None), ("q1", "too long"), ("q2", "server error"), ("q3", None),
    ]  # fmt: skip
    first, refused, failing, last = answers
    assert refused.traces == failing.traces == failing.failed == 0 and sampler.requests["q2"] == 3
    assert first.traces + last.traces == budget.spent == 48  # what they did not cost went to others


def test_a_cold_stream_keeps_its_budget_and_learns(toys):
    texts = toys.drawn(48, strength=0.1, seed=8)
    budget = Budget(384, 64)
    settings = settings_of(PriceRule(rounds=2, use_up=True, cold=True), budget, 48, open_questions=4)
    answers, stream = streamed(settings, recorded(toys, texts), toys.arriving(texts))
    assert budget.spent == 384
    policy = stream.driver.allocator.policy
    assert policy.table is not None
    assert sum(policy.shares[0][:4]) > 0.8  # most questions are nearly unanimous, without a single label
    assert sum(answer.answer == majority(texts[answer.id]) for answer in answers) >= 44


def test_at_least_one_question_is_open(plan):
    with pytest.raises(InputError, match="at least 1"):
        settings_of(plan.policy(), Budget(96, 64), 4, open_questions=0)


class Spoken(Sampler):
    """Says the recorded texts, counts every trace that it was asked for, and falls silent after so many."""

    def __init__(self, texts, until=None, tokens=lambda number: 5):
        self.texts, self.until, self.tokens = texts, until, tokens
        self.launches, self.silent = Counter(), asyncio.Event()

    async def sample(self, prompt, n, seed, sampling):
        first = seed % SEEDS_PER_QUESTION
        self.launches.update((prompt.content, number) for number in range(first, first + n))
        await asyncio.sleep(0)
        if self.until is not None and self.launches.total() > self.until:
            self.silent.set()
            await asyncio.Event().wait()
        texts = self.texts[prompt.content]
        sure = Confidence(1.0, 2.0, 1.0, 1.0, 5) if sampling.top_logprobs else None
        return [
            Completion(texts[number % len(texts)], "stop", self.tokens(number), 2, sure)
            for number in range(first, first + n)
        ]


def in_store(policy, budget, horizon=None, open_questions=4, **more):
    """Settings that another process can read again."""
    return settings_of(policy, budget, horizon, open_questions, answer="choice:options=4", **more)


def break_off(settings, sampler, questions, store):
    """The answers of a stream that is cancelled when its sampler has fallen silent, and its budget."""
    answers = []

    async def run():
        async with make_stream(settings, [sampler], answers.append, store=store) as stream:
            task = asyncio.create_task(stream.run(questions))
            await until(sampler.silent.is_set, task)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    return answers


def resumed(store, sampler, questions, run="last"):
    answers = []
    stream = Stream.resume(store, run, Servers(sampler=[sampler]), answers.append)
    run_stream(stream, questions)
    return answers, stream


def stored_traces(store, run="last"):
    with Store.open(store) as opened:
        return list(opened.view(run).traces()), opened.view(run).summary()


@pytest.mark.parametrize("after", [1, 60, 200])
def test_broken_off_and_resumed_nothing_is_lost_or_paid_for_twice(plan, toys, tmp_path, after):
    texts, store = toys.drawn(20, seed=9), tmp_path / "runs.db"
    first = Spoken(texts, until=after)
    early = break_off(in_store(plan.policy(use_up=True), Budget(240, 64), 20), first, toys.arriving(texts), store)
    second = Spoken(texts)
    late, stream = resumed(store, second, toys.arriving(texts))
    assert Counter(answer.id for answer in early + late) == Counter(list(texts))  # each answered once
    assert not {id for id, _ in second.launches} & {answer.id for answer in early}
    assert set((first.launches + second.launches).values()) == {1}
    budget = stream.driver.allocator.budget
    assert budget.spent == sum(answer.traces for answer in early + late) == 240 and budget.reserved == 0
    traces, summary = stored_traces(store)
    assert len({trace.launch for trace in traces}) == len(traces) == 240
    assert (summary.state, summary.spent, summary.lost) == ("finished", 240, 0)
    assert (
        stream.launches_lost
        == sum(trace.error is not None for trace in traces)
        == sum(answer.failed for answer in late)
        > 0
    )
    for answer in late:
        votes = Counter(trace.answer for trace in traces if trace.question == answer.id and trace.answer is not None)
        assert answer.votes == dict(votes)


def test_a_stream_that_is_drained_and_resumed_goes_on_with_what_has_not_come_yet(plan, toys, tmp_path):
    texts, store, answers = toys.drawn(20, seed=9), tmp_path / "runs.db", []
    first = Spoken(texts)

    async def run():
        settings = in_store(plan.policy(use_up=True), Budget(240, 64), 20)
        async with make_stream(settings, [first], answers.append, store=store) as stream:
            task = asyncio.create_task(stream.run(toys.arriving(texts)))
            await until(lambda: len(answers) >= 5, task)
            stream.drain()
            await task

    asyncio.run(run())
    assert stored_traces(store)[1].state == "stopped"
    late, stream = resumed(store, Spoken(texts), toys.arriving(texts))
    assert Counter(answer.id for answer in answers + late) == Counter(list(texts))
    assert stream.driver.allocator.budget.spent == 240 and stream.launches_lost == 0
    again, stream = resumed(store, third := Spoken(texts), toys.arriving(texts))
    assert again == [] and not third.launches and stream.driver.allocator.budget.spent == 240


def test_an_endless_stream_is_resumed_in_the_window_that_it_was_in(plan, toys, tmp_path):
    texts, store = toys.drawn(30, seed=10), tmp_path / "runs.db"
    policy = plan.policy(use_up=True, leave=left_by_windows(Budget.per_window(10, 120, cap=64)))
    settings = in_store(policy, Budget.per_window(10, 120, cap=64))
    early = break_off(settings, Spoken(texts, until=150), toys.arriving(texts), store)
    late, stream = resumed(store, Spoken(texts), toys.arriving(texts))
    assert Counter(answer.id for answer in early + late) == Counter(list(texts))
    budget = stream.driver.allocator.budget
    assert budget.total == 360 and 0.98 * 360 <= budget.spent <= 360


def test_a_question_of_a_store_comes_once(plan, toys, tmp_path):
    texts = toys.drawn(4, seed=10)
    settings = in_store(plan.policy(), Budget.per_window(10, 120, cap=64))
    answers, _ = streamed(settings, Spoken(texts), toys.arriving([*texts, "q0"]), store=tmp_path / "runs.db")
    assert [answer.id for answer in answers if answer.error] == ["q0"] and len(answers) == 5
    assert "came before" in next(answer.error for answer in answers if answer.error)


def test_only_a_stream_is_resumed_as_one_and_a_policy_that_no_spec_names_is_not_stored(plan, toys, tmp_path):
    class Own(PriceRule):
        pass

    with pytest.raises(InputError, match="another process"):
        make_stream(in_store(Own(rounds=1, cold=True), Budget(48), 4), [], print, store=tmp_path / "runs.db")
    texts = toys.drawn(1, seed=1)
    solve([Problem("q0", Prompt("q0"))], sampler=Spoken(texts), budget=2, store=tmp_path / "runs.db")
    with pytest.raises(StateError, match="not a stream"):
        Stream.resume(tmp_path / "runs.db", "last", Servers(sampler=[Spoken(texts)]), print)


def long(number):
    return 60 + number % 41


@pytest.mark.parametrize("amount", ["30ktok", "0.03usd"])
@pytest.mark.parametrize("broken", [False, True])
def test_tokens_and_money_are_kept_and_used(plan, toys, tmp_path, amount, broken):
    texts = toys.drawn(20, seed=11)
    price = TokenPrice(1.0, 1.0)
    problems = [Problem(id, Prompt(id)) for id in texts]
    budget = stream_budget(RunSpec.of(budget=amount, price=price, max_tokens=200), problems=problems)
    settings = in_store(plan.policy(use_up=True), budget, len(problems), price=price, max_tokens=200, concurrency=16)
    store, early = tmp_path / "runs.db", []
    if broken:
        early = break_off(settings, Spoken(texts, 100, long), toys.arriving(texts), store)
        late, stream = resumed(store, Spoken(texts, None, long), toys.arriving(texts))
        budget = stream.driver.allocator.budget
    else:
        late, stream = streamed(settings, Spoken(texts, None, long), toys.arriving(texts), store=store)
    answers = early + late
    assert Counter(answer.id for answer in answers) == Counter(list(texts))
    # What was in flight at the break is charged at all that was held for it, which the last questions may miss.
    assert broken or all(answer.traces >= 4 for answer in answers)
    assert 0.9 * budget.total <= budget.spent <= 1.1 * budget.total
    assert stored_traces(store)[1].spent == budget.spent
    used = sum(answer.tokens + answer.prompt_tokens for answer in answers)
    assert used * max(1, budget.currency.per_token) == budget.spent
    assert sum(answer.cost or 0.0 for answer in answers) == pytest.approx(used / 1e6)


def test_a_budget_in_tokens_that_cannot_pay_for_a_trace_is_refused(plan):
    budget = stream_budget(RunSpec.of(budget="500tok", horizon=4, max_tokens=2000))
    with pytest.raises(BudgetError, match="Raise the budget"):
        make_stream(in_store(plan.policy(), budget, 4), [Spoken({})], print)


def test_confidences_are_asked_for_and_kept(plan, toys, tmp_path):
    texts, store = toys.drawn(4, seed=12), tmp_path / "runs.db"
    settings = in_store(plan.policy(use_up=True), Budget(48, 64), 4, confidence="tail")
    streamed(settings, Spoken(texts), toys.arriving(texts), store=store)
    traces, summary = stored_traces(store)
    assert len(traces) == 48 and all(trace.confidences.tail == 2.0 for trace in traces)
    assert summary.settings.confidence == "tail"


def test_what_was_never_sent_when_the_server_went_is_not_charged(plan, toys, tmp_path):
    texts, store, answers = toys.drawn(20, seed=13), tmp_path / "runs.db", []
    sampler = Spoken(texts)

    async def gone(prompt, n, seed, sampling):
        raise UnreachableError("nobody is there")

    async def run():
        settings = in_store(plan.policy(use_up=True), Budget(240, 64), 20)
        async with make_stream(settings, [sampler], answers.append, store=store) as stream:
            task = asyncio.create_task(stream.run(toys.arriving(texts)))
            await until(lambda: len(answers) >= 5, task)
            sampler.sample = gone
            await task

    with pytest.raises(UnreachableError, match="nobody is there"):
        run_simulated(run())
    with Store.open(store) as opened:
        assert opened.view().load("faults")["unreachable"] > 0
    late, stream = resumed(store, Spoken(texts), toys.arriving(texts))
    assert stream.launches_lost == 0 and stream.driver.allocator.budget.spent == 240
    assert Counter(answer.id for answer in answers + late) == Counter(list(texts))
    assert sum(answer.failed for answer in answers + late) == 0


def test_a_stream_goes_on_without_hurry_once_its_server_goes_on():
    settings = settings_of(Lead(votes=3), Budget(800, 64), horizon=40, open_questions=8, answer="choice")
    answers: list = []
    stream = make_stream(settings, [GoesOn()], answers.append)

    async def arriving():
        for problem in asked([f"q{i}" for i in range(40)]):
            yield problem

    async def run():
        async with stream:
            await stream.run(arriving())

    run_simulated(run())
    assert len(answers) == 40 and stream.driver.allocator.hurry == 0.0
    assert stream.faults["cancelled and not stopped by the server"]
