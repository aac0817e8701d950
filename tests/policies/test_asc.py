"""Adaptive-Consistency against its paper's words."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.asc import ASC, p_settled, p_settled_among_all

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


SIMPLEX = np.random.default_rng(0)


@pytest.mark.parametrize("counts", [(5, 3), (4, 4), (7, 2, 1), (3,), (6, 5, 4)])
def test_the_dirichlet_form_is_the_chance_of_the_largest_share(counts):
    alpha = np.array([count + 1.0 for count in (counts if len(counts) > 1 else (*counts, 0))])
    theta = SIMPLEX.dirichlet(alpha, size=200_000)
    assert p_settled_among_all(counts, 0.0) == pytest.approx((theta.argmax(axis=1) == 0).mean(), abs=0.004)


@given(st.integers(0, 20), st.integers(0, 20), st.sampled_from([0.05, 0.1, 0.4]))
def test_with_two_answers_the_zone_is_exact(x, y, zone):
    first, second = max(x, y, 1), min(x, y)
    counts = (first, second) if second else (first,)
    assert p_settled(counts, zone) == pytest.approx(beta.sf((1 - zone) / 2, first + 1, second + 1), abs=1e-12)
    assert p_settled(counts, zone) == pytest.approx(p_settled_among_all(counts, zone), abs=1e-9)


def test_a_third_answers_votes_leave_less_to_be_ahead_by():
    assert p_settled((5, 4), 0.1) < p_settled((5, 4, 3), 0.1)  # 0.1 of 12 votes is more of the pair's 9


def test_the_zone_stops_a_near_tie_sooner(draws):
    path = ["A", "B"] * 30
    assert draws(ASC(0.8, 60, zone=0.2), path) < draws(ASC(0.8, 60), path) == 60


@pytest.mark.parametrize("options", [{"form": "entropy"}, {"zone": 1.0}])
def test_bad_forms_and_zones_are_refused(options):
    with pytest.raises(InputError):
        ASC(**options)
