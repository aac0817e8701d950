"""Uniform: the mean of what is left, whatever the traces say."""

from pets.core.policy import View
from pets.core.tally import Tally
from pets.policies.uniform import Uniform


def test_uniform_gives_the_mean_of_what_is_left():
    view = View(budget_left=1200, questions_left=100, cap=64)
    assert Uniform().quota(Tally(), view) == Uniform().quota(Tally((9, 3)), view) == 12
