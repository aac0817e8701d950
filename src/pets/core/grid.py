"""Difficulty grids of the streaming policy: shares, curves, budgets (Liu et al., PETS).

K0 = 4 warm-up traces show one of five patterns of votes; the pattern, or a coarser bin of it, is the question's grid.
Training pools give each grid its share of the stream and a curve,

    SC_j(B) = voting_j Phi(a_j sqrt(B) + b_j),

and :func:`plan_for` turns them into budgets. The paper has no ``voting_j``, the chance that a question of the grid ever
casts a vote: without it four empty warm-up traces would look like the hardest question worth paying for.
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.vq import kmeans2

from pets.core.consistency import SC_curve
from pets.core.greedy import Ladder, Quotas, Steps, ladder, probit_steps
from pets.core.policy import View
from pets.core.probit import Probit, fit_probit_l1, fit_probit_regression, smooth_theta
from pets.core.tally import K0, Tally, bin_of, bins, pattern, soft_assignment, vote_counts
from pets.errors import InputError

Aggregation = Literal["average", "loss"]

NO_CAP = 1024  # where curves are followed to when a question has no cap
B_MAX = 64  # the range of budgets over which curves are fitted, as in the paper's panels

VoteCounts = tuple[tuple[int, ...], int]
Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Grid:
    """K grids, easiest first: the share of the stream, the curve where votes are cast, the chance of votes."""

    shares: tuple[float, ...]
    curves: tuple[Probit, ...]
    voting: tuple[float, ...]

    @property
    def K(self) -> int:
        """The number of grids."""
        return len(self.shares)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Plain data: ``(share, a, b, voting)`` of each grid."""
        parts = zip(self.shares, self.curves, self.voting, strict=True)
        return tuple((share, curve.a, curve.b, voting) for share, curve, voting in parts)

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> "Grid":
        """The grid that :attr:`rows` described."""
        shares, a, b, voting = zip(*rows, strict=True)
        return cls(shares, tuple(Probit(*pair) for pair in zip(a, b, strict=True)), voting)

    def SC(self, B: ArrayLike) -> NDArray[np.float64]:
        """voting_j Phi(a_j sqrt(B) + b_j); B of shape (n,) gives (K, n)."""
        return np.array([v * curve.curve(np.asarray(B)) for v, curve in zip(self.voting, self.curves, strict=True)])


def pool_curve(counts: Sequence[int], nulls: int = 0, B_max: int = B_MAX) -> NDArray[np.float64]:
    """SC of one pool's question over B = 0 .. B_max traces, shape (B_max + 1,); theta is smoothed.

    B traces cast Bin(B, v) votes, v the pool's rate of votes; where none is cast SC is 0.

    >>> pool_curve((30, 10), B_max=3).round(2), pool_curve((30, 10), nulls=40, B_max=3).round(2)
    (array([0.33, 0.73, 0.73, 0.83]), array([0.33, 0.37, 0.55, 0.66]))
    """
    votes = vote_counts(counts, nulls)
    if not votes:
        return np.zeros(B_max + 1)
    SC = SC_curve(smooth_theta(votes), B_max)
    if nulls == 0:
        return SC
    cast = _binomials(sum(votes) / (sum(votes) + nulls), B_max)
    return np.concatenate([SC[:1], np.minimum(cast[1:, 1:] @ SC[1:], 1.0)])


def _binomials(v: float, B_max: int) -> NDArray[np.float64]:
    """Chance that b of B traces vote, at [B, b]; by Pascal's rule, for scipy.stats is slow to import."""
    cast = np.zeros((B_max + 1, B_max + 1))
    cast[0, 0] = 1.0
    for B in range(1, B_max + 1):
        cast[B] = (1.0 - v) * cast[B - 1]
        cast[B, 1:] += v * cast[B - 1, :-1]
    return cast


