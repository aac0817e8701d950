r"""The Dirichlet-Normal belief of the confidence-weighted vote: P(argmax_m theta_m mu_m = m | S) and R+.

theta ~ Dir(alpha), mu_m ~ N(beta_m, v_m) independent. With theta_m = G_m / sum G and Z_m = G_m mu_m,

    P_m = integral f_m(z) prod_{k != m} F_k(z) dz = integral T(z) lambda_m(z) dz,   T = prod F,  lambda = f / F

is a trapezoid sum over log|z| on both sides of zero; no Monte Carlo.

Liu et al., "PETS: Principled and Efficient Test-Time Self-Consistency", section "Offline PETS" and appendix
"Bayesian MDP"; Chen, Lin and Zhou, "Optimistic Knowledge Gradient Policy for Optimal Budget Allocation in
Crowdsourcing", ICML 2013 (OKG).

**The law of Z** = G mu, G ~ Gamma(alpha, 1) and mu ~ N(beta, v), is by quadrature, too. On either side of zero,
log|Z| = log G + log|mu| has the density

    f(t) = integral g(t - s) p(s) ds,    g(u) = exp(alpha u - e^u) / Gamma(alpha),    p(s) = e^s phi(e^s - b)

(mu in units of its deviation, b = beta / sqrt(v); the negative side is the positive one of -b). The integral is a
sum over nodes of the *narrower* factor, which resolve the product; F is the running integral of f. Every weight is
positive, so the far tails keep their relative accuracy; few nodes do, since the functions are analytic.

The lattice is uniform in tau, t = tau - exp(tau_0 - tau): plain log|z| where the curves bend, and below tau_0,
where they are powers of z however slow (alpha = 0.03), double-exponential (Takahasi and Mori 1974).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammainccinv, gammaincinv, gammaln, ndtr

from pets.errors import InputError

Array = NDArray[np.float64]

EQUAL_SPREAD = 1e-3  # of the mean confidence: what differs by less differs by nothing
LEAST_V_0 = 0.05  # answers differ at least so much in their mean confidence, in squared deviations


@dataclass(frozen=True, slots=True)
class Belief:
    """S = (alpha, beta, v) over M options: theta ~ Dir(alpha), mu_m ~ N(beta_m, v_m); confidences have sigma^2 = 1.

    >>> Belief((1.0, 1.0), (8.0, 8.0), (1.0, 1.0)).update(0, 9.0)
    Belief(alpha=(2.0, 1.0), beta=(8.5, 8.0), v=(0.5, 1.0))
    """

    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    v: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.alpha) == len(self.beta) == len(self.v) >= 1:
            raise InputError(
                f"alpha, beta and v have {len(self.alpha)}, {len(self.beta)} and {len(self.v)} entries; "
                "give one of each for every option, and at least one option."
            )
        for m, (alpha, beta, v) in enumerate(zip(self.alpha, self.beta, self.v, strict=True)):
            if not 1e-12 <= alpha <= 1e6:
                raise InputError(f"alpha[{m}] is {alpha}; expected 1e-12 to 1e6. Give a prior above 0 to every option.")
            if not math.isfinite(beta):
                raise InputError(f"beta[{m}] is {beta}; expected a finite number. Leave out traces without confidence.")
            if not 0 < v < math.inf:
                raise InputError(f"v[{m}] is {v}; expected a finite number above 0. For a known mean give 1e-12.")

    def update(self, m: int, c: float) -> "Belief":
        """Upd(S; m, c), one trace that answered m with confidence c: alpha_m + 1, v' = 1 / (1/v + 1),
        beta' = v' (beta / v + c)."""
        if not 0 <= m < len(self.alpha):
            raise InputError(f"option {m} is not in the belief; expected 0 to {len(self.alpha) - 1}.")
        if not math.isfinite(c):
            raise InputError(f"the confidence is {c}; expected a finite number. Leave out traces without one.")
        beta, v = (self.beta[m] + self.v[m] * c) / (1 + self.v[m]), self.v[m] / (1 + self.v[m])
        return Belief(_put(self.alpha, m, self.alpha[m] + 1), _put(self.beta, m, beta), _put(self.v, m, v))

    def fantasy(self, pending: float) -> "Belief":
        """The belief with ``pending`` traces in flight: alpha and the precision 1 / v grow by each option's share
        alpha_m / sum alpha of them, beta stays.

        >>> Belief((3.0, 1.0), (8.0, 7.0), (0.5, 1.0)).fantasy(4)
        Belief(alpha=(6.0, 2.0), beta=(8.0, 7.0), v=(0.2, 0.5))
        """
        if not 0 <= pending < math.inf:
            raise InputError(f"{pending} traces are pending; expected a finite number of at least 0.")
        each = pending / sum(self.alpha)
        v = tuple(v / (1 + v * each * a) for a, v in zip(self.alpha, self.v, strict=True))
        return Belief(tuple(a + each * a for a in self.alpha), self.beta, v)


@dataclass(frozen=True, slots=True)
class ConfidenceSpread:
    """How confidences lie: ``scale`` is their deviation within an answer and, in units of it, mu_m ~ N(beta_0, v_0).

    >>> ConfidenceSpread(2.0, 4.0, 1.0).posterior([10.0])         # one confidence of 5 deviations
    (4.5, 0.5)
    """

    scale: float
    beta_0: float
    v_0: float

    @classmethod
    def learn(cls, groups: Iterable[Sequence[float]]) -> "ConfidenceSpread":
        """From confidences, grouped by the answers of each question (empirical Bayes).

        Confidences are divided by their spread and never centred on it, which would move argmax theta mu. Where no
        answer has two of them, the spread is that of all.

        >>> ConfidenceSpread.learn([[9.0, 11.0], [9.0, 11.0]])
        ConfidenceSpread(scale=1.4142135623730951, beta_0=7.071067811865475, v_0=0.05)
        """
        arrays = [np.array(group, dtype=np.float64) for group in groups]
        if not arrays:
            return cls(1.0, 1.0, 1.0)
        means = np.array([group.mean() for group in arrays])
        sizes = np.array([group.size for group in arrays], dtype=np.float64)
        within = math.fsum(float(((group - group.mean()) ** 2).sum()) for group in arrays)
        freedom = float(sizes.sum() - sizes.size)
        scale = math.sqrt(within / freedom) if freedom else float(means.std())
        scale = max(scale, EQUAL_SPREAD * float(means.mean()))
        between = float((means / scale).var()) - float((1.0 / sizes).mean())  # less what sampling noise explains
        return cls(scale, float(means.mean()) / scale, max(between, LEAST_V_0))

    def posterior(self, values: Sequence[float]) -> tuple[float, float]:
        """(beta, v) of one answer after its confidences: the paper's conjugate updates, all at once."""
        precision = 1.0 / self.v_0 + len(values)
        return (self.beta_0 / self.v_0 + math.fsum(value / self.scale for value in values)) / precision, 1.0 / precision


