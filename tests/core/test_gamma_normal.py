"""The law of Z = G mu, against adaptive integrals over mu of scipy's Gamma distribution."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammainc, gammaincc
from scipy.stats import norm

from pets.core.gamma_normal import Curves, Options, curves

CASES = [
    *[(0.1, 0.0), (0.5, 4.0), (1.0, -2.0), (2.5, 7.0), (3.0, 7.5), (2.9, 7.6)],
    *[(8.0, 3.0), (20.0, 40.0), (70.0, 8.0), (500.0, 0.5), (500.0, 12.0)],
]


def one(alpha: float, b: float, sign: int, sd: float = 1.0) -> Curves | None:
    return curves(Options(np.array([alpha]), np.array([b]), np.array([sd])), np.array([1.0]), sign)


def cdf(z: float, alpha: float, b: float) -> float:
    """P(G mu <= z), by adaptive quadrature over mu on the side of z."""
    sign = math.copysign(1, z)
    tail = gammainc if z > 0 else gammaincc

    def integrand(mu: float) -> float:
        return float(tail(alpha, z / mu)) * math.exp(-0.5 * (mu - b) ** 2) / math.sqrt(2 * math.pi)

    step = z / alpha  # where the Gamma distribution function rises, if mu were known
    marks = sorted({sign * 1e-9, *(x for x in (*np.arange(b - 9, b + 10, 1.5), step) if x * sign > 1e-9)})
    parts = sum(quad(integrand, lo, hi, epsabs=1e-13, limit=400)[0] for lo, hi in pairwise(marks))
    return parts + (float(norm.cdf(-b)) if z > 0 else 0.0)


@pytest.mark.parametrize(("alpha", "b"), CASES)
def test_distribution_function(alpha, b):
    for sign in (1, -1):
        side = one(alpha, b, sign)
        if side is None:
            continue
        middle = np.searchsorted(np.cumsum(side.f[0]), np.array([0.02, 0.5, 0.98]) * side.f[0].sum())
        for i in middle:
            assert side.F[0, i] == pytest.approx(cdf(sign * math.exp(side.t[i]), alpha, b), abs=2e-8)


@pytest.mark.parametrize(("alpha", "b"), CASES)
def test_each_side_weighs_what_mu_does(alpha, b):
    for sign in (1, -1):
        side = one(alpha, b, sign)
        assert (0.0 if side is None else side.f.sum()) == pytest.approx(norm.cdf(sign * b), abs=1e-7)


@pytest.mark.parametrize(("alpha", "b"), CASES)
def test_first_two_moments(alpha, b):
    """E Z = alpha b and E Z^2 = alpha (alpha + 1) (b^2 + 1), summed over both sides."""
    first = second = 0.0
    for sign in (1, -1):
        if side := one(alpha, b, sign):
            z = sign * np.exp(side.t)
            first += side.f[0] @ z
            second += side.f[0] @ z**2
    assert second == pytest.approx(alpha * (alpha + 1) * (b * b + 1), rel=1e-6)
    assert first == pytest.approx(alpha * b, abs=1e-6 * math.sqrt(second))


@pytest.mark.parametrize(("alpha", "b"), CASES)
def test_distribution_function_is_monotone_and_ends_right(alpha, b):
    above, below = one(alpha, b, 1), one(alpha, b, -1)
    assert above is not None
    assert np.all(np.diff(above.F[0]) >= 0)
    assert above.F[0, -1] == pytest.approx(1, abs=1e-7)
    if below is not None:
        assert np.all(np.diff(below.F[0]) <= 0)  # outwards from zero
        assert below.F[0, 0] == pytest.approx(norm.cdf(-b), abs=1e-7)


def test_left_tail_is_relatively_accurate():
    """F of Gamma(40) at 1e-12 is as good, relatively, as at 1/2: R+ lives there."""
    side = one(40.0, 30.0, 1)
    assert side is not None
    i = int(np.searchsorted(side.F[0], 1e-12))
    assert side.F[0, i] == pytest.approx(cdf(math.exp(side.t[i]), 40.0, 30.0), rel=1e-4)


def test_no_curve_where_no_winner_can_be():
    assert one(3.0, 12.0, -1) is None
    assert one(3.0, -12.0, 1) is None


def test_a_scale_of_mu_only_shifts_the_lattice():
    plain, scaled = one(3.0, 2.0, 1), one(3.0, 2.0, 1, sd=1e6)
    assert plain is not None
    assert scaled is not None
    np.testing.assert_allclose(scaled.t - plain.t, math.log(1e6), rtol=1e-12)
    np.testing.assert_allclose(scaled.F, plain.F, rtol=1e-9)
