"""Streams: the budget is kept and used, every question is answered once, and Ctrl-C loses nothing."""

import asyncio
from collections import Counter

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.tally import majority
from pets.errors import InputError, RefusedError
from pets.plans import Drift, RecordedTraces, Stream, left_by_windows
from pets.plans.traces import Drawn
from pets.policies.price import Price
from pets.questions import Problem
from pets.samplers import Prompt
from pets.types import Question


def streamed(allocator, source, questions, **settings):
    """Outcomes in the order in which they came, and the stream."""
    found = []

    async def run():
        stream = Stream(allocator, source, found.append, **settings)
        await stream.run(questions)
        return stream

    return found, asyncio.run(run())


def lab(policy, traces, total, options=4):
    """What the replay lab does: one question after another, straight on the allocator."""
    allocator = Allocator(policy, Budget(total, 64), horizon=len(traces))
    for id, path in traces.items():
        allocator.add(Question(id, options=options))
        while launches := allocator.ask(64):
            for launch in launches:
                allocator.tell(path[launch.number])
    return {verdict.question: verdict for verdict in allocator.verdicts()}


@pytest.mark.parametrize("at_once", [1, 8])
def test_the_budget_is_never_exceeded_and_used_to_within_2_percent(plan, toys, at_once):
    answers = toys.drawn(80, seed=1)
    allocator = Allocator(plan.policy(use_up=True), Budget(80 * 12, 64), horizon=80)
    spent = []
    source = RecordedTraces(toys.traces_of(answers), 4)
    found = []

    def say(outcome):
        found.append(outcome)
        spent.append(allocator.budget.spent + allocator.budget.reserved)

    asyncio.run(Stream(allocator, source, say, at_once=at_once).run(toys.arriving(answers)))
    assert max(spent) <= 80 * 12
    assert allocator.budget.spent == 80 * 12 == sum(one.traces for one in found)
    assert sorted(one.id for one in found) == sorted(answers)
    agreed = [one.answer == majority(answers[one.id]) for one in found]
    assert sum(agreed) >= 72


def test_one_at_a_time_it_is_the_replay_lab_to_the_trace(plan, toys):
    answers = toys.drawn(40, seed=2)
    traces = toys.traces_of(answers)
    expected = lab(plan.policy(), traces, 480)
    allocator = Allocator(plan.policy(), Budget(480, 64), horizon=40)
    found, _ = streamed(allocator, RecordedTraces(traces, 4), toys.arriving(answers), at_once=1)
    assert [one.id for one in found] == list(answers)
    assert {one.id: (one.answer, one.traces) for one in found} == {
        id: (verdict.answer, verdict.traces) for id, verdict in expected.items()
    }


@pytest.mark.parametrize("strength", [0.01, 2.0])
def test_a_stream_unlike_the_plan_is_planned_again_on_what_remains(plan, toys, strength):
    """Much easier or much harder than the training: the price follows the budget that is left."""
    answers = toys.drawn(60, strength=strength, seed=3)
    allocator = Allocator(plan.policy(use_up=True), Budget(720, 64), horizon=60)
    found, _ = streamed(allocator, RecordedTraces(toys.traces_of(answers), 4), toys.arriving(answers))
    assert allocator.budget.spent == 720
    assert min(one.traces for one in found) >= 4


@pytest.mark.parametrize("at_once", [1, 5])
def test_what_is_left_at_a_known_end_goes_to_the_last_questions(plan, toys, at_once):
    answers = {f"q{i}": ["A"] * 64 for i in range(30)}
    spent = []
    for use_up in (False, True):
        allocator = Allocator(plan.policy(use_up=use_up), Budget(30 * 50, 64), horizon=30)
        source = RecordedTraces(toys.traces_of(answers), 4)
        streamed(allocator, source, toys.arriving(answers), at_once=at_once)
        spent.append(allocator.budget.spent)
    assert spent[0] < spent[1] == 30 * 50