def p_wins(rows: Sequence[tuple[float, float, float]], copies: Sequence[int]) -> Array:
    """P(argmax theta mu is this very option) for ``copies`` of options (alpha, beta, v); shape (len(rows),).

    >>> p_wins([(3.0, 8.0, 0.5), (1.0, 8.0, 1.0)], [1, 2]).round(4)
    array([0.7845, 0.1078])
    """
    return np.asarray(_wins(np.array(rows), np.array(copies, dtype=np.float64), optimistic=False)[0])


def p_argmax(belief: Belief) -> Array:
    """P(argmax_m theta_m mu_m = m | S), shape (M,): the terminal rule answers with its argmax.

    A permutation of the options permutes it, bit for bit. Within 1e-6 of the integral, relatively too down to 1e-13.

    >>> p_argmax(Belief((3.0, 2.0, 2.0), (8.0, 9.0, 8.0), (0.5, 0.5, 0.5))).round(4)
    array([0.5038, 0.2776, 0.2186])
    """
    distinct, column, copies = _distinct(belief)
    return np.asarray(_wins(distinct, copies, optimistic=False)[0, column])


def R_plus(belief: Belief) -> float:
    """R+ = max_m U(Upd(S; m, beta_m)) - U(S), OKG's optimistic gain of one more trace.

    U(S) = max_m P(argmax theta mu = m | S) is the posterior chance that the terminal rule is right. Taken from
    complements, 1 - U = sum of P over all but the leader, it does not drown in the rounding of two numbers near 1.

    >>> f"{R_plus(Belief((40.0, 1.0), (8.0, 8.0), (0.1, 1.0))):.2e}"
    '4.44e-12'
    """
    distinct, _, copies = _distinct(belief)
    D = len(copies)
    P = _wins(distinct, copies, optimistic=True)
    # Row 0 is S; row 1 + m is S with one copy of m updated. Columns: current options, updated options.
    count = np.zeros_like(P)
    count[:, :D] = copies
    count[np.arange(D) + 1, np.arange(D)] -= 1
    count[np.arange(D) + 1, np.arange(D) + D] = 1
    leader = np.where(count > 0, P, -1.0).argmax(axis=1)
    count[np.arange(D + 1), leader] -= 1
    doubt = (count * P).sum(axis=1)
    return float(doubt[0] - doubt[1:].min())


