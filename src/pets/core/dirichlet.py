r"""Who wins under a Dirichlet belief: P(argmax theta = m | alpha), U and R+, by quadrature; what more traces gain.

With ``theta_m = G_m / sum G`` and independent ``G_m ~ Gamma(alpha_m, 1)``, write ``F_k`` for their distribution
functions and ``g_k(t) = x f_k(x)``, ``x = e^t``, for their densities in log x. Then

    P_m = ∫ g_m ∏_{k≠m} F_k dt  =  ∫ r_m E dt,          r_k = g_k / F_k,   E = ∏_k F_k.

The optimistic gain ``R+ = max_m U(alpha + e_m) - U(alpha)`` is attained at the leader. Since
``f_{a+1} - f_a = -f'_{a+1}``, integrating by parts gives

    R+ = (1/alpha_1) ∫ r_1 (∑_{k≠1} r_k) E dt,

a sum of positive terms: nothing cancels, however close U is to 1. Both integrals are trapezoid sums on one lattice in
log x that depends on the largest alpha's class alone, so that ``log F_k`` and ``log r_k`` are computed once per alpha.

OKG is Chen, Lin and Zhou (ICML 2013); its use for traces is Liu et al. (PETS), appendix B.

**The gain of k more traces**, for every k at once. One more vote rarely changes a decision, so the expected gain of a
single trace is nearly zero, and the optimistic one overrates close races. Here the leader (n_1 votes) meets each rival
(n_2 votes) under a symmetric Beta(a, a): with L = P(the leader's share of the two is under a bar b),

    L_0(n_1, n_2) = I_b(n_1 + a, n_2 + a),  n_1 >= n_2,
    L_k(n_1, n_2) = p L_{k-1}(n_1 + 1, n_2) + q L_{k-1}(n_1, n_2 + 1)

is the expected doubt after k votes of the pair, p and q the posterior predictive, and L_0 - L_k the gain, relatively
accurate however small the doubt is. Of k traces the pair gets the share S = (n_1 + n_2 + 2a) / (n + Ka); rivals add
up. max_k gain(k) / k is the knowledge gradient of the best batch (Frazier and Powell 2010, "KG(*)").

**The zone.** Without one the bar is 1/2. With an indifference zone of epsilon a rival counts only when its share of all
traces is more than epsilon above the leader's: the bar is (1 - epsilon / S) / 2, exact for two options, and with S at
its mean for more. Between tables for a few S from epsilon, where nothing can be gained, to 1 gains are interpolated.

**Leads that no batch can turn.** The batches end at 48 traces. From a lead of 0.8 of what a batch may bring the rival,
the gain is never less than that of the optimistic trace, Delta = I_b(n_1, n_2) - I_b(n_1 + 1, n_2), over the square of
the pair's votes. It falls with the evidence, e^{-n KL}: the shares of a long run are those of the paper's theory.

**Races.** A batch draws all its traces whatever they say; who may stop as soon as the doubt is gone needs fewer. A race
k of the leader (n_1 votes) with a rival (n_2 votes) ends when the leader has gained a vote on the rival, at k votes of
the pair at the latest. Under Beta(a, a) all orders of the same votes are equally likely, so that by the reflection
principle, with x = n_1 + a, y = n_2 + a,

    gain(k) = sum_i [C(k, i) - C(k, i + 1)] B(x + k - i, y + i) / B(x, y)
              · [I_b(x + k - i, y + i) - I_b(y + i, x + k - i)]

over the i with n_2 + i > n_1 + k - i: a race gains only where the rival ends in front. It is over after t = 1, 3, 5,
... votes with chance C(t, i) / t · B(x + t - i, y + i) / B(x, y), i = (t - 1) / 2, which gives its expected length; in
traces, that over the pair's share S. Rivals add up, and the runner-up's race is the one whose length counts.
max_k gain(k) / length(k) is the rate of the best of these stopping rules, for a mixture of strengths too: both are
linear in it. For two options the index is within 1 % of the optimal stopping rule's traces.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, comb, gammainc, gammaincinv, gammaln

from pets.core.tally import Tally
from pets.errors import InputError

Row = NDArray[np.float64]

LEFT_END = -33.0  # below e^-33 every F_k is its leading power of x to double precision
TAIL_CHANCE = 1e-20
LOG_CLASS = 0.2  # largest alphas within e^0.2 of each other share a lattice
MEMO_ENTRIES = 1 << 18

BATCHES = np.array([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48])
PAIR_VOTES = np.array([*range(17), 18, 20, 23, 27, 31, 36, 42, 48])  # in the tables; gains between are interpolated
MAX_VOTES = 128  # votes that the tables know; beyond, gains are summed anew
SMALLEST_GAIN = 1e-200  # under it the floor alone counts, as a logarithm
LONG_LEAD = 0.8  # of the votes that the largest batch may bring a rival
ZONE_KNOTS = (0.0, 0.05, 0.2, 0.45, 0.7, 1.0)  # where S has a table, as a part of the way from epsilon to 1
MAX_RACE_VOTES = int(BATCHES[-1])


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Nodes in t = log x that resolve every Gamma of shape at most ``alpha_max`` in these integrals."""

    t: Row
    x: Row
    h: float
    open_left: bool  # the integrand still has weight at the first node: add the geometric tail
    rows: dict[float, tuple[Row, Row]] = field(default_factory=dict)

    def row(self, alpha: float) -> tuple[Row, Row]:
        """``(log F, log r)`` of Gamma(alpha) at the nodes; where scipy's F underflows, by the power series
        x^a e^-x / Gamma(a+1) (1 + x/(a+1) + ...)."""
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
    """The lattice of the largest alpha's class, finer where many options are level with it: E is steeper there; and
    the trapezoid sum of E = e^{At} / ∏ Gamma(alpha_k + 1) over all nodes left of the first, A = sum alpha."""
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
    """Nodes for every largest alpha in one class, so that neighbours share their rows: from half the far quantile (a
    runner-up wins near half of the leader's mean) to a Bernstein bound beyond which less than TAIL_CHANCE is left."""
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
    return np.asarray(np.minimum(inner + tail * np.array(levels), 1.0))


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
    """R+(alpha), see :func:`log_R_plus`."""
    return math.exp(log_R_plus(alpha))


