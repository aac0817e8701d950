"""The gain of k more traces, for every k at once: what a batch, not one trace, can do for a vote.

One more vote rarely changes a decision, so the expected gain of a single trace is nearly zero and the optimistic
one overrates close races, which cost as many traces again as they have had. Here the leader (n_1 votes) meets each
rival (n_2 votes) under a symmetric Beta(a, a): with L = P(the leader is the lesser of the two),

    L_0(n_1, n_2) = I_{1/2}(n_1 + a, n_2 + a),  n_1 >= n_2,
    L_k(n_1, n_2) = p L_{k-1}(n_1 + 1, n_2) + q L_{k-1}(n_1, n_2 + 1)

is the expected doubt after k votes of the pair, p and q the posterior predictive, and L_0 - L_k the gain, relatively
accurate however small the doubt is. Of k traces the pair gets the share rho = (n_1 + n_2 + 2a) / (n + Ka); rivals add
up. max_k gain(k) / k is the knowledge gradient of the best batch (Frazier and Powell 2010, "KG(*)").
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

__all__ = ["BATCHES", "batch_gains"]

Array = NDArray[np.float64]

BATCHES = np.array([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48])
MAX_VOTES = 128  # votes that the tables know; larger counts, and batches, are scaled down to it


@lru_cache(maxsize=4)
def _tables(strengths: tuple[float, ...]) -> Array:
    """Gain of k pair votes, shape (strengths, k, MAX_VOTES + 1, MAX_VOTES + 1) at [s, k, n_1, n_2], n_1 >= n_2."""
    most, votes = int(BATCHES[-1]) + 1, MAX_VOTES + 1
    n = np.arange(votes + most, dtype=np.float64)
    leader, rival = np.maximum(n[:, None], n), np.minimum(n[:, None], n)
    tables = np.zeros((len(strengths), most + 1, votes, votes))
    for table, a in zip(tables, strengths, strict=True):
        doubt = betainc(leader + a, rival + a, 0.5)
        start = doubt[:votes, :votes]
        p = (n[:, None] + a) / (n[:, None] + n + 2 * a)
        q = 1 - p
        for k in range(1, most + 1):
            size = len(n) - k  # known at least, after most votes
            doubt = p[:size, :size] * doubt[1:, :size] + q[:size, :size] * doubt[:size, 1:]
            np.maximum(start - doubt[:votes, :votes], 0.0, out=table[k])
    return tables


@lru_cache(maxsize=1 << 17)
def batch_gains(counts: tuple[int, ...], K: int, strengths: tuple[float, ...]) -> Array:
    """Expected gain in P(leader is the population vote) of BATCHES traces under Dir_K(a) for each strength a.

    ``counts`` descend; the K - len(counts) unseen options have 0 votes each. Shape (strengths, batches).

    >>> close, clear = batch_gains((5, 5), 2, (1.0,))[0], batch_gains((9, 1), 2, (1.0,))[0]
    >>> bool((close > clear).all()), bool((np.diff(close) >= 0).all())
    (True, True)
    """
    scale = min(1.0, MAX_VOTES / max(counts, default=1))
    leader, *rivals = [round(count * scale) for count in counts] or [0]
    unseen = K - max(len(counts), 1)
    copies = np.array([1.0] * len(rivals) + [unseen] * (unseen > 0))
    votes = np.array(rivals + [0] * (unseen > 0), dtype=np.int64)
    a = np.array(strengths)[:, None]
    share = (leader + votes + 2 * a) / (scale * sum(counts) + K * a)  # (strengths, rivals)
    pair = share[:, :, None] * (scale * BATCHES)
    below = pair.astype(np.int64)
    part = pair - below
    at = (np.arange(len(strengths))[:, None, None], below, leader, votes[:, None])
    after = (at[0], below + 1, leader, at[3])
    table = _tables(strengths)
    gains: Array = np.einsum("r,srk->sk", copies, (1.0 - part) * table[at] + part * table[after])
    return gains