def _put(values: tuple[float, ...], m: int, value: float) -> tuple[float, ...]:
    return (*values[:m], value, *values[m + 1 :])


def _distinct(belief: Belief) -> tuple[Array, NDArray[np.intp], Array]:
    """The distinct (alpha, beta, v), sorted, shape (D, 3); the one that each option is, (M,); their copies, (D,)."""
    rows = list(zip(belief.alpha, belief.beta, belief.v, strict=True))
    order = {row: d for d, row in enumerate(sorted(set(rows)))}
    column = np.array([order[row] for row in rows])
    return np.array(list(order), dtype=float), column, np.bincount(column).astype(float)


def _wins(distinct: Array, copies: Array, *, optimistic: bool) -> Array:
    """P(this copy of an option wins): shape (1, D) in S, or (1 + D, 2 D) if ``optimistic``. Row 0 is S, row 1 + m is S
    with one copy of option m updated at its own mean; columns are the D options and then the D updated ones."""
    alpha, beta, v = distinct.T
    D = len(alpha)
    if optimistic:
        alpha, beta, v = np.append(alpha, alpha + 1), np.append(beta, beta), np.append(v, v / (1 + v))
    sd = np.maximum(np.sqrt(v), 1e-12 * np.abs(beta))  # below that mu is known to double precision
    options = Options(alpha, beta / sd, sd)
    P = np.zeros((1 + D if optimistic else 1, len(alpha)))
    for sign in (1, -1):
        if side := curves(options, copies, sign):
            log_F = np.log(side.F)
            log_T = copies @ log_F[:D]
            if optimistic:
                log_T = np.vstack([log_T, log_T + log_F[D:] - log_F[:D]])
            P += np.exp(np.atleast_2d(log_T)) @ (side.f / side.F).T
    return P


_EDGE = 7.5  # in deviations: a normal further than this from zero has a sign
_TINY = 1e-300  # keeps log F finite where F underflows
_DEEP = 700.0  # exp(-700) is nil, and np.exp is slow where it underflows
_BLOCK = 12_000  # numbers in a temporary array: below malloc's 128 KiB mmap threshold, whose page faults cost more
_ROOT_2PI = math.sqrt(2 * math.pi)
_LOBATTO = np.array([0.0, 0.5 - math.sqrt(3 / 28), 0.5, 0.5 + math.sqrt(3 / 28)])  # and 1.0, the next panel's 0.0
_WEIGHTS = np.array([1 / 20, 49 / 180, 16 / 45, 49 / 180])  # and 1 / 20


class Options(NamedTuple):
    """Parameters of C independent Z, each of shape (C,); ``b`` is beta / sd."""

    alpha: Array
    b: Array
    sd: Array


class Curves(NamedTuple):
    """Z on one side of zero at n lattice points z, going outwards: ``t`` = log|z|, shape (n,); ``f``, the density
    times the weight of the point, and ``F`` = P(Z <= z), shape (C, n)."""

    t: Array
    f: Array
    F: Array


