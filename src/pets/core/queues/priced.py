"""What both queues of index policies do in a race: the price in force says what is settled, and how wide others run.

Offline, an index policy ends where all indices have fallen to one price. In a race this price is found beforehand: the
one at which the rest of the run is expected to take the rest of the budget (:func:`pets.core.price.price_in_force`). It
is found anew at every refit, and when nothing is in flight and there is budget left. A question whose index is at or
under it is settled; of any other one ``width(n, m, hurry)`` traces may be in flight, of which m are needed. Where all
that is left of the budget fits into places that would stand empty, at least the hurry's share of an equal one may.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from pets.core.budget import Budget
from pets.core.grid import NO_CAP
from pets.core.policy import IndexPolicy
from pets.core.price import price_in_force
from pets.core.prior import length_class
from pets.core.queues import Queue
from pets.core.race import width
from pets.core.record import Record
from pets.core.tally import Tally
from pets.types import Launch

NEEDED, SPECULATIVE, ENOUGH = 0, 1, 2
LEAST_STEP = 1e-9  # by which a price falls
LEAST_HURRY = 0.25  # of a batch: places that would stand empty are filled, also where nothing is cancelled


class PricedQueue(Queue[IndexPolicy]):
    """An index policy's queue; with a ``hurry`` it races questions at one price."""

    def __init__(self, policy: IndexPolicy, budget: Budget, hurry: float | None = None) -> None:
        super().__init__(policy, budget.cap)
        self._budget, self._hurry, self._warmup = budget, hurry, policy.warmup
        self._size = 0  # questions
        self._price: float | None = None  # as an index; None: to be found before the next launch
        self._share = 0.0  # traces of each question that may be in flight in any case

    def hurry_by(self, hurry: float) -> None:
        """As :meth:`Queue.hurry_by`."""
        self._hurry = hurry
        self._rank_all()

    def fewest(self, record: Record) -> int:
        """As :meth:`Queue.fewest`: until the index is at the price in force."""
        return self._fewest(self._marked(record.tally()))

    def _fewest(self, tally: Tally) -> int:
        return self.policy.fewest(tally, self._view, -math.inf if self._price is None else self._price)

    def _marked(self, tally: Tally) -> Tally:
        """The tally with the length class that the policy's edges give it."""
        return replace(tally, mark=length_class(self.policy.length_edges, tally.mean_tokens))

    def _turn(self, tally: Tally) -> int:
        """When a question may have one more in flight: before all others, after them, or not at all."""
        if self._hurry is None or tally.launched < self._warmup:
            return NEEDED
        m = self._fewest(tally)
        if tally.pending < m:
            return NEEDED
        wide = width(tally.returned, m, max(self._hurry, LEAST_HURRY))
        return SPECULATIVE if tally.pending < (max(wide, self._share) if m else 0) else ENOUGH

    def take(self, n: int) -> list[Launch]:
        """As :meth:`Queue.take`, at the price in force; it falls where nothing is worth it, nor in flight."""
        if self._hurry is None or n <= 0:
            return self._take(n)
        if self._price is None:
            left, pending = self._budget.expected, self._budget.reserved // self._budget.currency.hold
            self._share = self._hurry * (left + pending) / max(1, self._size) if left <= n else 0.0
            self._find_price()
        launches = self._take(n)
        if not launches and not self._budget.reserved and self._lower_price():
            launches = self._take(n)
        return launches

    @abstractmethod
    def _take(self, n: int) -> list[Launch]:
        """Up to n launches, best first."""

    def _find_price(self) -> None:
        batch, budget, pending, seen = dict[Tally, int](), self._budget, 0, 0
        for tally, questions in self.batch().items():
            batch[self._marked(tally)] = questions
            pending += tally.pending * questions
            seen += questions
        left = budget.expected * seen / max(1, self._size) + pending
        cap = NO_CAP if budget.cap is None else budget.cap
        self._price = price_in_force(self._index, self.policy.belief, batch, left, cap) if batch else None
        self._rank_all()

    def _lower_price(self) -> bool:
        """Lower the price until something is asked for; False where nothing is left to ask for."""
        before = self._price
        self._find_price()
        best = max(map(self._index, {self._marked(tally) for tally in self.batch()}), default=-math.inf)
        if best == -math.inf:
            return False
        if self._price is None or self._price >= best or (before is not None and self._price >= before):
            self._price = best - LEAST_STEP * max(1.0, abs(best))
            self._rank_all()
        return True

    def _index(self, tally: Tally) -> float:
        """The index of a question; -inf at the cap."""
        launched = tally.launched
        if launched >= self._cap:
            return -math.inf
        return math.inf if launched < self._warmup else self.policy.index(tally, self._view)

    @abstractmethod
    def _rank_all(self) -> None:
        """Put every question where it now belongs."""

    def refit(self, past: Iterable[Tally] = ()) -> None:
        """Let the policy learn from the batch and from questions ``past``, and put every question anew: O(S)."""
        super().refit(past)
        self._price = None
        self._rank_all()
