"""The queue of an index policy: the highest index is served first.

A decision costs O(log S) and one call of the policy for S distinct *states* of questions, memory is O(N + S):

- :class:`StateQueue`, where the policy sees counts: questions in the same belief state ``(counts, nulls, pending,
  options, length class, cancelled)`` share one entry, the last of them 0 where no cap counts it. Its score is computed
  once; a launch or a return moves one question along a memoized transition.
- :class:`RankQueue`, where it sees whole traces, or votes are soft: every question has a state of its own.

Order: highest score first, equal scores by state key, within a state the question that entered it last.

**In a race** (:mod:`pets.core.race`) an index policy ends at one price: the index at which the rest of the run is
expected to take the rest of the budget (:func:`pets.core.price.price_in_force`), found anew at every refit, and when
nothing is in flight and there is budget left. A question whose index is at or under it is settled; of any other one
``width(n, m, hurry)`` traces may be in flight, of which m are needed. Where all that is left of the budget fits into
places that would stand empty, at least the hurry's share of an equal one may.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

from pets.core.budget import Budget
from pets.core.grid import NO_CAP
from pets.core.policy import IndexPolicy
from pets.core.price import price_in_force
from pets.core.prior import length_class
from pets.core.queues import Queue, sample
from pets.core.race import width
from pets.core.record import GONE, NULL, Record
from pets.core.tally import Tally, add_vote
from pets.errors import InputError
from pets.types import Launch

Key = tuple[tuple[int, ...], int, int, int, int, int]

LAUNCH = -2  # an event beside NULL (-1), GONE (-3) and "a vote for an answer that had c votes" (c >= 0)
MARK_STRIDE = 1 << 40  # an event plus MARK_STRIDE times the question's new length class
NEEDED, SPECULATIVE, ENOUGH = 0, 1, 2  # when a question may have one more in flight
LEAST_STEP = 1e-9  # by which a price falls
LEAST_HURRY = 0.25  # of a batch: places that would stand empty are filled, also where nothing is cancelled


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


class StateQueue(Queue[IndexPolicy]):
    """Serves the highest index; with a ``hurry`` it races questions at one price. See the module's docstring."""

    newest_first = True  # a state serves the question that entered it last

    def __init__(self, policy: IndexPolicy, budget: Budget, hurry: float | None = None) -> None:
        super().__init__(policy, budget.cap)
        self._budget, self._hurry, self._warmup = budget, hurry, policy.warmup
        self._size = 0  # questions
        self._price: float | None = None  # as an index; None: to be found before the next launch
        self._share = 0.0  # traces of each question that may be in flight in any case
        self._edges = policy.length_edges
        self._states: dict[Key, _State] = {}
        self._unscored: list[_State] = []
        self._heap: list[tuple[int, float, Key, _State]] = []

    def add(self, record: Record) -> None:
        self._size += 1
        mark = length_class(self._edges, record.mean_tokens)
        cancelled = record.cancelled if self._cap < math.inf else 0
        key = record.counts, record.nulls, record.pending, record.options or 0, mark, cancelled
        self._put(record, self._state(key))

    def take(self, n: int) -> list[Launch]:
        """As :meth:`Queue.take`; a race's price falls where nothing is worth it and nothing is in flight."""
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

    def _take(self, n: int) -> list[Launch]:
        """Up to n launches, best first; the same as n times one, since a launch only lowers the later key."""
        launches: list[Launch] = []
        heap = self._heap
        while n > 0:
            while self._unscored:
                state = self._unscored.pop()
                if not state.members:
                    state.queued = False
                elif self.only_warmup and state.tally.launched + state.key[-1] >= self._warmup:
                    continue  # it is scored when the warm-up has taught the policy its scale
                elif (rank := self._rank(state))[0] < ENOUGH:
                    heappush(heap, (*rank, state.key, state))
            if not heap:
                break
            state = heap[0][3]
            if not state.members:
                heappop(heap)
                state.queued = False
                continue
            after = state.after.get(LAUNCH) or self._move(state, LAUNCH)
            many = min(n, len(state.members))
            if many > 1 and self._rank(after) < self._rank(state):
                many = 1  # the state after a launch comes before the rest of this one
            for _ in range(many):
                record = state.members.popitem()[0]
                launches.append(Launch(record.id, record.launched))
                record.launched += 1
                self._put(record, after)
            n -= many
        return launches

    def told(self, record: Record, before: int) -> None:
        """As :meth:`Queue.told`: it moves the question to its next state."""
        state: _State = record.state
        event = before + MARK_STRIDE * length_class(self._edges, record.mean_tokens) if self._edges else before
        del state.members[record]
        self._put(record, state.after.get(event) or self._move(state, event))

    def merged(self, record: Record) -> None:
        self.remove(record)
        self.add(record)

    def cancelled(self, record: Record) -> None:
        """As :meth:`Queue.cancelled`: it still counts against the cap."""
        self.merged(record)

    def remove(self, record: Record) -> None:
        self._size -= 1
        del record.state.members[record]

    def stopped(self, record: Record) -> bool:
        """Whether no trace will be asked for again: an index policy ends with the budget, at the cap or at -inf."""
        return self._score(record.state) == -math.inf

    def fewest(self, record: Record) -> int:
        """As :meth:`Queue.fewest`: until the index is at the price in force."""
        price = -math.inf if self._price is None else self._price
        return self.policy.fewest(self._marked(record.tally()), self._view, price)

    def hurry_by(self, hurry: float) -> None:
        self._hurry = hurry
        self._rank_all()

    def refit(self, past: Iterable[Tally] = ()) -> None:
        """As :meth:`Queue.refit`; every state is scored anew: O(S)."""
        super().refit(past)
        self._price = None
        for state in self._states.values():
            state.score = None
        if self.policy.length_edges != self._edges:  # put every question where it now belongs, in the order it stood
            self._edges = self.policy.length_edges
            for record in self._records():
                self.remove(record)
                self.add(record)
        self._rank_all()

    def batch(self) -> Mapping[Tally, int]:
        if self.policy.marks:
            return sample(self._records())
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

    def _rank_all(self) -> None:
        self._heap.clear()
        self._unscored.clear()
        for state in self._states.values():
            state.turn, state.queued = None, bool(state.members)
            if state.queued:
                self._unscored.append(state)

    def _rank(self, state: _State) -> tuple[int, float]:
        """When a state is served: by its turn, worked out once for each price, then by its score."""
        score = self._score(state)
        if state.turn is None:
            state.turn = self._turn(state.tally) if score > -math.inf else ENOUGH
        return state.turn, -score

    def _score(self, state: _State) -> float:
        """+inf within the warm-up, -inf at the cap, else the policy's index; worked out when first needed."""
        if state.score is None:
            score = self._index(state.tally) if state.tally.launched + state.key[-1] < self._cap else -math.inf
            if math.isnan(score):
                raise InputError(f"{self.policy!r} gave NaN as the index of {state.tally}; an index is a number.")
            state.score = score
        return state.score

    def _index(self, tally: Tally) -> float:
        if tally.launched >= self._cap:
            return -math.inf
        return math.inf if tally.launched < self._warmup else self.policy.index(tally, self._view)

    def _turn(self, tally: Tally) -> int:
        """When a question may have one more in flight: before all others, after them, or not at all."""
        if self._hurry is None or tally.launched < self._warmup:
            return NEEDED
        m = self.policy.fewest(tally, self._view, -math.inf if self._price is None else self._price)
        if tally.pending < m:
            return NEEDED
        wide = width(tally.returned, m, max(self._hurry, LEAST_HURRY))
        return SPECULATIVE if tally.pending < (max(wide, self._share) if m else 0) else ENOUGH

    def _marked(self, tally: Tally) -> Tally:
        return replace(tally, mark=length_class(self._edges, tally.mean_tokens))

    def _find_price(self) -> None:
        batch, budget, pending = dict[Tally, int](), self._budget, 0
        for tally, questions in self.batch().items():
            batch[self._marked(tally)] = questions
            pending += tally.pending * questions
        left = budget.expected * sum(batch.values()) / max(1, self._size) + pending
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


