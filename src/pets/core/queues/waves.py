"""The queue of an index policy with waves: all questions in lockstep, the budget spent in at most W parallel batches.

A wave is planned from every question's tally and the budget left, when nothing of the wave before is owed or in flight
(or when :meth:`WaveQueue.next_wave` says so: what is still out then counts as pending). Its launches are handed out
fewest launched first, and until they are back there are no others. A part of the plan that was taken back is owed
again; that of a question that is served no more is dropped. Planning costs one call of the plan over distinct states
(:mod:`pets.core.waves`), everything else O(log N) a launch.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from pets.core.budget import Budget
from pets.core.policy import IndexPolicy
from pets.core.prior import length_class
from pets.core.queues import Queue, sample
from pets.core.record import Record
from pets.core.tally import Tally
from pets.core.waves import Wave
from pets.errors import InputError
from pets.types import Launch


class WaveQueue(Queue[IndexPolicy]):
    """Serves the parts of one wave at a time; see the module's docstring."""

    def __init__(self, policy: IndexPolicy, budget: Budget, horizon: int | None) -> None:
        if horizon is not None or budget.window is not None:
            raise InputError(
                "waves are planned over all questions at once; questions that arrive one by one take price:rounds=3."
            )
        super().__init__(policy, budget.cap)
        self.waves_left = policy.waves
        self._begun = 0  # waves that took something
        self._budget = budget
        self._records: dict[int, Record] = {}
        self._parts: dict[int, int] = {}  # position -> traces of this wave that were not launched yet
        self._heap: list[tuple[int, int]] = []
        self._flying = 0

    @property
    def wave_is_due(self) -> bool:
        over = not self._parts and not self._flying
        return over and self.waves_left > 0 and self._budget.expected > 0 and bool(self._records)

    def next_wave(self) -> None:
        """As :meth:`Queue.next_wave`: what is in flight counts as pending, what was not launched is planned anew."""
        wave = Wave(self._budget.expected, max(1, self.waves_left), self._budget.cap)
        states = self._states()
        parts = self.policy.plan_wave({tally: len(records) for tally, records in states.items()}, wave)
        self._parts = {
            record.position: size
            for tally, records in states.items()
            for record, size in zip(records, parts[tally], strict=True)
            if size
        }
        self._heap = [(self._records[position].spent, position) for position in self._parts]
        heapify(self._heap)
        self.waves_left = max(0, self.waves_left - 1)
        self._begin(int(bool(self._parts)))

    def add(self, record: Record) -> None:
        self._records[record.position] = record
        self._flying += record.pending

    def take(self, n: int) -> list[Launch]:
        """Up to n launches of the wave under way, or of the next one if that is over."""
        while n > 0 and self.wave_is_due:  # a wave that is planned to take nothing is over at once
            self.next_wave()
        launches: list[Launch] = []
        while len(launches) < n and self._heap:
            spent, position = heappop(self._heap)
            owed = self._parts.get(position, 0)
            if not owed or spent != self._records[position].spent:
                continue  # served no more, or queued anew
            record = self._records[position]
            launches.append(Launch(record.id, record.launched))
            record.launched += 1
            self._flying += 1
            self._owe(record, owed - 1)
        return launches

    def told(self, record: Record, before: int) -> None:
        self._flying -= 1

    def taken_back(self, record: Record) -> None:
        """A launch was taken back: its place in the wave is owed again."""
        self._flying -= 1
        self._owe(record, self._parts.get(record.position, 0) + 1)

    def remove(self, record: Record) -> None:
        del self._records[record.position]
        self._parts.pop(record.position, None)
        self._flying -= record.pending

    def stopped(self, record: Record) -> bool:
        """Whether the question's part of the last wave is launched, or it is at the cap."""
        last = self.waves_left == 0 and record.position not in self._parts
        return last or record.spent >= self._cap

    def batch(self) -> Mapping[Tally, int]:
        if self.policy.marks:
            return sample(list(self._records.values()))
        return {tally: len(alike) for tally, alike in self._states().items()}

    def skip_waves(self, waves: int) -> None:
        self.waves_left = max(0, self.waves_left - waves)
        self._begin(waves)

    def _begin(self, waves: int) -> None:
        self._begun += waves
        self.wave = max(0, self._begun - 1)

    def _owe(self, record: Record, owed: int) -> None:
        if owed:
            self._parts[record.position] = owed
            heappush(self._heap, (record.spent, record.position))
        else:
            del self._parts[record.position]

    def _states(self) -> dict[Tally, list[Record]]:
        """The questions by what a plan may know of them: those with the same tally share one entry of it."""
        edges = self.policy.belief.edges if self.policy.marks else ()
        states: dict[Tally, list[Record]] = {}
        for record in self._records.values():
            if self.policy.sees == "traces":
                tally = record.tally()
            else:
                mark = length_class(edges, record.mean_tokens)
                tally = Tally(
                    record.counts, record.nulls, record.pending, record.options, mark=mark, extra=record.extra
                )
            states.setdefault(tally, []).append(record)
        return states
