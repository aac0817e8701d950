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

_EDGE = 7.5  # in deviations: a normal further than this from zero has a sign
_TINY = 1e-300  # keeps log F finite where F underflows
_DEEP = 700.0  # exp(-700) is nil, and np.exp is slow where it underflows
_BLOCK = 12_000  # numbers in a temporary array: below malloc's 128 KiB mmap threshold, whose page faults cost more
_ROOT_2PI = math.sqrt(2 * math.pi)
_LOBATTO = np.array([0.0, 0.5 - math.sqrt(3 / 28), 0.5, 0.5 + math.sqrt(3 / 28)])  # and 1.0, the next panel's 0.0
_WEIGHTS = np.array([1 / 20, 49 / 180, 16 / 45, 49 / 180])  # and 1 / 20


class Options(NamedTuple):
    """Parameters of C independent Z, each of shape (C,); ``b`` is beta / sd."""

    alpha: "Array"
    b: "Array"
    sd: "Array"


class Curves(NamedTuple):
    """Z on one side of zero at n lattice points z, going outwards: ``t`` = log|z|, shape (n,); ``f``, the density
    times the weight of the point, and ``F`` = P(Z <= z), shape (C, n)."""

    t: "Array"
    f: "Array"
    F: "Array"


def curves(options: Options, copies: "Array", sign: int) -> Curves | None:
    """Density (times the trapezoid weight) and distribution function of every Z on the side ``sign`` of zero.

    The first D options are the belief, which holds ``copies``, shape (D,), of each; the rest are what one of them
    may become, further from zero, so the inner end of the lattice is chosen from the belief alone. ``None`` where
    no winner can be: below zero it needs every Z below zero.

    >>> side = curves(Options(np.array([3.0]), np.array([9.0]), np.array([0.5])), np.array([1.0]), +1)
    >>> bool(abs(side.f.sum() - 1) < 1e-9), bool(abs(side.F[0, -1] - 1) < 1e-9)
    (True, True)
    """
    options = options._replace(b=sign * options.b)
    outside = ndtr(-options.b[: len(copies)])  # weight of mu on the other side of zero
    if (sign > 0 and np.all(options.b < -_EDGE - 1)) or (sign < 0 and np.prod((1 - outside) ** copies) < 1e-15):
        return None
    h = _spacing(options, copies.sum())
    tau, tau_0 = _lattice(options, len(copies), sign, h)
    tau = np.add.outer(tau, h * _LOBATTO).ravel()
    stretch = np.exp(tau_0 - tau)
    t = tau - stretch
    f, F = np.empty((2, len(options.b), len(t) // 4))
    for c, (alpha, b, sd) in enumerate(zip(*options, strict=True)):
        density, start = _law(t - math.log(sd), float(alpha), float(b))
        fine = (h * density * (1 + stretch)).reshape(-1, 4)
        panels = fine[:-1] @ _WEIGHTS + fine[1:, 0] / 20
        f[c] = fine[:, 0]
        F[c] = np.append(start, panels).cumsum() if sign > 0 else np.append(0.0, panels[::-1]).cumsum()[::-1]
    return Curves(t[::4], f, np.maximum(F, _TINY))


def _spacing(options: Options, M: float) -> float:
    """The spacing that resolves the narrowest log|Z|, each as wide as the wider of its two factors, and the
    maximum of M of them, narrower as sqrt(log M); tuned so that p_argmax sums to 1 within 1e-6."""
    gamma = 0.56 / np.sqrt(options.alpha + 4)
    normal = 0.8 / (np.maximum(options.b, 2) + 3)
    return float(np.min(np.maximum(gamma, normal))) * math.sqrt(math.log(4) / math.log(max(M, 4)))


def _lattice(options: Options, D: int, sign: int, h: float) -> "tuple[Array, float]":
    """Points tau, shape (n,), and tau_0, under the bend of every curve.

    The lattice ends before zero where that is surely too near to it for every Z (below zero) or for any one of
    them (above zero, where a winner has to beat that one).
    """
    right = np.log(
        np.maximum(gammainccinv(options.alpha, 1e-18), 1) * options.sd * np.maximum(options.b + 8.5, 1)
    ).max()
    alpha, b, sd = (column[:D] for column in options)
    signed = b > _EDGE
    smallest = sd * np.where(signed, b - 6, 1 / np.maximum(np.abs(b), 1))  # |mu| or, if not signed, where p bends
    tau_0 = np.log(smallest).min() - 2
    left = tau_0 - math.log(45 / min(1.0, alpha.min()))
    if signed.all() or (sign > 0 and signed.any()):
        near = np.log(np.maximum(gammaincinv(alpha[signed], 1e-20), _TINY) * smallest[signed])
        left = max(left, near.max() if sign > 0 else near.min())
    return right - h * np.arange(math.ceil((right - left) / h) + 1)[::-1], float(tau_0)


def _law(t: "Array", alpha: float, b: float) -> "tuple[Array, float]":
    """Density of log(G X) where G X > 0, X ~ N(b, 1), at t, shape (n,); and P(G X <= e^t) at the first t.

    The nodes are of X if log X is narrower than log G (1 / b < 1 / sqrt(alpha)) or has the shorter tail at zero.
    """
    if alpha < 3 or b > max(_EDGE, math.sqrt(alpha)):
        nodes, w = _normal_nodes(alpha, b)
        density, parameter = _density_over_x, alpha
        start = ndtr(-b) + gammainc(alpha, math.exp(t[0]) / nodes) @ w
    else:
        nodes, w = _gamma_nodes(alpha, b)
        density, parameter = _density_over_g, b
        start = ndtr(math.exp(t[0]) / nodes - b) @ w
    rows = _BLOCK // len(w) + 1
    blocks = [density(t[i : i + rows], nodes, w, parameter) for i in range(0, len(t), rows)]
    return np.concatenate(blocks), float(start)


def _density_over_x(t: "Array", x: "Array", w: "Array", alpha: float, /) -> "Array":
    """sum_j w_j g(t - log x_j)."""
    g = np.multiply.outer(np.exp(t), 1 / x)
    g += np.add.outer(gammaln(alpha) - alpha * t, alpha * np.log(x))
    return np.exp(-np.minimum(g, _DEEP)) @ w


def _density_over_g(t: "Array", g: "Array", w: "Array", b: float, /) -> "Array":
    """sum_j w_j p(t - log g_j)."""
    z = np.exp(t)
    x = np.multiply.outer(z, 1 / g)
    x -= b
    return z * (np.exp(-np.minimum(0.5 * x * x, _DEEP)) @ (w / g)) / _ROOT_2PI


def _normal_nodes(alpha: float, b: float) -> "tuple[Array, Array]":
    """Nodes and weights for X ~ N(b, 1), X > 0: a trapezoid in X or, near zero, in y with X = log(1 + e^y)."""
    if b > _EDGE:
        x = np.arange(-_EDGE, _EDGE + 0.1, 0.75)
        return b + x, 0.75 * np.exp(-0.5 * x**2) / _ROOT_2PI
    step = min(0.5, 0.6 / math.sqrt(alpha))
    y = np.arange(0.5 * max(b, 0.0) ** 2 - 26.0, max(b, 0.0) + _EDGE, step)
    x = np.logaddexp(0.0, y)
    return x, step * np.exp(y - x - 0.5 * (x - b) ** 2) / _ROOT_2PI


def _gamma_nodes(alpha: float, b: float) -> "tuple[Array, Array]":
    """Nodes and weights for G ~ Gamma(alpha, 1): a trapezoid in log G."""
    step = min(0.7 / math.sqrt(alpha), 1.0 if b > _EDGE else 0.5 / max(b, 2.5))
    u = np.arange(math.log(gammaincinv(alpha, 1e-15)), math.log(gammainccinv(alpha, 1e-15)) + step, step)
    return np.exp(u), step * np.exp(alpha * u - np.exp(u) - gammaln(alpha))
