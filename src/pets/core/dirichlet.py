r"""Who wins under a Dirichlet belief: P(argmax theta = m | alpha), U and R+, by quadrature.

With ``theta_m = G_m / sum G`` and independent ``G_m ~ Gamma(alpha_m, 1)``, write ``F_k`` for their distribution
functions and ``g_k(t) = x f_k(x)``, ``x = e^t``, for their densities in log x. Then

    P_m = ∫ g_m ∏_{k≠m} F_k dt  =  ∫ r_m E dt,          r_k = g_k / F_k,   E = ∏_k F_k.

The optimistic gain ``R+ = max_m U(alpha + e_m) - U(alpha)`` is attained at the leader (one more vote for the
largest alpha dominates one more for any other). Since ``f_{a+1} - f_a = -f'_{a+1}``, integrating by parts gives

    R+ = (1/alpha_1) ∫ r_1 (∑_{k≠1} r_k) E dt,

a sum of positive terms: nothing cancels, however close U is to 1. Both integrals are trapezoid sums on one
lattice in log x that depends on the largest alpha's class alone, so the rows ``log F_k`` and ``log r_k`` are
computed once per alpha and a belief costs a few vector operations.

Citations: OKG is Chen, Lin and Zhou (ICML 2013); its use for traces is Liu et al. (PETS), appendix B.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammainc, gammaincinv, gammaln

from pets.core.tally import Tally
from pets.errors import InputError

Row = NDArray[np.float64]

LEFT_END = -33.0  # below e^-33 every F_k is its leading power of x to double precision
TAIL_CHANCE = 1e-20
LOG_CLASS = 0.2  # largest alphas within e^0.2 of each other share a lattice
MEMO_ENTRIES = 1 << 18


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Nodes in t = log x that resolve every Gamma of shape at most ``alpha_max`` in these integrals."""

    t: Row
    x: Row
    h: float
    open_left: bool  # the integrand still has weight at the first node: add the geometric tail
    rows: dict[float, tuple[Row, Row]] = field(default_factory=dict)

    def row(self, alpha: float) -> tuple[Row, Row]:
        """``(log F, log r)`` of Gamma(alpha) at the nodes.

        F is scipy's, and the power series x^a e^-x / Gamma(a+1) (1 + x/(a+1) + ...) where that underflows.
        """
        if alpha in self.rows:
            return self.rows[alpha]
        if len(self.rows) >= 4096:
            self.rows.clear()
        F = gammainc(alpha, self.x)
        small = F < 1e-280  # none where the first node is not: F rises
        log_F = np.log(np.where(small, 1.0, F))
        if small[0]:
            xs = self.x[small]
            term = np.ones_like(xs)
            total = np.ones_like(xs)
            n = alpha
            while np.any(term > 1e-17 * total):
                n += 1.0
                term = term * (xs / n)
                total += term
            log_F[small] = alpha * self.t[small] - xs - gammaln(alpha + 1.0) + np.log(total)
        row = self.rows[alpha] = (log_F, alpha * self.t - self.x - gammaln(alpha) - log_F)
        return row


def _lattice_for(levels: Sequence[float], weights: Sequence[int]) -> tuple[_Lattice, float]:
    """The lattice of the largest alpha's class, finer where many options are level with it (E is then steeper).

    And the trapezoid sum of E = e^{At} / ∏ Gamma(alpha_k + 1) over all nodes left of the first, A = sum alpha.
    """
    alpha_max = max(levels)
    rivals = sum(map(mul, levels, weights)) / alpha_max
    fineness = math.ceil(math.log2(rivals / 4.0)) if rivals > 4.0 else 0
    lattice = _lattice(math.ceil(math.log(alpha_max) / LOG_CLASS), fineness)
    if not lattice.open_left:
        return lattice, 0.0
    A, log_norm = math.fsum(map(mul, levels, weights)), []
    for level, weight in zip(levels, weights, strict=True):
        log_norm.append(weight * math.lgamma(level + 1.0))
    return lattice, lattice.h * math.exp(A * lattice.t[0] - math.fsum(log_norm)) / math.expm1(A * lattice.h)


