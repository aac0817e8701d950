"""What the allocator keeps of one question: its votes so far and what is in flight; and how votes are counted."""

import math
from bisect import insort
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any, Self

from pets.core.policy import Policy
from pets.core.tally import Tally
from pets.errors import InputError
from pets.types import Trace

NULL, GONE = -1, -3  # the "votes before" of a trace that cast none, and of a launch that will not come back


class Record:
    """One question's launches and returns; mutable, hashed by identity, slotted because there may be millions.

    Launches are numbered from 0. ``told`` is the first number that has not come back: everything below it is the
    prefix that beliefs see. Later numbers that came back early wait in ``late`` (``None`` marks one that was taken
    back, or cancelled: sent, paid for in part, and without a vote). With a ``hurry`` traces count as they come back:
    ``late`` only says which did, and ``firsts`` which launch was the first with an answer.
    """

    __slots__ = (
        "cancelled",
        "firsts",
        "hurry",
        "id",
        "late",
        "launched",
        "nulls",
        "options",
        "position",
        "returned",
        "state",
        "taken_back",
        "tokens",
        "told",
        "traces",
        "votes",
    )  # fmt: skip

    def __init__(
        self, id: str, position: int, options: int | None, keep_traces: bool, hurry: float | None = None
    ) -> None:
        self.id = id
        self.hurry = hurry
        self.firsts: dict[str, int] | None = None if hurry is None else {}
        self.position = position
        self.options = options
        self.launched = 0
        self.told = 0
        self.taken_back = 0
        self.cancelled = 0
        self.returned = 0  # votes and no-answers in the prefix
        self.nulls = 0
        self.tokens = 0  # of the prefix
        self.votes: dict[str, int] = {}  # insertion order is launch order: the tie rule
        self.late: dict[int, Trace | None] | None = None
        self.traces: list[Trace] | None = [] if keep_traces else None
        self.state: Any = None  # the belief state that a queue has put it in

    @property
    def spent(self) -> int:
        """Traces launched and not taken back, the cancelled among them: what counts against the cap."""
        return self.launched - self.taken_back

    @property
    def pending(self) -> int:
        """Launched, neither taken back nor cancelled, not in the prefix yet."""
        return self.launched - self.taken_back - self.cancelled - self.returned

    @property
    def mean_tokens(self) -> float:
        """Tokens a trace, over the prefix; 0 before anything has come back."""
        return self.tokens / self.returned if self.returned else 0.0

    @property
    def counts(self) -> tuple[int, ...]:
        """Votes per answer, descending."""
        return tuple(sorted(self.votes.values(), reverse=True))

    @property
    def extra(self) -> int:
        """Votes beyond one per trace that voted: none but where votes are soft."""
        return sum(self.votes.values()) + self.nulls - self.returned

    def count(self, trace: Trace) -> int:
        """Count one more trace; returns the votes that its answer had before, or ``NULL``."""
        answer = trace.answer
        if answer is None:
            self.nulls += 1
            before = NULL
        else:
            before = self.votes.get(answer, 0)
            self.votes[answer] = before + 1
            firsts = self.firsts
            if firsts is not None and trace.number < firsts.get(answer, trace.number + 1):
                firsts[answer] = trace.number
                if trace.number < max(firsts.values()) or len(firsts) < len(self.votes):  # else it is in its place
                    by_launch = sorted(self.votes, key=lambda label: firsts.get(label, math.inf))
                    self.votes = {label: self.votes[label] for label in by_launch}  # the tie rule
        self.returned += 1
        self.tokens += trace.tokens
        if self.traces is not None:
            insort(self.traces, trace, key=lambda other: other.number)
        return before

    def grown(self, traces: Iterable[Trace]) -> Self:
        """What it would be with these traces, each of a launch in flight; it stays as it is."""
        record = copy(self)
        record.votes, record.firsts = dict(self.votes), None if self.firsts is None else dict(self.firsts)
        record.traces = None if self.traces is None else list(self.traces)
        for trace in traces:
            record.count(trace)
        return record

    def adopt(self, trace: Trace) -> None:
        """Take in a trace of an earlier run; launches between the last one and it were taken back."""
        self.relaunch(trace.number)
        if trace.part is not None:
            self.cancel(trace.number)
        else:
            self.tell(trace)

    def relaunch(self, number: int) -> None:
        """Take in a launch of an earlier run that is still on its way; those between the last one and it were
        taken back."""
        gap = number - self.launched
        self.taken_back += gap
        if self.told == self.launched:
            self.told += gap
        else:
            for skipped in range(self.launched, number):
                self.keep(skipped, None)
        self.launched = number + 1

    def tell(self, trace: Trace) -> int | None:
        """A launch came back; returns what :meth:`count` does, or ``None`` where it is held until its turn."""
        if trace.number != self.told:
            self.keep(trace.number, trace if self.hurry is None else None)
            return None if self.hurry is None else self.count(trace)
        self.told += 1
        return self.count(trace)

    def keep(self, number: int, trace: Trace | None) -> None:
        """Hold a trace that came back before its turn, or ``None`` for a launch that was taken back."""
        if self.late is None:
            self.late = {}
        self.late[number] = trace

    def cancel(self, number: int) -> None:
        """A launch was cancelled: it will not come back, and casts no vote."""
        self.cancelled += 1
        if self.told == number:
            self.told += 1
        else:
            self.keep(number, None)

    def merge(self, answer: str, into: str) -> None:
        """Two answers turned out to be one: their votes join under ``into``, in the place of the first launched."""
        together = self.votes.get(answer, 0) + self.votes.get(into, 0)
        places = {into if label == answer else label: count for label, count in self.votes.items()}
        self.votes = {label: together if label == into else count for label, count in places.items()}
        if self.firsts is not None:
            launches = [self.firsts.pop(label) for label in (answer, into) if label in self.firsts]
            if launches:
                self.firsts[into] = min(launches)
        if self.traces is not None:
            self.traces = [_renamed(trace, answer, into) for trace in self.traces]
        if self.late is not None:
            self.late = {number: trace and _renamed(trace, answer, into) for number, trace in self.late.items()}

    def is_in_flight(self, number: int) -> bool:
        """Whether a launch has neither come back nor been taken back; refuses one that was never made."""
        if not 0 <= number < self.launched:
            raise InputError(
                f"trace {number} of {self.id!r} was never launched; tell or take back only what ask() returned."
            )
        return number >= self.told and not (self.late and number in self.late)

    def in_flight(self) -> list[int]:
        """The numbers that were launched and have neither come back nor been taken back."""
        return list(filter(self.is_in_flight, range(self.told, self.launched)))

    def tally(self, rounds: int = 0) -> Tally:
        """What a policy may see."""
        traces = [(trace.answer, trace.confidence, trace.tokens) for trace in self.traces] if self.traces else ()
        answers, confidences, tokens = zip(*traces, strict=True) if traces else ((), (), ())
        returned, nulls, counts = self.returned, self.nulls, tuple(sorted(self.votes.values(), reverse=True))
        pending = self.launched - self.taken_back - self.cancelled - returned
        mean, extra = self.tokens / returned if returned else 0.0, sum(counts) + nulls - returned
        return Tally(
            counts, nulls, pending, self.options, rounds, 0, mean, self.id, answers, confidences, tokens, extra
        )


