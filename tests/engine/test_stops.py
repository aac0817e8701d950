"""Why a run ends before its budget does."""

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.fetch import MOST_UNKNOWN_TRACES, Fetcher
from pets.engine.pacing import Ending, FirstTraces, StopRules
from pets.errors import BusyError, FirstTracesError, RefusedError
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.store import StoredTrace
from pets.types import Question, Trace

from .conftest import Scripted


def rules(total=100, questions="ab", **options):
    allocator = Allocator(OKG(), Budget(total), [Question(id, options=2) for id in questions])
    fetcher = Fetcher([Scripted()])
    options = {"first_traces": FirstTraces(1, keep_going=True), "ids": []} | options
    return allocator, fetcher, StopRules(allocator, fetcher, **options)


def test_a_run_goes_on_until_it_is_told_to_end():
    _, _, stops = rules()
    assert stops.ending() is None and not stops.may_resume
    stops.drain()
    assert stops.ending() == Ending("drained") and stops.may_resume
    stops.drain(on=False)
    assert stops.ending() is None


def test_a_run_ends_when_its_target_is_met():
    allocator, _, stops = rules(questions="a", target=0.9, ids=["a"])
    assert stops.ending() is None
    for launch in allocator.ask(40):
        allocator.tell(Trace(*launch, "A"))
    assert stops.ending() == Ending("target") and stops.enough == "target" and not stops.may_resume


def ending_of(votes, policy=None, cap=None, target=None):
    """Why a run ends whose questions have these votes."""
    ids = [f"q{i}" for i in range(len(votes))]
    allocator = Allocator(policy or OKG(prior=1.0), Budget(10_000, cap), [Question(id, options=4) for id in ids])
    allocator.adopt(Trace(id, n, vote) for id, path in zip(ids, votes, strict=True) for n, vote in enumerate(path))
    ending = StopRules(allocator, Fetcher([Scripted()]), FirstTraces(1, keep_going=True), ids, target).ending()
    return None if ending is None else ending.reason


def test_a_question_without_a_vote_does_not_meet_a_target():
    assert ending_of([["A"]] * 10 + [[]] * 10, target=0.9) is None
    assert ending_of([list("AAAAAAAA")] * 20, target=0.9) == "target"


def test_a_run_is_settled_when_only_questions_at_their_cap_are_in_doubt():
    """Unanimous questions do not fill up to the cap; a policy that spends evenly means to."""
    clear, tie = ["A"] * 12, ["A", "B"] * 8
    assert ending_of([clear] * 60, OKG(), 16) == "settled"
    assert ending_of([clear] * 57 + [tie] * 3, OKG(), 16) == "settled"
    assert ending_of([clear] * 57 + [tie] * 3, OKG(), 17) is None
    assert ending_of([clear[:7]] * 60, OKG(), 16) is None  # so few may agree by chance
    assert ending_of([clear] * 60, Uniform(), 16) is None


def test_first_traces_that_cast_no_vote_end_a_run_with_their_error_while_there_is_budget():
    first = FirstTraces(4)
    allocator, _, stops = rules(total=4, first_traces=first)
    for number in range(3):
        first.count(StoredTrace("a", number, text="?"), lambda: "number")
    ending = stops.ending()
    assert ending.reason == "first traces" and isinstance(ending.error, FirstTracesError)
    allocator.ask(4)
    assert stops.ending() is None  # nothing is left to save


def test_failures_that_may_have_cost_too_much_end_a_run_and_are_forgotten_when_it_begins_again():
    _, fetcher, stops = rules()
    fetcher.unknown_traces = MOST_UNKNOWN_TRACES - 1
    stops.failed("a", BusyError("late", status=504))
    assert stops.ending() is None
    fetcher.unknown_traces += 1
    stops.failed("a", BusyError("late", status=504))
    assert stops.ending().reason == "losses" and "billed" in str(stops.ending().error) and stops.may_resume
    assert str(stops.failures["a"]) == "late"
    stops.begin()
    assert stops.ending() is None and fetcher.unknown_traces == 0


def test_a_request_that_every_question_is_refused_for_ends_the_run_at_once():
    _, _, stops = rules(ids=["a", "b", "c", "d"])
    for id in "aab":
        stops.refused(id, RefusedError("no.", status=400))
    with pytest.raises(RefusedError, match="no"):
        stops.refused("c", RefusedError("no.", status=400))
    assert stops.turned_away
    allocator, _, stops = rules(ids=["a", "b", "c", "d"])
    allocator.tell(Trace(*allocator.ask()[0], "A"))
    for id in "abcd":  # the server takes such requests: these questions are at fault
        stops.refused(id, RefusedError("no.", status=400))
    assert not stops.turned_away
