"""The price of a trace: a stream that buys while the index is above a common price allocates as offline okg does.

Offline, okg ends where every question's index has fallen to about the same value. So a stream can stop each question
when its index falls under a *price*, and steer the price so that the spend meets R_t / H_t. The steering is one table:
the mean spend that each price led to on training questions, read backwards at the mean that is left.

With ``rounds`` a question's traces go out in at most that many parallel batches. Under a fixed prior a batch is the
number of pending traces, in the posterior mean's proportions, that brings the index down to the price. Under a learned
one the gain of k more traces is known for every k (:mod:`pets.core.dirichlet`), and the batch is argmax_k gain(k) -
price k. With ``left`` rounds to go, a share 1/left of either is sent.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from pets.core.dirichlet import BATCHES, batch_gains
from pets.core.prior import STRENGTHS, LearnedPrior, slots
from pets.core.tally import Tally
from pets.errors import InputError

Index = Callable[[Tally], float]
Buy = Callable[[Tally, float, int, int], int]
"""How many traces to launch now, given the tally, the log price, the rounds left (0: no limit) and the cap."""

# The last ones are under the index of hundreds of unanimous votes: a budget near the cap needs them to be spent.
PRICES = [(0.5, 1e-3, 40), (7e-4, 1e-12, 24), (1e-13, 1e-24, 12), (1e-26, 1e-300, 12)]
REDRAWN, MOST_TRACED_ON = 64, 256  # questions, and traces of each, by which a batch's price is found
LOG_PRICES = tuple(np.log(np.concatenate([np.geomspace(*part) for part in PRICES])).tolist())


PriceTable = tuple[tuple[float, float], ...]
"""``(log price, mean traces per question)`` rows, falling prices and spends that do not fall."""


def check_prices(table: PriceTable) -> None:
    """Refuse what is no price table."""
    if not table or any(before > after for (_, before), (_, after) in pairwise(table)):
        raise InputError("a price table needs one spend for each price, and spends that do not fall.")


def log_price_at(table: PriceTable, mean_budget: float) -> float:
    """The price at which the training questions spent ``mean_budget`` on average; O(log rows).

    >>> [log_price_at(((-1.0, 4.0), (-3.0, 8.0), (-9.0, 32.0)), mean_budget) for mean_budget in (6.0, 2.0, 99.0)]
    [-2.0, -1.0, -9.0]
    """
    j = bisect_right(table, mean_budget, key=lambda row: row[1]) - 1
    if j < 0 or j == len(table) - 1:
        return table[max(j, 0)][0]
    (price, spend), (next_price, next_spend) = table[j], table[j + 1]
    return price + (next_price - price) * (mean_budget - spend) / (next_spend - spend)


def batch(index: Index, tally: Tally, log_price: float, left: int, cap: int) -> int:
    """How many traces to launch now: 0 at or under the price, 1 without a limit of rounds (``left`` = 0).

    >>> from pets.core.dirichlet import okg_index
    >>> index = lambda tally: okg_index(tally, prior=1.0, unseen=1)
    >>> [batch(index, Tally((3, 2), options=4), math.log(0.01), left, cap=64) for left in (0, 1, 3)]
    [1, 59, 20]
    """

    def above(more: int) -> bool:
        return index(replace(tally, pending=tally.pending + more) if more else tally) > log_price

    room = cap - tally.launched
    if room <= 0 or not above(0):
        return 0
    if left == 0:
        return 1
    low, high = 0, 1  # the index is above the price with `low` more, at or under it with `high` (or there is no room)
    while high < room and above(high):
        low, high = high, min(2 * high, room)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return -(-high // left)


def learned_batch(prior: LearnedPrior, tally: Tally, log_price: float, left: int, cap: int, zone: float = 0.0) -> int:
    """:func:`batch` under a learned prior: 0 where no batch is worth its price, else a share of the best one.

    The tally's length class is that of its mean tokens. Traces in flight are part of the batch that was wanted.

    >>> prior = LearnedPrior()
    >>> [learned_batch(prior, Tally((3, 2), options=4), math.log(0.005), left, cap=64) for left in (0, 1, 3)]
    [1, 15, 5]
    """
    gains, rate = _gains(prior, tally.counts, tally.nulls, tally.options, prior.mark(tally.mean_tokens), zone)
    price, room = math.exp(log_price), cap - tally.launched
    if room <= 0 or rate <= price:
        return 0
    if left == 0:
        return 1
    best = int(BATCHES[np.argmax(gains - price * BATCHES)])
    return max(0, min(-(-best // left) - tally.pending, room))


@lru_cache(maxsize=1 << 16)
def _gains(
    prior: LearnedPrior, counts: tuple[int, ...], nulls: int, options: int | None, mark: int, zone: float
) -> tuple[NDArray[np.float64], float]:
    """Expected gain of BATCHES traces times the chance that a trace votes, (batches,); and the best one's a trace."""
    tally = Tally(counts, nulls, options=options, mark=mark)
    by_strength, log_scale = batch_gains(counts, slots(counts, options), STRENGTHS, zone)
    gains: NDArray[np.float64] = prior.posterior(tally) @ by_strength
    gains *= tally.voting_chance * math.exp(log_scale)
    return gains, float((gains / BATCHES).max())


