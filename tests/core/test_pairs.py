"""The doubt of pairs against the exact chance and against draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from pets.core.certificate import p_good
from pets.core.pairs import doubt_by_pairs


@given(st.floats(1, 30), st.floats(0.5, 30), st.floats(0.0, 0.6))
def test_two_answers_are_exact(a, b, zone):
    assert doubt_by_pairs((a, b), zone) == pytest.approx(beta.cdf((1 - zone) / 2, a, b), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=4), st.sampled_from([0.05, 0.1, 0.2]))
def test_more_answers_are_at_least_the_exact_chance_and_near_it_where_it_is_small(counts, zone):
    alpha = tuple(count + 1.0 for count in sorted(counts, reverse=True))
    doubt = 1.0 - p_good(alpha, (), zone)
    assert doubt_by_pairs(alpha, zone) >= doubt - 0.05  # rivals that are ahead together count twice
    if doubt < 0.1:
        assert doubt_by_pairs(alpha, zone) == pytest.approx(doubt, abs=0.05)


def test_draws_agree_where_one_rival_matters():
    theta = np.random.default_rng(0).dirichlet([9.0, 7.0, 1.0, 1.0], size=200_000)
    ahead = (theta[:, 1:].max(axis=1) - theta[:, 0] > 0.1).mean()
    assert doubt_by_pairs((9.0, 7.0, 1.0, 1.0), 0.1) == pytest.approx(ahead, abs=0.02)
