"""One allocator over all voted requests, as questions come and go.

A question that is over, whether its policy is done or not (the client went, its time or its own limit was reached), is
withdrawn, and what it had under way is given back: nothing is remembered of it but its spend. Traces that were paid for
and came to nothing (a reply that broke off, a client that went) count in the plan's budget too, as soon as nothing that
was promised to a question is touched by it.
"""

from typing import NamedTuple

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import Policy, QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.types import Launch, Question, Trace

__all__ = ["Decision", "Stream"]

PAID = Trace("", 0)


class Decision(NamedTuple):
    """What a policy knew when it last decided on a question: the mean budget left, and the price at that."""

    mean_left: float
    log_price: float | None


class Noting(QuotaPolicy):
    """A policy that also notes what it went by."""

    __slots__ = ("_inner", "latest", "notes")
    sees = "counts"

    def __init__(self, inner: QuotaPolicy) -> None:
        self._inner = inner
        self.notes: dict[str, Decision] = {}
        self.latest: Decision | None = None

    @property
    def warmup(self) -> int:
        return self._inner.warmup

    @property
    def rounds(self) -> int:
        return self._inner.rounds

    def quota(self, tally: Tally, view: View) -> int:
        self.latest = self.notes[tally.question] = Decision(view.mean_left, self._inner.log_price(view))
        return self._inner.quota(tally, view)


class Stream:
    """Spends ``mean_budget`` traces a question over windows of ``window`` questions, as ``policy`` says.

    >>> from pets.policies.price import Price
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
        # Tables that are made when they are first used take a moment, which should not be a request's.
        policy.quota(Tally((3, 1)), View(int(mean_budget * window), window, cap))
        self.policy, self.mean_budget, self.window = policy, mean_budget, window
        self.unpaid = 0  # traces paid for beside the plan, which it has yet to make up for
        self._noting = Noting(policy)
        budget = Budget.per_window(window, int(mean_budget * window), cap=cap)
        self._allocator = Allocator(self._noting, budget, seed=seed)
        self._arrived = 0
        self._spared = 0  # launches that the allocator counts as spent and granted, and that were neither
        self._open: dict[str, set[int]] = {}  # question -> launches under way

    def add(self, question: str, options: int | None = None) -> None:
        """Let a question in."""
        self._allocator.add(Question(question, options=options))
        self._arrived += 1
        self._open[question] = set()

    def ask(self, n: int) -> list[Launch]:
        """Up to n launches of open questions."""
        found = self._allocator.ask(n)
        for launch in found:
            self._open[launch.question].add(launch.number)
        if self.unpaid:
            self._make_up()
        return found

    def tell(self, trace: Trace) -> None:
        """Take what came back for a launch."""
        self._open[trace.question].discard(trace.number)
        self._allocator.tell(trace)

    def spare(self, launch: Launch) -> None:
        """A launch that was never paid for: it gave nothing, and its budget is free again."""
        self._open[launch.question].discard(launch.number)
        self._allocator.budget.grow(1)  # it will count as spent, and was not; taken back, it would be launched again
        self._spared += 1
        self._allocator.tell(Trace(launch.question, launch.number))

    def charge(self, traces: int) -> None:
        """Traces that were paid for and came to nothing: the plan has so many less to spend."""
        self.unpaid += traces

    def stopped(self, question: str) -> bool:
        """Whether the policy asks no more of this question."""
        return self._allocator.stopped(question)

    def leave(self, question: str) -> Decision | None:
        """The question is over; launches under way are given back. What the policy last went by."""
        self._allocator.withdraw(question)
        for number in self._open.pop(question):
            self._allocator.cancel(Launch(question, number))
        return self._noting.notes.pop(question, None)

    @property
    def latest(self) -> Decision | None:
        """What the policy went by when it last decided on anything."""
        return self._noting.latest

    def spent(self) -> tuple[int, int]:
        """Traces spent by plan, and granted so far."""
        budget = self._allocator.budget
        return budget.spent - self._spared, budget.total - self._spared

    def _make_up(self) -> None:
        """Count what was paid beside the plan, as far as nothing is touched that questions were promised, or the
        warm-ups of the window's other questions."""
        now = min(self.unpaid, self._allocator.spare)
        for _ in range(now):
            self._allocator.budget.charge(PAID)
        self.unpaid -= now
