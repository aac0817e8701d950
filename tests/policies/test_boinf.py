"""Best-of-Infinity against its paper's words, with exact chances where the paper draws."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import gamma

from pets.core.certificate import doubt_by_pairs
from pets.core.policy import View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.boinf import BoInf

paths = st.lists(st.sampled_from(["A", "A", "A", "B", "C", None]), min_size=14, max_size=14)


def bayes_factor(counts):
    """K P / (1 - P), with P by an adaptive quadrature over the leader's Gamma variate."""
    alpha = [count + 1.0 for count in counts]
    leader = alpha.pop(counts.index(max(counts)))
    P, _ = quad(lambda x: gamma.pdf(x, leader) * np.prod(gamma.cdf(x, alpha)), 0.0, np.inf, epsabs=1e-12)
    return len(counts) * P / (1.0 - P)


def by_the_paper(path, threshold, unknown, cap):
    for n in range(1, cap):
        counts = list(Counter(answer for answer in path[:n] if answer is not None).values())
        if counts and bayes_factor([*counts, unknown]) >= threshold:
            return n
    return cap


@settings(max_examples=15, deadline=None)
@given(paths, st.sampled_from([2.0, 10.0, 47.0]), st.sampled_from([0.3, 0.0]), st.sampled_from([5, 14]))
def test_it_stops_where_the_paper_does(draws, path, threshold, unknown, cap):
    assert draws(BoInf(threshold, unknown, cap), path) == by_the_paper(path, threshold, unknown, cap)


def test_the_factor_agrees_with_the_papers_draws():
    theta = np.random.default_rng(0).dirichlet([8.0, 5.0, 2.0, 1.3], size=400_000)
    P = (theta.argmax(axis=1) == 0).mean()
    mass = 4 * P / (1 - P)
    tally = Tally((7, 4, 1))
    assert BoInf(threshold=0.97 * mass).quota(tally, View()) == 12
    assert BoInf(threshold=1.03 * mass).quota(tally, View()) == 13


def test_larger_factors_take_longer_and_stay_exact(draws):
    sizes = [draws(BoInf(threshold), ["A"] * 60) for threshold in (2.0, 10.0, 300.0, 10_000.0, 1e12)]
    assert sizes == [1, 3, 8, 13, 40]


def test_without_an_answer_it_draws_to_the_smaller_cap(draws):
    assert draws(BoInf(), [None] * 120) == 100
    assert draws(BoInf(), [None] * 120, cap=12) == 12
    assert draws(BoInf(cap=5), [None] * 120) == 5


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": np.nan}, {"unknown": -0.1}, {"cap": 0}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        BoInf(**options)


def test_with_a_zone_the_factor_is_of_a_good_leader():
    doubt = doubt_by_pairs((8.0, 7.0, 2.0, 1.3), 0.1)
    mass = 4 * (1 - doubt) / doubt
    tally = Tally((7, 6, 1))
    assert BoInf(threshold=0.97 * mass, zone=0.1).quota(tally, View()) == 14
    assert BoInf(threshold=1.03 * mass, zone=0.1).quota(tally, View()) == 15
