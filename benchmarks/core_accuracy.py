"""Errors of every quadrature and curve of the core against high-precision references, worst case of each kind.

- SC: all count vectors enumerated (M <= 4, B <= 8), and exact fractions (M = 4, B <= 24);
- P(argmax) and its sum: mpmath, 30 digits, alpha from 0.1 to 500;
- R+: exact integers for two options down to 1e-300; mpmath for more;
- weighted P: an integral over theta for two options, nested adaptive quadrature for four;
- probit: the sup-error of both fits on the paper's panels, B = 1..64, and of the first past the warm-up of 4 (an
  approximation's error, not a bug's).
"""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
from scipy.integrate import quad
from scipy.special import betaln, gammainc, ndtr
from scripts.paper.panels import PANELS

from pets.core.consistency import SC_curve
from pets.core.dirichlet import log_R_plus, p_argmax
from pets.core.probit import fit_probit_l1, fit_probit_regression, sup_error
from pets.core.weighted import Belief
from pets.core.weighted import p_argmax as p_argmax_weighted

ALPHAS = (
    (0.1, 0.1, 0.1),
    (1.1, 0.1, 0.1, 0.1),
    (5.0, 3.0, 1.0, 1.0),
    (30.5, 29.5, 2.0, 1.0),
    (500.0, 480.0, 470.0, 3.0),
    (500.0, 500.0, 0.1),
)
CERTAIN = (  # beta / sqrt(v) >= 4
    Belief((3.0, 2.0), (8.0, 9.0), (0.5, 0.5)),
    Belief((0.1, 0.1), (4.0, 5.0), (1.0, 1.0)),
    Belief((500.0, 490.0), (40.0, 41.0), (1.0, 0.3)),
    Belief((7.0, 5.0, 2.0, 1.0), (8.0, 8.5, 7.0, 8.0), (0.2, 0.25, 0.5, 1.0)),
)
UNCERTAIN = (
    Belief((3.0, 2.0), (0.0, 0.0), (1.0, 4.0)),
    Belief((7.5, 6.7), (1.7, -1.5), (0.75, 0.04)),
    Belief((2.0, 2.5), (-3.0, 20.0), (1.0, 400.0)),
)


def enumerated_SC(theta: tuple[float, ...], B: int) -> float:
    """P(the vote of B traces is theta's argmax), every count vector, ties shared equally."""
    winner = int(np.argmax(theta))
    total = 0.0
    for counts in product(range(B + 1), repeat=len(theta)):
        if sum(counts) == B and counts[winner] == max(counts):
            ways = math.factorial(B) // math.prod(math.factorial(c) for c in counts)
            total += ways * math.prod(p**c for p, c in zip(theta, counts, strict=True)) / counts.count(max(counts))
    return total


def exact_SC(theta: tuple[Fraction, ...], B: int) -> Fraction:
    """The same in fractions, by convolving the other options' truncated series for each winning count; theta_1 wins."""
    total = Fraction(0)
    for c in range(B + 1):
        ways: dict[tuple[int, int], Fraction] = {(0, 0): Fraction(1)}  # (traces, ties) -> weight
        for p in theta[1:]:
            grown: dict[tuple[int, int], Fraction] = {}
            for (n, ties), weight in ways.items():
                for k in range(min(c, B - c - n) + 1):
                    key = (n + k, ties + (k == c))
                    grown[key] = grown.get(key, Fraction(0)) + weight * p**k / math.factorial(k)
            ways = grown
        scale = theta[0] ** c * math.factorial(B) / math.factorial(c)
        total += sum((scale * w / (1 + ties) for (n, ties), w in ways.items() if n == B - c), Fraction(0))
    return total


def reference_p(alpha: tuple[float, ...], m: int) -> mpmath.mpf:
    a = [mpmath.mpf(value) for value in alpha]

    def integrand(t: mpmath.mpf) -> mpmath.mpf:
        x = mpmath.exp(t)
        others = (mpmath.gammainc(a[k], 0, x, regularized=True) for k in range(len(a)) if k != m)
        return mpmath.exp(a[m] * t - x) / mpmath.gamma(a[m]) * mpmath.fprod(others)

    top = max(alpha)
    left = math.log(top) - 7 if top > 5 else -75 / top
    right = math.log(top + 30 * math.sqrt(top) + 80)
    return mpmath.quad(integrand, [left, *np.linspace(max(left, math.log(top) - 6.9), right, 30).tolist()])


def two_options(belief: Belief) -> float:
    """P_1 as an integral over the log odds of theta_1 ~ Beta of P(theta_1 mu_1 > theta_2 mu_2), a normal's."""
    (a, b), (m, n), (v, w) = belief.alpha, belief.beta, belief.v

    def integrand(x: float) -> float:
        log_p, log_q = -np.logaddexp(0, -x), -np.logaddexp(0, x)
        p, q = math.exp(log_p), math.exp(log_q)
        win = ndtr((p * m - q * n) / math.sqrt(p * p * v + q * q * w))
        return float(math.exp(a * log_p + b * log_q - betaln(a, b)) * win)

    marks = math.log(a / b) + math.sqrt(1 / a + 1 / b) * np.array(
        [-400, -100, -30, -10, -4, -1, 0, 1, 4, 10, 30, 100, 400]
    )
    return float(sum(quad(integrand, *ends, epsabs=1e-13, limit=500)[0] for ends in pairwise(marks.tolist())))


