"""The queue of an index policy that sees whole traces or soft votes: one score for each question, renewed whenever it
changes.

A heap of ``(-score, position, version)``; stale entries are dropped as they surface. A decision costs O(log N)
and one call of the policy.
"""

import math
from collections.abc import Mapping
from heapq import heappop, heappush

from pets.core.budget import Budget
from pets.core.policy import IndexPolicy
from pets.core.queues.priced import ENOUGH, PricedQueue
from pets.core.record import Record
from pets.core.tally import Tally
from pets.errors import InputError
from pets.types import Launch


class RankQueue(PricedQueue):
    """Serves the highest index; equal ones in the order of arrival."""

    def __init__(self, policy: IndexPolicy, budget: Budget, hurry: float | None = None) -> None:
        super().__init__(policy, budget, hurry)
        self._records: dict[int, Record] = {}
        self._versions: dict[int, int] = {}
        self._heap: list[tuple[int, float, int, int]] = []

    def add(self, record: Record) -> None:
        """Let a question in, new or restored."""
        self._size += 1
        self._records[record.position] = record
        self._rank(record)

    def _take(self, n: int) -> list[Launch]:
        """Up to n launches, best first, each scored with those before it pending."""
        launches: list[Launch] = []
        while len(launches) < n and self._heap:
            *_, position, version = self._heap[0]
            if version != self._versions.get(position):
                heappop(self._heap)
                continue
            record = self._records[position]
            launches.append(Launch(record.id, record.launched))
            record.launched += 1
            self._rank(record)
        return launches

    def told(self, record: Record, before: int) -> None:
        """The prefix grew."""
        self._rank(record)

    def merged(self, record: Record) -> None:
        """The question's votes were counted anew."""
        self._rank(record)

    def remove(self, record: Record) -> None:
        """Serve the question no more."""
        self._size -= 1
        del self._records[record.position], self._versions[record.position]

    def _rank_all(self) -> None:
        for record in self._records.values():
            self._rank(record)

    def batch(self) -> Mapping[Tally, int]:
        """Every question's tally."""
        return dict.fromkeys(map(Record.tally, self._records.values()), 1)

    def _rank(self, record: Record) -> None:
        version = self._versions[record.position] = self._versions.get(record.position, 0) + 1
        if record.spent >= self._cap or (self.only_warmup and record.spent >= self.policy.warmup):
            return  # full, or to be scored when the warm-up has taught the policy its scale
        tally = self._marked(record.tally())
        score, turn = self._index(tally), self._turn(tally)
        if math.isnan(score):
            raise InputError(f"{self.policy!r} gave NaN as the index of {record.id!r}; an index is a number.")
        if score > -math.inf and turn < ENOUGH:
            heappush(self._heap, (turn, -score, record.position, version))