@lru_cache(maxsize=1024)
def _lattice(alpha_class: int, fineness: int) -> _Lattice:
    """Nodes for every largest alpha in one class, so that neighbours share their rows.

    Left end: half the far quantile (a runner-up wins near half of the leader's mean). Right end: an x beyond which
    Gamma(alpha) has less than about TAIL_CHANCE (a Bernstein bound: exact enough to cut at).
    """
    least, most = math.exp((alpha_class - 1) * LOG_CLASS), math.exp(alpha_class * LOG_CLASS)
    h = min(0.2, 0.4 / math.sqrt(most)) / math.sqrt(2.0) ** fineness
    reach = -math.log(TAIL_CHANCE)
    right = math.log(most + math.sqrt(2.0 * most * reach) + reach)
    low = float(gammaincinv(least, TAIL_CHANCE))
    left = max(math.log(low / 2.0), LEFT_END) if low > 0.0 else LEFT_END
    t: Row = left + h * np.arange(math.ceil((right - left) / h) + 1, dtype=np.float64)
    return _Lattice(t, np.exp(t), h, open_left=left == LEFT_END)


def _check(alpha: Sequence[float] | Row) -> Row:
    values = np.asarray(alpha, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0.0):
        raise InputError(f"alpha must be a list of positive finite numbers; got {alpha!r}. Add a prior to the counts.")
    return values


def p_argmax(alpha: Sequence[float] | Row) -> Row:
    """P(argmax theta = m | alpha) for every m; shape (M,) in, shape (M,) out.

    >>> p_argmax([3.0, 1.0]).round(12)          # Beta(3, 1): 1 - 2^-3
    array([0.875, 0.125])
    >>> p_argmax([1.0, 5.0, 1.0, 1.0]).sum().round(12).item()
    1.0
    """
    values = _check(alpha)
    levels, inverse, weights = np.unique(values, return_inverse=True, return_counts=True)
    return _p_levels(levels.tolist(), weights.tolist())[inverse]


def _p_levels(levels: Sequence[float], weights: Sequence[int]) -> Row:
    """P_m of one option at each distinct level; ``weights`` says how many options stand there."""
    if len(levels) == 1:
        return np.array([1.0 / weights[0]])
    if sum(weights) == 2:
        a, b = levels
        return np.array([betainc(b, a, 0.5), betainc(a, b, 0.5)])
    lattice, tail = _lattice_for(levels, weights)
    log_E: Row = np.zeros_like(lattice.t)
    log_rates = []
    for level, weight in zip(levels, weights, strict=True):
        log_F, log_r = lattice.rows.get(level) or lattice.row(level)
        log_E += weight * log_F
        log_rates.append(log_r)
    inner = lattice.h * np.exp(np.array(log_rates) + log_E).sum(axis=1)
    wins: Row = inner + tail * np.array(levels)
    return np.minimum(wins, 1.0)


def U(alpha: Sequence[float] | Row) -> float:
    """The value of a belief: max_m P(argmax theta = m | alpha).

    >>> round(U([2.0, 1.0]), 12)
    0.75
    """
    return float(p_argmax(alpha).max())


def log_R_plus(alpha: Sequence[float] | Row) -> float:
    """log R+(alpha) with R+ = max_m U(alpha + e_m) - U(alpha); -inf for a single option.

    For two options the closed form Gamma(a+b) / (Gamma(a+1) Gamma(b) 2^{a+b}), a >= b (the paper's Delta_{m,n}).

    >>> round(math.exp(log_R_plus([1.0, 1.0])), 12), round(math.exp(log_R_plus([3.0, 1.0, 1.0])), 6)
    (0.25, 0.100309)
    """
    levels, weights = np.unique(_check(alpha), return_counts=True)
    return _log_R_plus_levels(levels.tolist(), weights.tolist())


def R_plus(alpha: Sequence[float] | Row) -> float:
    """R+(alpha), see :func:`log_R_plus`.

    >>> R_plus([1.0, 1.0])
    0.25
    """
    return math.exp(log_R_plus(alpha))