def _renamed(trace: Trace, answer: str, into: str) -> Trace:
    return replace(trace, answer=into) if trace.answer == answer else trace


class VoteCount:
    """Counts the votes of a batch: one for each trace with an answer. The strategy of an allocator's records.

    ``alike``: questions with the same counts are in the same state of belief, so that a queue may serve them as one.
    """

    alike = True
    learn_at: float = math.inf
    """Traces told at which :meth:`learn` is due."""

    def check(self, policy: Policy) -> None:
        """Refuse a policy that cannot take votes that are counted so."""

    def new_record(
        self, id: str, position: int, options: int | None, keep_traces: bool, hurry: float | None = None
    ) -> Record:
        """The record of a question that has arrived; with a ``hurry`` its traces are raced."""
        return Record(id, position, options, keep_traces, hurry)

    @property
    def is_learned(self) -> bool:
        """Whether the batch has told what a vote is worth."""
        return False

    def learn(self, told: int) -> Iterable[Record]:
        """Learn what a vote is worth from ``told`` traces; returns the records whose votes were counted anew."""
        return ()

    def per_trace(self) -> float | None:
        """The votes that a trace with an answer counts as, on average; ``None`` where each is one by construction."""
        return None

    def withdraw(self, record: Record) -> None:
        """A question is asked no more: go on learning from what it told."""
