"""The queue over belief states: questions in the same state share one entry.

A state is ``(counts, nulls, pending, options, length class, cancelled)``, the last 0 where no cap counts it. Its score
is computed once; a launch or a return moves one question along a memoized transition. Cost of a decision: O(log S) for
S distinct states, whatever the number of questions; memory O(N + S).

Order: highest score first, equal scores by state key, within a state the question that entered it last.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import chain, compress

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


class StateQueue(PricedQueue):
    """Serves the highest index; see the module's docstring."""

    newest_first = True  # a state serves the question that entered it last

    def __init__(self, policy: IndexPolicy, budget: Budget, hurry: float | None = None) -> None:
        super().__init__(policy, budget, hurry)
        self._edges = policy.length_edges
        self._ids: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._scores: list[float | None] = []  # None: not needed yet
        self._turns: list[int | None] = []
        self._members: list[dict[Record, None]] = []
        self._after: list[dict[int, int]] = []  # state -> event -> state
        self._queued: list[bool] = []  # in the heap, about to be, or never to be
        self._unscored: list[int] = []
        self._heap: list[tuple[int, float, Key, int]] = []

    def add(self, record: Record) -> None:
        """Let a question in, new or restored."""
        mark = length_class(self._edges, record.mean_tokens)
        cancelled = record.cancelled if self._cap < math.inf else 0
        key = (record.counts, record.nulls, record.pending, record.options or 0, mark, cancelled)
        state = record.state = self._state(key)
        self._members[state][record] = None
        if not self._queued[state]:
            self._enter(state)

    def _take(self, n: int) -> list[Launch]:
        """Up to n launches, best first; the same as n times one, since a launch only lowers the later key."""
        launches: list[Launch] = []
        heap, scores, members = self._heap, self._scores, self._members
        while n > 0:
            while self._unscored:
                state = self._unscored.pop()
                if not members[state]:
                    self._queued[state] = False
                elif (score := self._score(state)) > -math.inf and self._turn_of(state) < ENOUGH:
                    heappush(heap, (self._turn_of(state), -score, self._keys[state], state))
            if not heap:
                break
            state = heap[0][3]
            here = members[state]
            if not here:
                heappop(heap)
                self._queued[state] = False
                continue
            if self.only_warmup and scores[state] != math.inf:
                break
            after = self._after[state].get(LAUNCH)
            if after is None:
                after = self._move(state, LAUNCH)
            count = min(n, len(here))
            if count > 1 and (self._turn_of(after), -self._score(after)) < (self._turn_of(state), -self._score(state)):
                count = 1  # the state after a launch comes before the rest of this one
            there = members[after]
            for _ in range(count):
                record = here.popitem()[0]
                number = record.launched
                record.launched = number + 1
                record.state = after
                there[record] = None
                launches.append(Launch(record.id, number))
            if not self._queued[after]:
                self._enter(after)
            n -= count
        return launches

    def told(self, record: Record, before: int) -> None:
        """As :meth:`Queue.told`: it moves the question to its next state."""
        state = record.state
        event = before + MARK_STRIDE * length_class(self._edges, record.mean_tokens) if self._edges else before
        after = self._after[state].get(event)
        if after is None:
            after = self._move(state, event)
        del self._members[state][record]
        record.state = after
        self._members[after][record] = None
        if not self._queued[after]:
            self._enter(after)

    def merged(self, record: Record) -> None:
        """The question's votes were counted anew."""
        self.remove(record)
        self.add(record)

    def cancelled(self, record: Record) -> None:
        """As :meth:`Queue.cancelled`: it still counts against the cap."""
        self.merged(record)

    def remove(self, record: Record) -> None:
        """Serve the question no more."""
        del self._members[record.state][record]

    def stopped(self, record: Record) -> bool:
        """Whether no trace will be asked for again: an index policy ends with the budget or at the cap."""
        return self._score(record.state) == -math.inf

    def refit(self, past: Iterable[Tally] = ()) -> None:
        """Let the policy learn from the batch and from questions ``past``, and score every state anew: O(S)."""
        self._scores = [None] * len(self._keys)
        super().refit(past)

    def _rank_all(self) -> None:
        if self.policy.length_edges != self._edges:  # put every question where it now belongs, in the order it stood
            self._edges, records = self.policy.length_edges, self._records()
            for members in self._members:
                members.clear()
            for record in records:
                self.add(record)
        self._turns = [None] * len(self._keys)
        self._heap.clear()
        self._queued = list(map(bool, self._members))
        self._unscored = list(compress(range(len(self._keys)), self._queued))

    def batch(self) -> Mapping[Tally, int]:
        """How many questions stand in each state; where lengths matter, a sample of the questions themselves."""
        if self.policy.marks:
            records = self._records()
            return {record.tally(): 1 for record in records[:: len(records) // LENGTH_SAMPLE + 1]}
        batch: Counter[Tally] = Counter()
        for key, members in zip(self._keys, self._members, strict=True):
            if members:
                batch[Tally(*key[:3], key[3] or None)] += len(members)
        return batch

    def _records(self) -> list[Record]:
        """Every question, state by state in the order of their keys: a restored queue lists them alike."""
        states = sorted(range(len(self._keys)), key=self._keys.__getitem__)
        return list(chain(*map(self._members.__getitem__, states)))

    def _enter(self, state: int) -> None:
        """A state has members again: it is scored when the next launch is asked for, if it still has them."""
        self._queued[state] = True
        self._unscored.append(state)

    def _state(self, key: Key) -> int:
        state = self._ids.get(key)
        if state is None:
            state = self._ids[key] = len(self._keys)
            self._keys.append(key)
            self._scores.append(None)
            self._turns.append(None)
            self._members.append({})
            self._after.append({})
            self._queued.append(False)
        return state

    def _move(self, state: int, event: int) -> int:
        """The state after an event; kept, so that it is worked out once."""
        counts, nulls, pending, options, mark, cancelled = self._keys[state]
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
        after = self._state((counts, nulls, pending, options, mark, cancelled))
        self._after[state][event] = after
        return after

    @property
    def _size(self) -> int:
        return sum(map(len, self._members))

    def _tally(self, state: int) -> Tally:
        counts, nulls, pending, options, mark, _ = self._keys[state]
        return Tally(counts, nulls, pending, options or None, mark=mark)

    def _turn_of(self, state: int) -> int:
        """As :meth:`_turn`, worked out once for each price."""
        turn = self._turns[state]
        if turn is None:
            turn = self._turns[state] = self._turn(self._tally(state))
        return turn

    def _score(self, state: int) -> float:
        """+inf within the warm-up, -inf at the cap, else the policy's index; worked out when first needed."""
        score = self._scores[state]
        if score is None:
            tally = self._tally(state)
            score = self._index(tally) if tally.launched + self._keys[state][-1] < self._cap else -math.inf
            if math.isnan(score):
                raise InputError(f"{self.policy!r} gave NaN as the index of {tally}; an index is a number.")
            self._scores[state] = score
        return score