def four_options(belief: Belief, m: int) -> float:
    """P_m by adaptive quadrature over log z of quadratures over mu; every mu positive but for 1e-15 of its weight."""

    def over_mu(k: int, function: Callable[[float, float], float], z: float) -> float:
        beta, sd = belief.beta[k], math.sqrt(belief.v[k])

        def weighed(mu: float) -> float:
            return function(belief.alpha[k], z / mu) * math.exp(-0.5 * ((mu - beta) / sd) ** 2)

        integral = quad(weighed, max(beta - 8 * sd, 1e-9), beta + 8 * sd, epsabs=1e-12)[0]
        return float(integral) / (sd * math.sqrt(2 * math.pi))

    def density_of_log(alpha: float, x: float) -> float:
        return math.exp(alpha * math.log(x) - x - math.lgamma(alpha))

    def cdf(alpha: float, x: float) -> float:
        return float(gammainc(alpha, x))

    def integrand(t: float) -> float:
        z = math.exp(t)
        return over_mu(m, density_of_log, z) * math.prod(over_mu(k, cdf, z) for k in range(4) if k != m)

    return float(sum(quad(integrand, *ends, epsabs=1e-10)[0] for ends in pairwise(np.linspace(-6.0, 6.5, 6).tolist())))


def sc_errors() -> dict[str, float]:
    rng = np.random.default_rng(0)
    worst = 0.0
    for M in (2, 3, 4):
        for theta in rng.dirichlet([1.0] * M, size=4):
            curve = SC_curve(theta, 8)
            worst = max(worst, *(abs(curve[B] - enumerated_SC(tuple(theta.tolist()), B)) for B in range(9)))
    fractions = (Fraction(2, 5), Fraction(3, 10), Fraction(1, 5), Fraction(1, 10))
    curve = SC_curve([float(p) for p in fractions], 24)
    long = max(abs(curve[B] - float(exact_SC(fractions, B))) for B in (0, 1, 2, 5, 11, 24))
    return {"enumeration_M<=4_B<=8": worst, "fractions_M=4_B<=24": float(long)}


def dirichlet_errors() -> dict[str, float]:
    with mpmath.workdps(30):
        p = max(abs(p_argmax(a)[m] - float(reference_p(a, m))) for a in ALPHAS for m in range(len(a)))
    total = max(abs(p_argmax(a).sum() - 1) for a in ALPHAS)
    binary, gains = 0.0, []
    with mpmath.workdps(60):
        for a, b in ((1, 1), (7, 3), (60, 4), (500, 480), (950, 30), (990, 2)):
            exact = mpmath.log(mpmath.binomial(a + b - 1, b - 1)) - (a + b) * mpmath.log(2)
            binary = max(binary, abs(float(mpmath.expm1(log_R_plus([a, b]) - exact))))
            gains.append(float(exact / mpmath.log(10)))
    with mpmath.workdps(30):
        multi = max(abs(math.exp(log_R_plus(a)) / reference_gain(a) - 1) for a in ALPHAS[1:4])
    return {"P": p, "P_sum": float(total), "R_plus_binary_relative": binary, "R_plus_binary_least_log10": min(gains),
            "R_plus_relative": multi}  # fmt: skip


def reference_gain(alpha: tuple[float, ...]) -> float:
    """R+ from complements: the doubt in the leader before and after one more vote for it."""
    after = (alpha[0] + 1, *alpha[1:])
    doubt = [sum(reference_p(a, m) for m in range(1, len(a))) for a in (alpha, after)]
    return float(doubt[0] - doubt[1])


def weighted_errors() -> dict[str, float]:
    def error(belief: Belief) -> float:
        P = p_argmax_weighted(belief)
        if len(belief.alpha) == 2:
            return abs(float(P[0]) - two_options(belief))
        return max(abs(float(P[m]) - four_options(belief, m)) for m in range(4))

    return {"beta/sd>=4": max(map(error, CERTAIN)), "elsewhere": max(map(error, UNCERTAIN))}


def probit_errors() -> dict[str, list[float]]:
    errors: dict[str, list[float]] = {}
    for M, panel in PANELS.items():
        for name, theta in panel.items():
            curve = SC_curve(theta, 64)
            fits = (fit_probit_regression(curve), fit_probit_l1(curve))
            later = float(np.abs(fits[0].curve(np.arange(4, 65)) - curve[4:]).max())
            errors[f"M={M} {name}"] = [*(round(sup_error(fit, curve), 4) for fit in fits), round(later, 4)]
    return errors


def main() -> None:
    print(__doc__)
    figures = {"SC": sc_errors(), "dirichlet": dirichlet_errors(), "weighted": weighted_errors()}
    for part, errors in figures.items():
        for name, value in errors.items():
            print(f"{part:10} {name:28} {value:.2e}")
    probit = probit_errors()
    for name, pair in probit.items():
        print(f"probit     {name:28} regression {pair[0]:.4f}, L1 {pair[1]:.4f}; regression from B = 4 {pair[2]:.4f}")
    rounded = {part: {k: float(f"{v:.2e}") for k, v in errors.items()} for part, errors in figures.items()}
    print(json.dumps({"benchmark": "core_accuracy", **rounded, "probit_sup_error": probit}))


if __name__ == "__main__":
    main()
