"""The queue of waves: at most W of them, each after the last is back, nothing over the budget, stragglers pending."""

import numpy as np
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.errors import InputError
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.testing import check_policy
from pets.types import Question, Trace


def made(waves, total, questions=12, cap=None):
    return Allocator(OKG(waves=waves), Budget(total, cap), [Question(f"q{i}", options=4) for i in range(questions)])


def answered(allocator, launches, rng):
    for launch in launches:
        allocator.tell(Trace(*launch, "ABCD"[rng.choice(4, p=[0.6, 0.2, 0.1, 0.1])], tokens=9))


@pytest.mark.parametrize("waves", [1, 2, 4, 9])
def test_the_budget_is_spent_in_at_most_so_many_waves(waves):
    allocator, rng, sizes = made(waves, total=101), np.random.default_rng(0), []
    while launches := allocator.ask(1000):
        assert allocator.wave == len(sizes) and allocator.waves_left < waves - len(sizes)
        sizes.append(len(launches))
        answered(allocator, launches, rng)
    assert sum(sizes) == 101 == allocator.budget.spent and len(sizes) <= waves


def test_nothing_is_asked_for_until_the_wave_is_back_and_the_next_one_sees_all_of_it():
    allocator, rng = made(2, total=60), np.random.default_rng(0)
    first = allocator.ask(1000)
    answered(allocator, first[:-1], rng)
    assert allocator.ask(1000) == []
    answered(allocator, first[-1:], rng)
    assert len(first) + len(allocator.ask(1000)) == 60 and allocator.ask(1) == []


def test_a_wave_that_does_not_wait_counts_what_is_out_as_pending():
    allocator, rng = made(2, total=60), np.random.default_rng(0)
    first = allocator.ask(1000)
    answered(allocator, first[5:], rng)
    assert allocator.next_wave() and allocator.wave == 1
    second = allocator.ask(1000)
    assert len(first) + len(second) == 60 and not {*first} & {*second}
    answered(allocator, [*first[:5], *second], rng)
    assert allocator.budget.spent == 60 and not allocator.next_wave()


def test_what_a_wave_has_not_launched_is_planned_anew_when_the_next_begins():
    allocator = made(2, total=60)
    first = allocator.ask(3)
    assert allocator.next_wave()
    assert len(first) + len(allocator.ask(1000)) == 60


def test_a_cancelled_launch_is_owed_again_in_the_same_wave():
    allocator = made(2, total=60)
    first = allocator.ask(1000)
    allocator.take_back(first[4])
    (again,) = allocator.ask(1000)
    assert again.question == first[4].question and allocator.wave == 0


def test_the_cap_holds_and_a_question_at_it_is_stopped():
    allocator, rng = made(3, total=1000, cap=7), np.random.default_rng(0)
    while launches := allocator.ask(1000):
        answered(allocator, launches, rng)
    assert [verdict.traces for verdict in allocator.verdicts()] == [7] * 12
    assert all(allocator.stopped(f"q{i}") for i in range(12))


def test_a_question_is_stopped_once_its_part_of_the_last_wave_is_launched():
    allocator, rng = made(2, total=60), np.random.default_rng(0)
    answered(allocator, allocator.ask(1000), rng)
    assert not any(allocator.stopped(f"q{i}") for i in range(12))
    allocator.ask(1000)
    assert all(allocator.stopped(f"q{i}") for i in range(12))


def test_a_resumed_run_knows_how_many_waves_were_begun():
    allocator = made(3, total=60)
    allocator.adopt([Trace(f"q{i}", n, "A") for i in range(12) for n in range(2)], waves=2)
    assert (allocator.wave, allocator.waves_left) == (1, 1)
    assert len(allocator.ask(1000)) == 36 and allocator.ask(1) == []


def test_streams_and_policies_without_waves_say_so():
    with pytest.raises(InputError, match="over all questions at once"):
        Allocator(OKG(waves=2), Budget(9), horizon=3)
    with pytest.raises(InputError, match="over all questions at once"):
        Allocator(OKG(waves=2), Budget.per_window(2, 9))
    with pytest.raises(InputError, match="uniform knows no waves"):
        Uniform().with_waves(2)
    with pytest.raises(InputError, match="waves are 1 or more"):
        OKG(waves=-1)
    plain = Allocator(Uniform(), Budget(9), [Question("q")])
    assert (plain.wave, plain.waves_left, plain.next_wave()) == (0, 0, False)


@pytest.mark.parametrize("waves", [1, 2, 5])
def test_a_policy_with_waves_conforms(waves):
    check_policy(OKG().with_waves(waves))


def test_asking_for_many_is_asking_one_by_one():
    def launches(width):
        allocator, log = made(3, total=60), []
        while more := allocator.ask(width):
            while rest := allocator.ask(width):
                more += rest
            log += more
            for launch in more:
                allocator.tell(Trace(*launch, "AB"[launch.number % 2]))
        return log

    assert launches(1) == launches(7)
