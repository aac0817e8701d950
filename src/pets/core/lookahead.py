r"""The gain of k more traces, for every k at once: what a batch, not one trace, can do for a vote.

One more vote rarely changes a decision, so the expected gain of a single trace is nearly zero and the optimistic
one overrates close races, which cost as many traces again as they have had. Here the leader (n_1 votes) meets each
rival (n_2 votes) under a symmetric Beta(a, a): with L = P(the leader's share of the two is under a bar b),

    L_0(n_1, n_2) = I_b(n_1 + a, n_2 + a),  n_1 >= n_2,
    L_k(n_1, n_2) = p L_{k-1}(n_1 + 1, n_2) + q L_{k-1}(n_1, n_2 + 1)

is the expected doubt after k votes of the pair, p and q the posterior predictive, and L_0 - L_k the gain, relatively
accurate however small the doubt is. Of k traces the pair gets the share S = (n_1 + n_2 + 2a) / (n + Ka); rivals add
up. max_k gain(k) / k is the knowledge gradient of the best batch (Frazier and Powell 2010, "KG(*)").

**The zone.** The bar is 1/2: the rival leads. With an indifference zone of epsilon a rival counts only when its share
of all traces is more than epsilon above the leader's, S (1 - 2x) > epsilon for the leader's share x of the pair: the
bar is (1 - epsilon / S) / 2, exact for two options, and with S at its mean for more. Tables are made for a few S
between epsilon, where the bar is 0 and nothing can be gained, and 1; between them gains are interpolated.

**Leads that no batch can turn.** The batches end at 48 traces, so that a longer lead would leave no gain at all. From a
lead of 0.8 of what a batch may bring the rival, the gain is therefore never less than that of the optimistic trace,
Delta = I_b(n_1, n_2) - I_b(n_1 + 1, n_2), over the square of the pair's votes. It falls with the evidence, e^{-n KL},
so that the shares of a long run are those of the paper's theory.

**Races.** The gain of sampling until the lead grows by one vote, at most k votes. A batch draws all its traces whatever
they say. Who may stop as soon as the doubt is gone needs fewer: at (6, 1) one more vote for the leader mostly ends it.
A race k of the leader (n_1 votes) with a rival (n_2 votes) ends when the leader has gained a vote on the rival, at k
votes of the pair at the latest. Under Beta(a, a) all orders of the same votes are equally likely, so that by the
reflection principle, with x = n_1 + a, y = n_2 + a,

    gain(k) = sum_i [C(k, i) - C(k, i + 1)] B(x + k - i, y + i) / B(x, y)
              · [I_b(x + k - i, y + i) - I_b(y + i, x + k - i)]

over the i with n_2 + i > n_1 + k - i: the doubt is a martingale, and a race gains only where the rival ends in front.
It is over after t = 1, 3, 5, ... votes with chance C(t, i) / t · B(x + t - i, y + i) / B(x, y), i = (t - 1) / 2, which
gives its expected length; in traces, that over the pair's share S. Rivals add up, and it is the runner-up's race whose
length counts. max_k gain(k) / length(k) is the rate of the best of these stopping rules, for a mixture of strengths as
for one, since both are linear in it. Races to a longer lead were never better: a race that is won can be followed by
another. For two options the index is within 1 % of the optimal stopping rule's traces.
"""

from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, comb, gammaln

Array = NDArray[np.float64]

BATCHES = np.array([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48])
PAIR_VOTES = np.array([*range(17), 18, 20, 23, 27, 31, 36, 42, 48])  # in the tables; gains between are interpolated
MAX_VOTES = 128  # votes that the tables know; beyond, gains are summed anew
SMALLEST_GAIN = 1e-200  # under it the floor alone counts, as a logarithm
LONG_LEAD = 0.8  # of the votes that the largest batch may bring a rival
ZONE_KNOTS = (0.0, 0.05, 0.2, 0.45, 0.7, 1.0)  # where S has a table, as a part of the way from epsilon to 1


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


@lru_cache(maxsize=1 << 17)
def batch_gains(
    counts: tuple[int, ...], K: int, strengths: tuple[float, ...], zone: float = 0.0
) -> tuple[Array, float]:
    """Expected gain in P(leader is the population vote) of BATCHES traces under Dir_K(a) for each strength a.

    ``counts`` descend; the K - len(counts) unseen options have 0 votes each. With a ``zone`` it is the gain in
    P(no answer is ahead of the leader by more than that). Shape (strengths, batches), times the exponential of the
    number that comes with it: far beyond the tables a gain would underflow.

    >>> (close, _), (clear, _) = batch_gains((5, 5), 2, (1.0,)), batch_gains((9, 1), 2, (1.0,))
    >>> bool((close > clear).all()), bool((np.diff(close) >= 0).all())
    (True, True)
    >>> bool((batch_gains((5, 5), 2, (1.0,), zone=0.1)[0] < close).all())
    True
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
    total: Array = np.einsum("r,srk->sk", copies, gains)
    return total, log_scale


def _pair_gains(
    strengths: tuple[float, ...], leader: int, votes: NDArray[np.int64], share: Array, zone: float
) -> Array:
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


def bar_weights(share: Array, zone: float) -> Array:
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


def _summed_gains(
    strengths: tuple[float, ...], leader: int, votes: NDArray[np.int64], pair: Array, bar: float
) -> Array:
    """The same without a table, for any counts, (strengths, rivals, batches); whole votes of a pair, rounded.

    The doubt is a martingale as long as the leader stays: what k votes gain is what those outcomes are worth in which
    the rival gets i > (k + lead) / 2 of them, and the verdict turns.
    """
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
    gains: Array = np.where(turned, np.exp(log_chance) * worth, 0.0).sum(axis=-1)
    return gains


MAX_RACE_VOTES = int(BATCHES[-1])


@lru_cache(maxsize=1 << 16)
def race_gains(counts: tuple[int, ...], K: int, strengths: tuple[float, ...], zone: float = 0.0) -> tuple[Array, Array]:
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
def _race_gains_of_pair(leader: int, rival: int, strengths: tuple[float, ...], zone: float) -> Array:
    """Gains of the races against one rival, (bars, strengths, races)."""
    k, i = (axis.ravel() for axis in np.meshgrid(BATCHES, np.arange(MAX_RACE_VOTES + 1), indexing="ij"))
    turned = np.flatnonzero((i <= k) & (rival + i > leader + k - i))
    k, i = k[turned], i[turned]
    x, y = (votes + np.array(strengths)[:, None] for votes in (leader, rival))
    orders = comb(k, i) - comb(k, i + 1)  # in which the leader never gains a vote
    chance = orders * np.exp(betaln(x + k - i, y + i) - betaln(x, y))
    worth = np.array([betainc(x + k - i, y + i, bar) - betainc(y + i, x + k - i, bar) for bar in bars(zone)])
    gains: Array = (worth * chance) @ (k[:, None] == BATCHES).astype(np.float64)
    return np.maximum(gains, 0.0)


@lru_cache(maxsize=1 << 13)
def _race_votes_of_pair(leader: int, rival: int, strengths: tuple[float, ...]) -> Array:
    """Expected votes of the pair in the races against one rival, (strengths, races)."""
    t = np.arange(1, MAX_RACE_VOTES + 1, 2)
    i = t // 2
    x, y = (votes + np.array(strengths)[:, None] for votes in (leader, rival))
    chance = comb(t, i) / t * np.exp(betaln(x + t - i, y + i) - betaln(x, y))
    ended = t[:, None] <= BATCHES
    votes: Array = (chance * t) @ ended + BATCHES * (1.0 - chance @ ended)
    return votes
