"""The okg index on tallies: no-answers, open sets, pending traces."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.dirichlet import log_R_plus
from pets.core.okg import check_prior, okg_index, voting_chance
from pets.core.tally import Tally
from pets.errors import InputError


def test_it_is_the_gain_of_the_posterior():
    assert okg_index(Tally((3, 1), options=4), 1.0, 1) == pytest.approx(log_R_plus([4.0, 2.0, 1.0, 1.0]))
    assert okg_index(Tally((3, 1)), 0.5, 2) == pytest.approx(log_R_plus([3.5, 1.5, 0.5, 0.5]))


@given(st.integers(0, 5), st.integers(1, 5))
def test_no_answers_lower_it(votes, nulls):
    counts = (votes,) if votes else ()
    assert okg_index(Tally(counts, nulls), 1.0, 1) < okg_index(Tally(counts), 1.0, 1)
    assert voting_chance(Tally(counts, nulls)) == (votes + 1) / (votes + nulls + 1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 6))
def test_traces_in_flight_lower_it(counts, pending):
    """Where one option leads: the fantasy only adds certainty."""
    counts = tuple(sorted([max(counts) + 1, *counts], reverse=True))
    assert okg_index(Tally(counts, pending=pending), 1.0, 1) < okg_index(Tally(counts), 1.0, 1)


def test_an_open_question_without_votes_is_worth_asking():
    assert okg_index(Tally(), 1.0, 1) > math.log(0.1)


@pytest.mark.parametrize(("prior", "unseen"), [(0.0, 1), (-1.0, 1), (math.nan, 1), (math.inf, 1), (1.0, 0)])
def test_what_is_no_prior_is_refused(prior, unseen):
    with pytest.raises(InputError):
        check_prior(prior, unseen)
