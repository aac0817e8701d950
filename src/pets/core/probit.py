"""Phi(a sqrt(B) + b): the two-parameter stand-in for a self-consistency curve (Liu et al., PETS).

Vote margins after B traces are nearly normal with mean of order B and deviation of order sqrt(B), so Phi^-1
of SC(theta; B) is nearly a line in sqrt(B), whatever the number of options M.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from pets.errors import InputError

Floats = NDArray[np.float64]
_SATURATED = 1e-12  # nearer to 0 or 1 than this, rounding decides what Phi^-1 gives


@dataclass(frozen=True, slots=True)
class Probit:
    """The curve Phi(a sqrt(B) + b), a >= 0; each method works elementwise on B >= 0 (Liu et al., PETS).

    >>> easy = Probit(a=0.5, b=0.1)
    >>> easy.curve([1, 4, 16]).round(3), round(float(easy.log_gain(10_000)), 3)
    (array([0.726, 0.864, 0.982]), -1261.977)
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.a) and np.isfinite(self.b) and self.a >= 0):
            raise InputError(f"a = {self.a}, b = {self.b}; expected finite, a >= 0. Fit them again.")

    def curve(self, B: ArrayLike) -> Floats:
        """Phi(a sqrt(B) + b), in the shape of B."""
        return np.asarray(ndtr(self.a * np.sqrt(_check_B(B)) + self.b))

    def gain(self, B: ArrayLike) -> Floats:
        """Phi(a sqrt(B + 1) + b) - Phi(a sqrt(B) + b), in the shape of B."""
        return np.asarray(np.exp(self.log_gain(B)))

    def log_gain(self, B: ArrayLike) -> Floats:
        """log of the gain, in the shape of B, to the last digits of the log at any depth; -inf where a = 0.

        With Q = 1 - Phi and z0 < z1 it is log Q(z0) + log(-expm1(log Q(z1) - log Q(z0))), where
        Q(z) = exp(-z^2/2) erfcx(z/sqrt 2)/2; for small steps the normal density at the middle times the step.
        """
        B = _check_B(B)
        step = self.a / (np.sqrt(B + 1) + np.sqrt(B))
        # Left of 0 the mirror image has the same mass.
        middle = np.abs(self.a * np.sqrt(B) + self.b + step / 2)
        low, high = middle - step / 2, middle + step / 2
        log_ratio = np.log(erfcx(high / np.sqrt(2))) - np.log(erfcx(low / np.sqrt(2))) - middle * step
        with np.errstate(divide="ignore"):
            wide = log_ndtr(-low) + np.log(-np.expm1(log_ratio))
            narrow = np.log(step / np.sqrt(2 * np.pi)) - middle**2 / 2 + (middle**2 - 1) * step**2 / 24
        return np.asarray(np.where((1 + middle) * step < 1e-3, narrow, wide))


def fit_probit_regression(curve: ArrayLike) -> Probit:
    """Fit (a, b) by least squares of Phi^-1(SC(B)) on sqrt(B), B >= 1; ``curve`` is SC at B = 0..B_max.

    Each point weighs phi(z)^2 / (SC (1 - SC)), the information that it holds on z = Phi^-1(SC); saturated
    points, where z is infinite, are left out. Where the slope would be negative, a = 0. (Liu et al., PETS)

    >>> fit = fit_probit_regression(Probit(0.4, -0.1).curve(range(65)))
    >>> round(fit.a, 9), round(fit.b, 9)
    (0.4, -0.1)
    """
    (SC,) = _check_curves(np.asarray(curve, dtype=np.float64)[None])
    x, z, w = _probit_points(SC)
    x_mean, z_mean = np.average(x, weights=w), np.average(z, weights=w)
    slope = np.sum(w * (x - x_mean) * (z - z_mean)) / np.sum(w * (x - x_mean) ** 2)
    a = max(0.0, float(slope))
    return Probit(a, float(z_mean - a * x_mean))


def _probit_points(SC: Floats) -> tuple[Floats, Floats, Floats]:
    """sqrt(B), Phi^-1(SC(B)) and its weight where the curve is not saturated, B >= 1."""
    x, SC = np.sqrt(np.arange(1, SC.size)), SC[1:]
    keep = (SC > _SATURATED) & (1 - SC > _SATURATED)
    if keep.sum() < 2:
        raise InputError(
            f"the curve is strictly between 0 and 1 at {keep.sum()} budgets B >= 1; a fit needs 2. "
            "A unanimous pool has SC = 1 everywhere: smooth its theta first, with smooth_theta."
        )
    x, SC = x[keep], SC[keep]
    z = ndtri(SC)
    return x, z, np.exp(-(z**2)) / (SC * (1 - SC))


