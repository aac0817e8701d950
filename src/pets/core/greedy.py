"""The one greedy: spend a mean budget where it buys most self-consistency (Liu et al., PETS).

    max  sum_j p_j SC_j(B_j)   s.t.   sum_j p_j B_j <= B_bar,   floor <= B_j <= cap,

in expectation over randomized rounding. A budget drawn between two points of a curve earns the chord between them, so
each curve counts as its concave envelope, a list of :class:`Steps` of falling gain per trace. Merging the lists by gain
per trace and buying from the top is the optimum of the linear program; the last purchase is randomized, so that the
expected spend is B_bar exactly. The paper's Algorithm 1 compares the gain of a 2-trace step with that of a 1-trace step
and so ends slightly under the optimum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pets.core.consistency import log_gain_binary
from pets.core.probit import Probit
from pets.errors import BudgetError, InputError

_ROUNDING = 1e-12  # a chance this near to 0 or 1 is the rounding of the spend


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The concave envelope of one curve above its floor: step i adds ``lengths[i]`` traces at ``exp(log_slopes[i])``
    self-consistency per trace; slopes fall strictly and are logs, so that gains of 1e-1000 still order.

    Both arrays have shape (steps,) and are read-only.
    """

    lengths: NDArray[np.int64]
    log_slopes: NDArray[np.float64]

    def __post_init__(self) -> None:
        lengths = np.array(self.lengths, dtype=np.int64)
        log_slopes = np.array(self.log_slopes, dtype=np.float64)
        if lengths.ndim != 1 or lengths.shape != log_slopes.shape or np.any(lengths < 1):
            raise InputError("steps need one slope for each length and lengths of at least 1 trace")
        if not (np.all(np.isfinite(log_slopes)) and np.all(log_slopes[1:] < log_slopes[:-1])):
            raise InputError("log slopes are not finite and strictly falling; build steps with envelope()")
        for name, array in (("lengths", lengths), ("log_slopes", log_slopes)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)


