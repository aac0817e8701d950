"""P(argmax), U and R+ against mpmath, closed forms and brute force."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.dirichlet import (
    R_plus,
    U,
    clear_memo,
    log_R_plus,
    log_R_plus_counts,
    okg_index,
    p_argmax,
    p_leader,
)
from pets.core.policy import check_prior
from pets.core.tally import Tally
from pets.errors import InputError

alphas = st.lists(st.floats(0.05, 60.0), min_size=2, max_size=6)


def reference(alpha, m):
    """P(argmax = m) by mpmath's adaptive quadrature in log x, 16 digits."""
    with mpmath.workdps(16):
        a = [mpmath.mpf(value) for value in alpha]

        def integrand(t):
            x = mpmath.exp(t)
            density = mpmath.exp(a[m] * t - x) / mpmath.gamma(a[m])
            return density * mpmath.fprod(
                mpmath.gammainc(a[k], 0, x, regularized=True) for k in range(len(a)) if k != m
            )

        top = max(alpha)
        left = math.log(top) - 7 if top > 5 else -75 / top
        right = math.log(top + 30 * math.sqrt(top) + 80)
        return mpmath.quad(integrand, [left, *np.linspace(max(left, math.log(top) - 6.9), right, 12).tolist()])


@pytest.mark.parametrize(
    "alpha",
    [
        [0.1, 0.1, 0.1],
        [0.1, 0.6, 0.3],
        [3.0, 2.0, 2.0, 1.0],
        [30.0, 2.0, 1.0, 1.0],
        [500.0, 480.0, 470.0, 3.0],
    ],
)
def test_p_argmax_agrees_with_mpmath(alpha):
    by_alpha = {value: float(reference(alpha, alpha.index(value))) for value in set(alpha)}
    np.testing.assert_allclose(p_argmax(alpha), [by_alpha[value] for value in alpha], rtol=0, atol=1e-11)


@given(st.integers(1, 40), st.integers(1, 40))
def test_two_options_are_a_binomial_tail(m, n):
    total = sum(math.comb(m + n - 1, k) for k in range(m))
    assert p_argmax([m, n])[0] == pytest.approx(total / 2 ** (m + n - 1), rel=1e-12)


@pytest.mark.parametrize("M", [3, 5, 10, 20, 40])
def test_it_sums_to_one_for_many_options(M):
    rng = np.random.default_rng(M)
    for scale in (0.1, 1.0, 5.0, 64.0, 500.0):
        assert abs(p_argmax(scale * rng.uniform(0.7, 1.0, M)).sum() - 1) < 1e-9
        assert abs(p_argmax(scale * rng.uniform(0.01, 1.0, M)).sum() - 1) < 1e-9


@given(alphas, st.randoms())
def test_label_order_does_not_matter(alpha, random):
    order = list(range(len(alpha)))
    random.shuffle(order)
    shuffled = [alpha[i] for i in order]
    assert p_argmax(shuffled).tolist() == [p_argmax(alpha)[i] for i in order]
    assert log_R_plus(shuffled) == log_R_plus(alpha)


@settings(deadline=None)
@given(alphas)
def test_R_plus_is_the_best_gain_over_every_option(alpha):
    base = np.array(alpha)
    gains = [U(base + np.eye(len(alpha))[m]) - U(base) for m in range(len(alpha))]
    assert R_plus(alpha) == pytest.approx(max(gains), abs=1e-10)


@given(st.integers(1, 500), st.integers(1, 500))
def test_lemma_the_binary_gain_is_2_to_the_minus_m_plus_n_times_a_binomial(m, n):
    """Delta_{m,n} = 2^-(m+n) C(m+n-1, n-1), the leader having m >= n."""
    m, n = max(m, n), min(m, n)
    exact = mpmath.mpf(math.comb(m + n - 1, n - 1)) / mpmath.mpf(2) ** (m + n)
    assert float(mpmath.mpf(R_plus([m, n])) / exact) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("m", "n"), [(900, 20), (950, 1), (990, 5), (600, 400)])
def test_the_binary_gain_keeps_its_relative_accuracy_down_to_1e_300(m, n):
    with mpmath.workdps(50):
        exact = mpmath.binomial(m + n - 1, n - 1) / mpmath.mpf(2) ** (m + n)
        assert abs(float(mpmath.exp(mpmath.mpf(log_R_plus([m, n]))) / exact - 1)) < 1e-6
    assert R_plus([m, n]) > 0.0


def test_the_far_tail_of_many_options_meets_the_binary_one():
    """A third option of next to no weight changes nothing: the integral must find the closed form's 1e-66."""
    assert log_R_plus([500.0, 100.0, 1e-12]) == pytest.approx(log_R_plus([500.0, 100.0]), rel=1e-12)
    assert log_R_plus([5000.0, 100.0, 1e-12]) == pytest.approx(log_R_plus([5000.0, 100.0]), rel=1e-12)


def test_three_equal_options_with_tiny_priors():
    """As alpha -> 0 the belief is a fair choice of one option: U = 1/M, and one vote nearly settles it."""
    assert U([1e-3] * 3) == pytest.approx(1 / 3)
    assert R_plus([1e-3] * 3) == pytest.approx(2 / 3, abs=0.01)


def test_a_single_option_gains_nothing():
    assert log_R_plus([3.0]) == -math.inf
    assert p_argmax([3.0]).tolist() == [1.0]


@given(st.lists(st.integers(1, 12), max_size=4), st.floats(0.05, 2.0), st.integers(0, 3), st.integers(0, 6))
def test_the_memo_on_counts_is_the_belief_with_its_fantasy(counts, prior, empty, pending):
    counts = tuple(sorted(counts, reverse=True))
    M = len(counts) + empty
    if M == 0:
        return
    alpha = prior + np.array([*counts, *[0] * empty], dtype=float)
    fantasy = alpha * (1 + pending / alpha.sum())
    assert log_R_plus_counts(counts, prior, M, pending) == pytest.approx(log_R_plus(fantasy), rel=1e-9)
    if counts:
        assert p_leader(tuple(prior + n for n in counts), ((prior, empty),)) == pytest.approx(U(alpha), abs=1e-12)


def test_the_memo_can_be_emptied():
    log_R_plus_counts((2, 1), 1.0, 4)
    clear_memo()
    assert log_R_plus_counts.cache_info().currsize == 0


@pytest.mark.parametrize("bad", [[], [1.0, -1.0], [1.0, 0.0], [1.0, float("nan")], [[1.0]], [math.inf, 1.0]])
def test_what_is_no_alpha_is_refused(bad):
    with pytest.raises(InputError, match="positive finite"):
        p_argmax(bad)


def test_it_is_the_gain_of_the_posterior():
    assert okg_index(Tally((3, 1), options=4), 1.0, 1) == pytest.approx(log_R_plus([4.0, 2.0, 1.0, 1.0]))
    assert okg_index(Tally((3, 1)), 0.5, 2) == pytest.approx(log_R_plus([3.5, 1.5, 0.5, 0.5]))


@given(st.integers(0, 5), st.integers(1, 5))
def test_no_answers_lower_it(votes, nulls):
    counts = (votes,) if votes else ()
    assert okg_index(Tally(counts, nulls), 1.0, 1) < okg_index(Tally(counts), 1.0, 1)
    assert Tally(counts, nulls).voting_chance == (votes + 1) / (votes + nulls + 1)


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
