"""The doubling rule against its library's words."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.its_adaptive import ITSAdaptive

paths = st.lists(st.sampled_from(["A", "A", "A", "B", "C", None]), min_size=70, max_size=70)


def by_its_words(path, percent, cap):
    """Start with 2; while no supermajority agrees and the cap allows, double."""
    total = min(2, cap)
    while total < cap:
        votes = Counter(answer for answer in path[:total] if answer is not None)
        if votes and Fraction(max(votes.values()), votes.total()) >= Fraction(percent, 100):
            break
        total = min(2 * total, cap)
    return total


@settings(deadline=None)
@given(paths, st.integers(50, 100), st.sampled_from([1, 7, 40, 64]))
def test_it_stops_where_its_words_do(draws, path, percent, cap):
    assert draws(ITSAdaptive(percent / 100, cap), path) == by_its_words(path, percent, cap)


def test_two_that_agree_are_enough_at_any_threshold(draws):
    assert draws(ITSAdaptive(threshold=1.0), ["A"] * 9) == 2


def test_the_threshold_itself_is_a_supermajority():
    assert ITSAdaptive(threshold=0.55).quota(Tally((11, 9)), View()) == 20


def test_without_an_answer_it_draws_to_the_smaller_cap(draws):
    assert draws(ITSAdaptive(), [None] * 80) == 64
    assert draws(ITSAdaptive(), [None] * 80, cap=12) == 12
    assert draws(ITSAdaptive(cap=5), [None] * 80) == 5


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.01}, {"cap": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        ITSAdaptive(**options)


def test_a_larger_start_asks_for_more_that_agree(draws):
    assert draws(ITSAdaptive(start=8), ["A"] * 64) == 8
    assert draws(ITSAdaptive(start=3, threshold=0.9), ["A", "B"] * 32) == 64
    assert draws(ITSAdaptive(start=3, threshold=0.75), ["A", "B", "A", "A", "A", "A"] + ["A"] * 9) == 6
