r"""The Dirichlet-Normal belief, against integrals over mu of exact conditional laws and against brute force.

The law of Z = G mu, against adaptive integrals over mu of scipy's Gamma distribution.
"""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaincc, betaln, gammainc, gammaincc, gammaln, ndtr
from scipy.stats import norm

from pets.core.weighted import Belief, ConfidenceSpread, Curves, Options, R_plus, curves, p_argmax, p_wins
from pets.errors import InputError

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


def U(belief):
    """The value of a belief: max_m P(argmax = m | belief)."""
    return float(p_argmax(belief).max())


def panels(edges):
    """Composite Gauss-Legendre: nodes and weights."""
    low, high = np.asarray(edges[:-1])[:, None], np.asarray(edges[1:])[:, None]
    return ((high + low + (high - low) * NODES) / 2).ravel(), ((high - low) / 2 * WEIGHTS).ravel()


def side_of_mu(beta, v, sign):
    """Nodes |mu| and weights for mu ~ N(beta, v) on one side of zero; linear in mu, graded towards zero."""
    beta, sd = sign * beta, math.sqrt(v)
    low, high = max(beta - 9 * sd, 0.0), beta + 9 * sd
    if high <= 0:
        return np.ones(1), np.zeros(1)
    first = min(sd / 2, high) if low == 0 else low
    graded = first * np.exp(-1.2 * np.arange(30, 0, -1)) if low == 0 else []
    x, w = panels([*([0.0] if low == 0 else []), *graded, *np.linspace(first, high, 20)])
    return x, w * np.exp(-0.5 * ((x - beta) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def two_options(belief):
    """M = 2: given theta, theta_1 mu_1 - theta_2 mu_2 is normal, and theta_1 ~ Beta; adaptive, over log odds."""
    (a, b), (m, n), (v, w) = belief.alpha, belief.beta, belief.v

    def integrand(x):
        log_p, log_q = -np.logaddexp(0, -x), -np.logaddexp(0, x)
        p, q = math.exp(log_p), math.exp(log_q)
        win = ndtr((p * m - q * n) / math.sqrt(p * p * v + q * q * w))
        return math.exp(a * log_p + b * log_q - betaln(a, b)) * win

    middle, width = math.log(a / b), math.sqrt(1 / a + 1 / b)
    marks = middle + width * np.array([-400, -100, -30, -10, -4, -1, 0, 1, 4, 10, 30, 100, 400])
    P = sum(quad(integrand, *ends, epsabs=1e-13, limit=500)[0] for ends in itertools.pairwise(marks))
    return np.array([P, 1 - P])


def many_options(belief):
    """Any M: panels in log|z|; f and F of every Z by panels in mu of the exact Gamma density and its integrals."""
    sd = np.sqrt(belief.v)
    narrowest = min(0.5, 0.8 / math.sqrt(max(belief.alpha) + 1))
    bottom = math.log(min(np.maximum(np.abs(belief.beta) - 9 * sd, 0.1 * sd))) - 18
    top = math.log(max(a + 12 * math.sqrt(a) + 45 for a in belief.alpha) * max(np.abs(belief.beta) + 9 * sd))
    slow = 1 / min(1.0, *belief.alpha)
    t, w = panels([*(bottom - slow * np.arange(32, 0, -1)), *np.arange(bottom, top + narrowest, narrowest)])
    P = np.zeros(len(belief.alpha))
    for sign in (1, -1):
        f, F = np.array([law(t, *row, sign) for row in zip(belief.alpha, belief.beta, belief.v, strict=True)]).swapaxes(
            0, 1
        )
        for m in range(len(P)):
            P[m] += (f[m] * np.prod(np.delete(F, m, axis=0), axis=0)) @ w
    return P


def law(t, alpha, beta, v, sign):
    x, w = side_of_mu(beta, v, sign)
    u = np.exp(t)[:, None] / x
    f = np.exp(alpha * (t[:, None] - np.log(x)) - u - gammaln(alpha)) @ w
    F = gammainc(alpha, u) @ w + ndtr(-beta / math.sqrt(v)) if sign > 0 else gammaincc(alpha, u) @ w
    return f, F


CERTAIN = [  # beta / sqrt(v) >= 4 everywhere
    Belief((3.0, 2.0), (8.0, 9.0), (0.5, 0.5)),
    Belief((0.1, 0.1), (4.0, 5.0), (1.0, 1.0)),
    Belief((500.0, 490.0), (40.0, 41.0), (1.0, 0.3)),
    Belief((500.0, 0.1), (1.0, 4.0), (0.001, 1.0)),
    Belief((13.0, 0.4), (0.9, 1.4), (0.05, 0.001)),
    Belief((3.0, 3.0), (7.5, 7.6), (1.0, 1.0)),
    Belief((0.03, 5.0, 1.0), (8.0, 8.0, 4.0), (1.0, 0.2, 1.0)),
    Belief((500.0, 480.0, 0.1), (20.0, 20.5, 400.0), (0.2, 1.0, 1e4)),
    Belief((21.0, 14.0, 3.0, 1.0), (8.0, 8.7, 9.0, 8.0), (1 / 21, 1 / 14, 1 / 3, 1.0)),
    Belief(
        (4.7, 5.3, 4.5, 5.1, 4.3, 5.0), (0.7, 1.0, 0.85, 0.74, 1.04, 1.0), (0.0015, 0.058, 0.0044, 0.0036, 0.0426, 0.06)
    ),
]
UNCERTAIN = [  # mu may be negative
    Belief((3.0, 2.0), (0.0, 0.0), (1.0, 4.0)),
    Belief((7.5, 6.7), (1.68, -1.46), (0.75, 0.036)),
    Belief((500.0, 400.0), (0.0, -1.0), (1.0, 1.0)),
    Belief((5.0, 0.1), (-10.0, -10.0), (0.01, 1.0)),
    Belief((2.0, 2.5), (-3.0, 20.0), (1.0, 400.0)),
    Belief((0.1, 0.2, 0.5), (0.0, -1.0, 2.0), (1.0, 1.0, 1.0)),
    Belief((3.0, 3.4, 3.1, 3.1), (-2.0, 2.2, 3.6, -3.3), (0.5, 2.0, 2.2, 0.75)),
    Belief((50.0, 0.1, 3.0, 1.0, 1.0, 8.0), (4.0, 4.0, 5.0, -2.0, 0.0, 3.0), (1.0, 1.0, 1.0, 1.0, 9.0, 2.0)),
]


@pytest.mark.parametrize("belief", [b for b in CERTAIN if len(b.alpha) > 2])
def test_against_quadrature_over_mu(belief):
    np.testing.assert_allclose(p_argmax(belief), many_options(belief), rtol=0, atol=2e-7)


@pytest.mark.parametrize("belief", [b for b in UNCERTAIN if len(b.alpha) > 2])
def test_against_quadrature_over_mu_of_either_sign(belief):
    np.testing.assert_allclose(p_argmax(belief), many_options(belief), rtol=0, atol=2e-7)


@pytest.mark.parametrize("belief", [b for b in (*CERTAIN, *UNCERTAIN) if len(b.alpha) == 2])
def test_two_options_against_an_integral_over_theta(belief):
    np.testing.assert_allclose(p_argmax(belief), two_options(belief), rtol=0, atol=2e-7)


@pytest.mark.parametrize("belief", [CERTAIN[7], UNCERTAIN[6]])
def test_against_two_million_draws(belief):
    rng = np.random.default_rng(20260)
    theta = rng.dirichlet(belief.alpha, size=2_000_000)
    mu = rng.normal(belief.beta, np.sqrt(belief.v), size=theta.shape)
    share = np.bincount((theta * mu).argmax(axis=1), minlength=len(belief.alpha)) / len(theta)
    np.testing.assert_allclose(p_argmax(belief), share, rtol=0, atol=5 * math.sqrt(0.25 / len(theta)))


@pytest.mark.parametrize("alpha", [(1.0, 1.0, 1.0), (0.1, 0.3, 2.0), (20.0, 17.0, 3.0, 1.0), (500.0, 490.0)])
@pytest.mark.parametrize("v", [1e-10, 1e-300])
def test_known_equal_means_are_the_plain_dirichlet(alpha, v):
    """P(argmax theta = m) = integral of the Gamma density times the other Gamma distribution functions."""

    def density(t, m):
        rest = math.prod(gammainc(a, math.exp(t)) for k, a in enumerate(alpha) if k != m)
        return math.exp(alpha[m] * t - math.exp(t) - gammaln(alpha[m])) * rest

    middle = math.log(max(alpha))
    plain = [
        sum(
            quad(density, *ends, args=(m,), epsabs=1e-12, limit=500)[0]
            for ends in ((-150, middle - 1), (middle - 1, 8))
        )
        for m in range(len(alpha))
    ]
    belief = Belief(alpha, (1.0,) * len(alpha), (v,) * len(alpha))
    np.testing.assert_allclose(p_argmax(belief), plain, rtol=0, atol=1e-8)


def test_two_known_means_are_a_beta_tail():
    belief = Belief((5.0, 4.0), (2.0, 3.0), (1e-20, 1e-20))
    assert p_argmax(belief)[0] == pytest.approx(betaincc(5, 4, 3 / 5), abs=1e-9)


@st.composite
def beliefs(draw, least=2, most=6):
    M = draw(st.integers(least, most))
    alpha = [10 ** draw(st.floats(-1.5, 2.7)) for _ in range(M)]
    b = [draw(st.floats(-10, 10) | st.floats(10, 100)) for _ in range(M)]
    sd = [10 ** draw(st.floats(-1, 1)) for _ in range(M)]
    return Belief(tuple(alpha), tuple(x * s for x, s in zip(b, sd, strict=True)), tuple(s * s for s in sd))


@settings(max_examples=150, deadline=None)
@given(beliefs())
def test_sums_to_one(belief):
    P = p_argmax(belief)
    assert P.min() >= 0
    assert P.sum() == pytest.approx(1, abs=1e-6)
    assert U(belief) == P.max()


@pytest.mark.parametrize("alpha", [0.5, 3.0, 20.0, 500.0])
@pytest.mark.parametrize("b", [0.0, 3.0, 12.0, 1e4])
def test_many_close_options_sum_to_one(alpha, b):
    """The maximum of many is the narrowest curve that the lattice has to resolve."""
    belief = Belief(*zip(*((alpha * (1 + m / 500), b, 1.0 + m / 100) for m in range(12)), strict=True))
    assert p_argmax(belief).sum() == pytest.approx(1, abs=1e-7)


@settings(max_examples=50, deadline=None)
@given(beliefs(), st.randoms(use_true_random=False))
def test_options_in_another_order_permute_bit_for_bit(belief, random):
    order = list(range(len(belief.alpha)))
    random.shuffle(order)
    other = Belief(*(tuple(column[m] for m in order) for column in (belief.alpha, belief.beta, belief.v)))
    assert p_argmax(other).tolist() == p_argmax(belief)[order].tolist()
    assert R_plus(other) == R_plus(belief)


@settings(max_examples=50, deadline=None)
@given(beliefs(), st.floats(-6, 6))
def test_the_unit_of_confidence_does_not_matter(belief, exponent):
    s = 10**exponent
    scaled = Belief(belief.alpha, tuple(s * m for m in belief.beta), tuple(s * s * v for v in belief.v))
    np.testing.assert_allclose(p_argmax(scaled), p_argmax(belief), rtol=0, atol=5e-7)


@settings(max_examples=60, deadline=None)
@given(beliefs(least=1))
def test_r_plus_against_every_update(belief):
    best = max(U(belief.update(m, belief.beta[m])) for m in range(len(belief.alpha)))
    assert R_plus(belief) == pytest.approx(best - U(belief), abs=2e-6)


def test_equal_options_count_once_each():
    seen, slot = (6.0, 8.0, 0.2), (0.3, 7.0, 1.0)
    belief = Belief(*zip(seen, slot, (2.0, 9.0, 0.5), slot, slot, strict=True))
    P = p_argmax(belief)
    assert P[1] == P[3] == P[4]
    best = max(U(belief.update(m, belief.beta[m])) for m in range(5))
    assert R_plus(belief) == pytest.approx(best - U(belief), abs=1e-8)


def test_r_plus_survives_where_u_rounds_to_one():
    """One more vote for the leader: (1 - U) - (1 - U'), each the other option's own probability, near 1e-15."""
    belief = Belief((50.0, 1.0), (8.0, 8.0), (0.02, 0.5))
    doubt = p_argmax(belief)[1] - p_argmax(belief.update(0, 8.0))[1]
    assert 1 - U(belief) < 1e-13
    assert R_plus(belief) == pytest.approx(doubt, rel=1e-4)
    assert p_argmax(belief)[1] == pytest.approx(many_options(belief)[1], rel=1e-4)


def test_r_plus_falls_as_the_leader_pulls_away():
    gains = [R_plus(Belief((1.0 + n, 1.0), (8.0, 8.0), (1 / (1 + n), 1.0))) for n in range(0, 60, 4)]
    assert all(later < sooner for sooner, later in itertools.pairwise(gains))
    assert gains[-1] > 0


def test_one_option_is_certain():
    assert p_argmax(Belief((2.0,), (-1.0,), (3.0,))) == pytest.approx([1.0], abs=1e-8)
    assert R_plus(Belief((2.0,), (-1.0,), (3.0,))) == 0


@given(beliefs(), st.floats(-50, 50), st.integers(0, 5))
def test_update_is_the_paper_s(belief, c, m):
    m %= len(belief.alpha)
    updated = belief.update(m, c)
    v = 1 / (1 / belief.v[m] + 1)
    assert updated.alpha[m] == belief.alpha[m] + 1
    assert updated.v[m] == pytest.approx(v)
    assert updated.beta[m] == pytest.approx(v * (belief.beta[m] / belief.v[m] + c), abs=1e-9)
    for k in set(range(len(belief.alpha))) - {m}:
        assert (updated.alpha[k], updated.beta[k], updated.v[k]) == (belief.alpha[k], belief.beta[k], belief.v[k])


@given(beliefs(), st.floats(0, 100))
def test_fantasy_adds_expected_votes_and_precision(belief, pending):
    dreamt = belief.fantasy(pending)
    share = np.array(belief.alpha) / sum(belief.alpha) * pending
    np.testing.assert_allclose(dreamt.alpha, belief.alpha + share)
    np.testing.assert_allclose(1 / np.array(dreamt.v), 1 / np.array(belief.v) + share)
    assert dreamt.beta == belief.beta
    assert belief.fantasy(0) == belief


@pytest.mark.parametrize(
    ("alpha", "beta", "v", "names"),
    [
        ((), (), (), "at least one option"),
        ((1.0, 1.0), (8.0,), (1.0, 1.0), "2, 1 and 2"),
        ((1.0, 0.0), (8.0, 8.0), (1.0, 1.0), r"alpha\[1\] is 0"),
        ((1.0, math.inf), (8.0, 8.0), (1.0, 1.0), r"alpha\[1\] is inf"),
        ((math.nan, 1.0), (8.0, 8.0), (1.0, 1.0), r"alpha\[0\] is nan"),
        ((1.0, 1.0), (8.0, math.nan), (1.0, 1.0), r"beta\[1\] is nan"),
        ((1.0, 1.0), (8.0, 8.0), (0.0, 1.0), r"v\[0\] is 0"),
        ((1.0, 1.0), (8.0, 8.0), (1.0, -2.0), r"v\[1\] is -2"),
    ],
)
def test_bad_beliefs_are_refused(alpha, beta, v, names):
    with pytest.raises(InputError, match=names):
        Belief(alpha, beta, v)


def test_bad_updates_are_refused():
    belief = Belief((1.0, 1.0), (8.0, 8.0), (1.0, 1.0))
    for m in (-1, 2):
        with pytest.raises(InputError, match=f"option {m}"):
            belief.update(m, 8.0)
    with pytest.raises(InputError, match="confidence is nan"):
        belief.update(0, math.nan)
    for pending in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="pending"):
            belief.fantasy(pending)


def test_the_spread_is_learned_within_answers_and_its_posterior_is_the_updates_one_by_one():
    rng = np.random.default_rng(1)
    groups = [rng.normal(12.0 + 3.0 * rng.normal(), 0.5, size=6) for _ in range(400)]
    spread = ConfidenceSpread.learn(groups)
    assert (spread.scale, spread.beta_0 * spread.scale) == pytest.approx((0.5, 12.0), rel=0.05)
    assert spread.v_0 * spread.scale**2 == pytest.approx(9.0, rel=0.15)
    belief = Belief((1.0,), (spread.beta_0,), (spread.v_0,))
    for value in groups[0]:
        belief = belief.update(0, value / spread.scale)
    assert spread.posterior(groups[0]) == pytest.approx((belief.beta[0], belief.v[0]))


@pytest.mark.parametrize("groups", [[], [[3.0]], [[3.0], [3.0]], [[3.0], [5.0]], [[3.0, 3.0], [3.0]]])
def test_few_confidences_give_a_spread_too(groups):
    spread = ConfidenceSpread.learn(groups)
    assert spread.scale > 0 and spread.v_0 > 0 and math.isfinite(spread.beta_0)


def test_copies_of_an_option_win_as_if_each_was_listed():
    P = p_argmax(Belief((3.0, 1.0, 1.0, 1.0), (8.0, 9.0, 9.0, 9.0), (0.5, 1.0, 1.0, 1.0)))
    assert p_wins([(3.0, 8.0, 0.5), (1.0, 9.0, 1.0)], [1, 3]) == pytest.approx(P[:2])


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
