"""What becomes of a request: a launch is delivered, lost, given back or abandoned, once, and counted so."""

import asyncio

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.assemble import assemble
from pets.engine.ledger import Ledger
from pets.engine.pacing import Pace
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.errors import BusyError, InputError
from pets.policies.okg import OKG
from pets.samplers import Completion
from pets.types import Question

from .conftest import Scripted, asked


class Journal(Ledger):
    """Notes what is written, in order."""

    def __init__(self):
        self.entries = []

    async def opened(self, request):
        self.entries.append(("opened", request.size))

    async def delivered(self, request, traces):
        self.entries.append(("delivered", len(traces)))

    def lost(self, request, usage):
        self.entries.append(("lost", request.size))

    def released(self, request):
        self.entries.append(("released", request.size))

    def abandoned(self, request, traces):
        self.entries.append(("abandoned", len(traces)))

    async def given_up(self, traces):
        self.entries.append(("given up", len(traces)))


class Launched:
    """A driver with launches in flight, and their one request."""

    def __init__(self, traces=2, total=2):
        self.ledger, self.counted = Journal(), []
        allocator = Allocator(OKG(), Budget(total), [Question("a", options=4)])
        self.driver = assemble(
            RunSpec.of(keep_going=True),
            allocator,
            Sources([Scripted()]),
            asked("a"),
            pace=Pace(8),
            ledger=self.ledger,
            on_trace=self.counted.append,
        )
        self.settlement, self.budget = self.driver.settlement, allocator.budget
        ((question, numbers, holds),) = self.driver.questions.group(self.settlement.reserve(traces))
        self.driver.questions.launched(question, traces)
        self.request = self.driver.arrivals.request(question, numbers.start, tuple(holds))

    def do(self, *work):
        async def run():
            for coroutine in work:
                await coroutine

        asyncio.run(run())

    @property
    def state(self):
        return self.budget.spent, self.budget.reserved, self.driver.questions.in_flight


def completions(*texts):
    return [Completion(text, "stop", 10, 5) for text in texts]


def test_traces_are_written_before_they_are_counted():
    launched = Launched()
    settlement, request = launched.settlement, launched.request
    assert launched.state == (0, 2, 2)
    launched.do(settlement.opened(request), settlement.delivered(request, completions("Answer: A", "?")))
    assert launched.ledger.entries == [("opened", 2), ("delivered", 2)]
    assert [trace.answer for trace in launched.counted] == ["A", None]
    assert launched.state == (2, 0, 0) and launched.driver.allocator.verdict("a").votes == (("A", 1.0),)


def test_launches_that_a_reply_leaves_out_are_released_and_nothing_has_failed():
    launched = Launched()
    settlement, request = launched.settlement, launched.request
    launched.do(settlement.opened(request))
    settlement.released(request.part(1, 1), None)
    launched.do(settlement.delivered(request, completions("Answer: A")))
    assert launched.ledger.entries == [("opened", 2), ("released", 1), ("delivered", 1)]
    assert launched.driver.stops.failures == {}


def test_what_may_have_been_sampled_is_charged_and_casts_no_vote():
    launched = Launched()
    error = BusyError("late", status=504)
    launched.do(launched.settlement.failed(launched.request, error))
    assert launched.state == (2, 0, 0) and launched.driver.allocator.verdict("a").no_answer == 2
    assert [trace.error for trace in launched.counted] == ["late", "late"]
    assert launched.ledger.entries == [("lost", 2), ("given up", 2)]


def test_what_was_not_sampled_is_given_back_and_its_question_asked_no_more():
    launched = Launched()
    launched.do(launched.settlement.given_up(launched.request, BusyError("full", status=429)))
    assert launched.ledger.entries == [("released", 2)] and launched.counted == []
    assert launched.state == (0, 0, 0) and launched.driver.allocator.ask(9) == []
    drained = Launched(total=6)
    drained.driver.stops.drain()
    drained.do(drained.settlement.given_up(drained.request, None))
    assert len(drained.driver.allocator.ask(9)) == 6  # a run that goes on asks again


def test_an_attempt_that_is_lost_is_charged_as_long_as_the_budget_pays_for_another():
    launched = Launched(traces=2, total=6)
    error = BusyError("late", status=504)
    answers = []

    async def lose():
        answers.append(await launched.settlement.lost(launched.request, error))

    launched.do(lose(), lose(), lose())
    assert answers == [True, True, False] and launched.budget.spent == 4


@pytest.mark.parametrize("turned_away", [False, True])
def test_an_attempt_that_nobody_waits_for_is_charged_unless_the_server_refuses_all(turned_away):
    launched = Launched()
    if turned_away:
        launched.driver.stops.turn_away()
    launched.settlement.abandoned(launched.request)
    assert launched.settlement.traces_abandoned == (0 if turned_away else 2)
    assert launched.ledger.entries == [("released", 2) if turned_away else ("abandoned", 0)]


def test_traces_whose_reading_breaks_off_are_kept_at_what_they_cost(monkeypatch):
    launched = Launched()

    async def fails(question, completions):
        raise InputError("too deep")

    monkeypatch.setattr(launched.settlement.reading, "read", fails)
    with pytest.raises(InputError):
        launched.do(launched.settlement.delivered(launched.request, completions("Answer: A", "?")))
    assert launched.settlement.traces_abandoned == 2 and launched.ledger.entries == [("abandoned", 2)]
