r"""Waves: what each question gets when the budget is spent in a few parallel batches of all questions.

At a price of lambda for each trace the design knows the best size of a question's part now, and what all waves to come
are expected to take. lambda is one for all questions, such that this expected spend meets the budget left (Lagrange: no
other plan has less expected doubt at the same expected spend). Each wave plans anew from what came back. In the last
one the budget goes, to the trace, to the steepest parts of the convex envelopes of each question's doubt.

What does not fit the design's lattice is made to: answers beyond the third and traces without an answer count as
traces that do not vote, a set of more options (an open one has 8) becomes 3 of such strengths that two traces agree as
often, and counts beyond the lattice are scaled down to half of it. Traces in flight are paid for, and come back with
this wave.

**The design**: with w waves to come and a price of lambda for each vote, a question with counts n is best served by

    D_0(n) = P(the leader is not the population vote | n),
    D_w(n) = min(D_{w-1}(n), min_k lambda k + E[D_{w-1}(n after k votes)]),

the expected doubt plus what is paid to reduce it. States are sorted counts: 8,536 of up to 3 answers and 64 votes.
Under a mixture of Dirichlets Dir_M(a_s) with shares P(s | n) the next vote goes to answer j with probability

    p_j = sum_s P(s | n) (n_j + a_s) / (t + M a_s),        t = sum n.

D_0 is that of the infinite vote: at the last layer, t = T, from the Betas of the pairs, before it by expectation, so
that looking is never worth more than what it may turn. With an indifference zone of epsilon a rival counts only if it
is ahead by more, as in :mod:`pets.core.dirichlet`.

All waves, prices and batch sizes are worked out in one sweep from the last layer to the first, by one sparse product
for each: O(states x waves x ends x prices) in all. Doubts are sums of positive terms: relatively accurate.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import betainc, gammaln, softmax

from pets.core.tally import Tally

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Plan = dict[Tally, list[int]]

HORIZONS = {2: 128, 3: 64}  # votes that the lattice of so many answers knows
ENDS = (*range(1, 13), 14, 16, 18, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128)  # totals that a wave may go on to
FAR = 0.75  # of the horizon: counts beyond it are scaled down, unless the cap ends there
STAGES = 8  # waves that are looked ahead; with more to come the next one is hardly smaller
PRICES = np.geomspace(1.0, 1e-9, 10)  # of a trace, in doubt
FINE_PRICES = 10  # between two of them
MAX_SHIFT = 16  # steps of the fine prices: the price of a vote where few traces vote
TIE = 1 + 1e-9  # a wave that costs no more than this times waiting is not put off
SMALLEST_GAIN = 1e-12  # of the doubt; less is rounding
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
    """What the next wave may do for n questions with t votes each: totals to go on to, ``ends`` (E,), t first; at each
    of L prices the expected doubt plus what this wave and later ones are expected to pay, ``cost`` (n, E, L); and how
    many ``votes`` (n, E, L) they are expected to take."""

    ends: Indices
    cost: Floats
    votes: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Sorted counts of t votes, ``votes`` (S, M), by ascending ``keys`` (S,). A vote for answer j leads to
    ``after[:, j]`` of the next layer, where answer m stands in place ``places[:, j, m]``."""

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
        log_shares, a = np.log(np.maximum(mixture.shares, 1e-300)), np.array(mixture.strengths)
        self._steps: list[csr_array] = []
        chances: list[Floats] = []
        for t, (layer, log_chance) in enumerate(zip(self._layers, _log_chances(M, T, mixture.strengths), strict=True)):
            weights = softmax(log_chance + log_shares, axis=1)
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
        """For each total in ``rows`` the look of those rows of its layer, with ``waves`` to come at ``prices`` (L,) and
        waves that may go on to the totals in ``ends``.

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
        next_keys, first_row, after = np.unique(more @ base, return_index=True, return_inverse=True)
        answer, voted = np.arange(M)[None, None, :], np.arange(M)[None, :, None]
        grown = first[:, :, None]
        places = np.where(answer == voted, grown, np.where(answer == grown, voted, answer))
        layers.append(_Layer(votes, keys, after.reshape(-1, M), places))
        votes, keys = more.reshape(-1, M)[first_row], next_keys
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
    """P(answer m is not the population vote, or not a good one) at the last layer, (S, M, strengths), as
    1 - prod_j P(m beats j), each pair a Beta: exact for two answers; at T votes more than two are rarely close."""
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


@dataclass(frozen=True, slots=True)
class Wave:
    """What a plan may spend: ``budget`` traces over the ``left`` waves to come, this one among them.

    No question gets more than ``cap`` traces in all.
    """

    budget: int
    left: int
    cap: int | None = None


def plan_wave(prior: Callable[[Tally], Mixture], states: Mapping[Tally, int], wave: Wave, zone: float = 0.0) -> Plan:
    """Sizes of the next wave for every question; ``states`` says how many there are of each tally.

    The sum never exceeds the budget, and is all of it in the last wave unless every question is at its cap.

    >>> prior = lambda tally: Mixture(2, (1.0,), (1.0,))
    >>> close, clear = Tally((2, 2), options=2), Tally((5,), options=2)
    >>> plan = plan_wave(prior, {close: 2, clear: 1}, Wave(budget=20, left=2))
    >>> plan[close], plan[clear]
    ([7, 7], [0])
    """
    if not states:
        return {}
    groups = _groups(prior, states, wave.cap, zone)
    if wave.left == 1:
        return _spend_all(groups, wave)
    waves, prices = min(wave.left, STAGES), PRICES
    for fine in (True, False):
        offers = [offer for group in groups for offer in group.offers(prices, waves)]
        spends = np.maximum.accumulate(sum([state.questions * spend for state, _, spend in offers]))
        under = max(0, int(np.searchsorted(spends, wave.budget, side="right")) - 1)
        over = min(under + 1, len(prices) - 1)
        if fine:
            prices = np.geomspace(prices[under], prices[over], FINE_PRICES) if over > under else prices[-2:]
    part = (wave.budget - spends[under]) / max(spends[over] - spends[under], 1e-9) if over > under else 0.0
    return _mixed(offers, (under, over, min(1.0, max(0.0, part))), wave.budget)


def dealt_shares(score: Callable[[Tally], float], states: Mapping[Tally, int], wave: Wave) -> Plan:
    """Sizes for every question: the share 1 / left of the budget, one trace after the other where the score is highest.

    What was dealt is scored as pending; a score of -infinity is never dealt to.
    """
    sizes = {tally: [0] * many for tally, many in states.items()}
    heap: list[tuple[float, int, int, Tally]] = []

    def offer(index: int, dealt: int, tally: Tally) -> None:
        fantasy = replace(tally, pending=tally.pending + dealt)
        if (wave.cap is None or fantasy.launched < wave.cap) and (value := score(fantasy)) > -math.inf:
            heappush(heap, (-value, index, dealt, tally))

    for index, tally in enumerate(states):
        offer(index, 0, tally)
    left = -(-wave.budget // wave.left)
    while left and heap:
        _, index, dealt, tally = heappop(heap)
        many = min(left, states[tally])
        sizes[tally][:many] = [dealt + 1] * many
        left -= many
        offer(index, dealt + 1, tally)
    return sizes


@dataclass(frozen=True, slots=True)
class _State:
    """One tally as the lattice sees it: ``counts`` of its answers, the votes that a trace is worth there (``rate``),
    and how many traces more each of its questions may get (``room``)."""

    tally: Tally
    questions: int
    counts: tuple[int, ...]
    rate: float
    room: int

    @classmethod
    def of(cls, tally: Tally, questions: int, design: SequentialDesign, cap: int | None) -> "_State":
        """The tally in this design's lattice."""
        counts = tally.counts[: design.M]
        votes = sum(counts)
        rate = tally.voting_chance * (votes + 1) / (tally.votes + 1)
        if votes > design.T or (votes > FAR * design.T and cap != design.T):
            scale = design.T / (2 * votes)
            counts = tuple(sorted((round(count * scale) for count in counts), reverse=True))
            rate *= scale
        return cls(tally, questions, counts, rate, max(0, (1 << 40) if cap is None else cap - tally.launched))

    def within_reach(self, ends: Indices) -> tuple[slice, Indices]:
        """Which of these totals the question may go on to, and how many traces each takes beside those in flight, the
        first none."""
        wanted = np.ceil((ends - sum(self.counts)) / self.rate - 1e-9).astype(np.int64) - self.tally.pending
        first = int(np.flatnonzero(wanted <= 0)[-1])
        last = int(np.searchsorted(wanted, max(self.room, wanted[first]), side="right"))
        sizes = np.maximum(wanted[first:last], 0)
        if last < len(wanted) and sizes[-1] > self.room - 1 / self.rate:
            sizes[-1] = self.room  # what is left is not worth a vote
        return slice(first, last), sizes


