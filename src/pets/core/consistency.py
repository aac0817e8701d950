"""SC(theta; B): how often a vote over B traces agrees with the vote over infinitely many.

    SC(theta; B) = P(argmax_m X_m = argmax_m theta_m),   X ~ Multinomial(B, theta)

with ties among the counts broken uniformly and SC(theta; 0) = 1/M; exact. Where theta has tied maxima the population
vote is the first of them; by symmetry each gives the same curve. (Liu et al., PETS)
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln, xlogy

from pets.errors import InputError

Floats = NDArray[np.float64]
_B_MAX_MULTINOMIAL = 1900  # the Poisson terms span e^(B_max / e), which leaves float64 at 1927


def check_theta(theta: ArrayLike) -> Floats:
    """Return theta, shape (M,), as floats that sum to 1; raise where it is no probability vector."""
    checked = np.asarray(theta, dtype=np.float64)
    if checked.ndim != 1 or checked.size == 0:
        raise InputError(f"theta has shape {checked.shape}; expected (M,), M >= 1. Pass one theta.")
    if not np.all(np.isfinite(checked)) or checked.min() < 0:
        raise InputError(f"theta = {checked.tolist()}; expected finite entries >= 0. Pass probabilities.")
    total = float(checked.sum())
    if abs(total - 1) > 1e-9:
        raise InputError(f"theta sums to {total!r}; expected 1 within 1e-9. Divide it by its sum.")
    return checked / total


def SC_curve(theta: ArrayLike, B_max: int) -> Floats:
    """SC(theta; B) for B = 0..B_max, shape (B_max + 1,), uniform tie-break (Liu et al., PETS).

    The population vote is the first maximum of theta. Options of theta = 0 count in SC(theta; 0) = 1/M only.

    >>> SC_curve([0.6, 0.4], 3).round(3)
    array([0.5  , 0.6  , 0.6  , 0.648])
    """
    theta = check_theta(theta)
    return win_curve(theta, int(theta.argmax()), B_max)


def complement_curve(theta: ArrayLike, B_max: int) -> Floats:
    """1 - SC(theta; B) for B = 0..B_max, shape (B_max + 1,), to full relative accuracy (Liu et al., PETS).

    The sum of the other options' chances to win, ties uniform: positive terms, so nothing cancels.

    >>> float(complement_curve([1 - 1e-9, 1e-9], 3)[3])
    2.99999999...e-18
    """
    theta, curve = check_theta(theta), np.zeros(_check_B_max(B_max) + 1)
    losers = np.delete(np.arange(theta.size), theta.argmax())
    _, first, repeats = np.unique(theta[losers], return_index=True, return_counts=True)
    for m, repeat in zip(losers[first], repeats, strict=True):
        curve += repeat * win_curve(theta, int(m), B_max)
    return curve


def win_curve(theta: ArrayLike, m: int, B_max: int) -> Floats:
    """P(option m wins the vote over B traces), B = 0..B_max, shape (B_max + 1,), uniform tie-break.

    With two options of theta > 0 it is I_theta(k, k), the regularized incomplete beta function, at B = 2k - 1
    and at B = 2k: the sum of the paper's binary gains. With more, see below (Liu et al., PETS).

    >>> win_curve([0.5, 0.3, 0.2], 2, 3).round(3)
    array([0.333, 0.2  , 0.2  , 0.164])
    """
    theta, B_max = check_theta(theta), _check_B_max(B_max)
    if not 0 <= m < theta.size:
        raise InputError(f"option {m}; expected 0 to {theta.size - 1}, a place in theta. Pass one of them.")
    others = np.delete(theta, m)
    others = others[others > 0]
    if theta[m] == 0 or others.size == 0:
        curve = np.full(B_max + 1, float(theta[m] > 0))
    elif others.size == 1:
        k = np.maximum((np.arange(B_max + 1) + 1) // 2, 1)
        curve = np.asarray(betainc(k, k, theta[m]))
    else:
        curve = _multinomial_win(float(theta[m]), others, B_max)
    curve[0] = 1 / theta.size
    return curve


def _multinomial_win(theta_m: float, others: Floats, B_max: int) -> Floats:
    """P(win) against ``others`` (all > 0), B = 0..B_max.

    Counts X_k ~ Poisson(lambda theta_k) are independent, and given their sum B they are the multinomial, so

        P(win) lambda^B / B! = sum_c p_m(c) [z^(B-c)] int_0^1 prod_k (sum_{j<c} p_k(j) z^j + y p_k(c) z^c) dy

    with p_k(j) = (lambda theta_k)^j / j!. A tie with t others weighs int y^t dy = 1/(1 + t), the uniform
    tie-break; the integrand is a polynomial in y, so Gauss-Legendre is exact. All terms are positive.
    """
    if B_max > _B_MAX_MULTINOMIAL:
        raise InputError(f"B_max = {B_max}; with M > 2 at most {_B_MAX_MULTINOMIAL}. Fit a probit to fewer.")
    C = B_max + 1
    scale = B_max / np.e  # lambda: brings lambda^B / B! near 1 at both ends of the curve
    own, every, *rest_terms = _poisson_terms(scale * np.array([theta_m, 1.0, *others]), C)
    y, w = np.polynomial.legendre.leggauss(others.size // 2 + 1)
    y, w = (y + 1) / 2, w / 2
    # rest[node, c, n]: the counts so far are all <= c and sum to n; complete where c + n <= B_max.
    rest = rest_terms[0] * (np.tri(C, k=-1) + y[:, None, None] * np.eye(C))
    y_then_ones = np.ones((y.size, C, 1))  # what a count of j weighs at c = j, j + 1, ...
    y_then_ones[:, 0, 0] = y
    for p in rest_terms[1:]:
        before, rest = rest, np.zeros_like(rest)
        for j in range((C + 1) // 2):
            rest[:, j:, j : C - j] += p[j] * y_then_ones[:, : C - j] * before[:, j:, : C - 2 * j]
    joint = own[:, None] * np.tensordot(w, rest, 1)
    B = np.add.outer(np.arange(C), np.arange(C))
    return np.asarray(np.minimum(np.bincount(B.ravel(), joint.ravel())[:C] / every, 1))


def _poisson_terms(rates: Floats, length: int) -> Floats:
    """rate^j / j!, shape (rates, length): as products, which keep more digits than exp of a log."""
    ratios = np.ones((rates.size, length))
    ratios[:, 1:] = rates[:, None] / np.arange(1, length)
    return np.asarray(ratios.cumprod(axis=1))


def gains(theta: ArrayLike, B_max: int) -> Floats:
    """R(theta, n) = SC(theta; n + 1) - SC(theta; n), n = 0..B_max - 1, shape (B_max,), uniform tie-break.

    For M = 2 the closed form of ``log_gain_binary``, else differences of the complement (Liu et al., PETS, 4.2).

    >>> gains([0.6, 0.4], 3).round(3)
    array([0.1  , 0.   , 0.048])
    """
    theta, B_max = check_theta(theta), _check_B_max(B_max)
    if theta.size == 2:
        return np.exp(log_gain_binary(float(theta.max()), np.arange(B_max)))
    return -np.diff(complement_curve(theta, B_max))


def log_gain_binary(theta: float, n: ArrayLike) -> Floats:
    """log R(theta, n) for two options, in the shape of n (Liu et al., PETS, section 4.2).

        R(theta, 2k) = (theta - 1/2) C(2k, k) [theta (1 - theta)]^k,   R(theta, 2k + 1) = 0

    Ties uniform. theta and 1 - theta give the same.

    >>> log_gain_binary(0.6, [0, 1, 2, 100_000]).round(2)
    array([   -2.3 ,      -inf,    -3.04, -2049.38])
    """
    counts = np.asarray(n)
    if not 0 <= theta <= 1:
        raise InputError(f"theta = {theta}; expected a probability in [0, 1]. Pass the leader's share.")
    if counts.size and (not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0):
        raise InputError(f"n = {n!r}; expected integers >= 0. Pass numbers of traces.")
    k = counts // 2
    log_binomial = gammaln(2 * k + 1) - 2 * gammaln(k + 1)
    with np.errstate(divide="ignore"):
        even = np.log(abs(theta - 0.5)) + log_binomial + xlogy(k, theta * (1 - theta))
    return np.where(counts % 2 == 0, even, -np.inf)


def _check_B_max(B_max: int) -> int:
    if not isinstance(B_max, int | np.integer) or B_max < 0:
        raise InputError(f"B_max = {B_max!r}; expected an integer >= 0. Pass the largest number of traces.")
    return int(B_max)