def curves(options: Options, copies: Array, sign: int) -> Curves | None:
    """Density (times the trapezoid weight) and distribution function of every Z on the side ``sign`` of zero.

    The first D options are the belief, which holds ``copies``, shape (D,), of each; the rest are what one of them may
    become. ``None`` where no winner can be: below zero it needs every Z below zero.

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
    """The spacing that resolves the narrowest log|Z| and the maximum of M of them, narrower as sqrt(log M); tuned so
    that p_argmax sums to 1 within 1e-6."""
    gamma = 0.56 / np.sqrt(options.alpha + 4)
    normal = 0.8 / (np.maximum(options.b, 2) + 3)
    return float(np.min(np.maximum(gamma, normal))) * math.sqrt(math.log(4) / math.log(max(M, 4)))


def _lattice(options: Options, D: int, sign: int, h: float) -> tuple[Array, float]:
    """Points tau, shape (n,), and tau_0, under the bend of every curve.

    The lattice ends where it is surely too near to zero for every Z or, above zero, for one that a winner has to beat.
    """
    far = np.maximum(gammainccinv(options.alpha, 1e-18), 1) * options.sd * np.maximum(options.b + 8.5, 1)
    right = np.log(far).max()
    alpha, b, sd = (column[:D] for column in options)
    signed = b > _EDGE
    smallest = sd * np.where(signed, b - 6, 1 / np.maximum(np.abs(b), 1))  # |mu| or, if not signed, where p bends
    tau_0 = np.log(smallest).min() - 2
    left = tau_0 - math.log(45 / min(1.0, alpha.min()))
    if signed.all() or (sign > 0 and signed.any()):
        near = np.log(np.maximum(gammaincinv(alpha[signed], 1e-20), _TINY) * smallest[signed])
        left = max(left, near.max() if sign > 0 else near.min())
    return right - h * np.arange(math.ceil((right - left) / h) + 1)[::-1], float(tau_0)


def _law(t: Array, alpha: float, b: float) -> tuple[Array, float]:
    """Density of log(G X) where G X > 0, X ~ N(b, 1), at t, shape (n,); and P(G X <= e^t) at the first t."""
    if alpha < 3 or b > max(_EDGE, math.sqrt(alpha)):  # X has the shorter tail at zero, or log X is narrower than log G
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


def _density_over_x(t: Array, x: Array, w: Array, alpha: float, /) -> Array:
    """sum_j w_j g(t - log x_j)."""
    g = np.multiply.outer(np.exp(t), 1 / x)
    g += np.add.outer(gammaln(alpha) - alpha * t, alpha * np.log(x))
    return np.exp(-np.minimum(g, _DEEP)) @ w


def _density_over_g(t: Array, g: Array, w: Array, b: float, /) -> Array:
    """sum_j w_j p(t - log g_j)."""
    z = np.exp(t)
    x = np.multiply.outer(z, 1 / g)
    x -= b
    return z * (np.exp(-np.minimum(0.5 * x * x, _DEEP)) @ (w / g)) / _ROOT_2PI


def _normal_nodes(alpha: float, b: float) -> tuple[Array, Array]:
    """Nodes and weights for X ~ N(b, 1), X > 0: a trapezoid in X or, near zero, in y with X = log(1 + e^y)."""
    if b > _EDGE:
        x = np.arange(-_EDGE, _EDGE + 0.1, 0.75)
        return b + x, 0.75 * np.exp(-0.5 * x**2) / _ROOT_2PI
    step = min(0.5, 0.6 / math.sqrt(alpha))
    y = np.arange(0.5 * max(b, 0.0) ** 2 - 26.0, max(b, 0.0) + _EDGE, step)
    x = np.logaddexp(0.0, y)
    return x, step * np.exp(y - x - 0.5 * (x - b) ** 2) / _ROOT_2PI


def _gamma_nodes(alpha: float, b: float) -> tuple[Array, Array]:
    """Nodes and weights for G ~ Gamma(alpha, 1): a trapezoid in log G."""
    step = min(0.7 / math.sqrt(alpha), 1.0 if b > _EDGE else 0.5 / max(b, 2.5))
    u = np.arange(math.log(gammaincinv(alpha, 1e-15)), math.log(gammainccinv(alpha, 1e-15)) + step, step)
    return np.exp(u), step * np.exp(alpha * u - np.exp(u) - gammaln(alpha))