def _log_R_plus_levels(levels: Sequence[float], weights: Sequence[int]) -> float:
    """log R+ of distinct levels, ascending; ``weights`` says how many options stand at each."""
    M, a, b = sum(weights), levels[-1], levels[0]
    if M == 1:
        return -math.inf
    if M == 2:
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
    """Distinct alphas, ascending, with multiplicities: alpha = prior + counts over M slots, then the fantasy of
    ``pending`` traces in the posterior mean's proportions, alpha (1 + pending / sum alpha)."""
    scale = 1.0 + pending / (prior * M + sum(counts)) if pending else 1.0
    copies = {0: M - len(counts)} if len(counts) < M else {}
    for count in reversed(counts):
        copies[count] = copies.get(count, 0) + 1
    return [(prior + count) * scale for count in copies], [*copies.values()]


@lru_cache(maxsize=MEMO_ENTRIES)
def log_R_plus_counts(counts: tuple[int, ...], prior: float, M: int, pending: float = 0.0) -> float:
    """log R+ of the belief prior + counts over M slots; ``counts`` positive, descending."""
    return _log_R_plus_levels(*_levels(counts, prior, M, pending))


def okg_index(tally: Tally, prior: float, unseen: int) -> float:
    """log(R+ x chance that a trace votes) under Dir(prior) on the tally's slots, pending traces as a fantasy.

    >>> okg_index(Tally((2, 1)), 1.0, 1) > okg_index(Tally((3,)), 1.0, 1) > okg_index(Tally((9, 1)), 1.0, 1)
    True
    """
    gain = log_R_plus_counts(tally.counts, prior, tally.slots(unseen), tally.pending)
    return gain + math.log(tally.voting_chance)


@lru_cache(maxsize=MEMO_ENTRIES)
def p_leader(alpha: tuple[float, ...], unseen: tuple[tuple[float, int], ...] = ()) -> float:
    """P(the first option is the population vote) under alpha and the ``unseen`` ones, (alpha, number) each.

    >>> round(p_leader((4.0,), ((1.0, 1),)), 12)         # Beta(4, 1): 1 - 2^-4
    0.9375
    """
    copies = Counter(alpha)
    for level, many in unseen:
        if many:
            copies[level] += many
    levels = sorted(copies)
    return float(_p_levels(levels, list(map(copies.__getitem__, levels)))[levels.index(alpha[0])])


def clear_memo() -> None:
    """Forget every memoized belief and lattice (benchmarks start cold with it)."""
    log_R_plus_counts.cache_clear()
    p_leader.cache_clear()
    _lattice.cache_clear()


