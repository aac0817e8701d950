"""Warm-up patterns of the streaming policy: what K0 = 4 traces can show, and how likely each is (Liu et al., PETS)."""

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from pets.errors import InputError

K0 = 4
PATTERNS = ((4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1))
NAMES = tuple("-".join(map(str, sizes)) for sizes in PATTERNS)
"""The patterns as they are written: ``3-1`` is three votes for one answer and one for another."""


def vote_counts(counts: Sequence[int], nulls: int) -> tuple[int, ...]:
    """The counts above 0, largest first, once counts and nulls are known to be whole and not negative."""
    if any(c < 0 or c != int(c) for c in (*counts, nulls)):
        raise InputError(f"counts {tuple(counts)} with {nulls} nulls; expected whole numbers of traces, 0 or more")
    return tuple(sorted((int(c) for c in counts if c), reverse=True))


def pattern(counts: Sequence[int], nulls: int = 0) -> int:
    """Place in ``PATTERNS`` of K0 warm-up traces; a trace without an answer is its own singleton.

    >>> pattern((1, 3)), pattern((2,), nulls=2), pattern((), nulls=4)
    (1, 3, 4)
    """
    sizes = vote_counts(counts, nulls) + (1,) * nulls
    if sum(sizes) != K0:
        raise InputError(f"{sum(sizes)} warm-up traces; a pattern needs exactly {K0}, votes and nulls together")
    return PATTERNS.index(sizes)


def bin_of(pattern_index: int, K: int) -> int:
    """Grid of a pattern among K: the pattern itself at K = 5, else by its number of distinct answers, the
    largest numbers merged (1|2|3|4, 1|2|3+, 1|2+).

    >>> [[bin_of(i, K) for i in range(5)] for K in (5, 4, 3, 2)]
    [[0, 1, 2, 3, 4], [0, 1, 1, 2, 3], [0, 1, 1, 2, 2], [0, 1, 1, 1, 1]]
    """
    if not (0 <= pattern_index < 5 and 2 <= K <= 5):
        raise InputError(f"pattern {pattern_index}, K = {K}; expected a place in PATTERNS and 2 to 5 grids")
    return pattern_index if K == 5 else min(len(PATTERNS[pattern_index]), K) - 1


def bins(K: int) -> NDArray[np.float64]:
    """The merge of patterns into K grids as a 0/1 matrix (5, K): ``soft_assignment(counts) @ bins(K)``.

    >>> soft_assignment((3, 1, 1)) @ bins(2)
    array([0., 1.])
    """
    return np.eye(K)[[bin_of(i, K) for i in range(5)]]


def soft_assignment(counts: Sequence[int], nulls: int = 0) -> NDArray[np.float64]:
    """p_q(j), shape (5,): chance that K0 traces drawn without replacement from a pool show each pattern.

    Counted exactly in integers over the C(n, 4) draws, with c over the answers and every null a c = 1:

        (4)      sum C(c, 4)                 (3, 1)      sum C(c, 3) (n - c)
        (2, 2)   e_2 of the C(c, 2)          (2, 1, 1)   sum C(c, 2) e_2(other c)

    and (1, 1, 1, 1) the rest. The paper draws; no draws are needed (Liu et al., PETS, warm-up griding).

    >>> soft_assignment((3, 2))
    array([0. , 0.4, 0.6, 0. , 0. ])
    """
    sizes = vote_counts(counts, nulls) + (1,) * nulls
    n, squares = sum(sizes), sum(c * c for c in sizes)
    if n < K0:
        raise InputError(f"a pool of {n} traces; soft assignment draws {K0} of them. Sample more or drop the pool.")
    pairs = [comb(c, 2) for c in sizes]
    draws = [
        sum(comb(c, 4) for c in sizes),
        sum(comb(c, 3) * (n - c) for c in sizes),
        (sum(pairs) ** 2 - sum(pair * pair for pair in pairs)) // 2,
        sum(pair * ((n - c) ** 2 - (squares - c * c)) for pair, c in zip(pairs, sizes, strict=True)) // 2,
    ]
    total = comb(n, K0)
    return np.array([ways / total for ways in (*draws, total - sum(draws))])
