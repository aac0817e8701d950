"""The queue over belief states: questions in the same state share one entry.

A state is ``(counts, nulls, pending, options, length class, cancelled)``, the last 0 where no cap counts it. Its score
is computed once; a launch or a return moves one question along a memoized transition. Cost of a decision: O(log S) for
S distinct states, whatever the number of questions; memory O(N + S).

Order: highest score first, equal scores by state key, within a state the question that entered it last.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from operator import attrgetter

from pets.core.budget import Budget
from pets.core.policy import IndexPolicy
from pets.core.prior import length_class
from pets.core.queues.priced import ENOUGH, PricedQueue
from pets.core.record import GONE, NULL, Record
from pets.core.tally import Tally, add_vote
from pets.errors import InputError
from pets.types import Launch

Key = tuple[tuple[int, ...], int, int, int, int, int]

LAUNCH = -2  # an event beside NULL (-1), GONE (-3) and "a vote for an answer that had c votes" (c >= 0)
MARK_STRIDE = 1 << 40  # an event plus MARK_STRIDE times the question's new length class
LENGTH_SAMPLE = 20_000  # questions that a policy learns lengths from


@dataclass(slots=True, eq=False)
class _State:
    """A belief state: the questions in it, its score and turn once they are needed, and the states after it."""

    key: Key
    tally: Tally
    members: dict[Record, None] = field(default_factory=dict)
    after: dict[int, "_State"] = field(default_factory=dict)  # by event
    score: float | None = None
    turn: int | None = None
    queued: bool = False  # in the heap, about to be, or never to be


class StateQueue(PricedQueue):
    """Serves the highest index; see the module's docstring."""

    newest_first = True  # a state serves the question that entered it last

    def __init__(self, policy: IndexPolicy, budget: Budget, hurry: float | None = None) -> None:
        super().__init__(policy, budget, hurry)
        self._edges = policy.length_edges
        self._states: dict[Key, _State] = {}
        self._unscored: list[_State] = []
        self._heap: list[tuple[int, float, Key, _State]] = []

    def add(self, record: Record) -> None:
        """Let a question in, new or restored."""
        self._size += 1
        mark = length_class(self._edges, record.mean_tokens)
        cancelled = record.cancelled if self._cap < math.inf else 0
        self._put(
            record, self._state((record.counts, record.nulls, record.pending, record.options or 0, mark, cancelled))
        )

    def _take(self, n: int) -> list[Launch]:
        """Up to n launches, best first; the same as n times one, since a launch only lowers the later key."""
        launches: list[Launch] = []
        heap = self._heap
        while n > 0:
            while self._unscored:
                state = self._unscored.pop()
                if not state.members:
                    state.queued = False
                elif (rank := self._rank(state))[0] < ENOUGH:
                    heappush(heap, (*rank, state.key, state))
            if not heap:
                break
            state = heap[0][3]
            if not state.members:
                heappop(heap)
                state.queued = False
                continue
            if self.only_warmup and state.score != math.inf:
                break
            after = state.after.get(LAUNCH) or self._move(state, LAUNCH)
            count = min(n, len(state.members))
            if count > 1 and self._rank(after) < self._rank(state):
                count = 1  # the state after a launch comes before the rest of this one
            for _ in range(count):
                record = state.members.popitem()[0]
                launches.append(Launch(record.id, record.launched))
                record.launched += 1
                self._put(record, after)
            n -= count
        return launches

    def told(self, record: Record, before: int) -> None:
        """As :meth:`Queue.told`: it moves the question to its next state."""
        state: _State = record.state
        event = before + MARK_STRIDE * length_class(self._edges, record.mean_tokens) if self._edges else before
        del state.members[record]
        self._put(record, state.after.get(event) or self._move(state, event))

    def merged(self, record: Record) -> None:
        """The question's votes were counted anew."""
        self.remove(record)
        self.add(record)

    def cancelled(self, record: Record) -> None:
        """As :meth:`Queue.cancelled`: it still counts against the cap."""
        self.merged(record)

    def remove(self, record: Record) -> None:
        """Serve the question no more."""
        self._size -= 1
        del record.state.members[record]

    def stopped(self, record: Record) -> bool:
        """Whether no trace will be asked for again: an index policy ends with the budget or at the cap."""
        return self._score(record.state) == -math.inf

    def refit(self, past: Iterable[Tally] = ()) -> None:
        """Let the policy learn from the batch and from questions ``past``, and score every state anew: O(S)."""
        for state in self._states.values():
            state.score = None
        super().refit(past)

    def _rank_all(self) -> None:
        if self.policy.length_edges != self._edges:  # put every question where it now belongs, in the order it stood
            self._edges, records, self._size = self.policy.length_edges, self._records(), 0
            for state in self._states.values():
                state.members.clear()
            for record in records:
                self.add(record)
        self._heap.clear()
        for state in self._states.values():
            state.turn, state.queued = None, bool(state.members)
        self._unscored = list(filter(attrgetter("queued"), self._states.values()))

    def batch(self) -> Mapping[Tally, int]:
        """How many questions stand in each state; where lengths matter, a sample of the questions themselves."""
        if self.policy.marks:
            records = self._records()
            return dict.fromkeys(map(Record.tally, records[:: len(records) // LENGTH_SAMPLE + 1]), 1)
        batch: Counter[Tally] = Counter()
        for state in self._states.values():
            if state.members:
                batch[replace(state.tally, mark=0)] += len(state.members)
        return batch

    def _records(self) -> list[Record]:
        """Every question, state by state in the order of their keys: a restored queue lists them alike."""
        records: list[Record] = []
        for key in sorted(self._states):
            records += self._states[key].members
        return records

    def _state(self, key: Key) -> _State:
        if (state := self._states.get(key)) is None:
            counts, nulls, pending, options, mark, _ = key
            state = self._states[key] = _State(key, Tally(counts, nulls, pending, options or None, mark=mark))
        return state

    def _put(self, record: Record, state: _State) -> None:
        """A question is in this state now. The state is scored when a launch is asked for, if it has questions then."""
        record.state = state
        state.members[record] = None
        if not state.queued:
            state.queued = True
            self._unscored.append(state)

    def _move(self, state: _State, event: int) -> _State:
        """The state after an event; kept, so that it is worked out once."""
        counts, nulls, pending, options, mark, cancelled = state.key
        if event == LAUNCH:
            pending += 1
        else:
            pending -= 1
            mark = (event - GONE) // MARK_STRIDE
            vote = event - MARK_STRIDE * mark
            if vote == NULL:
                nulls += 1
            elif vote >= 0:
                counts = add_vote(counts, vote)
        after = state.after[event] = self._state((counts, nulls, pending, options, mark, cancelled))
        return after

    def _rank(self, state: _State) -> tuple[int, float]:
        """When a state is served: by its turn, worked out once for each price, then by its score."""
        score = self._score(state)
        if state.turn is None:
            state.turn = self._turn(state.tally) if score > -math.inf else ENOUGH
        return state.turn, -score

    def _score(self, state: _State) -> float:
        """+inf within the warm-up, -inf at the cap, else the policy's index; worked out when first needed."""
        if state.score is None:
            tally = state.tally
            score = self._index(tally) if tally.launched + state.key[-1] < self._cap else -math.inf
            if math.isnan(score):
                raise InputError(f"{self.policy!r} gave NaN as the index of {tally}; an index is a number.")
            state.score = score
        return state.score