Offer = tuple[_State, Indices, Floats]
"""A state with, at each of some falling prices, the size of its part in this wave and the traces expected in all."""


@dataclass(frozen=True, slots=True)
class _Group:
    """States with one design, by their total."""

    design: SequentialDesign
    states: tuple[_State, ...]

    def looks(self, prices: Floats, waves: int, ends: Sequence[int]) -> Iterator[tuple[_State, Look]]:
        """Every state with its own look: cost and votes are (E, L)."""
        by_total: defaultdict[int, list[_State]] = defaultdict(list)
        for state in self.states:
            by_total[sum(state.counts)].append(state)
        rows = {total: self.design.rows([state.counts for state in here]) for total, here in by_total.items()}
        looks = self.design.looks(rows, prices, waves, ends)
        for total, here in by_total.items():
            look = looks[total]
            for state, cost, votes in zip(here, look.cost, look.votes, strict=True):
                yield state, Look(look.ends, cost, votes)

    def offers(self, prices: Floats, waves: int) -> Iterator[Offer]:
        """What every state would take at each price of a trace. A vote costs as many traces as it takes."""
        step = math.log(prices[0] / prices[1])
        shifts = {state: min(MAX_SHIFT, round(-math.log(state.rate) / step)) for state in self.states}
        more = max(shifts.values())
        grid = np.concatenate([prices[0] * np.exp(step * np.arange(more, 0, -1)), prices])
        for state, look in self.looks(grid, waves, ENDS):
            reach, sizes = state.within_reach(look.ends)
            start = more - shifts[state]
            end = start + len(prices)
            cost, votes = look.cost[reach, start:end], look.votes[reach, start:end]
            least = cost[1:].argmin(axis=0) if len(cost) > 1 else np.zeros(len(prices), dtype=np.int64)
            best = np.where(cost[0] * TIE < cost[1:].min(axis=0, initial=np.inf), 0, 1 + least)
            taken = votes[best, np.arange(len(prices))] / state.rate - state.tally.pending
            yield state, sizes[best], np.maximum(taken, sizes[best])