def _log_R_plus_levels(levels: Sequence[float], weights: Sequence[int]) -> float:
    """``levels`` ascending and distinct, ``weights`` how many options stand at each."""
    M = sum(weights)
    a = levels[-1]
    if M == 1:
        return -math.inf
    if M == 2:
        b = levels[0]
        return math.lgamma(a + b) - math.lgamma(a + 1.0) - math.lgamma(b) - (a + b) * math.log(2.0)
    lattice, tail = _lattice_for(levels, weights)
    log_E: Row = np.zeros_like(lattice.t)
    log_rest: Row = np.full_like(lattice.t, -np.inf)
    for level, weight in zip(levels, weights, strict=True):
        log_F, log_r = lattice.row(level)  # the last one is the leader's: levels ascend
        others = weight - 1 if level == a else weight
        log_E = log_E + (log_F if weight == 1 else weight * log_F)
        if others:
            log_rest = np.logaddexp(log_rest, log_r if others == 1 else log_r + math.log(others))
    log_terms = log_E + log_r + log_rest
    peak = float(log_terms.max())
    total = lattice.h * float(np.exp(log_terms - peak).sum())
    if lattice.open_left:
        A = math.fsum(map(mul, levels, weights))
        total += a * (A - a) * tail * math.exp(-peak)
    return math.log(total / a) + peak


def _levels(counts: tuple[int, ...], prior: float, M: int, pending: float) -> tuple[list[float], list[int]]:
    """Distinct alphas, ascending, with multiplicities: alpha = prior + counts over M slots, then the fantasy.

    The fantasy adds ``pending`` traces in the posterior mean's proportions: alpha (1 + pending / sum alpha).
    """
    scale = 1.0 + pending / (prior * M + sum(counts)) if pending else 1.0
    levels: list[float] = []
    weights: list[int] = []
    empty = M - len(counts)
    if empty > 0:
        levels.append(prior * scale)
        weights.append(empty)
    previous = -1
    for count in reversed(counts):
        if count == previous:
            weights[-1] += 1
        else:
            levels.append((prior + count) * scale)
            weights.append(1)
            previous = count
    return levels, weights


@lru_cache(maxsize=MEMO_ENTRIES)
def log_R_plus_counts(counts: tuple[int, ...], prior: float, M: int, pending: float = 0.0) -> float:
    """log R+ of the belief prior + counts over M slots; ``counts`` positive, descending: the memo's key.

    >>> log_R_plus_counts((2, 1), 1.0, 4) == log_R_plus([3.0, 2.0, 1.0, 1.0])
    True
    """
    return _log_R_plus_levels(*_levels(counts, prior, M, pending))


def okg_index(tally: Tally, prior: float, unseen: int) -> float:
    """log(R+ x chance that a trace votes) under Dir(prior) on the tally's slots, pending traces as a fantasy.

    >>> okg_index(Tally((2, 1)), 1.0, 1) > okg_index(Tally((3,)), 1.0, 1) > okg_index(Tally((9, 1)), 1.0, 1)
    True
    """
    gain = log_R_plus_counts(tally.counts, prior, tally.slots(unseen), tally.pending)
    return gain + math.log(tally.voting_chance)


@lru_cache(maxsize=MEMO_ENTRIES)
def p_leader_counts(counts: tuple[int, ...], prior: float, M: int) -> float:
    """P(the leader of the counts is the population vote) under prior + counts over M slots.

    >>> round(p_leader_counts((3,), 1.0, 2), 12)         # Beta(4, 1): 1 - 2^-4
    0.9375
    """
    return float(_p_levels(*_levels(counts, prior, M, 0.0))[-1])


@lru_cache(maxsize=MEMO_ENTRIES)
def p_leader(alpha: tuple[float, ...], unseen: tuple[tuple[float, int], ...] = ()) -> float:
    """P(the first option is the population vote) under alpha and the ``unseen`` ones, (alpha, number) each.

    >>> round(p_leader((4.0,), ((1.0, 1),)), 12)
    0.9375
    """
    copies = dict(Counter(alpha))
    for level, many in unseen:
        if many:
            copies[level] = copies.get(level, 0) + many
    levels = sorted(copies)
    return float(_p_levels(levels, list(map(copies.__getitem__, levels)))[levels.index(alpha[0])])


def clear_memo() -> None:
    """Forget every memoized belief and lattice (benchmarks start cold with it)."""
    log_R_plus_counts.cache_clear()
    p_leader.cache_clear()
    p_leader_counts.cache_clear()
    _lattice.cache_clear()
