"""SC(theta; B) against enumeration, simulation, mpmath and its own identities."""

from fractions import Fraction
from itertools import product
from math import factorial, prod

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.consistency import (
    SC_curve,
    check_theta,
    complement_curve,
    gains,
    log_gain_binary,
    win_curve,
)
from pets.errors import InputError

THETAS = [
    (1.0,),
    (0.5, 0.5),
    (0.73, 0.27),
    (1.0, 0.0),
    (0.2, 0.5, 0.3),
    (1 / 3, 1 / 3, 1 / 3),
    (0.6, 0.4, 0.0),
    (0.4, 0.4, 0.2),
    (0.4, 0.3, 0.2, 0.1),
    (0.25, 0.25, 0.25, 0.25),
    (0.1, 0.8, 0.1, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.97, 0.01, 0.01, 0.01),
]


@st.composite
def thetas(draw, min_options=2, max_options=6):
    raw = draw(st.lists(st.integers(0, 20), min_size=min_options, max_size=max_options).filter(any))
    return np.array(raw) / sum(raw)


def enumerated_win(theta, m, B):
    """P(m wins) as a sum over every count vector, ties shared evenly."""
    total = 0 * theta[0]  # a float or a Fraction, as theta is
    for head in product(range(B + 1), repeat=len(theta) - 1):
        counts = (*head, B - sum(head))
        if counts[m] == max(counts) and counts[-1] >= 0:
            ways = factorial(B) // prod(factorial(c) for c in counts)
            total += ways * prod(p**c for p, c in zip(theta, counts, strict=True)) / counts.count(max(counts))
    return total


@pytest.mark.parametrize("theta", THETAS)
def test_curve_equals_full_enumeration(theta):
    winner = int(np.argmax(theta))
    expected = [enumerated_win(theta, winner, B) for B in range(9)]
    np.testing.assert_allclose(SC_curve(theta, 8), expected, rtol=0, atol=1e-12)


@given(thetas(max_options=4), st.integers(0, 6), st.data())
@settings(deadline=None, max_examples=40)
def test_any_options_chance_equals_enumeration(theta, B, data):
    m = data.draw(st.integers(0, len(theta) - 1))
    assert win_curve(theta, m, 6)[B] == pytest.approx(enumerated_win(theta, m, B), abs=1e-12)