def fit_probit_l1(curves: ArrayLike, weights: ArrayLike | None = None) -> Probit:
    """Fit (a, b), a >= 0, to one curve or to a grid of them by the paper's loss (Liu et al., PETS).

    It is ``sum_q w_q mean_{B >= 1} |SC_q(B) - Phi(a sqrt(B) + b)|``, the weights scaled to sum 1. Nelder-Mead from the
    regression fit of the mean curve, a line through the origin and a flat one, and again from the best. ``curves`` has
    shape (Q, B_max + 1) or (B_max + 1,). Smooth unanimous pools first: their fit is infinite.

    >>> easy, hard = Probit(0.5, 0.0).curve(range(65)), Probit(0.1, 0.0).curve(range(65))
    >>> round(fit_probit_l1([easy, hard], weights=[3, 1]).a, 6)
    0.5
    """
    SC = _check_curves(curves)
    root_B = np.sqrt(np.arange(1, SC.shape[1]))
    w = np.ones(len(SC)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(SC),) or not np.all(np.isfinite(w)) or np.any(w < 0) or w.sum() <= 0:
        raise InputError(f"weights = {weights!r}; expected {len(SC)} numbers >= 0, not all 0. One a curve.")
    w = w / w.sum()
    for curve in SC[w > 0]:
        _probit_points(curve)

    def loss(point: Floats) -> float:
        return float(w @ np.abs(SC[:, 1:] - ndtr(abs(point[0]) * root_B + point[1])).mean(axis=1))

    def descend(start: Floats) -> Floats:
        simplex = start + np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]])
        fit = minimize(
            loss,
            start,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 1e-9, "fatol": 1e-13, "maxiter": 2000},
        )
        return np.asarray(fit.x)

    mean_curve = np.minimum(w @ SC, 1.0)  # weights sum to 1 up to rounding
    x, z, information = _probit_points(mean_curve)
    regression = fit_probit_regression(mean_curve)
    starts = [
        np.array([regression.a, regression.b]),
        np.array([max(0.0, float(np.sum(information * x * z) / np.sum(information * x**2))), 0.0]),
        np.array([0.0, float(np.average(z, weights=information))]),
    ]
    best = descend(min(map(descend, starts), key=loss))
    return Probit(float(abs(best[0])), float(best[1]))


def sup_error(probit: Probit, curve: ArrayLike) -> float:
    """max_{B >= 1} |SC(B) - Phi(a sqrt(B) + b)|, ``curve`` being SC at B = 0..B_max (Liu et al., PETS).

    >>> sup_error(Probit(0, 0), [0.5, 0.5, 0.5, 0.75])
    0.25
    """
    (SC,) = _check_curves(np.asarray(curve, dtype=np.float64)[None])
    return float(np.abs(SC[1:] - probit.curve(np.arange(1, SC.size))).max())


def smooth_theta(counts: ArrayLike, pseudo: float = 0.5, options: int | None = None) -> Floats:
    """(counts + pseudo) / (n + pseudo M), shape (M,): a theta whose curve is finite in probit space.

    M is ``options``, the size of a closed answer set, or the answers seen plus one unseen slot (open sets).

    >>> smooth_theta([9])
    array([0.95, 0.05])
    """
    seen = np.asarray(counts, dtype=np.float64)
    if seen.ndim != 1 or not np.all(np.isfinite(seen)) or np.any(seen < 0) or seen.sum() == 0:
        raise InputError(f"counts = {counts!r}; expected votes >= 0, not all 0. Skip a pool without votes.")
    if not (np.isfinite(pseudo) and pseudo > 0):
        raise InputError(f"pseudo = {pseudo}; expected a number > 0. 0.5 is the default.")
    M = seen.size + 1 if options is None else options
    if seen.size > M:
        raise InputError(f"{seen.size} answers seen, {M} options; expected no more. Raise options.")
    padded = np.concatenate([seen, np.zeros(M - seen.size)]) + pseudo
    return np.asarray(padded / padded.sum())


def _check_B(B: ArrayLike) -> Floats:
    checked = np.asarray(B, dtype=np.float64)
    if not np.all(np.isfinite(checked) & (checked >= 0)):
        raise InputError(f"B = {B!r}; expected finite budgets >= 0. Pass numbers of traces.")
    return checked


def _check_curves(curves: ArrayLike) -> Floats:
    try:
        checked = np.atleast_2d(np.asarray(curves, dtype=np.float64))
    except ValueError as error:
        raise InputError("curves of different lengths; expected one B_max for all. Cut them to it.") from error
    if checked.ndim != 2 or checked.shape[0] == 0 or checked.shape[1] < 2:
        raise InputError(f"curves of shape {checked.shape}; expected SC at B = 0..B_max, B_max >= 1. See SC_curve.")
    if not np.all((checked >= 0) & (checked <= 1)):
        raise InputError("a curve leaves [0, 1] or is NaN; expected probabilities. Compute it with SC_curve.")
    return checked