class RankQueue(StateQueue):
    """Every question is in a state of its own, a new one whenever it changes; equal scores in the order of arrival."""

    newest_first = False

    def __init__(self, policy: IndexPolicy, budget: Budget, hurry: float | None = None) -> None:
        super().__init__(policy, budget, hurry)
        self._numbers = count()  # of states

    def add(self, record: Record) -> None:
        self._size += 1
        self._put(record, self._own(record.position, self._marked(record.tally()), record.cancelled))

    def told(self, record: Record, before: int) -> None:
        self.merged(record)

    def remove(self, record: Record) -> None:
        super().remove(record)
        left = self._states.pop(record.state.key)
        left.tally = Tally()  # it may stay in the heap for long

    def stopped(self, record: Record) -> bool:
        """At the cap: whole traces are scored only when a launch is asked for."""
        return record.spent >= self._cap

    def batch(self) -> Mapping[Tally, int]:
        return {record.tally(): 1 for record in self._records()}

    def _move(self, state: _State, event: int) -> _State:
        """The state after a launch."""
        del self._states[state.key]
        (position, _), *_, cancelled = state.key
        return self._own(position, replace(state.tally, pending=state.tally.pending + 1), cancelled)

    def _own(self, position: int, tally: Tally, cancelled: int) -> _State:
        key = ((position, next(self._numbers)), 0, 0, 0, 0, cancelled)
        return self._states.setdefault(key, _State(key, tally))