def test_curve_of_ten_options_agrees_with_a_million_draws():
    theta = np.arange(10, 0, -1) / 55
    rng, wins, draws = np.random.default_rng(1), 0.0, 1_000_000
    for _ in range(10):
        counts = rng.multinomial(64, theta, size=draws // 10)
        top = counts.max(axis=1)
        wins += np.sum((counts[:, 0] == top) / (counts == top[:, None]).sum(axis=1))
    SC = SC_curve(theta, 64)[64]
    assert abs(wins / draws - SC) < 5 * np.sqrt(SC * (1 - SC) / draws)


@pytest.mark.parametrize("theta", [0.5, 0.51, 0.7, 0.95])
def test_binary_closed_form_equals_the_generic_path(theta):
    generic = SC_curve([theta, 1 - theta, 1e-16], 300)[1:]  # a third option, which nearly never comes
    np.testing.assert_allclose(SC_curve([theta, 1 - theta], 300)[1:], generic, rtol=0, atol=1e-12)


@given(st.floats(0.5, 1))
def test_binary_curve_is_monotone_and_an_even_trace_adds_nothing(theta):
    SC = SC_curve([theta, 1 - theta], 64)
    assert np.all(np.diff(SC) >= -1e-15)
    assert SC.max() <= 1
    np.testing.assert_array_equal(SC[2::2], SC[1:-1:2])


@given(thetas(), st.integers(0, 24), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_order_of_the_options_is_irrelevant(theta, B_max, random):
    shuffled = list(theta)
    random.shuffle(shuffled)
    np.testing.assert_allclose(SC_curve(shuffled, B_max), SC_curve(theta, B_max), rtol=0, atol=1e-13)


@given(thetas(), st.integers(0, 24))
@settings(deadline=None)
def test_someone_wins(theta, B_max):
    total = sum(win_curve(theta, m, B_max) for m in range(len(theta)))
    np.testing.assert_allclose(total, 1, rtol=0, atol=1e-13)
    np.testing.assert_allclose(complement_curve(theta, B_max), 1 - SC_curve(theta, B_max), rtol=0, atol=1e-13)


def test_long_curves_neither_underflow_nor_overflow():
    theta = [0.4, 0.3, 0.3]
    curve, complement = SC_curve(theta, 700), complement_curve(theta, 700)
    np.testing.assert_allclose(curve[:65], SC_curve(theta, 64), rtol=1e-12)
    np.testing.assert_allclose(curve + complement, 1, rtol=0, atol=1e-12)
    assert curve[1] == pytest.approx(0.4)
    assert 0.9 < curve[700] < 1


def test_complement_keeps_its_digits_where_the_curve_is_one():
    theta = [Fraction(98, 100), Fraction(1, 100), Fraction(1, 100)]
    exact = float(2 * enumerated_win(theta, 1, 40))
    assert exact < 1e-20  # 1 - SC would be 0 or rounding
    assert complement_curve([0.98, 0.01, 0.01], 40)[40] == pytest.approx(exact, rel=1e-12)
    binary = float(enumerated_win([Fraction(98, 100), Fraction(2, 100)], 1, 41))
    assert complement_curve([0.98, 0.02], 41)[41] == pytest.approx(binary, rel=1e-12)


@given(st.floats(0.5, 0.99), st.integers(1, 60))
def test_binary_gains_are_the_differences_of_the_curve(theta, B_max):
    R = gains([1 - theta, theta], B_max)
    np.testing.assert_allclose(R, np.diff(SC_curve([theta, 1 - theta], B_max)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.exp(log_gain_binary(theta, np.arange(B_max))), R, rtol=1e-12)


def test_gains_of_many_options_are_the_differences_of_the_curve():
    theta = [0.5, 0.2, 0.2, 0.1]
    np.testing.assert_allclose(gains(theta, 40), np.diff(SC_curve(theta, 40)), rtol=0, atol=1e-14)


@pytest.mark.parametrize("theta", [0.501, 0.6, 0.999])
@pytest.mark.parametrize("n", [0, 2, 64, 1000, 100_000])
def test_log_gain_binary_equals_mpmath(theta, n):
    with mpmath.workdps(50):
        t, k = mpmath.mpf(theta), n // 2
        exact = mpmath.log((t - 0.5) * mpmath.binomial(2 * k, k) * (t * (1 - t)) ** k)
    assert float(log_gain_binary(theta, n)) == pytest.approx(float(exact), abs=1e-9, rel=1e-12)


def test_log_gain_binary_is_minus_infinity_at_odd_n_and_where_nothing_is_left_to_gain():
    assert np.all(log_gain_binary(0.7, [1, 3, 99_999]) == -np.inf)
    assert np.all(log_gain_binary(0.5, [0, 2]) == -np.inf)
    np.testing.assert_array_equal(log_gain_binary(1.0, [0, 2]), [np.log(0.5), -np.inf])


def test_theta_that_sums_to_one_within_rounding_is_normalized():
    assert check_theta([0.5, 0.5 + 5e-10]).sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("theta", [[], [[0.5, 0.5]], [0.5, 0.6], [1.2, -0.2], [np.nan, 1], [np.inf, 0]])
def test_bad_theta_is_refused(theta):
    with pytest.raises(InputError, match="theta"):
        SC_curve(theta, 4)


@pytest.mark.parametrize("B_max", [-1, 2.5, "3"])
def test_bad_B_max_is_refused(B_max):
    for curve in (SC_curve, complement_curve, gains):
        with pytest.raises(InputError, match="B_max"):
            curve([0.5, 0.3, 0.2], B_max)


def test_other_bad_arguments_are_refused():
    with pytest.raises(InputError, match="1900"):
        SC_curve([0.5, 0.3, 0.2], 1901)
    with pytest.raises(InputError, match="option 3"):
        win_curve([0.5, 0.3, 0.2], 3, 4)
    with pytest.raises(InputError, match="theta"):
        log_gain_binary(1.1, 2)
    for n in (-2, 1.5):
        with pytest.raises(InputError, match="n = "):
            log_gain_binary(0.6, n)