def _groups(
    prior: Callable[[Tally], Mixture], states: Mapping[Tally, int], cap: int | None, zone: float
) -> list[_Group]:
    by_prior: defaultdict[Mixture, list[tuple[Tally, int]]] = defaultdict(list)
    reduced = lru_cache(maxsize=None)(Mixture.of_at_most)
    for tally, questions in states.items():
        by_prior[reduced(prior(tally), max(HORIZONS))].append((tally, questions))
    groups = []
    for mixture, tallies in by_prior.items():
        horizon = HORIZONS[mixture.M]
        design = SequentialDesign(mixture, horizon if cap is None else min(horizon, cap), zone)
        groups.append(_Group(design, tuple([_State.of(*row, design, cap) for row in tallies])))
    return groups


def _mixed(offers: Sequence[Offer], between: tuple[int, int, float], budget: int) -> Plan:
    """The sizes at one price, and for a part of the questions those at the next lower one; within the budget."""
    under, over, part = between
    plan: Plan = {}
    carry = 0.5
    for state, sizes, _ in offers:
        carry += part * state.questions
        many = min(state.questions, int(carry))
        carry -= many
        grants = [int(sizes[over])] * many + [int(sizes[under])] * (state.questions - many)
        if (total := sum(grants)) > budget:
            grants = [budget // state.questions] * state.questions
            total = sum(grants)
        budget -= total
        plan[state.tally] = grants
    return plan


def _spend_all(groups: Sequence[_Group], wave: Wave) -> Plan:
    """The last wave: the whole budget, the steepest steps of the questions' concave envelopes first."""
    plan: Plan = {}
    steps: list[tuple[float, int, Tally, int]] = []
    for group in groups:
        for state, look in group.looks(np.zeros(1), 1, range(1, group.design.T + 1)):
            plan[state.tally] = [0] * state.questions
            reach, sizes = state.within_reach(look.ends)
            steps += [
                (-slope, len(steps) + i, state.tally, end)
                for i, (slope, end) in enumerate(_envelope(sizes.tolist(), look.cost[reach, 0].tolist()))
            ]
    left = wave.budget
    for _, _, tally, end in sorted(steps):
        grants = plan[tally]
        step = end - grants[0]
        many = min(len(grants), left // step)
        grants[:many] = [end] * many
        left -= many * step
        if many < len(grants):
            grants[many] += left
            left = 0
            break
    return fill_up(plan, left, wave.cap)


def _envelope(sizes: Sequence[int], doubts: Sequence[float]) -> list[tuple[float, int]]:
    """The steps of the lower convex envelope of doubt over size: doubt lost a trace, falling, and the size reached."""
    hull: list[tuple[int, float]] = []
    slopes: list[float] = []  # from each point of the hull to the next
    for size, doubt in zip(sizes, doubts, strict=True):
        while slopes and slopes[-1] <= (hull[-2][1] - doubt) / (size - hull[-2][0]):
            hull.pop()
            slopes.pop()
        if hull:
            slopes.append((hull[-1][1] - doubt) / (size - hull[-1][0]))
        hull.append((size, doubt))
    return [
        (slope, after[0])
        for slope, (before, after) in zip(slopes, pairwise(hull), strict=True)
        if slope * (after[0] - before[0]) > SMALLEST_GAIN * before[1]
    ]


def fill_up(plan: Plan, left: int, cap: int | None) -> Plan:
    """What no question's doubt asks for goes to those with the fewest traces."""
    if left <= 0:
        return plan
    have = np.array([tally.launched + size for tally, sizes in plan.items() for size in sizes])
    most = int(have.max()) + left if cap is None else cap
    levels = range(int(have.min()) + 1, most + 1)  # that all may be filled up to
    low = levels.start - 1 + bisect_right(levels, left, key=lambda level: np.maximum(level - have, 0).sum())
    filled = np.maximum(have, low)
    left -= int((filled - have).sum())
    if low < most:
        filled[np.flatnonzero(filled == low)[:left]] += 1
    extra = iter((filled - have).tolist())
    return {tally: [size + next(extra) for size in sizes] for tally, sizes in plan.items()}
