"""The queue of an index policy: shared entries, lazy scores, refits that score states and not questions; races.

Where a policy sees traces every question has an entry of its own: the score follows every change.
"""

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy
from pets.core.queues.index import RankQueue, StateQueue
from pets.core.record import NULL, Record
from pets.policies.asc import ASC
from pets.policies.lead import Lead
from pets.policies.okg import OKG
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
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


@dataclass(frozen=True, slots=True)
class LeastSure(IndexPolicy):
    """Serves the question with the lowest mean confidence."""

    sees: ClassVar[str] = "traces"

    def index(self, tally, view):
        return -sum(tally.confidences) / max(1, len(tally.confidences)) - 100 * tally.pending


def tell(queue, record, confidence):
    record.votes["A"] = record.votes.get("A", 0) + 1
    record.traces.append(Trace(record.id, record.told, "A", confidence))
    record.told += 1
    record.returned += 1
    queue.told(record, 0)


def test_the_score_follows_what_is_told():
    queue = RankQueue(LeastSure(), Budget(99, cap=4))
    records = {name: Record(name, i, None, keep_traces=True) for i, name in enumerate("ab")}
    for record in records.values():
        queue.add(record)
    assert [launch.question for launch in queue.take(2)] == ["a", "b"]
    tell(queue, records["a"], 9.0)
    tell(queue, records["b"], 2.0)
    assert queue.take(1)[0].question == "b"
    tell(queue, records["b"], 30.0)
    assert queue.take(1)[0].question == "a"


def test_the_cap_holds_and_a_cancelled_launch_frees_its_place():
    queue = RankQueue(LeastSure(), Budget(99, cap=2))
    record = Record("a", 0, None, keep_traces=True)
    queue.add(record)
    assert [launch.number for launch in queue.take(9)] == [0, 1] and queue.stopped(record)
    record.taken_back += 1
    queue.taken_back(record)
    assert [launch.number for launch in queue.take(9)] == [2]


@dataclass(frozen=True, slots=True)
class Reluctant(LeastSure):
    """The same with a warm-up of two."""

    @property
    def warmup(self):
        return 2


def test_the_warm_up_comes_first():
    queue = RankQueue(Reluctant(), Budget(99))
    records = [Record(name, i, None, keep_traces=True) for i, name in enumerate("ab")]
    for record in records:
        queue.add(record)
    for _ in range(2):
        assert queue.take(1)[0].question == "a"
        tell(queue, records[0], 0.001)  # the least sure by far, but "b" has not warmed up
    assert [launch.question for launch in queue.take(2)] == ["b", "b"]


def traces_of(questions, seed, cap=40, options=4):
    """Answers and lengths of every launch, whoever asks for it."""
    rng = np.random.default_rng(seed)
    theta = {id: rng.dirichlet([0.5] * options) for id in questions}
    return {
        id: [
            Trace(id, n, None if rng.random() < 0.05 else "ABCD"[rng.choice(options, p=theta[id])], tokens=int(length))
            for n, length in enumerate(rng.lognormal(5, 0.6, 2 * cap))
        ]
        for id in questions
    }


def race(policy, traces, *, hurry, places=64, total=10_000, cap=40):
    """Let every trace take its tokens as time; the allocator at the end, the time, launches and cancelled ones."""
    allocator = Allocator(policy, Budget(total, cap), [Question(id, options=4) for id in traces], hurry=hurry)
    out, numbers, now, launches, cancelled = [], itertools.count(), 0.0, [], 0
    while True:
        for launch in allocator.ask(places - len(out)):
            launches.append(launch)
            heapq.heappush(out, (now + traces[launch.question][launch.number].tokens, next(numbers), now, launch))
        if not out:
            return allocator, now, launches, cancelled
        now, _, _, launch = heapq.heappop(out)
        allocator.tell(traces[launch.question][launch.number])
        if hurry and allocator.settles(launch.question):
            for entry in [entry for entry in out if entry[3].question == launch.question]:
                out.remove(entry)
                age = (now - entry[2]) / traces[launch.question][entry[3].number].tokens
                allocator.tell(Trace(*entry[3], tokens=1, part=min(1000, int(1000 * age))))
                cancelled += 1
            heapq.heapify(out)
        assert allocator.budget.spent + allocator.budget.reserved <= allocator.budget.total


FIXED_PRICE = PriceRule(prior=1.0, warmup=1, table=((-4.0, 1.0), (-4.0, 60.0)))


@pytest.mark.parametrize("policy", [ASC(), ASC(threshold=0.99), Lead(votes=3), FIXED_PRICE], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_with_hurry_0_launches_votes_and_answers_are_those_of_one_at_a_time_only_sooner(policy, seed):
    traces = traces_of([f"q{i}" for i in range(12)], seed)
    one_by_one, slow, before, _ = race(policy, traces, hurry=None, places=12)
    raced, fast, launches, cancelled = race(policy, traces, hurry=0)
    assert sorted(launches) == sorted(before) and not cancelled
    assert raced.verdicts() == one_by_one.verdicts() and raced.budget.spent == one_by_one.budget.spent
    assert fast < 0.8 * slow


@pytest.mark.parametrize("policy", [ASC(), Lead(votes=3), PriceRule(warmup=2), OKG(), Uniform()], ids=repr)
@pytest.mark.parametrize("hurry", [0.25, 1.0])
def test_with_a_hurry_a_race_is_sooner_keeps_its_budget_and_cancels_what_is_settled(policy, hurry):
    traces = traces_of([f"q{i}" for i in range(12)], 3)
    _, slow, _, _ = race(policy, traces, hurry=0, total=120)
    raced, fast, launches, cancelled = race(policy, traces, hurry=hurry, total=120)
    assert len(set(launches)) == len(launches)
    assert raced.budget.reserved == 0
    assert cancelled == len(launches) - raced.told
    if policy == Uniform():
        assert (fast, cancelled) == (slow, 0)
    elif policy != OKG() or hurry > 0.25:  # by so much okg fills its places anyway
        assert fast < slow and cancelled


def test_okg_spends_its_whole_budget_in_a_race():
    traces = traces_of([f"q{i}" for i in range(10)], 1)
    raced, *_ = race(OKG(), traces, hurry=1.0, total=60)
    assert raced.budget.spent == 60 and raced.told > 40


def test_needed_traces_of_all_questions_go_before_speculative_ones():
    questions = [Question(f"q{i}") for i in range(4)]
    allocator = Allocator(Lead(votes=2), Budget(100), questions, hurry=1.0)
    launches = allocator.ask(100)
    assert len(launches) == 16  # two needed and two speculative of each
    assert {launch.number for launch in launches[:8]} == {0, 1} and {launch.number for launch in launches[8:]} == {2, 3}


def test_a_budget_that_fits_into_empty_places_goes_out_by_the_hurrys_share_of_equal_ones():
    def asked(hurry, places):
        questions = [Question(str(q), options=4) for q in range(10)]
        return Counter(launch.question for launch in Allocator(OKG(), Budget(60), questions, hurry=hurry).ask(places))

    assert set(asked(1.0, 64).values()) == {6}  # all of it is in flight
    narrow = asked(1.0, 59)  # one trace would have to wait: races are as wide as m and the hurry say
    assert max(narrow.values()) < 6
    assert max(asked(0.0, 64).values()) <= max(asked(0.5, 64).values()) < 6
