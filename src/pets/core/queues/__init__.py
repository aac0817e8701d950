"""Queues: who is served next, who has enough, and what the policy may know; one kind for each kind of policy.

index.py    an index policy: questions in the same belief state share one entry, or each has its own; races at one price
quotas.py   a quota policy: what is granted, fewest launched first
waves.py    an index policy with waves: one wave of all questions at a time
walk.py     where a quota policy stops along recorded paths, without launching a trace
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Generic, TypeVar

from pets.core.policy import Policy, View
from pets.core.record import GONE, Record
from pets.core.tally import Tally
from pets.errors import StateError
from pets.types import Launch

LENGTH_SAMPLE = 20_000  # questions that a policy learns lengths from

P = TypeVar("P", bound=Policy)


@dataclass(frozen=True, slots=True)
class ReplicaTotals:
    """What an allocator has taken of a stream's plan, for others that share it: questions that ``arrived``, that have
    their final grant and that are ``fresh``; traces that are ``open``, ``owed``, and owed to final grants; what is
    ``spent`` and ``reserved``, and the traces ``settled`` for it."""

    arrived: int = 0
    finals: int = 0
    fresh: int = 0
    open: int = 0
    owed: int = 0
    owed_final: int = 0
    spent: int = 0
    reserved: int = 0
    settled: int = 0

    def __add__(self, other: "ReplicaTotals") -> "ReplicaTotals":
        return ReplicaTotals(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Queue(ABC, Generic[P]):
    """Serves the questions that were added as ``policy`` says; ``only_warmup`` holds back all but the warm-up.

    The defaults are those of an index policy without waves, whose stream is shared with no other allocator.
    """

    newest_first = False
    """Whether of questions that are added together the last one is served first."""
    wave = 0
    """The number of the wave under way, from 0 on."""
    waves_left = 0
    """Waves that have not begun."""
    others = ReplicaTotals()
    """What other allocators took of the same stream."""

    def __init__(self, policy: P, cap: int | None) -> None:
        self.policy = policy
        self.only_warmup = False
        self._cap = math.inf if cap is None else cap
        self._view = View(cap=cap)

    @abstractmethod
    def add(self, record: Record) -> None:
        """Let a question in, new or with traces paid for."""

    @abstractmethod
    def take(self, n: int) -> list[Launch]:
        """Up to n launches, the most valuable first."""

    @abstractmethod
    def told(self, record: Record, before: int) -> None:
        """The prefix grew by a vote for an answer that had ``before`` votes, or by a no-answer (``NULL``); or a
        pending launch is ``GONE``."""

    def taken_back(self, record: Record) -> None:
        """One pending launch will not come back and was not paid for."""
        self.told(record, GONE)

    def cancelled(self, record: Record) -> None:
        """One pending launch was cancelled: it will not come back, and was paid for in part."""
        self.told(record, GONE)

    def merged(self, record: Record) -> None:
        """The question's votes were counted anew: two answers became one, or soft votes are worth something else."""

    @abstractmethod
    def remove(self, record: Record) -> None:
        """Serve the question no more."""

    def stopped(self, record: Record) -> bool:
        """Whether no trace of the question will be asked for again: an index policy ends with the budget or the cap."""
        return record.spent >= self._cap

    def fewest(self, record: Record) -> int:
        """m: the fewest further votes that could settle a question; 0 where it is settled (:mod:`pets.core.race`)."""
        return self.policy.fewest(record.tally(), self.view(record))

    def hurry_by(self, hurry: float) -> None:
        """Race questions with this hurry from now on."""

    def view(self, record: Record) -> View:
        """What the policy may know when it is asked about ``record``: an index policy the cap alone."""
        return self._view

    @abstractmethod
    def batch(self) -> Mapping[Tally, int]:
        """What the policy learns from: the tallies of the questions, and how many questions have each."""

    def refit(self, past: Iterable[Tally] = ()) -> None:
        """Let the policy learn from the batch and from questions ``past``; it decides from now on."""
        self.policy = self.policy.refit({**dict.fromkeys(past, 1), **self.batch()})

    @property
    def promised(self) -> int:
        """Traces that questions here and to come were promised and that are not launched yet."""
        return 0

    @property
    def wave_is_due(self) -> bool:
        """Whether the next launch that is asked for begins a wave."""
        return False

    def next_wave(self) -> None:
        """Plan the next wave now, or one after the last."""

    def skip_waves(self, waves: int) -> None:
        """Count waves that an earlier run has begun."""

    def has_enough(self, record: Record) -> bool:
        """Whether the policy asks for no more of a question, and the budget paid for all that it wanted."""
        return self.stopped(record)

    def cover_warmups(self, arriving: int) -> None:
        """Pay for the warm-up of ``arriving`` questions that the stream's other allocators have just spent."""

    def totals(self) -> ReplicaTotals:
        """What this queue has taken of a stream's plan, without others'."""
        raise StateError(f"{type(self.policy).__name__} compares questions that are all there: nothing is shared.")

    def sync_replicas(self, others: ReplicaTotals) -> None:
        """Plan as one with the allocators that took ``others`` in all of the same stream."""
        self.totals()


def sample(records: Sequence[Record]) -> Mapping[Tally, int]:
    """What a policy learns trace lengths from: the tallies of questions, LENGTH_SAMPLE of them at most."""
    return dict.fromkeys(map(Record.tally, records[:: len(records) // LENGTH_SAMPLE + 1]), 1)
