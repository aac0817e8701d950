"""The limit: what the best stopping rule reaches that knows how hard the pool's questions are, but not which is which.

A question is drawn at random from the pool, with full counts ``c``; its traces come without replacement, at most P of
them, and the target is the vote of all P. A rule that sees votes alone knows the counts ``n`` of the answers seen so
far, in the order in which they were first launched: that order settles ties, and labels carry no meaning. The
probability of one sequence of votes with these counts is, with t = sum n and (x)_n = x (x-1) ... (x-n+1),

    p(n) = mean over questions of  sum over ways to name the seen answers of  prod_m (c_m)_{n_m} / (C)_t,

so the next vote is answer m with probability p(n + e_m) / p(n), and backward over the lattice of counts follow the
chance that each answer is the target, and for a price of lambda a trace the best rule:

    V(n) = max(max_m P(target = m | n), -lambda + E V(next n)),     V(0) = max(0, ...): no trace, no answer.

Each price gives a point of the frontier; all of them are found by bisecting chords (Eisner and Severance, 1976), and
drawing at random between two rules reaches what lies between two points. By Lagrange duality no policy has a higher
expected self-consistency at the same expected spend, batch policies included, *if* questions are independent draws from
the pool's mix and votes are all it sees. In a replay every question of the pool appears exactly once, equal states are
served in the file's order, and repetitions are few: a policy may pass the frontier a little, by luck or because the
order or the finite batch says something of the questions that remain. Trace lengths and confidences may help too.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pets.core.tally import count_votes
from pets.errors import InputError
from pets.replay.config import ReplayConfig
from pets.replay.draws import size_of
from pets.replay.labelled import LabelledPool

__all__ = ["Frontier", "Lattice", "attainable", "optimal_frontier", "vote_counts"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Stop = Callable[[tuple[int, ...]], bool]

MAX_ANSWERS = 3  # different answers of one question
MAX_CELLS = 300_000  # of the lattice: 3 answers and 65 traces, or 2 answers and 546
ROUNDING = 1e-12  # a rule that gains no more than this by going on stops


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The corners of the frontier: mean traces per question, ascending, and self-consistency, concave in them.

    The first is (0, 0), the last the cheapest rule that always names the target.
    """

    traces: Floats
    consistency: Floats

    def traces_at(self, level: float) -> float:
        """The fewest mean traces per question for this self-consistency."""
        if not 0.0 <= level <= 1.0:
            raise InputError(f"a self-consistency lies between 0 and 1; got {level}.")
        return float(np.interp(level, self.consistency, self.traces))

    def consistency_at(self, traces: float) -> float:
        """The highest self-consistency for these mean traces per question."""
        return float(np.interp(traces, self.traces, self.consistency))


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The S states that t traces may lead to. ``votes`` (S, M) are counts in the order of first launch.

    ``best`` (S,) is the chance that the likeliest answer is the target, ``vote`` (S,) that the leader is: they differ
    where a leader that was launched second most probably ends in a tie. ``step`` (S, S') holds the chances of the next
    layer's states; the last layer has none.
    """

    votes: Indices
    best: Floats
    vote: Floats
    step: csr_array


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """All states of a question of the pool, by the number of traces: layers 0 to P."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, counts: Sequence[Sequence[int]], size: int) -> "Lattice":
        """The lattice of a pool: a question's full counts each, of which ``size`` traces are drawn."""
        p = _sequence_probability(counts, size)
        cells = np.indices(p.shape).reshape(p.ndim, -1).T
        in_order = (cells[:, 1:] == 0) | (cells[:, :-1] > 0)
        cells = cells[in_order.all(axis=1) & (p.ravel() > 0)]
        drawn = cells.sum(axis=1)
        rows = [cells[drawn == t] for t in range(size + 1)]
        winner = np.eye(p.ndim)[rows[-1].argmax(axis=1)]  # argmax takes the first of a tie: the first launched
        layers = [_layer(rows[-1], winner, csr_array((len(winner), 0)))]
        for here, there in zip(rows[-2::-1], rows[:0:-1], strict=True):
            step = _step(p, here, there)
            winner = step @ winner
            layers.append(_layer(here, winner, step))
        return cls(tuple(reversed(layers)))

    def optimum(self, prices: Sequence[float] | Floats) -> tuple[Floats, Floats]:
        """Mean traces and self-consistency of the best rule at each price a trace, (L,) and (L,)."""
        price = np.asarray(prices, dtype=np.float64)
        consistency = np.repeat(self.layers[-1].best[:, None], price.size, axis=1)
        traces = np.zeros_like(consistency)
        for layer in self.layers[-2::-1]:
            later, more = layer.step @ consistency, 1.0 + layer.step @ traces
            stop = layer.best[:, None] >= later - price * more - ROUNDING
            consistency = np.where(stop, layer.best[:, None], later)
            traces = np.where(stop, 0.0, more)
        return traces[0], consistency[0]

    def follow(self, stop: Stop) -> tuple[float, float]:
        """Mean traces and self-consistency of a rule that stops or not by the counts (descending) and then votes."""
        consistency = self.layers[-1].vote
        traces = np.zeros_like(consistency)
        for layer in self.layers[-2::-1]:
            stops = np.array([stop(_tally(row)) for row in layer.votes.tolist()])
            consistency = np.where(stops, layer.vote, layer.step @ consistency)
            traces = np.where(stops, 0.0, 1.0 + layer.step @ traces)
        return float(traces[0]), float(consistency[0])


def optimal_frontier(counts: Sequence[Sequence[int]], size: int, *, tolerance: float = 1e-6) -> Frontier:
    """The Bayes-optimal frontier of a pool, whose questions have these full counts, with ``size`` traces drawn.

    Its corners are exact; between two of them the true frontier lies at most ``tolerance`` over the straight line.

    >>> limit = optimal_frontier([(8, 0), (7, 1), (5, 3)], size=5)
    >>> round(limit.traces_at(0.95), 3), limit.traces_at(0.0), round(float(limit.consistency[-1]), 9)
    (2.295, 0.0, 1.0)
    """
    lattice = Lattice.of(counts, size)
    last_traces, last_consistency = lattice.optimum([0.0])
    corners = [(0.0, 0.0), (float(last_traces[0]), float(last_consistency[0]))]
    chords = [(corners[0], corners[1])]
    while chords:
        prices = np.array([(right[1] - left[1]) / (right[0] - left[0]) for left, right in chords])
        traces, consistency = lattice.optimum(prices)
        open_chords = []
        for (left, right), price, x, y in zip(chords, prices, traces.tolist(), consistency.tolist(), strict=True):
            if y - left[1] - price * (x - left[0]) > tolerance:
                corners.append((x, y))
                open_chords += [(left, (x, y)), ((x, y), right)]
        chords = open_chords
    points = np.array(sorted(corners))
    return Frontier(points[:, 0], points[:, 1])


def attainable(pool: LabelledPool, config: ReplayConfig) -> tuple[Frontier | None, str]:
    """The limit of a replay, or ``None`` and why there is none; the second is at once, the first under a second."""
    seen = max(len(set(question.labels) - {None}) for question in pool.questions)
    if config.target != "whole" or config.weighted:
        return None, "it is known for the unweighted vote of the whole pool"
    if seen > MAX_ANSWERS:
        return None, f"a question has {seen} different answers, it is computed for up to {MAX_ANSWERS}"
    if any(None in question.labels for question in pool.questions):
        return None, "some traces have no answer"
    size = size_of(pool, config)
    if (size + 1) ** seen > MAX_CELLS:
        return None, f"{size} traces per question are too many"
    return optimal_frontier(vote_counts(pool), size), ""


def vote_counts(pool: LabelledPool) -> list[tuple[int, ...]]:
    """The full counts of each question, descending. Traces without an answer are refused: they have no place here."""
    counts = []
    for question in pool.questions:
        if None in question.labels:
            raise InputError(
                f'pool "{pool.name}", question {question.id!r}: a trace has no answer; the limit is computed for pools '
                "in which every trace votes. Leave the pool out."
            )
        counts.append(count_votes(question.labels)[0])
    return counts


def _tally(votes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted((n for n in votes if n), reverse=True))


def _sequence_probability(counts: Sequence[Sequence[int]], size: int) -> Floats:
    """p(n) on the cube of counts 0 to P, (P + 1,) * M, zero where no question leads."""
    distinct = Counter(tuple(sorted((c for c in row if c), reverse=True)) for row in counts)
    _check(counts, distinct, size)
    M = max(map(len, distinct))
    p = np.zeros((size + 1,) * M)
    t = np.indices(p.shape).sum(axis=0)
    totals = {sum(row) for row in distinct}
    for C in totals:
        full = np.array([row + (0,) * (M - len(row)) for row in distinct if sum(row) == C])
        shares = np.array([n for row, n in distinct.items() if sum(row) == C]) / len(counts)
        factors = _falling(full, C, size)  # (questions, M, P + 1)
        letters = "ijklmn"[:M]
        terms = ",".join(f"q{letter}" for letter in letters)
        product = np.einsum(f"q,{terms}->{letters}", shares, *factors.swapaxes(0, 1), optimize=True)
        whole = np.append(_falling(np.array(C), C, size), np.ones((M - 1) * size))
        p += np.where(t <= size, product / whole[t], 0.0)
    named = sum(p.transpose(axes) for axes in permutations(range(M)))
    seen = (np.indices(p.shape) > 0).sum(axis=0)
    unseen = np.array([math.factorial(M - k) for k in range(M + 1)])
    return np.asarray(named / unseen[seen], dtype=np.float64)


def _falling(x: Indices, C: int, size: int) -> Floats:
    """(x)_n / C^n for n = 0..P: the scale cancels, and keeps the numbers small."""
    factors = np.maximum(x[..., None] - np.arange(size), 0) / C
    start = np.ones((*x.shape, 1))
    return np.concatenate([start, factors.cumprod(axis=-1)], axis=-1)


def _check(counts: Sequence[Sequence[int]], distinct: Counter[tuple[int, ...]], size: int) -> None:
    if not counts or size < 1:
        raise InputError(f"the limit needs a question and a trace; got {len(counts)} questions, size {size}.")
    if min(map(min, counts)) < 0 or min(map(sum, distinct)) < size:
        raise InputError(f"every question needs counts of 0 or more that add up to at least the {size} traces drawn.")
    M = max(map(len, distinct))
    if M > 6 or (size + 1) ** M > MAX_CELLS:
        raise InputError(
            f"{M} different answers and {size} traces make a lattice of {size + 1}^{M} states; the limit goes up to "
            f"{MAX_CELLS:,} (3 answers and 65 traces). Ask for fewer traces, or leave the pool out."
        )


def _step(p: Floats, here: Indices, there: Indices) -> csr_array:
    """The chances of the next layer's states, (S, S'). A first vote for an answer takes the first free place."""
    place = np.full(p.shape, -1)
    place[tuple(there.T)] = np.arange(len(there))
    rows, columns, chances = [], [], []
    for unit in np.eye(p.ndim, dtype=np.int64):
        after = here + unit
        to = place[tuple(after.T)]
        ok = np.flatnonzero(to >= 0)
        rows.append(ok)
        columns.append(to[ok])
        chances.append(p[tuple(after[ok].T)] / p[tuple(here[ok].T)])
    values = (np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns)))
    return csr_array(values, shape=(len(here), len(there)))


def _layer(votes: Indices, winner: Floats, step: csr_array) -> Layer:
    if not votes.any():
        nobody = np.zeros(1)
        return Layer(votes, nobody, nobody, step)
    leader = winner[np.arange(len(votes)), votes.argmax(axis=1)]
    return Layer(votes, winner.max(axis=1), leader, step)