@lru_cache(maxsize=32)
def _table(strengths: tuple[float, ...], bar: float) -> NDArray[np.float32]:
    """Gain of PAIR_VOTES votes, shape (strengths, k, MAX_VOTES + 1, MAX_VOTES + 1) at [s, k, n_1, n_2], n_1 >= n_2."""
    most, votes = int(PAIR_VOTES[-1]), MAX_VOTES + 1
    n = np.arange(votes + most, dtype=np.float64)
    leader, rival = np.maximum(n[:, None], n), np.minimum(n[:, None], n)
    table = np.zeros((len(strengths), len(PAIR_VOTES), votes, votes), dtype=np.float32)  # half the memory, 1e-7
    index = dict(zip(PAIR_VOTES.tolist(), range(len(PAIR_VOTES)), strict=True))
    for rows, a in zip(table, strengths, strict=True):
        doubt = betainc(leader + a, rival + a, bar)
        start = doubt[:votes, :votes]
        p = (n[:, None] + a) / (n[:, None] + n + 2 * a)
        q = 1 - p
        for k in range(1, most + 1):
            size = len(n) - k  # known at least, after most votes
            doubt = p[:size, :size] * doubt[1:, :size] + q[:size, :size] * doubt[:size, 1:]
            if k in index:
                rows[index[k]] = np.maximum(start - doubt[:votes, :votes], 0.0)
    return table


@lru_cache(maxsize=1 << 12)
def batch_gains(counts: tuple[int, ...], K: int, strengths: tuple[float, ...], zone: float = 0.0) -> tuple[Row, float]:
    """Expected gain in P(leader is the population vote) of BATCHES traces under Dir_K(a) for each strength a.

    ``counts`` descend; the K - len(counts) unseen options have 0 votes each. With a ``zone`` it is the gain in
    P(no answer is ahead of the leader by more than that). Shape (strengths, batches), times the exponential of the
    number that comes with it: far beyond the tables a gain would underflow.

    >>> (close, _), (clear, _) = batch_gains((5, 5), 2, (1.0,)), batch_gains((9, 1), 2, (1.0,))
    >>> bool((close > clear).all()), bool((np.diff(close) >= 0).all())
    (True, True)
    """
    leader, *rivals = counts or (0,)
    unseen = K - max(len(counts), 1)
    copies = np.array([1.0] * len(rivals) + [unseen] * (unseen > 0))
    votes = np.array(rivals + [0] * (unseen > 0), dtype=np.int64)
    if not votes.size:
        return np.zeros((len(strengths), len(BATCHES))), 0.0
    a = np.array(strengths)[:, None]
    share = (leader + votes + 2 * a) / (sum(counts) + K * a)  # (strengths, rivals)
    gains = _pair_gains(strengths, leader, votes, share, zone)
    bar = np.maximum((1.0 - zone / np.maximum(share, zone)) / 2.0, 1e-3) if zone else 0.5
    x, y = leader + a, votes + a
    log_step = x * np.log(bar) + y * np.log1p(-bar) - np.log(x) - betaln(x, y)  # log(I_b(x, y) - I_b(x + 1, y))
    log_floor = log_step - 2.0 * np.log(leader + votes + 2 * a)
    log_floor = np.where(leader - votes >= LONG_LEAD * BATCHES[-1] * share, log_floor, -np.inf)
    log_scale = 0.0 if (gains > SMALLEST_GAIN).any() else max(float(log_floor.max()), -1e300)
    if log_scale:
        gains = np.zeros_like(gains)
    gains = np.maximum(gains, np.exp(log_floor - log_scale)[:, :, None] * BATCHES)
    return np.einsum("r,srk->sk", copies, gains), log_scale


def _pair_gains(strengths: tuple[float, ...], leader: int, votes: NDArray[np.int64], share: Row, zone: float) -> Row:
    """The gain of BATCHES traces against each rival, (strengths, rivals, batches)."""
    pair = share[:, :, None] * BATCHES
    above = np.searchsorted(PAIR_VOTES, pair, side="right").clip(1, len(PAIR_VOTES) - 1)
    low, high = PAIR_VOTES[above - 1], PAIR_VOTES[above]
    part = (pair - low) / (high - low)
    at = (np.arange(len(strengths))[:, None, None], above - 1, leader, votes[:, None])
    after = (at[0], above, leader, at[3])

    gains = np.zeros(pair.shape)
    for bar, weight in zip(bars(zone), bar_weights(share, zone), strict=True):
        if not weight.any():
            continue
        if leader > MAX_VOTES:
            gains += weight[:, :, None] * _summed_gains(strengths, leader, votes, pair, bar)
        else:
            table = _table(strengths, bar)
            gains += weight[:, :, None] * ((1.0 - part) * table[at] + part * table[after])
    return gains


@lru_cache(maxsize=64)
def bars(zone: float) -> tuple[float, ...]:
    """The bars that gains are known for: 1/2 without a zone, else those of a few shares S of a pair."""
    if not zone:
        return (0.5,)
    return tuple((1.0 - zone / (zone + knot * (1.0 - zone))) / 2.0 for knot in ZONE_KNOTS[1:])