def fit_grid(pools: Sequence[VoteCounts], K: int, aggregation: Aggregation = "loss") -> Grid:
    """Grids of the warm-up patterns from training pools, each ``(vote counts, nulls)``.

    With w_qj = p_q(j) (:func:`soft_assignment`): shares p_j = mean_q w_qj, and the curve of grid j either the (a, b)
    of the least w-weighted L1 "loss", which the paper recommends, or the w-weighted "average" of the questions'
    (a_q, b_q). Pools without a vote count in the shares and in ``voting``, not in the curves. A grid in which no
    training question votes borrows the curve of the nearest harder grid that has one (else easier), and where it has no
    share ``voting`` too (Liu et al., PETS, warm-up griding).

    >>> grid = fit_grid([((40,), 0), ((30, 10), 0), ((18, 16, 6), 0)], K=2)
    >>> grid.K, round(sum(grid.shares), 12), grid.voting
    (2, 1.0, (1.0, 1.0))
    """
    if aggregation not in ("average", "loss"):
        raise InputError(f'aggregation "{aggregation}"; expected "average" or "loss"')
    distinct = Counter((vote_counts(*pool), pool[1]) for pool in pools)  # many are alike: each kind is fitted once
    weights = np.array([n * (soft_assignment(*pool) @ bins(K)) for pool, n in distinct.items()])
    votes = np.array([len(counts) > 0 for counts, _ in distinct], dtype=bool)
    if not votes.any():
        raise InputError(f"{len(pools)} pools, none with a vote; train on questions that were answered")
    kinds = [pool for pool in distinct if pool[0]]
    total, voted = weights.sum(axis=0), weights[votes].sum(axis=0)
    voted_grids = np.flatnonzero(voted > 0).tolist()
    fitted = dict(zip(voted_grids, _aggregate(kinds, weights[votes][:, voted_grids].T, aggregation), strict=True))
    near = [min(voted_grids, key=lambda i: (i < j, abs(i - j))) for j in range(K)]
    source = [j if total[j] > 0 else i for j, i in enumerate(near)]
    voting = tuple(float(voted[i] / total[i]) for i in source)
    return Grid(tuple((total / len(pools)).tolist()), tuple(fitted[i] for i in near), voting)


def _aggregate(pools: Sequence[VoteCounts], weights: NDArray[np.float64], aggregation: str) -> list[Probit]:
    """One probit for each row of ``weights``, shape (grids, pools)."""
    if aggregation == "loss":
        curves = np.array([pool_curve(*pool) for pool in pools])
        return [fit_probit_l1(curves, w) for w in weights]
    fits = [_pool_probit(*pool) for pool in pools]
    points = np.array([(fit.a, fit.b) for fit in fits])
    return [Probit(float(a), float(b)) for a, b in weights @ points / weights.sum(axis=1, keepdims=True)]


@lru_cache(maxsize=1 << 12)
def _pool_probit(counts: tuple[int, ...], nulls: int) -> Probit:
    """The probit of one pool's curve; every repetition of a replay trains on some of the same questions."""
    return fit_probit_regression(pool_curve(counts, nulls))


def fit_oracle(
    pools: Sequence[VoteCounts], K: int, rng: np.random.Generator, arriving: Sequence[VoteCounts] | None = None
) -> tuple[Grid, NDArray[np.int64]]:
    """Grids of the training questions' (a_q, b_q), k-means on the whitened points, easiest cluster first; and the
    cluster of each arriving (by default training) question, by the nearest centre, shape (N,).

    Fewer than K clusters where there are fewer distinct points; questions without a vote have one more, last, which no
    budget helps (Liu et al., PETS, PETS-Oracle).

    >>> pools = [((40,), 0), ((22, 18), 0), ((39, 1), 0), ((), 40), ((21, 19), 0)]
    >>> fit_oracle(pools, K=2, rng=np.random.default_rng(0), arriving=[((30,), 0), ((16, 14), 0), ((), 9)])[1]
    array([0, 1, 2])
    """
    questions = pools if arriving is None else arriving
    have_votes, points = _oracle_points(pools)
    if K < 1 or not have_votes.any():
        raise InputError(f"K = {K} clusters of {have_votes.sum()} pools with votes; expected at least 1 of each")
    spread = points.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    cluster = _clusters(points, spread, K, rng)
    silent = int(cluster.max()) + 1
    centres = np.array([points[cluster == j].mean(axis=0) for j in range(silent)])
    voting, places = _oracle_points(questions)
    labels = np.full(len(questions), silent, dtype=np.int64)
    labels[voting] = np.linalg.norm((places[:, None] - centres) / spread, axis=2).argmin(axis=1)
    counts = [*np.bincount(cluster, minlength=silent).tolist(), int((~have_votes).sum())]
    n = silent + (not have_votes.all() or not voting.all())  # the last cluster only where a question is in it
    curves = [Probit(float(a), float(b)) for a, b in (*centres, centres[-1])]
    shares = tuple(count / len(pools) for count in counts)
    return Grid(shares[:n], tuple(curves[:n]), tuple(float(j != silent) for j in range(n))), labels


