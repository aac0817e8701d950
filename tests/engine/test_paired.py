"""Two runs over the same questions, in pairs."""

import pytest
from scipy.stats import binomtest

from pets.engine.paired import Difference, PairedAccuracy, compare_runs
from pets.engine.question import Answer
from pets.questions import Problem
from pets.samplers import Prompt

PROBLEMS = {id: Problem(id, Prompt("?"), "math", "1/2") for id in "abcd"}


def voted(id, answer, **fields):
    return Answer(id, answer, canonical=answer, **fields)


def test_answers_are_compared_as_their_type_compares_them():
    first = [
        voted("a", "1/2", right=True),
        voted("b", "x+1"),
        Answer("c", None, right=False),
        voted("d", "3"),
    ]
    second = [
        voted("a", "1/2", right=True),
        voted("b", "1+x"),
        voted("c", "7", gold="1/2", right=False),
    ]
    compared = compare_runs(PROBLEMS, first, [*second, voted("e", "1")])
    assert (compared.shared, compared.first_only, compared.second_only) == (3, 1, 1)
    assert compared.differences == (Difference("c", None, "7", None),)
    assert compared.accuracy == PairedAccuracy(2, 1, 1, 0, 0)
    assert compare_runs(PROBLEMS, [voted("d", "3")], [voted("d", "3")]).accuracy is None


@pytest.mark.parametrize(("only", "other"), [(0, 0), (1, 9), (9, 1), (30, 25)])
def test_the_interval_holds_the_difference_and_agrees_with_the_test(only, other):
    paired = PairedAccuracy(100, 50 + only, 50 + other, only, other)
    low, high = paired.interval
    assert -1 <= low <= paired.difference <= high <= 1
    assert paired.p_value == (binomtest(only, only + other).pvalue if only + other else 1.0)
    assert (low > 0 or high < 0) == (paired.p_value < 0.05)


def test_the_other_way_round_is_the_other_sign():
    paired, turned = PairedAccuracy(40, 20, 28, 2, 10), PairedAccuracy(40, 28, 20, 10, 2)
    assert turned.difference == -paired.difference and turned.p_value == paired.p_value
    assert turned.interval == pytest.approx(tuple(-bound for bound in reversed(paired.interval)))
