"""Adaptive-Consistency against its paper's words."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.asc import ASC

paths = st.lists(st.sampled_from(["A", "A", "A", "B", "C", None]), min_size=45, max_size=45)


def by_the_paper(path, threshold, cap):
    """After each sample, integrate the Beta posterior of the leader against the runner-up over (1/2, 1)."""
    for n in range(1, cap):
        first, second = ([count for _, count in Counter(a for a in path[:n] if a is not None).most_common(2)] + [0, 0])[
            :2
        ]
        if beta.sf(0.5, first + 1, second + 1) >= threshold:
            return n
    return cap


@settings(deadline=None)
@given(paths, st.sampled_from([0.6, 0.83, 0.95, 0.99]), st.sampled_from([7, 40]))
def test_it_stops_where_the_paper_does(draws, path, threshold, cap):
    assert draws(ASC(threshold, cap), path) == by_the_paper(path, threshold, cap)


def test_the_criterion_is_the_beta_integral():
    mass, _ = quad(lambda x: x**6 * (1 - x) ** 2, 0.5, 1.0)
    whole, _ = quad(lambda x: x**6 * (1 - x) ** 2, 0.0, 1.0)
    tally = Tally((6, 2, 1))
    assert ASC(threshold=mass / whole - 1e-9).quota(tally, View()) == 9
    assert ASC(threshold=mass / whole + 1e-9).quota(tally, View()) == 10


def test_four_unanimous_votes_are_enough_and_no_answers_do_not_help(draws):
    assert draws(ASC(), ["A"] * 9) == 4
    assert draws(ASC(), ["A", None, "A", None, None, "A", "A", "A"]) == 7


def test_without_an_answer_it_draws_to_the_smaller_cap(draws):
    assert draws(ASC(), [None] * 60) == 40
    assert draws(ASC(), [None] * 60, cap=12) == 12
    assert draws(ASC(cap=5), [None] * 60, cap=12) == 5


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"threshold": 1.1}, {"threshold": float("nan")}, {"cap": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        ASC(**options)
