"""Votes: majority, weighted, filtered; the tally that a policy sees; and the patterns of K0 = 4 warm-up traces.

One tie rule everywhere: **a tie goes to the tied answer that was launched first.** Given the counts, traces are
exchangeable, so for one vote this has the distribution of the paper's uniform tie-break, and is deterministic.

A trace without an answer (``None``) costs budget and casts no vote; where none was cast there is no winner.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pets.errors import InputError

Missing = Literal["error", "ignore", "unweighted"]

ROUNDING = 1e-12  # weights this near to each other, relatively, are tied: 0.1 + 0.2 and 0.3

K0 = 4
PATTERNS = ((4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1))
NAMES = tuple("-".join(map(str, sizes)) for sizes in PATTERNS)
"""The patterns as they are written: ``3-1`` is three votes for one answer and one for another."""


def majority(answers: Sequence[str | None]) -> str | None:
    """The answer with most votes, ``None`` when nobody voted. Traces in launch order.

    >>> majority(["B", "A", None, "A", "B"])     # tied: B was launched first
    'B'
    """
    return weighted_majority(answers, [1.0] * len(answers))


def weighted_majority(answers: Sequence[str | None], weights: Sequence[float]) -> str | None:
    """argmax_y sum_j w_j 1{Y_j = y}; ``None`` when no weight was cast."""
    votes = weighted_votes(answers, weights)
    bar = max(votes.values(), default=0.0) * (1 - ROUNDING)
    return next((answer for answer, weight in votes.items() if weight >= bar), None)


def weighted_votes(answers: Sequence[str | None], weights: Sequence[float]) -> dict[str, float]:
    """Total weight of each answer, keyed in the order of first launch; a trace of weight 0 casts no vote.

    >>> weighted_votes(["B", "A", None, "B"], [1.0, 2.0, 9.0, 0.5])
    {'B': 1.5, 'A': 2.0}
    """
    if len(answers) != len(weights):
        raise InputError(f"{len(answers)} answers but {len(weights)} weights; give one weight for each trace.")
    votes: dict[str, float] = {}
    for number, (answer, weight) in enumerate(zip(answers, weights, strict=True)):
        if not (math.isfinite(weight) and weight >= 0.0):
            raise InputError(f"the weight of trace {number} is {weight}; weights are finite and not negative.")
        if answer is not None and weight > 0.0:
            votes[answer] = votes.get(answer, 0.0) + weight
    return votes


def weights_by_answer(
    answers: Sequence[str | None], weights: Sequence[float]
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """The weight of each vote, answer by answer in the order of first launch; a trace of weight 0 casts no vote."""
    groups: dict[str, list[float]] = {}
    for answer, weight in zip(answers, weights, strict=True):
        if answer is not None and weight > 0.0:
            groups.setdefault(answer, []).append(weight)
    return tuple((answer, tuple(group)) for answer, group in groups.items())


def count_votes(answers: Iterable[str | None]) -> tuple[tuple[int, ...], int]:
    """Vote counts, descending, and the number of traces without an answer."""
    votes = Counter(answers)
    nulls = votes.pop(None, 0)
    return tuple(sorted(votes.values(), reverse=True)), nulls


def add_vote(counts: tuple[int, ...], before: int) -> tuple[int, ...]:
    """Descending counts after a vote for an answer that had ``before``: the first of its equals grows.

    >>> add_vote((3, 1, 1), 1), add_vote((3, 1, 1), 0)
    ((3, 2, 1), (3, 1, 1, 1))
    """
    if before == 0:
        return (*counts, 1)
    first = counts.index(before)
    return (*counts[:first], before + 1, *counts[first + 1 :])


def confidence_weights(confidences: Sequence[float | None], missing: Missing = "error") -> list[float]:
    """Weights from trace confidences; a missing one is a declared choice: ``error`` raises, ``ignore`` gives such a
    trace no weight, ``unweighted`` gives every trace weight 1 as soon as one is missing.

    >>> confidence_weights([9.5, None], missing="ignore")
    [9.5, 0.0]
    """
    for number, value in enumerate(confidences):
        if value is None and missing == "error":
            raise InputError(f'trace {number} has no confidence; choose missing="ignore" or missing="unweighted".')
        if value is not None and not (math.isfinite(value) and value >= 0.0):
            raise InputError(f"the confidence of trace {number} is {value}; confidences are finite and not negative.")
    if missing == "unweighted" and None in confidences:
        return [1.0] * len(confidences)
    return [0.0 if value is None else value for value in confidences]


def top_p(answers: Sequence[str | None], weights: Sequence[float], p: float = 0.7) -> list[float]:
    """The paper's filter: of the n traces that voted, the ``max(1, floor(p n))`` heaviest keep their weight.

    Ties at the border go to the trace launched first; the rest weigh zero.

    >>> top_p(["A", "B", "A", None], [3.0, 1.0, 2.0, 9.0], p=0.7)
    [3.0, 0.0, 2.0, 0.0]
    """
    if not 0.0 < p <= 1.0:
        raise InputError(f"the filter keeps a share p of the traces, 0 < p <= 1; got {p}.")
    weighted_votes(answers, weights)  # refuses lengths and weights that do not fit
    voted = [j for j, answer in enumerate(answers) if answer is not None]
    keep = set(sorted(voted, key=lambda j: -weights[j])[: max(1, math.floor(p * len(voted) + 1e-9))])
    return [weight if j in keep else 0.0 for j, weight in enumerate(weights)]


@dataclass(frozen=True, slots=True)
class Tally:
    """What a policy may know of one question: the launch-order prefix that has fully come back, and what is in flight.

    ``counts`` are votes per answer, descending. ``pending`` traces are launched and not in the prefix yet: they count
    as spent. ``extra`` is how many of the votes are beyond one per trace, where votes are soft. ``rounds`` is how many
    batches a quota policy has granted after the warm-up. ``mean_tokens`` is of the prefix, ``mark`` the length class
    that a learning policy gave the question, ``question`` its id, but where questions share a state. ``answers``,
    ``confidences`` and ``tokens`` are filled only for policies that ask to see traces.
    """

    counts: tuple[int, ...] = ()
    nulls: int = 0
    pending: int = 0
    options: int | None = None
    rounds: int = 0
    mark: int = 0
    mean_tokens: float = 0.0
    question: str = ""
    answers: tuple[str | None, ...] = ()
    confidences: tuple[float | None, ...] = ()
    tokens: tuple[int, ...] = ()
    extra: int = 0

    def __post_init__(self) -> None:
        if self.nulls < 0 or self.pending < 0 or (self.counts and min(self.counts) < 1):
            raise InputError(f"counts are positive and nulls, pending not negative; got {self}.")
        if len(self.counts) > 1 and list(self.counts) != sorted(self.counts, reverse=True):
            raise InputError(f"counts must descend; got {self.counts}. Build a tally with Tally.of(answers).")

    @classmethod
    def of(
        cls,
        answers: Sequence[str | None],
        confidences: Sequence[float | None] = (),
        *,
        pending: int = 0,
        options: int | None = None,
        question: str = "",
    ) -> "Tally":
        """The tally of a launch-order prefix."""
        counts, nulls = count_votes(answers)
        return cls(
            counts, nulls, pending, options, question=question, answers=tuple(answers), confidences=tuple(confidences)
        )

    @property
    def votes(self) -> int:
        """Votes cast: one for each trace that voted, more where votes are soft."""
        return sum(self.counts)

    @property
    def returned(self) -> int:
        """Length of the prefix: traces with a vote and without."""
        return sum(self.counts) - self.extra + self.nulls

    @property
    def launched(self) -> int:
        """Everything spent or in flight."""
        return sum(self.counts) - self.extra + self.nulls + self.pending

    @property
    def voting_chance(self) -> float:
        """(voters + 1) / (traces + 1): a question whose traces never parse must not swallow the budget.

        >>> Tally((3,)).voting_chance, Tally((), nulls=3).voting_chance
        (1.0, 0.25)
        """
        voters = sum(self.counts) - self.extra
        return (voters + 1) / (voters + self.nulls + 1)

    def slots(self, unseen: int) -> int:
        """M: the declared options of a closed set, or the answers seen plus ``unseen`` slots of an open one.

        At least 2: a question with a single possible answer would be settled before it is asked.

        >>> Tally((2, 1), options=4).slots(unseen=1), Tally((2, 1)).slots(unseen=1), Tally().slots(unseen=1)
        (4, 3, 2)
        """
        seen = len(self.counts)
        return max(self.options, seen) if self.options is not None else max(seen + unseen, 2)


def vote_counts(counts: Sequence[int], nulls: int) -> tuple[int, ...]:
    """The counts above 0, largest first, once counts and nulls are known to be whole and not negative."""
    whole = (*map(int, counts), int(nulls))
    if whole != (*counts, nulls) or min(whole) < 0:
        raise InputError(f"counts {tuple(counts)} with {nulls} nulls; expected whole numbers of traces, 0 or more")
    return tuple(sorted(filter(None, whole[:-1]), reverse=True))


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
    """The merge of patterns into K grids as a 0/1 matrix (5, K): ``soft_assignment(counts) @ bins(K)``."""
    return np.eye(K)[[bin_of(i, K) for i in range(5)]]


def soft_assignment(counts: Sequence[int], nulls: int = 0) -> NDArray[np.float64]:
    """p_q(j), shape (5,): chance that K0 traces drawn without replacement from a pool show each pattern.

    Counted exactly in integers over the C(n, 4) draws, with c over the answers and every null a c = 1:

        (4)      sum C(c, 4)                 (3, 1)      sum C(c, 3) (n - c)
        (2, 2)   e_2 of the C(c, 2)          (2, 1, 1)   sum C(c, 2) e_2(other c)

    and (1, 1, 1, 1) the rest (Liu et al., PETS, warm-up griding).

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
