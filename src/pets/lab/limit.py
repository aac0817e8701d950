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
expected self-consistency at the same expected spend, *if* questions are independent draws from the pool's mix and votes
are all it sees. In a replay every question of the pool appears exactly once, so a policy may pass the frontier a
little; trace lengths and confidences may help too.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np
from scipy.sparse import csr_array

from pets.core.tally import count_votes
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.lab.draws import Floats, Indices, size_of
from pets.lab.labelled import LabelledPool

MAX_ANSWERS = 8  # different answers of one question
MAX_STATES = 1_000_000  # of the lattice: 4 answers and 70 traces, 5 and 42, 3 and 181
MAX_DESCENDING_STATES = 150_000  # 4 answers and 90 traces, 5 and 64
QUICK_STATES = 50_000  # 3 answers and 64 traces: a fraction of a second
TOLERANCE = 2e-5  # what the true frontier may lie over the straight line between two corners, in a table
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


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The S states that t traces may lead to: ``votes`` (S, M) in the order of first launch, ``chances`` (S, M) that
    each answer is the target, and ``step`` (S, S'), the chances of the next layer's states; the last layer has none."""

    votes: Indices
    chances: Floats
    step: csr_array

    @property
    def best(self) -> Floats:
        """The chance that the likeliest answer is the target, (S,); none before the first trace."""
        return np.asarray(self.chances.max(axis=1) * self.votes.any(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """All states of a question of the pool, by the number of traces: layers 0 to P."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, counts: Sequence[Sequence[int]], size: int, zone: float = 0.0) -> "Lattice":
        """The lattice of a pool: a question's full counts each, of which ``size`` traces are drawn.

        The target is the vote of them all; with a ``zone``, any answer that none leads by more than that share: then
        ties need no settling, and states are counts in descending order.
        """
        ordered = not zone
        rows, chances = zip(*_reached(counts, size, ordered), strict=True)
        last = rows[-1]
        if zone:
            winner = ((last > 0) & (last >= last.max(axis=1, keepdims=True) - (zone * size + ROUNDING))).astype(float)
        else:
            winner = np.eye(last.shape[1])[last.argmax(axis=1)]  # argmax takes the first of a tie: the first launched
        layers = [Layer(last, winner, csr_array((len(winner), 0)))]
        for t in range(size - 1, -1, -1):
            step, winner = _step(rows[t], chances[t], rows[t + 1], chances[t + 1], winner, ordered)
            layers.append(Layer(rows[t], winner, step))
        return cls(tuple(reversed(layers)))

    def optimum(self, prices: Sequence[float] | Floats) -> tuple[Floats, Floats]:
        """Mean traces and self-consistency of the best rule at each price a trace, (L,) and (L,)."""
        price = np.asarray(prices, dtype=np.float64)
        consistency = np.repeat(self.layers[-1].best[:, None], price.size, axis=1)
        traces = np.zeros_like(consistency)
        for layer in self.layers[-2::-1]:
            best, later, more = layer.best[:, None], layer.step @ consistency, 1.0 + layer.step @ traces
            stop = best >= later - price * more - ROUNDING
            consistency = np.where(stop, best, later)
            traces = np.where(stop, 0.0, more)
        return traces[0], consistency[0]

    def follow(self, stop: Callable[[tuple[int, ...]], bool]) -> tuple[float, float]:
        """Mean traces and self-consistency of a rule that stops or not by the counts (descending) and then votes."""
        traces = consistency = np.zeros(0)
        for layer in reversed(self.layers):
            vote = layer.chances[np.arange(len(layer.votes)), layer.votes.argmax(axis=1)] * layer.votes.any(axis=1)
            counts = (tuple(sorted(filter(None, row), reverse=True)) for row in layer.votes.tolist())
            stops = np.array([layer is self.layers[-1] or stop(row) for row in counts])
            consistency = np.where(stops, vote, layer.step @ consistency)
            traces = np.where(stops, 0.0, 1.0 + layer.step @ traces)
        return float(traces[0]), float(consistency[0])


def optimal_frontier(
    counts: Sequence[Sequence[int]], size: int, *, zone: float = 0.0, tolerance: float = 1e-6
) -> Frontier:
    """The Bayes-optimal frontier (with a ``zone``, of zone-consistency) of a pool whose questions have these full
    counts, with ``size`` traces drawn: its corners, between which it lies at most ``tolerance`` over the straight line.

    >>> limit = optimal_frontier([(8, 0), (7, 1), (5, 3)], size=5)
    >>> round(limit.traces_at(0.95), 3), limit.traces_at(0.0), round(float(limit.consistency[-1]), 9)
    (2.295, 0.0, 1.0)
    """
    return frontier_of(Lattice.of(counts, size, zone).optimum, tolerance)


def frontier_of(
    optimum: Callable[[Floats], tuple[Floats, Floats]], tolerance: float, levels: Sequence[float] | None = None
) -> Frontier:
    """The frontier of the rules whose best at each price ``optimum`` knows; near ``levels`` alone, in less time."""
    (traces,), (consistency,) = optimum(np.zeros(1))
    corners = [(0.0, 0.0), (float(traces), float(consistency))]
    chords = [(corners[0], corners[1])]
    while chords:
        prices = np.array([(right[1] - left[1]) / (right[0] - left[0]) for left, right in chords])
        points = np.array(optimum(prices)).T.tolist()
        open_chords = []
        for (left, right), price, (x, y) in zip(chords, prices, points, strict=True):
            if y - left[1] - price * (x - left[0]) > tolerance:
                corners.append((x, y))
                open_chords += [(left, (x, y)), ((x, y), right)]
        chords = [
            (left, right)
            for left, right in open_chords
            if levels is None or any(left[1] <= level <= right[1] for level in levels)
        ]
    return Frontier(*np.array(sorted(corners)).T)


def attainable(pool: LabelledPool, config: ReplayConfig, zone: float = 0.0) -> tuple[Frontier | None, str]:
    """The limit of a replay, or ``None`` and why there is none.

    Four answers (with a ``zone`` five) take about half a minute, and are left out unless the settings ask.
    """
    seen = max(len(set(question.labels) - {None}) for question in pool.questions)
    if config.reference != "whole" or config.weighted:
        return None, "it is known for the unweighted vote of the whole pool"
    size = size_of(pool, config)
    if not _within_reach(seen, size, ordered=not zone):
        return None, f"a question has {seen} different answers, too many for {size} traces"
    if states_of(seen, size) > QUICK_STATES and not config.attainable:
        return None, f"with {seen} answers and {size} traces it takes a while: ask for it with --attainable"
    counts, traces_per_vote = votes_alone(pool, size)
    frontier = optimal_frontier(counts, size, zone=zone, tolerance=TOLERANCE)
    return replace(frontier, traces=frontier.traces * traces_per_vote), ""


def votes_alone(pool: LabelledPool, size: int) -> tuple[list[tuple[int, ...]], float]:
    """The full counts of each question, descending, as if every trace voted, and the mean traces per vote.

    Traces without an answer have no place in the lattice: what the limit spends is counted in votes, then multiplied. A
    question that has fewer votes than traces are drawn is scaled up to their number.
    """
    counts, ratios = [], []
    for question in pool.questions:
        votes, nulls = count_votes(question.labels)
        total = sum(votes)
        ratios.append((total + nulls) / max(1, total))
        if total < size:
            exact = np.array(votes or (1,)) * size / max(1, total)
            whole = np.floor(exact).astype(np.int64)
            whole[np.argsort(whole - exact, kind="stable")[: size - int(whole.sum())]] += 1
            votes = tuple(sorted(whole.tolist(), reverse=True))
        counts.append(votes)
    return counts, float(np.mean(ratios))


def states_of(answers: int, size: int, ordered: bool = True) -> int:
    """The states of the lattice: counts of up to that many answers, ``ordered`` by first launch or else descending.

    >>> states_of(2, 3), states_of(2, 3, ordered=False)     # (), 1, 2, 3, 1+1, 1+2, 2+1; one of the last two
    (7, 6)
    """
    if ordered:
        return sum(math.comb(size, k) for k in range(answers + 1))
    partitions = [1] + [0] * size  # of t votes into parts of 1, 2, ..., answers: as many as into that many parts
    for part in range(1, answers + 1):
        for t in range(part, size + 1):
            partitions[t] += partitions[t - part]
    return sum(partitions)


def _within_reach(answers: int, size: int, ordered: bool) -> bool:
    most = MAX_STATES if ordered else MAX_DESCENDING_STATES
    return answers <= MAX_ANSWERS and states_of(answers, size, ordered) <= most


def _reached(counts: Sequence[Sequence[int]], size: int, ordered: bool) -> Iterator[tuple[Indices, Floats]]:
    """The counts (S, M) that t = 0..P traces may lead to, and p(n) of each, (S,)."""
    distinct = Counter(tuple(sorted((c for c in row if c), reverse=True)) for row in counts)
    if not counts or size < 1:
        raise InputError(f"the limit needs a question and a trace; got {len(counts)} questions, size {size}.")
    if min(map(min, counts)) < 0 or min(map(sum, distinct)) < size:
        raise InputError(f"every question needs counts of 0 or more that add up to at least the {size} traces drawn.")
    M = max(map(len, distinct))
    if not _within_reach(M, size, ordered):
        raise InputError(
            f"{M} different answers and {size} traces make {states_of(M, size, ordered):,} states, more than "
            "the limit goes up to (4 answers and 64 traces). Ask for fewer traces, or leave the pool out."
        )
    full = np.array([row + (0,) * (M - len(row)) for row in distinct])
    weights = np.array(list(distinct.values())) / len(counts)
    totals = full.sum(axis=1)
    factors = np.array([_falling(row, C, size) for row, C in zip(full, totals, strict=True)])  # (questions, M, P + 1)
    drawn = np.array([_falling(np.array(C), C, size) for C in totals])  # (questions, P + 1)
    for t in range(size + 1):
        rows = _launch_ordered(t, M) if ordered else np.array(list(_descending(t, M, t)), dtype=np.int64)
        sorted_rows, index = np.unique(-np.sort(-rows, axis=1), axis=0, return_inverse=True)
        chances = (weights / drawn[:, t]) @ _orders(factors, sorted_rows)
        p = chances[index.ravel()]
        yield rows[p > 0], p[p > 0]


def _launch_ordered(t: int, M: int) -> Indices:
    """All counts of t votes for up to M answers: positive ones first, (S, M)."""
    if t == 0:
        return np.zeros((1, M), dtype=np.int64)
    parts = []
    for k in range(1, min(M, t) + 1):
        cuts = np.array(list(combinations(range(1, t), k - 1)), dtype=np.int64).reshape(math.comb(t - 1, k - 1), k - 1)
        ends = np.hstack([cuts, np.full((len(cuts), 1), t)])
        parts.append(np.pad(np.diff(ends, axis=1, prepend=0), ((0, 0), (0, M - k))))
    return np.concatenate(parts)


def _descending(t: int, M: int, most: int) -> Iterator[tuple[int, ...]]:
    """All counts of t votes for up to M answers, descending, none over ``most``, filled up with zeros."""
    if t == 0:
        yield (0,) * M
        return
    for first in range(min(t, most), 0, -1):
        if first * M < t:
            break
        for rest in _descending(t - first, M - 1, first):
            yield first, *rest


def _orders(factors: Floats, rows: Indices) -> Floats:
    """Sums over the ways to name the seen answers of prod_m (c_m)_{n_m} / C^{n_m}, (questions, S)."""
    seen = (rows > 0).sum(axis=1)
    total = np.zeros((len(factors), len(rows)))
    for k in np.unique(seen).tolist():
        of = np.flatnonzero(seen == k)
        for names in permutations(range(factors.shape[1]), k):
            product = np.ones((len(factors), of.size))
            for i, name in enumerate(names):
                product *= factors[:, name, rows[of, i]]
            total[:, of] += product
    return total


def _falling(x: Indices, C: int, size: int) -> Floats:
    """(x)_n / C^n for n = 0..P: the scale cancels, and keeps the numbers small."""
    factors = np.maximum(x[..., None] - np.arange(size), 0) / C
    return np.concatenate([np.ones((*x.shape, 1)), factors.cumprod(axis=-1)], axis=-1)


def _step(
    here: Indices, p_here: Floats, there: Indices, p_there: Floats, winner: Floats, ordered: bool
) -> tuple[csr_array, Floats]:
    """The chances of the next layer's states, (S, S'), and the chance that each answer wins, (S, M), from ``winner``.

    A first vote for an answer takes the first free place. Descending counts are put in order again after each vote.
    """
    S, M = here.shape
    base = (there.max(initial=0) + 2) ** np.arange(M)
    keys = there @ base
    order = np.argsort(keys)
    rows, columns, chances = [], [], []
    wins = np.zeros((S, M))
    for m, unit in enumerate(np.eye(M, dtype=np.int64)):
        after = here + unit
        places = np.broadcast_to(np.arange(M), (S, M)) if ordered else np.argsort(-after, axis=1, kind="stable")
        key = np.take_along_axis(after, places, axis=1) @ base
        to = order[np.minimum(np.searchsorted(keys, key, sorter=order), len(keys) - 1)]
        free = here[:, m - 1] == 0 if m else np.zeros(S, dtype=np.bool_)  # an earlier place is free
        ok = np.flatnonzero((keys[to] == key) & ~free)
        chance = p_there[to[ok]] / p_here[ok]
        wins[ok[:, None], places[ok]] += chance[:, None] * winner[to[ok]]
        rows.append(ok)
        columns.append(to[ok])
        chances.append(chance)
    values = (np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns)))
    return csr_array(values, shape=(S, len(there))), wins