def fit_prices(
    buy: Buy,
    paths: Sequence[Sequence[str | None]],
    tokens: Sequence[Sequence[int]] | None = None,
    *,
    options: int | None,
    rounds: int,
    warmup: int,
) -> PriceTable:
    """The table of a rule on recorded paths: each a question's answers in a random order, ``tokens`` theirs."""
    if not paths:
        raise InputError("a price table needs at least one training question.")
    lengths = [[0] * len(path) for path in paths] if tokens is None else tokens
    prefixes = [_prefixes(path, length, options) for path, length in zip(paths, lengths, strict=True)]
    spends = np.mean([_spends(buy, tallies, rounds, warmup) for tallies in prefixes], axis=0)
    return tuple(zip(LOG_PRICES, np.maximum.accumulate(spends).tolist(), strict=True))


def _prefixes(path: Sequence[str | None], tokens: Sequence[int], options: int | None) -> list[Tally]:
    """What a policy is shown after 0, 1, 2, ... traces of a path."""
    totals = np.concatenate([[0], np.cumsum(tokens)]).tolist()
    votes: dict[str, int] = {}
    tallies = [Tally(options=options)]
    for n, answer in enumerate(path, start=1):
        if answer is not None:
            votes[answer] = votes.get(answer, 0) + 1
        counts = tuple(sorted(votes.values(), reverse=True))
        tallies.append(Tally(counts, n - sum(counts), options=options, mean_tokens=totals[n] / n))
    return tallies


def _spends(buy: Buy, prefixes: Sequence[Tally], rounds: int, warmup: int) -> list[int]:
    """What the price rule spends along one path at each of LOG_PRICES, the warm-up included."""
    size = len(prefixes) - 1
    spends: list[int] = []
    for log_price in LOG_PRICES:
        # prices fall: without a limit of rounds, what was bought at the last price is bought again
        spent = spends[-1] if spends and rounds == 0 else min(warmup, size)
        done = 0
        while spent < size and not (rounds and done == rounds):
            more = buy(prefixes[spent], log_price, rounds - done if rounds else 0, size)
            if more == 0:
                break
            spent += more
            done += 1
        spends.append(spent)
    return spends


def price_in_force(index: Index, prior: LearnedPrior, batch: Mapping[Tally, int], traces: float, cap: int) -> float:
    """The index at which the rest of a run is expected to have taken ``traces`` more, so many questions at each tally.

    Some of the questions are drawn anew, theta from the posterior of each, and traced on one by one. At a price p a
    question takes as many as its index, at its lowest so far, is above p: the price is the quantile of these lowest
    indices that leaves ``traces`` above it. A fixed draw.
    """
    rng, questions = np.random.default_rng(0), sum(batch.values())
    tallies = list(Counter(batch).elements() if questions <= REDRAWN else batch)
    picks = Counter([tallies[len(tallies) * place // REDRAWN] for place in range(REDRAWN)])
    paths: list[Iterator[Tally]] = []
    for tally, number in picks.items():
        most = min(cap - tally.returned, MOST_TRACED_ON)
        for _ in range(number if most > 0 else 0):
            traced = redrawn(tally, prior, most, rng)
            paths.append(_traced_on(tally, traced))
    indices: dict[Tally, float] = {}  # questions meet the same few states
    lowest = list(zip(repeat(-math.inf), range(len(paths)), strict=False))  # of each path's indices so far, times -1
    for _ in range(len(paths) + int(traces * REDRAWN / max(1, questions))):
        if not lowest:
            break
        before, place = heappop(lowest)
        state = next(paths[place], None)
        if state is not None:
            if state not in indices:
                indices[state] = index(state)
            heappush(lowest, (max(before, -indices[state]), place))
    return -lowest[0][0] if lowest else -math.inf


def _traced_on(tally: Tally, traces: Sequence[int | None]) -> Iterator[Tally]:
    """What a policy is shown before each of these traces, as sure as those of the tally: answers are numbered from the
    leader on."""
    labels = dict(enumerate(dict(Counter(filter(None, tally.answers)).most_common())))
    answers, confidences, votes, nulls = tally.answers, tally.confidences, dict(enumerate(tally.counts)), tally.nulls
    options, rounds, mark, mean_tokens, question = tally.options, tally.rounds, tally.mark, 0.0, ""
    confidence = 1.0
    if labels:  # without them questions of one length class meet the same states
        mean_tokens, question = tally.mean_tokens, tally.question
        if known := [value for value in confidences if value is not None]:
            confidence = sum(known) / len(known)
    for answer in traces:
        counts = tuple(sorted(votes.values(), reverse=True))
        yield Tally(counts, nulls, 0, options, rounds, mark, mean_tokens, question, answers, confidences, tally.tokens)
        if answer is None:
            nulls += 1
        else:
            votes[answer] = votes.get(answer, 0) + 1
        if labels:
            label = None if answer is None else labels.get(answer, f"other {answer}")
            answers, confidences = (*answers, label), (*confidences, confidence)


def redrawn(tally: Tally, prior: LearnedPrior, size: int, rng: np.random.Generator) -> list[int | None]:
    """So many traces of a question under a theta from its posterior: answers as numbers in the order of votes."""
    (theta,) = prior.draws(tally, 1, rng)
    answers: list[int | None] = rng.choice(len(theta), size=size, p=theta).tolist()
    mute = (rng.random(size) < tally.nulls / max(1, tally.returned)).tolist()
    if not tally.nulls:
        return answers
    return [None if silent else answer for answer, silent in zip(answers, mute, strict=True)]