def bar_weights(share: Row, zone: float) -> Row:
    """The weights of :func:`bars` for pairs of these shares, (bars, *share.shape); less than 1 in all near the zone."""
    if not zone:
        return np.ones((1, *share.shape))
    way = ((share - zone) / (1.0 - zone)).clip(0.0, 1.0)
    hats = zip(ZONE_KNOTS[:-1], ZONE_KNOTS[1:], (*ZONE_KNOTS[2:], 2.0), strict=True)
    return np.array(
        [
            np.minimum((way - left) / (knot - left), (right - way) / (right - knot)).clip(0.0, 1.0)
            for left, knot, right in hats
        ]
    )


def _summed_gains(strengths: tuple[float, ...], leader: int, votes: NDArray[np.int64], pair: Row, bar: float) -> Row:
    """The same without a table, for any counts, (strengths, rivals, batches): what k votes, rounded, gain is what those
    outcomes are worth in which the rival gets i > (k + lead) / 2 of them, and the verdict turns."""
    k = np.rint(pair)[..., None]
    i = np.arange(int(BATCHES[-1]) + 1)
    x = (leader + np.array(strengths))[:, None, None, None]
    y = (votes + np.array(strengths)[:, None])[:, :, None, None]
    turned = (i <= k) & (votes[:, None, None] + i > leader + k - i)
    if not turned.any():
        return np.zeros(pair.shape)
    rest = np.maximum(k - i, 0.0)
    log_chance = gammaln(k + 1) - gammaln(i + 1) - gammaln(rest + 1) + betaln(x + rest, y + i) - betaln(x, y)
    worth = betainc(x + rest, y + i, bar) - betainc(y + i, x + rest, bar)
    gains: Row = np.where(turned, np.exp(log_chance) * worth, 0.0).sum(axis=-1)
    return gains


@lru_cache(maxsize=1 << 16)
def race_gains(counts: tuple[int, ...], K: int, strengths: tuple[float, ...], zone: float = 0.0) -> tuple[Row, Row]:
    """Expected gain in P(the leader is good) and expected traces of the races of BATCHES votes, (strengths, races).

    ``counts`` descend; the K - len(counts) unseen options have 0 votes each.

    >>> gains, traces = race_gains((6, 1), 2, (1.0,), zone=0.1)
    >>> bool((gains / traces).max() > 2 * (batch_gains((6, 1), 2, (1.0,), zone=0.1)[0] / BATCHES).max())
    True
    """
    leader, *rivals = counts or (0,)
    copies = Counter(rivals)
    copies[0] += K - max(len(counts), 1)
    a = np.array(strengths)
    total = sum(counts) + K * a
    gains = np.zeros((len(a), len(BATCHES)))
    for votes, many in copies.items():
        weights = bar_weights((leader + votes + 2 * a) / total, zone)
        gains += many * np.einsum("bs,bsk->sk", weights, _race_gains_of_pair(leader, votes, strengths, zone))
    runner_up = max(copies)
    share = (leader + runner_up + 2 * a) / total
    return gains, _race_votes_of_pair(leader, runner_up, strengths) / share[:, None]


@lru_cache(maxsize=1 << 13)
def _race_gains_of_pair(leader: int, rival: int, strengths: tuple[float, ...], zone: float) -> Row:
    """Gains of the races against one rival, (bars, strengths, races)."""
    k, i = (axis.ravel() for axis in np.meshgrid(BATCHES, np.arange(MAX_RACE_VOTES + 1), indexing="ij"))
    turned = np.flatnonzero((i <= k) & (rival + i > leader + k - i))
    k, i = k[turned], i[turned]
    x, y = (votes + np.array(strengths)[:, None] for votes in (leader, rival))
    orders = comb(k, i) - comb(k, i + 1)  # in which the leader never gains a vote
    chance = orders * np.exp(betaln(x + k - i, y + i) - betaln(x, y))
    worth = np.array([betainc(x + k - i, y + i, bar) - betainc(y + i, x + k - i, bar) for bar in bars(zone)])
    gains: Row = (worth * chance) @ (k[:, None] == BATCHES).astype(np.float64)
    return np.maximum(gains, 0.0)


@lru_cache(maxsize=1 << 13)
def _race_votes_of_pair(leader: int, rival: int, strengths: tuple[float, ...]) -> Row:
    """Expected votes of the pair in the races against one rival, (strengths, races)."""
    t = np.arange(1, MAX_RACE_VOTES + 1, 2)
    i = t // 2
    x, y = (votes + np.array(strengths)[:, None] for votes in (leader, rival))
    chance = comb(t, i) / t * np.exp(betaln(x + t - i, y + i) - betaln(x, y))
    ended = t[:, None] <= BATCHES
    votes: Row = (chance * t) @ ended + BATCHES * (1.0 - chance @ ended)
    return votes
