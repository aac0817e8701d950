"""The queue of a quota policy: serves what is granted, fewest launched first, and asks again when a grant is used up.

At each question of policy, with ``R_t`` and ``H_t`` as in :class:`~pets.core.policy.View`,

    grant <= cap,      grant - launched <= affordable - owed - warm-up of the questions to come,

so that a promise is never broken: the paper's ``b_t <= R_t - K0 (H_t - 1)`` for any number of open questions. In
tokens or money ``affordable`` is what the mean cost so far makes likely; launches still wait for their whole hold.

In a race (:mod:`pets.core.race`) a grant is looked at when traces are back: it is as wide as the race, and shrinks with
it. With a :class:`~pets.core.budget.Window` the horizon is the windows begun so far, else the declared N.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from pets.core.budget import Budget
from pets.core.policy import QuotaPolicy, View
from pets.core.queues import Queue, ReplicaTotals
from pets.core.race import width
from pets.core.record import Record
from pets.core.tally import Tally
from pets.errors import StateError
from pets.types import Launch

STOPS_KEPT = 64  # how many past stops a policy may look back on
COIN_BLOCK = 1024  # drawn at a time


@dataclass(slots=True, eq=False)
class _Grant:
    """One question's account: what it was granted, in ``rounds`` batches after the warm-up."""

    record: Record
    owed: int = 0  # granted and not launched
    rounds: int = 0
    final: bool = False  # no more will be granted
    stopped: bool = False  # final, and all of it has come back
    short: bool = False  # the budget did not pay for all that the policy wanted
    needed: int = 0  # traces in flight beyond which others are speculative, in a race
    version: int = 0


