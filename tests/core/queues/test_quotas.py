"""Grants: R_t and H_t as the paper has them, promises kept, rounds counted, coins fixed by the seed."""

from dataclasses import dataclass

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import QuotaPolicy
from pets.policies.lead import Lead
from pets.policies.price import PriceRule
from pets.types import Question, Trace

SEEN = []


@dataclass(frozen=True, slots=True)
class Fixed(QuotaPolicy):
    """Asks for ``more`` each time, at most ``rounds`` times, and notes what it was shown."""

    more: int = 3
    rounds: int = 0
    warmup: int = 0

    def quota(self, tally, view):
        SEEN.append((tally, view))
        return tally.launched + self.more


def stream(policy, budget, n, **kwargs):
    """Questions one by one, each to its end; returns the allocator."""
    SEEN.clear()
    allocator = Allocator(policy, budget, **kwargs)
    for i in range(n):
        allocator.add(Question(f"q{i}"))
        while launches := allocator.ask(4):
            for launch in launches:
                allocator.tell(Trace(*launch, "A"))
    return allocator


def test_a_one_shot_stream_sees_what_remains_of_budget_and_horizon():
    stream(Fixed(more=3, rounds=1, warmup=4), Budget(100), 5, horizon=5)
    assert [(view.budget_left, view.questions_left) for _, view in SEEN] == [
        (100, 5),
        (93, 4),
        (86, 3),
        (79, 2),
        (72, 1),
    ]


def test_the_warm_up_of_the_questions_to_come_is_never_granted_away():
    allocator = stream(Fixed(more=99, rounds=1, warmup=4), Budget(30), 5, horizon=5)
    assert [verdict.traces for verdict in allocator.verdicts()] == [14, 4, 4, 4, 4]


def test_rounds_are_counted_and_bounded():
    allocator = stream(Fixed(more=2, rounds=3), Budget(100), 1)
    assert [tally.rounds for tally, _ in SEEN] == [0, 1, 2]
    assert allocator.verdict("q0").traces == 6


def test_open_questions_stay_in_the_horizon_until_their_last_grant():
    SEEN.clear()
    allocator = Allocator(Fixed(more=1), Budget(40, cap=3), [Question("a"), Question("b")])
    while launches := allocator.ask():
        allocator.tell(Trace(*launches[0], "A"))
    assert {view.questions_left for _, view in SEEN[:4]} == {2}
    assert all(view.budget_left == 40 for _, view in SEEN[:4])  # what open questions have launched is still theirs
    assert SEEN[-1][1].stops == (3,)


def test_the_budget_bounds_a_greedy_policy():
    allocator = stream(Fixed(more=50), Budget(7), 3)
    assert [verdict.traces for verdict in allocator.verdicts()] == [7, 0, 0]
    assert allocator.stopped("q2")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_coin_belongs_to_the_seed_and_the_question(seed):
    stream(Fixed(rounds=1), Budget(99), 3, seed=seed)
    coins = [view.coin for _, view in SEEN]
    stream(Fixed(rounds=1), Budget(99), 3, seed=seed)
    assert coins == [view.coin for _, view in SEEN] and len(set(coins)) == 3
    stream(Fixed(rounds=1), Budget(99), 3, seed=seed + 10)
    assert coins != [view.coin for _, view in SEEN]


def test_more_questions_than_the_horizon_get_what_is_left():
    allocator = stream(Fixed(more=4, rounds=1), Budget(10), 4, horizon=2)
    assert [verdict.traces for verdict in allocator.verdicts()] == [4, 4, 2, 0]


def test_the_warm_up_of_a_question_that_has_just_arrived_is_kept():
    allocator = Allocator(Fixed(more=99, rounds=1, warmup=4), Budget(12), [Question("a")], horizon=1)
    first = allocator.ask(4)
    allocator.add(Question("b"))
    for launch in first:
        allocator.tell(Trace(*launch, "A"))  # "a" is asked about before "b" was granted anything
    while launches := allocator.ask(4):
        for launch in launches:
            allocator.tell(Trace(*launch, "A"))
    assert [verdict.traces for verdict in allocator.verdicts()] == [8, 4]


@pytest.mark.parametrize("hurry", [0.0, 0.5, 2.0])
def test_a_race_takes_no_warm_up_of_the_questions_to_come(hurry):
    rng = np.random.default_rng(0)
    allocator = Allocator(PriceRule(warmup=2, cold=True), Budget.per_window(8, 64), hurry=hurry)
    waiting, in_flight, asked = iter(range(80)), [], set()
    while True:
        for number, _ in zip(waiting, range(12 - len(asked)), strict=False):
            allocator.add(Question(f"q{number}", options=4))  # refused where its warm-up is not there
            asked.add(f"q{number}")
        in_flight += allocator.ask(64)
        if not in_flight:
            break
        back = in_flight.pop(rng.integers(len(in_flight)))
        allocator.tell(Trace(*back, "ABCD"[rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])]))
        if allocator.settles(back.question):
            cancelled = [launch for launch in in_flight if launch.question == back.question]
            in_flight = [launch for launch in in_flight if launch.question != back.question]
            for launch in cancelled:
                allocator.tell(Trace(*launch, part=500))
        for id in [id for id in asked if allocator.stopped(id) and not allocator.pending(id)]:
            allocator.withdraw(id)
            asked.remove(id)
    assert next(waiting, None) is None and allocator.budget.spent <= allocator.budget.total


def test_what_a_settled_race_will_not_launch_pays_for_a_lost_attempt_at_once():
    allocator = Allocator(Lead(votes=2, cap=8), Budget(4), [Question("q1")], hurry=1.0)
    first, second = allocator.ask(2)  # and two more are owed
    assert allocator.spare == 0 and not allocator.charge([Trace("q1", 0)])
    assert allocator.tell(Trace(*first, "A")) and allocator.tell(Trace(*second, "A"))
    assert allocator.spare == 2 and allocator.charge([Trace("q1", 0)])
    assert allocator.stopped("q1") and allocator.ask(9) == []


def test_what_a_settled_race_will_not_launch_is_not_told_to_others_of_the_stream():
    allocator = Allocator(Lead(votes=2, cap=8), Budget.per_window(1, 4), hurry=1.0)
    allocator.add(Question("q1"))
    launches = allocator.ask(2)
    assert allocator.totals.owed == 2
    assert all(allocator.tell(Trace(*launch, "A")) for launch in launches)
    assert (allocator.totals.owed, allocator.totals.finals) == (0, 1)
