"""The law of Z = G mu on both sides of zero, for G ~ Gamma(alpha, 1) and mu ~ N(beta, v), by quadrature.

With theta_m = G_m / sum G, the winner argmax_m theta_m mu_m of a Dirichlet-Normal belief (Liu et al., PETS,
appendix "Bayesian MDP") is argmax_m Z_m over independent Z_m, so the belief needs only the density and the
distribution function of each Z. On either side of zero, log|Z| = log G + log|mu| has the density

    f(t) = integral g(t - s) p(s) ds,    g(u) = exp(alpha u - e^u) / Gamma(alpha),    p(s) = e^s phi(e^s - b)

(mu in units of its deviation, b = beta / sqrt(v); the negative side is the positive one of -b). The integral is a
sum over nodes of the *narrower* factor, because nodes that resolve it resolve the product; the wider factor is
then evaluated exactly. F is the running integral of f. Every weight is positive, so the far tails keep their
relative accuracy; every rule is a trapezoid or Gauss-Lobatto sum of an analytic function, so few nodes do.

The lattice is uniform in tau, t = tau - exp(tau_0 - tau): plain log|z| where the curves bend, and below tau_0,
where they are powers of z however slow (alpha = 0.03), double-exponential (Takahasi and Mori 1974).
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammainc, gammainccinv, gammaincinv, gammaln, ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Curves", "Options", "curves"]

_EDGE = 7.5  # in deviations: a normal further than this from zero has a sign
_DROP = 1e-20  # probability that may fall outside the lattice
_TINY = 1e-300  # keeps log F finite where F underflows
_ROOT_2PI = math.sqrt(2 * math.pi)
_LOBATTO = np.array([0.0, 0.5 - math.sqrt(3 / 28), 0.5, 0.5 + math.sqrt(3 / 28)])  # and 1.0, the next panel's 0.0
_WEIGHTS = np.array([1 / 20, 49 / 180, 16 / 45, 49 / 180])  # and 1 / 20


class Options(NamedTuple):
    """Parameters of C independent Z, each of shape (C,); ``b`` is beta / sd."""

    alpha: "Array"
    b: "Array"
    sd: "Array"


class Curves(NamedTuple):
    """Z on one side of zero, on n lattice points z: density times weight of the point, and P(Z <= z), (C, n)."""

    f: "Array"
    F: "Array"


def curves(options: Options, current: int, sign: int) -> Curves | None:
    """Density (times the trapezoid weight) and distribution function of every Z on the side ``sign`` of zero.

    The first ``current`` options are the belief; the rest are what one of them may become, further from zero, so
    the inner end of the lattice is chosen from the belief alone. ``None`` where no winner can be: below zero it
    needs every Z below zero.

    >>> side = curves(Options(np.array([3.0]), np.array([9.0]), np.array([0.5])), 1, +1)
    >>> bool(abs(side.f.sum() - 1) < 1e-9), bool(abs(side.F[0, -1] - 1) < 1e-9)
    (True, True)
    """
    options = options._replace(b=sign * options.b)
    outside = ndtr(-options.b[:current])  # weight of mu on the other side of zero
    if (sign > 0 and np.all(options.b < -_EDGE - 1)) or (sign < 0 and np.prod(1 - outside) < 1e-15):
        return None
    h = _spacing(options)
    tau, tau_0 = _lattice(options, current, sign, h)
    tau = np.add.outer(tau, h * _LOBATTO).ravel()
    stretch = np.exp(tau_0 - tau)
    f, F = np.empty((2, len(options.b), len(tau) // 4))
    for c, (alpha, b, sd) in enumerate(zip(*options, strict=True)):
        density, start = _law(tau - stretch - math.log(sd), float(alpha), float(b))
        fine = (h * density * (1 + stretch)).reshape(-1, 4)
        panels = fine[:-1] @ _WEIGHTS + fine[1:, 0] / 20
        f[c] = fine[:, 0]
        F[c] = np.append(start, panels).cumsum() if sign > 0 else np.append(0.0, panels[::-1]).cumsum()[::-1]
    return Curves(f, np.maximum(F, _TINY))


def _spacing(options: Options) -> float:
    """The lattice spacing that resolves the narrowest log|Z|, each as wide as the wider of its two factors."""
    gamma = np.minimum(0.35, 0.7 / np.sqrt(options.alpha))
    normal = 0.6 / np.maximum(options.b, 2.4)
    return float(np.min(np.maximum(gamma, normal)))


def _lattice(options: Options, current: int, sign: int, h: float) -> "tuple[Array, float]":
    """Points tau, shape (n,), and tau_0.

    If every mu has the sign of this side, or one has it above zero, the lattice can end before zero: above zero
    where every Z is surely larger (the product of F is nil), below zero where every Z is surely further out.
    """
    alpha, b, sd = options
    right = float((np.log(gammainccinv(alpha, 1e-18)) + np.log(sd * np.maximum(b + 8.5, 1.0))).max())
    alpha, b, sd = alpha[:current], b[:current], sd[:current]
    narrow = b > _EDGE
    log_mu = np.log(sd * np.where(narrow, b - 6, 1 / np.maximum(np.abs(b), 1)))
    tau_0 = float(log_mu.min()) - 2.0
    left = tau_0 - math.log(45 / min(1.0, float(alpha.min())))
    if narrow.all() or (sign > 0 and narrow.any()):
        t = np.linspace(tau_0, right, 64)
        F = np.maximum(gammainc(alpha[narrow, None], np.exp(t - log_mu[narrow, None])), _TINY)
        bound = np.log(F).sum(axis=0) if sign > 0 else np.log(F.max(axis=0))
        end = int(np.searchsorted(bound, math.log(_DROP)))
        left = float(t[end - 1]) if end else left
    return right - h * np.arange(math.ceil((right - left) / h) + 1)[::-1], tau_0


def _law(t: "Array", alpha: float, b: float) -> "tuple[Array, float]":
    """Density of log(G X) where G X > 0, X ~ N(b, 1), at t, shape (n,); and P(G X <= e^t) at the first t."""
    if alpha < 3 or b > max(_EDGE, math.sqrt(alpha)):
        x, w = _normal_nodes(alpha, b)
        u = np.subtract.outer(t, np.log(x))
        y = np.exp(u)
        return np.exp(alpha * u - y - gammaln(alpha)) @ w, float(ndtr(-b) + gammainc(alpha, y[0]) @ w)
    g, w = _gamma_nodes(alpha, b)
    x = np.divide.outer(np.exp(t), g)
    return (x * np.exp(-0.5 * (x - b) ** 2)) @ (w / _ROOT_2PI), float(ndtr(x[0] - b) @ w)


def _normal_nodes(alpha: float, b: float) -> "tuple[Array, Array]":
    """Nodes and weights for X ~ N(b, 1), X > 0: a trapezoid in X or, near zero, in y with X = log(1 + e^y)."""
    if b > _EDGE:
        x = np.arange(-_EDGE, _EDGE + 0.1, 0.75)
        return b + x, 0.75 * np.exp(-0.5 * x**2) / _ROOT_2PI
    step = min(0.5, 0.6 / math.sqrt(alpha))
    y = np.arange(0.5 * max(b, 0.0) ** 2 - 30.0, max(b, 0.0) + _EDGE, step)
    x = np.logaddexp(0.0, y)
    return x, step * np.exp(y - x - 0.5 * (x - b) ** 2) / _ROOT_2PI


def _gamma_nodes(alpha: float, b: float) -> "tuple[Array, Array]":
    """Nodes and weights for G ~ Gamma(alpha, 1): a trapezoid in log G."""
    step = min(0.7 / math.sqrt(alpha), 0.6 / max(b, 2.4) if b < _EDGE else 1.0)
    u = np.arange(math.log(gammaincinv(alpha, 1e-15)), math.log(gammainccinv(alpha, 1e-15)) + step, step)
    return np.exp(u), step * np.exp(alpha * u - np.exp(u) - gammaln(alpha))