def test_an_endless_stream_gets_its_budget_window_by_window(plan, toys):
    answers = toys.drawn(60, seed=4)
    allocator = Allocator(plan.policy(), Budget.per_window(20, 240, cap=64))
    seen = []
    source = RecordedTraces(toys.traces_of(answers), 4)

    def say(outcome):
        budget = allocator.budget
        seen.append((budget.spent + budget.reserved, budget.total))

    asyncio.run(Stream(allocator, source, say, at_once=4).run(toys.arriving(answers)))
    assert {total for _, total in seen} == {240, 480, 720}
    assert all(spent <= total for spent, total in seen)
    assert allocator.budget.spent >= 0.98 * 720


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_window_leaves_2_percent_at_most(plan, toys, at_once):
    answers = {f"q{i}": ["A"] * 64 for i in range(30)}  # nothing that a price would buy
    budget = Budget.per_window(10, 500, cap=64)
    allocator = Allocator(plan.policy(use_up=True, leave=left_by_windows(budget)), budget)
    spent = []
    source = RecordedTraces(toys.traces_of(answers), 4)
    asyncio.run(
        Stream(allocator, source, lambda _: spent.append(budget.spent), at_once=at_once).run(toys.arriving(answers))
    )
    assert 1490 <= spent[-1] <= 1500
    assert at_once > 1 or all(490 <= spent[end] - end // 10 * 500 <= 500 for end in (9, 19))


def test_an_endless_stream_forgets_what_it_has_answered(plan, toys):
    answers = toys.drawn(40, seed=4)
    allocator = Allocator(plan.policy(), Budget.per_window(20, 240, cap=64))
    source = RecordedTraces(toys.traces_of(answers), 4)
    found, _ = streamed(allocator, source, toys.arriving([*answers, "q0"]), at_once=4)
    assert len(found) == 41 and not any(one.error for one in found)  # so a question may come again
    assert allocator.verdicts() == [] and allocator.budget.spent == sum(one.traces for one in found)


def test_a_question_beyond_the_horizon_is_refused_with_its_reason(plan, toys):
    answers = toys.drawn(12, seed=5)
    allocator = Allocator(plan.policy(), Budget(48, 64), horizon=10)
    found, stream = streamed(allocator, RecordedTraces(toys.traces_of(answers), 4), toys.arriving(answers), at_once=1)
    refused = [one for one in found if one.error]
    assert stream.refused == len(refused) >= 1
    assert "Raise the budget" in refused[-1].error
    assert len(found) == 12
    assert allocator.budget.spent <= 48


def test_a_question_that_others_left_no_trace_for_says_so(plan, toys):
    answers = toys.drawn(8, seed=5)
    allocator = Allocator(plan.policy(use_up=True), Budget(24, 64), horizon=2)  # eight are let in, and two expected
    found, stream = streamed(allocator, RecordedTraces(toys.traces_of(answers), 4), toys.arriving(answers), at_once=8)
    refused = [one for one in found if one.error]
    assert sorted(one.id for one in found) == sorted(answers)
    assert all(one.traces and one.answer for one in found if not one.error)
    assert (stream.asked, stream.refused) == (8 - len(refused), len(refused)) and refused
    assert refused[0].error.startswith("the budget has no trace left for this question: 24 of 24 are ")


def test_a_question_that_comes_twice_or_was_never_recorded_is_refused(plan, toys):
    answers = toys.drawn(2, seed=6)
    allocator = Allocator(plan.policy(), Budget(96, 64), horizon=4)
    source = RecordedTraces(toys.traces_of(answers), 4)
    found, _ = streamed(allocator, source, toys.arriving(["q0", "q0", "q9", "q1"]), at_once=1)
    assert [(one.id, one.error is None) for one in found] == [
        ("q0", True), ("q0", False), ("q9", False), ("q1", True),
    ]  # fmt: skip


class Held:
    """Traces that come when they are let go; ``wanted`` is set when some are waited for."""

    options = None

    def __init__(self):
        self.wanted, self.released = asyncio.Event(), asyncio.Event()
        self.asked, self.closed = Counter(), 0

    def open(self, problem, place):
        return _Held(self, problem.id)


class _Held:
    options = 4

    def __init__(self, source, id):
        self.source, self.id = source, id

    async def draw(self, first, n):
        self.source.asked[self.id] += n
        self.source.wanted.set()
        await self.source.released.wait()
        return [Drawn("AB"[at % 2], "AB"[at % 2], None, 5, 2) for at in range(first, first + n)]

    def names(self, forms):
        return {form: form for form in forms}

    def close(self):
        self.source.closed += 1


async def endless():
    number = 0
    while True:
        number += 1
        yield Problem(f"q{number}", Prompt("?"))


def test_drain_brings_home_what_is_in_flight_and_answers_every_open_question(plan):
    async def run():
        source, found = Held(), []
        allocator = Allocator(plan.policy(), Budget.per_window(10, 120, cap=64))
        stream = Stream(allocator, source, found.append, at_once=3)
        running = asyncio.create_task(stream.run(endless()))
        await source.wanted.wait()
        await asyncio.sleep(0)
        stream.drain()
        source.released.set()
        await running
        return source, found, allocator

    source, found, allocator = asyncio.run(run())
    assert sorted(one.id for one in found) == sorted(source.asked)
    assert {(one.answer, one.traces, one.complete) for one in found} == {("A", 4, False)}
    assert allocator.budget.spent == 4 * len(found)
    assert allocator.budget.reserved == 0
    assert source.closed == len(found)


def test_no_more_questions_are_open_and_traces_in_flight_than_allowed(plan):
    async def run():
        source, found = Held(), []
        allocator = Allocator(plan.policy(), Budget.per_window(10, 120, cap=64))
        stream = Stream(allocator, source, found.append, at_once=3, concurrency=6)
        running = asyncio.create_task(stream.run(endless()))
        await source.wanted.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        asked = dict(source.asked)
        stream.drain()
        source.released.set()
        await running
        return asked

    asked = asyncio.run(run())
    assert len(asked) <= 3
    assert sum(asked.values()) == 6


class Mixed(Held):
    """Of every four traces, one never comes; forms B and b turn out to be one answer."""

    def open(self, problem, place):
        return _Mixed(self, problem.id)


class _Mixed(_Held):
    async def draw(self, first, n):
        await asyncio.sleep(0)
        kinds = [
            Drawn("B", "B", "first B", 10),
            Drawn("b", "b", "b", 10),
            Drawn("A", "A", "A", 10),
            Drawn(error="gone"),
        ]
        return [kinds[at % 4] for at in range(first, first + n)]

    def names(self, forms):
        return {form: form.upper() for form in forms}


def test_an_outcome_holds_votes_failures_and_merged_classes(plan, toys):
    allocator = Allocator(plan.policy(), Budget(8, 8), horizon=1)
    drift = Drift.of(plan)
    found, _ = streamed(allocator, Mixed(), toys.arriving(["q"]), drift=drift)
    (one,) = found
    assert (one.answer, one.text, one.votes) == ("B", "first B", {"B": 4, "A": 2})
    assert (one.traces, one.no_answer, one.failed, one.tokens) == (8, 2, 2, 60)
    assert one.warmup == "1-1-1-1"
    assert 0 < one.certificate < 1
    assert drift.seen == 0  # a warm-up with failures says nothing of the model
    assert one.to_plain()["complete"]
    assert "error" not in one.to_plain()


def test_the_drift_alarm_is_raised_once(plan, toys):
    answers = {f"q{i}": list("ABCD") * 16 for i in range(40)}
    allocator = Allocator(plan.policy(), Budget(480, 64), horizon=40)
    drift, heard = Drift.of(plan), []
    source = RecordedTraces(toys.traces_of(answers), 4)
    streamed(allocator, source, toys.arriving(answers), drift=drift, alarmed=heard.append)
    assert heard == [drift]
    assert drift.alarm
    assert drift.seen == 40


class Broken(Held):
    def open(self, problem, place):
        return _Broken(self, problem.id)


class _Broken(_Held):
    async def draw(self, first, n):
        raise RefusedError("the key is wrong", status=401)


def test_what_breaks_for_everybody_ends_the_stream_with_its_own_error(plan, toys):
    with pytest.raises(RefusedError, match="the key is wrong"):
        streamed(Allocator(plan.policy(), Budget(96, 64), horizon=4), Broken(), toys.arriving(["q1", "q2"]))


def test_a_cold_stream_keeps_its_budget_and_learns(toys):
    answers = toys.drawn(48, strength=0.1, seed=8)
    allocator = Allocator(Price(rounds=2, use_up=True, cold=True), Budget(384, 64), horizon=48)
    source = RecordedTraces(toys.traces_of(answers), 4)
    found, _ = streamed(allocator, source, toys.arriving(answers), at_once=4)
    assert allocator.budget.spent == 384
    assert allocator.policy.table is not None
    assert sum(allocator.policy.shares[0][:4]) > 0.8  # most questions are nearly unanimous, without a single label
    assert sum(one.answer == majority(answers[one.id]) for one in found) >= 44


def test_at_least_one_question_is_open(plan):
    with pytest.raises(InputError, match="at least 1"):
        Stream(Allocator(plan.policy(), Budget(96, 64), horizon=4), Held(), print, at_once=0)
