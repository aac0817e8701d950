"""Races through the allocator: with hurry 0 the traces of one at a time; with more, needed before speculative ones."""

import heapq
import itertools
from collections import Counter

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.policies.asc import ASC
from pets.policies.lead import Lead
from pets.policies.okg import OKG
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
from pets.types import Question, Trace


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
