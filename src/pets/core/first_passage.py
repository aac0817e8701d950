r"""Gain of sampling until the lead grows by one vote, at most k votes.

A batch (:mod:`pets.core.lookahead`) draws all its traces whatever they say. Who may stop as soon as the doubt is gone
needs fewer: at (6, 1) one more vote for the leader mostly ends it. A race k of the leader (n_1 votes) with a rival
(n_2 votes) ends when the leader has gained a vote on the rival, at k votes of the pair at the latest. Under Beta(a, a)
all orders of the same votes are equally likely, so that by the reflection principle, with x = n_1 + a, y = n_2 + a,

    gain(k) = sum_i [C(k, i) - C(k, i + 1)] B(x + k - i, y + i) / B(x, y)
              · [I_b(x + k - i, y + i) - I_b(y + i, x + k - i)]

over the i with n_2 + i > n_1 + k - i: the doubt is a martingale, and a race gains only where the rival ends in front.
It is over after t = 1, 3, 5, ... votes with chance C(t, i) / t · B(x + t - i, y + i) / B(x, y), i = (t - 1) / 2, which
gives its expected length; in traces, that over the pair's share S. Rivals add up, and it is the runner-up's race whose
length counts. max_k gain(k) / length(k) is the rate of the best of these stopping rules, for a mixture of strengths as
for one, since both are linear in it. Races to a longer lead were never better: a race that is won can be followed by
another. For two options the index is within 1 % of the optimal stopping rule's traces.

The bar b and the zone are those of :mod:`pets.core.lookahead`.
"""

from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, comb

from pets.core.lookahead import BATCHES, bar_weights, bars

Array = NDArray[np.float64]

MOST_VOTES = int(BATCHES[-1])


@lru_cache(maxsize=1 << 16)
def race_gains(counts: tuple[int, ...], K: int, strengths: tuple[float, ...], zone: float = 0.0) -> tuple[Array, Array]:
    """Expected gain in P(the leader is good) and expected traces of the races of BATCHES votes, (strengths, races).

    ``counts`` descend; the K - len(counts) unseen options have 0 votes each.

    >>> from pets.core.lookahead import batch_gains
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
        gains += many * np.einsum("bs,bsk->sk", weights, _pair_gains(leader, votes, strengths, zone))
    runner_up = max(copies)
    share = (leader + runner_up + 2 * a) / total
    return gains, _pair_votes(leader, runner_up, strengths) / share[:, None]


@lru_cache(maxsize=1 << 13)
def _pair_gains(leader: int, rival: int, strengths: tuple[float, ...], zone: float) -> Array:
    """Gains of the races against one rival, (bars, strengths, races)."""
    k, i = (axis.ravel() for axis in np.meshgrid(BATCHES, np.arange(MOST_VOTES + 1), indexing="ij"))
    turned = np.flatnonzero((i <= k) & (rival + i > leader + k - i))
    k, i = k[turned], i[turned]
    x, y = (votes + np.array(strengths)[:, None] for votes in (leader, rival))
    orders = comb(k, i) - comb(k, i + 1)  # in which the leader never gains a vote
    chance = orders * np.exp(betaln(x + k - i, y + i) - betaln(x, y))
    worth = np.array([betainc(x + k - i, y + i, bar) - betainc(y + i, x + k - i, bar) for bar in bars(zone)])
    gains: Array = (worth * chance) @ (k[:, None] == BATCHES).astype(np.float64)
    return np.maximum(gains, 0.0)


@lru_cache(maxsize=1 << 13)
def _pair_votes(leader: int, rival: int, strengths: tuple[float, ...]) -> Array:
    """Expected votes of the pair in the races against one rival, (strengths, races)."""
    t = np.arange(1, MOST_VOTES + 1, 2)
    i = t // 2
    x, y = (votes + np.array(strengths)[:, None] for votes in (leader, rival))
    chance = comb(t, i) / t * np.exp(betaln(x + t - i, y + i) - betaln(x, y))
    ended = t[:, None] <= BATCHES
    votes: Array = (chance * t) @ ended + BATCHES * (1.0 - chance @ ended)
    return votes
