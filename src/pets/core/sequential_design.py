r"""Expected error of a question after k more votes, or under an optimal plan of several waves.

With w waves to come and a price of lambda for each vote, a question with counts n is best served by

    D_0(n) = P(the leader is not the population vote | n),
    D_w(n) = min(D_{w-1}(n), min_k lambda k + E[D_{w-1}(n after k votes)]):

the expected doubt plus what is paid to reduce it. States are sorted counts: 8,536 of up to 3 answers and 64 votes.
Under a mixture of Dirichlets Dir_M(a_s) with shares P(s | n) the next vote goes to answer j with probability

    p_j = sum_s P(s | n) (n_j + a_s) / (t + M a_s),        t = sum n.

D_0 is that of the infinite vote: at the last layer, t = T, from the Betas of the pairs, before it by expectation. So it
is a martingale as long as the leader stays, and looking is never worth more than what it may turn. With an indifference
zone of epsilon a rival counts only if it is ahead by more, as in :mod:`pets.core.lookahead`.

All waves, prices and batch sizes are worked out in one sweep from the last layer to the first: one sparse product for
each layer, O(states x waves x ends x prices) in all, whatever the number of questions. Doubts are sums of positive
terms and keep their relative accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import betainc, gammaln

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

FLAT = 4.0  # the largest strength that stands for more answers than the lattice has


@dataclass(frozen=True, slots=True)
class Mixture:
    """A prior over theta: M answers of strength a_s each with probability shares[s].

    >>> Mixture(8, (0.005, 0.2, 1.6), (0.5, 0.3, 0.2)).of_at_most(3).strengths
    (0.017..., 1.40..., 4.0)
    """

    M: int
    strengths: tuple[float, ...]
    shares: tuple[float, ...]

    def of_at_most(self, M: int) -> "Mixture":
        """The same with no more than M answers, under which two traces agree as often: (1 + a) / (1 + M a)."""
        if self.M <= M:
            return self
        agree = [(1 + a) / (1 + self.M * a) for a in self.strengths]
        matched = [(1 - g) / (M * g - 1) if M * g > 1 else FLAT for g in agree]
        return Mixture(M, tuple([min(a, FLAT) for a in matched]), self.shares)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What the next wave may do for n questions with t votes each: ``ends`` (E,) are totals to go on to, t first.

    ``cost`` (n, E, L) is the expected doubt at each of L prices, plus what this wave and later ones are expected to
    pay; ``votes`` (n, E, L) how many votes they are expected to take.
    """

    ends: Indices
    cost: Floats
    votes: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Sorted counts of t votes, ``votes`` (S, M), by ascending ``keys`` (S,).

    A vote for answer j leads to ``after[:, j]`` of the next layer (the first of its equals grows), where answer m
    stands in place ``places[:, j, m]``.
    """

    votes: Indices
    keys: Indices
    after: Indices
    places: Indices


class SequentialDesign:
    """The design of questions with up to ``T`` votes under a mixture.

    >>> design = SequentialDesign(Mixture(2, (1.0,), (1.0,)), T=8)
    >>> [round(design.doubt(counts), 3) for counts in ((), (1,), (2, 1), (4,))]
    [0.5, 0.25, 0.312, 0.031]
    """

    def __init__(self, mixture: Mixture, T: int, zone: float = 0.0) -> None:
        M = mixture.M
        self.M, self.T = M, T
        self._layers = _layers(M, T)
        log_shares = np.log(np.maximum(mixture.shares, 1e-300))
        a = np.array(mixture.strengths)
        self._steps: list[csr_array] = []
        chances: list[Floats] = []
        for t, (layer, log_chance) in enumerate(zip(self._layers, _log_chances(M, T, mixture.strengths), strict=True)):
            weights = np.exp(log_chance + log_shares - (log_chance + log_shares).max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            if t < T:
                scaled = weights / (t + M * a)
                chance = layer.votes * scaled.sum(axis=1, keepdims=True) + (scaled @ a)[:, None]
                chances.append(chance)
                S = len(layer.votes)
                values = (chance.ravel(), layer.after.ravel(), np.arange(0, M * S + 1, M))
                self._steps.append(csr_array(values, shape=(S, len(self._layers[t + 1].votes))))
        doubt = np.einsum("sma,sa->sm", _last_doubts(M, T, mixture.strengths, zone), weights)
        self._doubts = [doubt[:, 0]]
        for chance, layer in zip(reversed(chances), reversed(self._layers[:-1]), strict=True):
            doubt = np.einsum("sj,sjm->sm", chance, doubt[layer.after[:, :, None], layer.places])
            self._doubts.append(doubt[:, 0])
        self._doubts.reverse()

    def doubt(self, counts: Sequence[int]) -> float:
        """The chance that the leader is not the population vote."""
        return float(self._doubts[sum(counts)][self.rows([counts])[0]])

    def rows(self, counts: Sequence[Sequence[int]]) -> Indices:
        """Where these counts, all of the same total, stand in their layer, (n,)."""
        votes = np.zeros((len(counts), self.M), dtype=np.int64)
        for row, given in zip(votes, counts, strict=True):
            row[: len(given)] = given
        return np.searchsorted(self._layers[int(votes[0].sum())].keys, votes @ _base(self.M, self.T))

    def looks(self, rows: Mapping[int, Indices], prices: Floats, waves: int, ends: Sequence[int]) -> dict[int, Look]:
        """For each total in ``rows`` the look of those rows of its layer, with ``waves`` to come at ``prices`` (L,).

        A wave may go on to the totals in ``ends``.

        >>> design = SequentialDesign(Mixture(2, (1.0,), (1.0,)), T=8)
        >>> look = design.looks({3: design.rows([(2, 1)])}, np.array([0.01]), waves=1, ends=(4, 5, 8))[3]
        >>> look.ends.tolist(), look.cost[0, :, 0].round(3).tolist(), look.votes[0, :, 0].tolist()
        ([3, 4, 5, 8], [0.312, 0.322, 0.27, 0.265], [0.0, 1.0, 2.0, 5.0])
        """
        stops, L = set(ends), len(prices)
        above: list[int] = []  # ends over this layer, the highest first
        carry = np.empty((len(self._doubts[self.T]), waves, 0, 2, L))  # what later waves cost and take from each end
        looks = {}
        for t in range(self.T, min(rows) - 1, -1):
            S = len(self._doubts[t])
            if above:
                carry = (self._steps[t] @ carry.reshape(carry.shape[0], -1)).reshape(S, waves, -1, 2, L)
            else:
                carry = np.empty((S, waves, 0, 2, L))
            if t not in rows and t not in stops:
                continue
            more = np.array(above, dtype=np.float64)[:, None] - t
            cost, votes = carry[:, :, :, 0] + prices * more, carry[:, :, :, 1] + more
            here = np.zeros((S, waves, 2, L))
            here[:, :, 0] = self._doubts[t][:, None, None]
            if above and waves > 1:
                _buy_on(here, cost, votes)
            if t in rows:
                at = rows[t]
                looks[t] = Look(
                    np.array([t, *reversed(above)]),
                    np.concatenate([here[at, -1:, 0], cost[at, -1, ::-1]], axis=1),
                    np.concatenate([here[at, -1:, 1], votes[at, -1, ::-1]], axis=1),
                )
            if t in stops:
                carry = np.concatenate([carry, here[:, :, None]], axis=2)
                above.append(t)
        return looks


def _buy_on(here: Floats, cost: Floats, votes: Floats) -> None:
    """Fill in what 1, 2, ... more waves cost and take, (S, waves, 2, L), where buying costs less than stopping."""
    end = cost[:, :-1].argmin(axis=2)[:, :, None]
    least = np.take_along_axis(cost[:, :-1], end, axis=2), np.take_along_axis(votes[:, :-1], end, axis=2)
    best = np.concatenate(least, axis=2)
    for w in range(1, here.shape[1]):
        go_on = best[:, w - 1, :1] < here[:, w - 1, :1]
        here[:, w] = np.where(go_on, best[:, w - 1], here[:, w - 1])


def _base(M: int, T: int) -> Indices:
    return (T + 1) ** np.arange(M, dtype=np.int64)


@lru_cache(maxsize=8)
def _layers(M: int, T: int) -> tuple[_Layer, ...]:
    """The lattice of sorted counts, from no vote to T of them."""
    base, unit = _base(M, T), np.eye(M, dtype=np.int64)
    votes, keys = np.zeros((1, M), dtype=np.int64), np.zeros(1, dtype=np.int64)
    layers = []
    for _ in range(T):
        first = (votes[:, :, None] == votes[:, None, :]).argmax(axis=2)  # of each answer's equals, (S, M)
        more = votes[:, None, :] + unit[first]
        next_keys, place, after = np.unique(more @ base, return_index=True, return_inverse=True)
        answer, voted = np.arange(M)[None, None, :], np.arange(M)[None, :, None]
        grown = first[:, :, None]
        places = np.where(answer == voted, grown, np.where(answer == grown, voted, answer))
        layers.append(_Layer(votes, keys, after.reshape(-1, M), places))
        votes, keys = more.reshape(-1, M)[place], next_keys
    none = np.empty((len(votes), 0), dtype=np.int64)
    return (*layers, _Layer(votes, keys, none, none))


@lru_cache(maxsize=16)
def _log_chances(M: int, T: int, strengths: tuple[float, ...]) -> tuple[Floats, ...]:
    """log P(one sequence with these counts | strength), (S, strengths) for each layer."""
    a = np.array(strengths)
    rising = gammaln(np.arange(T + 1)[:, None] + a) - gammaln(a)  # (T + 1, strengths)
    totals = gammaln(M * a) - gammaln(M * a + np.arange(T + 1)[:, None])
    return tuple([rising[layer.votes].sum(axis=1) + totals[t] for t, layer in enumerate(_layers(M, T))])


@lru_cache(maxsize=16)
def _last_doubts(M: int, T: int, strengths: tuple[float, ...], zone: float) -> Floats:
    """P(answer m is not the population vote, or not a good one) at the last layer, (S, M, strengths).

    1 - prod_j P(m beats j), each pair a Beta: exact for two answers; at T votes more than two are rarely close.
    """
    votes, a = _layers(M, T)[T].votes[:, :, None], np.array(strengths)
    doubts = np.empty((len(votes), M, len(a)))
    for m in range(M):
        log_sure = np.zeros((len(votes), len(a)))
        for j in (j for j in range(M) if j != m):
            mine, other = votes[:, m] + a, votes[:, j] + a
            bar = np.maximum(0.0, 1.0 - zone * (T + M * a) / (mine + other)) / 2.0
            log_sure += np.log1p(-np.minimum(betainc(mine, other, bar), 1 - 1e-16))
        doubts[:, m] = -np.expm1(log_sure)
    return doubts