def _oracle_points(pools: Sequence[VoteCounts]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which pools have votes, (N,), and the (a, b) of those, (n, 2)."""
    kinds = [(vote_counts(*pool), pool[1]) for pool in pools]
    fits = [_pool_probit(*pool) for pool in kinds if pool[0]]
    voting = np.array([len(counts) > 0 for counts, _ in kinds], dtype=np.bool_)
    return voting, np.array([(fit.a, fit.b) for fit in fits]).reshape(-1, 2)


def _clusters(
    points: NDArray[np.float64], spread: NDArray[np.float64], K: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """k-means++ labels, shape (n,), of points (n, 2) over their spread; 0 is the largest a sqrt(K0) + b."""
    whitened = points / spread
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="One of the clusters is empty")  # it is dropped below
        k = min(K, len(np.unique(points, axis=0)))
        _, assigned = kmeans2(whitened, k, iter=100, minit="++", rng=rng)
    names, label = np.unique(assigned, return_inverse=True)
    ease = [(points[label == j] @ [K0**0.5, 1.0]).mean() for j in range(names.size)]
    return np.argsort(np.argsort(ease)[::-1])[label]


@lru_cache(maxsize=32)
def _ladder(grid: Grid, floor: int, cap: int) -> Ladder:
    """The merged steps of a grid, kept: a stream plans again at every question."""
    steps = []
    for curve, voting in zip(grid.curves, grid.voting, strict=True):
        rungs = probit_steps(curve, floor, cap)
        n = rungs.lengths.size if voting > 0 else 0
        steps.append(Steps(rungs.lengths[:n], rungs.log_slopes[:n] + log(voting or 1.0)))
    return ladder(steps, grid.shares, floor)


def plan_for(grid: Grid, B_bar: float, floor: int, cap: int) -> Quotas:
    """The optimal budgets, floor <= B_j <= cap, of the grids at mean budget B_bar (:func:`greedy`; Liu et al., PETS).

    The budgets are totals: they count the warm-up. A grid that never votes gets the floor.

    >>> grid = Grid(shares=(0.8, 0.2), curves=(Probit(1.0, 0.5), Probit(0.2, 0.0)), voting=(1.0, 1.0))
    >>> plan_for(grid, B_bar=10, floor=4, cap=64)
    Quotas(low=(4, 34), high=(4, 34), rho=0.0)
    """
    return _ladder(grid, floor, cap).plan(B_bar)


def one_shot(grid: Grid, tally: Tally, view: View) -> int:
    """The total budget of a question that has shown its K0 warm-up traces: the plan's for its grid on R_t / H_t.

    A question that has shown more, or less, keeps what it has (Liu et al., PETS).
    """
    if tally.returned != K0:
        return tally.launched
    cap = NO_CAP if view.cap is None else max(view.cap, K0)
    plan = plan_for(grid, max(view.mean_left, K0), K0, cap)
    return plan.budget(bin_of(pattern(tally.counts, tally.nulls), grid.K), view.coin)


@lru_cache(maxsize=8)
def cold_rows(K: int, aggregation: Aggregation = "loss") -> tuple[Row, ...]:
    """Grids without training: 200 questions drawn from Dir(1/2) over four options, 64 traces each; a fixed draw."""
    rng = np.random.default_rng(0)
    pools: list[VoteCounts] = [
        (tuple(rng.multinomial(64, theta).tolist()), 0) for theta in rng.dirichlet([0.5] * 4, 200)
    ]
    return fit_grid(pools, K, aggregation).rows
