"""The queue over belief states: shared entries, lazy scores, refits that score states and not questions."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy
from pets.core.queues.states import StateQueue
from pets.core.record import NULL, Record
from pets.policies.okg import OKG
from pets.types import Question, Trace

CALLS = Counter()


@dataclass(frozen=True, slots=True)
class Fewest(IndexPolicy):
    """Fewest launched first, or most, as learned; counts how often it is asked."""

    learns: ClassVar[bool] = True
    sign: float = -1.0

    def index(self, tally, view):
        CALLS[tally] += 1
        return self.sign * tally.launched

    def refit(self, batch):
        return replace(self, sign=-self.sign)


def queue(n, policy=None, cap=None):
    CALLS.clear()
    made = StateQueue(policy or Fewest(), Budget(999, cap=cap))
    records = [Record(f"q{i}", i, 4, keep_traces=False) for i in range(n)]
    for record in records:
        made.add(record)
    return made, {record.id: record for record in records}


def vote(made, record, answer):
    before = record.votes.get(answer, 0)
    record.votes[answer] = before + 1
    record.told += 1
    record.returned += 1
    made.told(record, before)


def test_questions_in_the_same_state_are_scored_once():
    made, _ = queue(1000)
    assert len(made.take(500)) == 500
    assert max(CALLS.values()) == 1 and len(CALLS) <= 2


def test_a_state_that_is_left_before_the_next_launch_is_never_scored():
    made, records = queue(2)
    for _ in range(20):
        (launch,) = made.take(1)
        vote(made, records[launch.question], "A")
    assert all(tally.pending == 0 for tally in CALLS)


def test_a_refit_scores_the_states_and_keeps_the_members():
    made, records = queue(50)
    for launch in made.take(30):
        vote(made, records[launch.question], "A")
    assert sum(made.batch().values()) == 50
    CALLS.clear()
    made.refit()
    assert made.take(1)[0].number == 1  # the new sign serves whoever has most
    assert sum(CALLS.values()) == 2


def test_the_cap_ends_a_question():
    made, records = queue(3, cap=2)
    assert Counter(launch.question for launch in made.take(99)) == {"q0": 2, "q1": 2, "q2": 2}
    assert made.take(1) == [] and all(made.stopped(record) for record in records.values())


def test_no_answers_and_cancels_move_a_question_too():
    made, records = queue(1)
    record = records["q0"]
    made.take(2)
    record.nulls += 1
    record.returned += 1
    made.told(record, NULL)
    record.taken_back += 1
    made.taken_back(record)
    (tally,) = made.batch()
    assert (tally.counts, tally.nulls, tally.pending) == ((), 1, 0)


@dataclass(frozen=True, slots=True)
class Clinging(IndexPolicy):
    """Prefers whoever has traces in flight: the state after a launch outranks the one before it."""

    def index(self, tally, view):
        return tally.pending


def test_many_at_once_are_the_same_as_one_by_one_even_if_a_launch_raises_the_index():
    at_once, one_by_one = queue(3, Clinging(), cap=4)[0], queue(3, Clinging(), cap=4)[0]
    assert at_once.take(9) == [launch for _ in range(9) for launch in one_by_one.take(1)]


def test_a_refit_counts_questions_in_the_same_state_together():
    made, records = queue(6)
    made.take(6)
    for record in records.values():
        vote(made, record, "A")
    ((tally, number),) = made.batch().items()
    assert tally.counts == (1,) and number == 6


def test_what_is_cancelled_counts_against_the_cap():
    allocator = Allocator(OKG(), Budget(total=200, cap=5), [Question(id, options=4) for id in "ab"], hurry=2.0)
    numbers = []
    while launches := allocator.ask(9):
        numbers += [launch.number for launch in launches]
        kept = {launch.question: launch for launch in reversed(launches)}.values()
        for launch in launches:
            allocator.tell(Trace(*launch, "AB"[launch.number % 2]) if launch in kept else Trace(*launch, part=300))
    assert max(numbers) == 4 and allocator.stopped("a") and allocator.stopped("b")