class QuotaQueue(Queue[QuotaPolicy]):
    """Serves granted traces; see the module's docstring."""

    def __init__(self, policy: QuotaPolicy, budget: Budget, horizon: int | None, seed: int) -> None:
        super().__init__(policy, budget.cap)
        self._budget = budget
        self._horizon = horizon
        self._seed = seed
        self._grants: dict[int, _Grant] = {}  # by position
        self._arrived = 0  # questions ever
        self._fresh: deque[_Grant] = deque()  # arrived, nothing granted yet
        # By position: those that wait for money that is held by traces in flight, and races of which traces are back.
        self._due: dict[int, _Grant] = {}
        self._stops: deque[int] = deque(maxlen=STOPS_KEPT)
        self._heap: list[tuple[bool, int, int, int]] = []  # speculative ones last
        self._owed = 0  # granted and not launched
        self._owed_final = 0  # the part of it that belongs to final grants
        self._open = 0  # traces launched by questions whose grant is not final
        self._finals = 0

    def add(self, record: Record) -> None:
        grant = _Grant(record)
        self._open += record.spent
        self._grants[record.position] = grant
        self._arrived = max(self._arrived, record.position + 1)
        self._fresh.append(grant)

    def take(self, n: int) -> list[Launch]:
        self.look()
        launches: list[Launch] = []
        while len(launches) < n and self._heap:
            *_, position, version = heappop(self._heap)
            serving = self._grants.get(position)
            if serving is None or version != serving.version:
                continue
            record = serving.record
            launches.append(Launch(record.id, record.launched))
            record.launched += 1
            self._count(serving, launched=1)
        return launches

    def look(self) -> None:
        """Grant what is to be granted to questions that arrived, wait for money, or race."""
        due, self._due = self._due, {}
        for grant in due.values():
            self._decide(grant)
        while self._fresh:
            self._decide(self._fresh.popleft())

    def _look_at_races(self) -> None:
        """Decide on races of which traces are back: they may be owed less than before."""
        for grant in [grant for grant in self._due.values() if grant.record.hurry is not None]:
            self._decide(self._due.pop(grant.record.position))

    def told(self, record: Record, before: int) -> None:
        """The prefix grew; a grant that is used up and has come back is looked at again.

        That of a race is when the next launch is asked for: traces that come together are looked at once.
        """
        grant = self._grants[record.position]
        if record.hurry is not None:
            self._due[record.position] = grant
        elif grant.owed == 0 and record.pending == 0:
            self._decide(grant)

    def taken_back(self, record: Record) -> None:
        """A launch was taken back: its place in the grant is owed again."""
        grant = self._grants[record.position]
        self._count(grant, launched=-1)
        if record.hurry is not None:
            self._due[record.position] = grant

    @property
    def promised(self) -> int:
        self._look_at_races()
        return self._owed + self.others.owed + self.policy.warmup * self._coming

    def remove(self, record: Record) -> None:
        grant = self._grants.pop(record.position)
        self._close(grant)
        self._owed -= grant.owed
        self._owed_final -= grant.owed
        self._due.pop(record.position, None)
        if grant in self._fresh:
            self._fresh.remove(grant)

    def fewest(self, record: Record) -> int:
        """As :meth:`Queue.fewest`; one that has stopped is settled."""
        grant = self._grants[record.position]
        return 0 if grant.stopped else self.policy.fewest(record.tally(grant.rounds), self.view(record))

    def stopped(self, record: Record) -> bool:
        """Whether the policy has had enough of this question, or the budget is used up."""
        if (due := self._due.pop(record.position, None)) is not None:
            self._decide(due)
        return self._grants[record.position].stopped

    def has_enough(self, record: Record) -> bool:
        self.look()
        grant = self._grants[record.position]
        return grant.stopped and not grant.short

    def batch(self) -> Mapping[Tally, int]:
        return {grant.record.tally(grant.rounds): 1 for grant in self._grants.values()}

    def totals(self) -> ReplicaTotals:
        self._look_at_races()
        budget, others = self._budget, self.others
        return ReplicaTotals(
            arrived=self._arrived,
            finals=self._finals,
            fresh=len(self._fresh),
            open=self._open,
            owed=self._owed,
            owed_final=self._owed_final,
            spent=budget.spent - others.spent,
            reserved=budget.reserved - others.reserved,
            settled=budget.settled - others.settled,
        )

    def sync_replicas(self, others: ReplicaTotals) -> None:
        budget, window, before = self._budget, self._budget.window, self.others
        if window is None:
            raise StateError("allocators share a stream whose budget comes by windows; this one's does not.")
        self.others = others
        budget.spent += others.spent - before.spent
        budget.reserved += others.reserved - before.reserved
        budget.settled += others.settled - before.settled
        budget.total = window.amount * -(-(self._arrived + others.arrived) // window.questions)
        self.cover_warmups(0)

    def cover_warmups(self, arriving: int) -> None:
        """As :meth:`Queue.cover_warmups`: the total rises to what was promised, the windows to come make up for it."""
        if self.others.arrived:
            budget, owed = self._budget, self._owed + self.others.owed
            traces = owed + self.policy.warmup * (len(self._fresh) + arriving)
            budget.total = max(budget.total, budget.spent + budget.reserved + traces * budget.currency.hold)

    def view(self, record: Record) -> View:
        others = self.others
        budget_left = self._budget.expected + self._open - self._owed_final + others.open - others.owed_final
        questions_left = max(1, self._expected - self._finals - others.finals)
        coin = coin_of(self._seed, record.position)
        return View(budget_left, questions_left, self._budget.cap, coin, tuple(self._stops))

    @property
    def _expected(self) -> int:
        """Questions that the budget so far is for."""
        arrived, window = self._arrived + self.others.arrived, self._budget.window
        if window is not None:
            return -(-arrived // window.questions) * window.questions
        return max(arrived, self._horizon or 0)

    @property
    def _coming(self) -> int:
        """Questions that were granted nothing yet, those that have yet to arrive among them."""
        others = self.others
        return self._expected - self._arrived - others.arrived + len(self._fresh) + others.fresh

    def _decide(self, grant: _Grant) -> None:
        """Grant the warm-up, or ask the policy once; a question that deserves no more stops."""
        record, warmup = grant.record, self.policy.warmup
        spent, spare = record.spent, self._budget.expected - self._owed - self.others.owed
        if record.hurry is not None:
            self._decide_race(grant, record.hurry, spare + grant.owed)
            return
        if spent < warmup:
            wanted = warmup - spent
        elif grant.final:
            wanted = 0
        else:
            spare -= warmup * self._coming
            wanted = math.floor(self.policy.quota(record.tally(grant.rounds), self.view(record))) - spent
        if self._budget.cap is not None:
            wanted = min(wanted, self._budget.cap - spent)
        extra = min(wanted, spare)
        if not grant.final:
            grant.short = wanted > max(0, extra)
        if extra <= 0:
            self._wait_or_stop(grant, wanted)
            return
        grant.owed += extra
        self._owed += extra
        if spent >= warmup:
            grant.rounds += 1
            if 0 < self.policy.rounds <= grant.rounds:
                self._close(grant)
        self._offer(grant)

    def _decide_race(self, grant: _Grant, hurry: float, spare: int) -> None:
        """Grant what may be in flight of a raced question now, as far as ``spare`` pays for it; stop a settled one."""
        if grant.final:
            return
        record, warmup = grant.record, self.policy.warmup
        free = spare - warmup * self._coming  # beyond its warm-up a race takes nothing of what others were promised
        grant.needed = m = self.fewest(record)
        room = width(record.returned, m, hurry) - record.pending
        if self._budget.cap is not None:
            room = min(room, self._budget.cap - record.spent)
        granted = max(0, min(room, max(free, min(warmup - record.spent, spare))))
        grant.short = m - record.pending > granted
        self._owed += granted - grant.owed
        grant.owed = granted
        self._offer(grant)
        if not granted and not record.pending:
            self._wait_or_stop(grant, m)

    def _wait_or_stop(self, grant: _Grant, wanted: int) -> None:
        """A question that gets nothing now waits where what is in flight may cost less than is held for it."""
        if wanted > 0 and self._budget.reserved and not self._budget.currency.counts_traces:
            self._due[grant.record.position] = grant
        else:
            grant.stopped = True
            self._stops.append(grant.record.spent)
            self._close(grant)

    def _close(self, grant: _Grant) -> None:
        """This grant is the question's last: it leaves R_t and H_t."""
        if not grant.final:
            grant.final = True
            self._finals += 1
            self._open -= grant.record.spent
            self._owed_final += grant.owed

    def _count(self, grant: _Grant, launched: int) -> None:
        """Count a launch (+1), or one that was taken back (-1)."""
        grant.owed -= launched
        self._owed -= launched
        if grant.final:
            self._owed_final -= launched
        else:
            self._open += launched
        self._offer(grant)

    def _offer(self, grant: _Grant) -> None:
        grant.version += 1
        if grant.owed > 0:
            record = grant.record
            speculative = record.hurry is not None and record.pending >= grant.needed
            heappush(self._heap, (speculative, record.spent, record.position, grant.version))


def coin_of(seed: int, position: int) -> float:
    """A question's uniform draw from [0, 1): it depends on the seed and on the question's place of arrival alone."""
    return _coins(seed, position // COIN_BLOCK)[position % COIN_BLOCK]


@lru_cache(maxsize=64)
def _coins(seed: int, block: int) -> list[float]:
    coins: list[float] = np.random.default_rng([seed, block]).random(COIN_BLOCK).tolist()
    return coins