@dataclass(frozen=True, slots=True)
class Quotas:
    """A budget for each grid: ``low``, but with probability ``rho`` ``high`` in the one grid in which the two differ.

    >>> plan = Quotas(low=(4, 7), high=(4, 9), rho=0.25)
    >>> plan.budget(1, coin=0.2), plan.budget(1, coin=0.3), plan.mean([0.5, 0.5])
    (9, 7, 5.75)
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    rho: float

    def budget(self, j: int, coin: float) -> int:
        """Traces for one question of grid ``j``; ``coin`` is uniform on [0, 1), drawn by the caller."""
        return self.high[j] if coin < self.rho else self.low[j]

    def mean(self, p: ArrayLike) -> float:
        """The expected spend a question, ``sum_j p_j ((1 - rho) low_j + rho high_j)``; p of shape (K,)."""
        spends = zip(_shares(p, len(self.low)), self.low, self.high, strict=True)
        return math.fsum(x for q, low, high in spends for x in (q * low, q * self.rho * (high - low)))


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """The steps of K grids merged, best gain per trace first: built once, climbed at every plan.

    ``grid`` (n,): whose step it is. ``spend`` (n,): the mean spend above the floor once it is bought.
    ``budgets`` K x (n_j + 1,): each grid's budget after 0, 1, 2, .. of its n_j steps.

    >>> curve = [0.0, 0.3, 0.4]
    >>> rungs = ladder([envelope(curve, floor=0, cap=2)] * 2, p=[0.5, 0.5], floor=0)
    >>> [rungs.plan(B_bar).low for B_bar in (0.5, 1, 1.5, 2)]
    [(1, 0), (1, 1), (2, 1), (2, 2)]
    """

    p: tuple[float, ...]
    grid: NDArray[np.int64]
    spend: NDArray[np.float64]
    budgets: tuple[NDArray[np.int64], ...]

    def plan(self, B_bar: float) -> Quotas:
        """The optimal plan at mean budget ``B_bar``; O(n)."""
        floor = int(self.budgets[0][0])
        if not B_bar >= floor:
            raise BudgetError(
                f"a mean budget of {B_bar:g} traces is under the floor of {floor} that every question gets; "
                f"raise the budget to at least {floor} a question or lower the floor"
            )
        spare = max(B_bar - floor * math.fsum(self.p), 0.0)
        # the first step that the spare cannot pay in full; so its grid has share, and the division is safe
        k = int(np.searchsorted(self.spend, spare, side="left" if spare > 0 else "right"))
        taken = np.bincount(self.grid[:k], minlength=len(self.p))
        low = tuple(int(budget[n]) for budget, n in zip(self.budgets, taken, strict=True))
        if k == len(self.grid):  # everything that gains anything is bought
            return Quotas(low, low, 0.0)
        j = int(self.grid[k])
        high = (*low[:j], int(self.budgets[j][taken[j] + 1]), *low[j + 1 :])
        left = B_bar - math.fsum(q * b for q, b in zip(self.p, low, strict=True))
        rho = left / (self.p[j] * (high[j] - low[j]))
        if rho < _ROUNDING:
            return Quotas(low, low, 0.0)
        return Quotas(low, high, rho) if rho < 1 - _ROUNDING else Quotas(high, high, 0.0)


def _shares(p: ArrayLike, K: int) -> tuple[float, ...]:
    shares = np.asarray(p, dtype=np.float64)
    if shares.shape != (K,):
        raise InputError(f"p has shape {shares.shape}; expected one share for each of the {K} grids")
    if not np.all(shares >= 0) or abs(math.fsum(shares) - 1) > 1e-9:
        raise InputError(f"shares {shares.tolist()} are no distribution; they must be >= 0 and sum to 1")
    return tuple(shares.tolist())


def _check_range(floor: int, cap: int) -> None:
    if not 0 <= floor <= cap:
        raise InputError(f"floor {floor} and cap {cap}; expected 0 <= floor <= cap")


def _pool(log_gains: NDArray[np.float64]) -> Steps:
    """Concave envelope from the log gains of single traces: pool neighbours until the gain per trace falls. O(n)."""
    gaining = np.flatnonzero(log_gains > -np.inf)
    log_gains = log_gains[: gaining[-1] + 1 if gaining.size else 0]
    rises = np.flatnonzero(log_gains[1:] >= log_gains[:-1])
    settled = int(rises[-1]) + 2 if rises.size else 0
    lengths: list[int] = []
    slopes: list[float] = []
    i = 0
    while i < log_gains.size and (i < settled or (slopes and log_gains[i] >= slopes[-1])):  # then it falls strictly
        length, slope = 1, float(log_gains[i])
        while slopes and slope >= slopes[-1]:
            n, s = lengths.pop(), slopes.pop()
            pooled = np.logaddexp(math.log(length) + slope, math.log(n) + s)
            length += n
            slope = float(pooled) - math.log(length)
        lengths.append(length)
        slopes.append(slope)
        i += 1
    tail = np.ones(log_gains.size - i, dtype=np.int64)
    return Steps(np.concatenate([np.array(lengths, np.int64), tail]), np.concatenate([slopes, log_gains[i:]]))


def envelope(curve: ArrayLike, floor: int, cap: int) -> Steps:
    """Upper concave hull of any curve SC(B) over floor <= B <= cap, up to its highest point.

    ``curve`` holds SC(B) for B = 0 .. cap at least; it need be neither concave nor monotone. A binary curve, flat from
    each odd B to the next even one, gives the paper's steps of 1, 2, 2, .. traces. Gains under the rounding error of
    the curve (1e-16) are noise: the far tail is for :func:`binary_steps` and :func:`probit_steps` (Liu et al., PETS).

    >>> steps = envelope([0.5, 0.8, 0.8, 0.896, 0.896], floor=0, cap=4)
    >>> steps.lengths, np.exp(steps.log_slopes).round(3)
    (array([1, 2]), array([0.3  , 0.048]))
    """
    SC = np.asarray(curve, dtype=np.float64)
    _check_range(floor, cap)
    if SC.ndim != 1 or SC.size < cap + 1 or not np.all(np.isfinite(SC)):
        raise InputError(f"curve of shape {SC.shape}; expected finite values for B = 0 .. {cap}")
    best = np.maximum.accumulate(SC[floor : cap + 1])  # same hull up to the highest point, and no gain under 0
    gains = np.diff(best)
    return _pool(np.log(gains, where=gains > 0, out=np.full(gains.shape, -np.inf)))


def binary_steps(theta: float, cap: int) -> Steps:
    """Envelope of the binary SC(theta; B), 0 <= B <= cap, in closed form (Liu et al., PETS).

    One step of 1 trace with gain R(theta, 0), then steps of 2 traces with gain R(theta, 2m) together:

        R(theta, 2m) = |theta - 1/2| C(2m, m) (theta (1 - theta))^m.

    >>> steps = binary_steps(0.8, cap=6)
    >>> steps.lengths, np.exp(steps.log_slopes).round(4)
    (array([1, 2, 2]), array([0.3  , 0.048, 0.023]))
    """
    _check_range(0, cap)
    n = np.arange(0, cap, 2, dtype=np.int64)
    lengths = np.minimum(n + 1, 2)
    log_slopes = log_gain_binary(theta, n) - np.log(lengths)
    gains = log_slopes > -np.inf
    return Steps(lengths[gains], log_slopes[gains])


def probit_steps(probit: Probit, floor: int, cap: int) -> Steps:
    """Envelope of Phi(a sqrt(B) + b), floor <= B <= cap, from its log gains.

    Where a sqrt(floor) + b >= 0 the curve is concave and every step is 1 trace; elsewhere the convex part is pooled. A
    flat curve (a = 0) has no steps (Liu et al., PETS).

    >>> probit_steps(Probit(1.0, -4.0), floor=1, cap=25).lengths[:3]
    array([20,  1,  1])
    """
    _check_range(floor, cap)
    return _pool(probit.log_gain(np.arange(floor, cap)))


def ladder(steps: Sequence[Steps], p: ArrayLike, floor: int) -> Ladder:
    """Merge the steps of K grids, of shares ``p`` (K,), by gain per trace (ties: the grid that comes first).

    O(n log K) for n steps in all: the sort merges K sorted runs.
    """
    shares = _shares(p, len(steps))
    if floor < 0:
        raise InputError(f"floor {floor}; expected 0 traces or more")
    order = np.argsort(-np.concatenate([s.log_slopes for s in steps]), kind="stable")
    grid = np.repeat(np.arange(len(steps)), [s.lengths.size for s in steps])[order]
    spend = np.cumsum(np.array(shares)[grid] * np.concatenate([s.lengths for s in steps])[order])
    budgets = tuple(np.cumsum(np.concatenate([[floor], s.lengths])) for s in steps)
    return Ladder(shares, grid, spend, budgets)


def greedy(steps: Sequence[Steps], p: ArrayLike, B_bar: float, floor: int) -> Quotas:
    """The plan that maximizes sum_j p_j SC_j(B_j) at an expected spend of B_bar traces per question.

    ``steps`` are the K envelopes above the common ``floor``, ``p`` (K,) the shares. The expected spend is B_bar, or
    less when everything that gains is bought. A grid of share 0 gets what the plan's marginal price buys. To plan again
    at another B_bar keep the :func:`ladder` (Liu et al., PETS, Algorithm 1 and its random rounding).

    >>> steps = [binary_steps(theta, cap=99) for theta in (0.9, 0.6)]
    >>> greedy(steps, p=[0.5, 0.5], B_bar=8, floor=0)
    Quotas(low=(5, 11), high=(5, 11), rho=0.0)
    """
    return ladder(steps, p, floor).plan(B_bar)
