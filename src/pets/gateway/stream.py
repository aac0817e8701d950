"""One allocator over all voted requests, as questions come and go.

A question that is over before its policy is done (the client went, its time or its own limit was reached) leaves
launches behind that nobody will make; they are told as empty when they turn up, and given back to the budget.
The allocator remembers every question it ever saw, so after ``EPOCH`` of them another takes over, with what is left.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy, QuotaPolicy, View
from pets.core.price import PriceTable
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.price import Price
from pets.types import Launch, Question, Trace

__all__ = ["Decision", "Stream"]

EPOCH = 2048


class Decision(NamedTuple):
    """What a policy knew when it last decided on a question: the mean budget left, and the price at that."""

    mean_left: float
    log_price: float | None


class Noting(QuotaPolicy):
    """A policy that also notes what it went by."""

    __slots__ = ("_inner", "_table", "latest", "notes")
    sees = "counts"

    def __init__(self, inner: QuotaPolicy) -> None:
        self._inner = inner
        self.notes: dict[str, Decision] = {}
        self.latest: Decision | None = None
        rows = inner.trained.table if isinstance(inner, Price) and inner.rounds != 1 else None
        self._table = PriceTable(*zip(*rows, strict=True)) if rows else None

    @property
    def warmup(self) -> int:
        return self._inner.warmup

    @property
    def rounds(self) -> int:
        return self._inner.rounds

    def quota(self, tally: Tally, view: View) -> int:
        price = None if self._table is None else self._table.log_price(view.mean_left)
        self.latest = self.notes[tally.question] = Decision(view.mean_left, price)
        return self._inner.quota(tally, view)


@dataclass(slots=True, eq=False)
class _Epoch:
    allocator: Allocator
    arrived: int = 0
    open: dict[str, set[int]] = field(default_factory=dict)  # question -> launches under way


class Stream:
    """Spends ``mean_budget`` traces a question over windows of ``window`` questions, as ``policy`` says.

    >>> stream = Stream(Price(rounds=2), mean_budget=8, window=10)
    >>> stream.add("q", options=4)
    >>> launches = stream.ask(99)
    >>> for launch in launches:
    ...     stream.tell(Trace("q", launch.number, "A"))
    >>> len(launches), stream.ask(99), stream.stopped("q")
    (4, [], True)
    """

    def __init__(self, policy: Policy, mean_budget: float, *, window: int = 100, cap: int = 64, seed: int = 0) -> None:
        if not isinstance(policy, QuotaPolicy) or policy.sees != "counts" or policy.learns:
            raise InputError(
                f"{type(policy).__name__} is not for a stream: it compares questions that are all there. "
                "Take price or online_grid."
            )
        if window < 1 or not mean_budget >= max(1, policy.warmup):
            raise InputError(
                f"a mean budget of {mean_budget} traces does not pay for the warm-up of {policy.warmup}; give more."
            )
        self.policy, self.mean_budget, self.window = policy, mean_budget, window
        self._noting = Noting(policy)
        self._cap, self._seed = cap, seed
        self._epochs: deque[_Epoch] = deque([self._epoch()])
        self._where: dict[str, _Epoch] = {}

    def add(self, question: str, options: int | None = None) -> None:
        """Let a question in."""
        now = self._epochs[-1]
        if now.arrived >= EPOCH and now.arrived % self.window == 0:
            now = self._epoch()
            self._epochs.append(now)
            self._retire()
        now.allocator.add(Question(question, options=options))
        now.arrived += 1
        now.open[question] = set()
        self._where[question] = now

    def ask(self, n: int) -> list[Launch]:
        """Up to n launches of open questions."""
        found: list[Launch] = []
        for epoch in self._epochs:
            while len(found) < n and (launches := epoch.allocator.ask(n - len(found))):
                for launch in launches:
                    if (under_way := epoch.open.get(launch.question)) is None:
                        self._empty(epoch, launch)
                    else:
                        under_way.add(launch.number)
                        found.append(launch)
        return found

    def tell(self, trace: Trace) -> None:
        """Take what came back for a launch."""
        epoch = self._where[trace.question]
        epoch.open[trace.question].discard(trace.number)
        epoch.allocator.tell(trace)

    def spare(self, launch: Launch) -> None:
        """A launch that was never paid for: it gave nothing, and its budget is free again."""
        epoch = self._where[launch.question]
        epoch.open[launch.question].discard(launch.number)
        self._empty(epoch, launch)

    def stopped(self, question: str) -> bool:
        """Whether the policy asks no more of this question."""
        return self._where[question].allocator.stopped(question)

    def leave(self, question: str) -> Decision | None:
        """The question is over; launches under way are given back. What the policy last went by."""
        epoch, last = self._where.pop(question), self._noting.notes.pop(question, None)
        for number in sorted(epoch.open.pop(question)):
            self._empty(epoch, Launch(question, number))
        self._retire()
        return last

    @property
    def latest(self) -> Decision | None:
        """What the policy went by when it last decided on anything."""
        return self._noting.latest

    def spent(self) -> tuple[int, int]:
        """Traces spent by plan, and granted so far, of the allocators in use."""
        budgets = [epoch.allocator.budget for epoch in self._epochs]
        return sum(one.spent for one in budgets), sum(one.total for one in budgets)

    def _empty(self, epoch: _Epoch, launch: Launch) -> None:
        epoch.allocator.budget.grow(1)  # it will count as spent, and was not
        epoch.allocator.tell(Trace(launch.question, launch.number))
        if launch.question not in epoch.open:
            self._noting.notes.pop(launch.question, None)

    def _retire(self) -> None:
        """Allocators that took their last question and have seen its end leave their rest to the newest."""
        while len(self._epochs) > 1 and not self._epochs[0].open:
            left = self._epochs.popleft().allocator.budget.free
            self._epochs[-1].allocator.budget.grow(max(0, left))

    def _epoch(self) -> _Epoch:
        amount = int(self.mean_budget * self.window)
        budget = Budget.per_window(self.window, amount, cap=self._cap)
        return _Epoch(Allocator(self._noting, budget, seed=self._seed))
