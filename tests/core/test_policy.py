"""What a policy is: what it may be shown, what it is trained on, and plain data in and out."""

from dataclasses import dataclass

import pytest

from pets.core.policy import IndexPolicy, QuotaPolicy, Training, View, frozen, plain
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally


@dataclass(frozen=True, slots=True)
class Fixed(QuotaPolicy):
    """As many traces for every question."""

    traces: int = 3
    steps: tuple[tuple[int, ...], ...] = ((1,), (2, 3))

    def quota(self, tally, view):
        return self.traces


def test_the_mean_left_is_what_is_left_for_each_question_left():
    assert View(budget_left=30, questions_left=4).mean_left == 7.5
    assert View(budget_left=30, questions_left=0).mean_left == 30.0


def test_a_policy_that_says_nothing_else_learns_nothing_and_sees_counts():
    policy = Fixed()
    assert (policy.warmup, policy.rounds, policy.learns, policy.sees) == (0, 0, False, "counts")
    assert policy.fit(Training([["A"] * 4])) is policy
    assert policy.refit({Tally((2, 1)): 5}) is policy
    assert policy.belief == LearnedPrior()
    assert policy.log_price(View(100, 10)) is None


def test_options_are_plain_data_and_come_back():
    policy = Fixed(5, ((1, 2), (3,)))
    assert policy.to_plain() == {"traces": 5, "steps": [[1, 2], [3]]}
    assert Fixed.from_plain(policy.to_plain()) == policy


def test_tuples_become_lists_and_lists_tuples_all_the_way_down():
    nested = (1, (2.5, ("a", None)), ())
    assert plain(nested) == [1, [2.5, ["a", None]], []]
    assert frozen(plain(nested)) == nested


def test_every_generator_of_a_training_draws_the_same():
    training = Training([["A", None]], seed=(1, 2))
    assert training.rng().random() == training.rng().random()
    assert training.rng().random() != Training([["A", None]], seed=(1, 3)).rng().random()


@pytest.mark.parametrize("kind", [IndexPolicy, QuotaPolicy])
def test_a_policy_has_its_one_method(kind):
    with pytest.raises(TypeError, match="abstract method"):
        kind()
