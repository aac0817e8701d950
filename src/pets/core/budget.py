"""The budget: reserved before dispatch, settled on return, never exceeded.

    total >= spent + reserved        at every moment, as long as no trace costs more than its hold

A trace that was cancelled costs what was written of it; in a budget of traces its part, in thousandths. These add up,
and a whole trace is spent as soon as one is begun. A trace that costs more than its hold is charged in full: then
``spent`` exceeds the total, and nothing more is granted.

**Admission under uncertain cost**, for budgets in tokens or money. At every launch, over the k traces in flight and the
new one,

    spent + sum of expected costs                                       <= total
    spent + sum of expected costs + z s sqrt(k + 1) + dearest seen      <= total + bound

so that the budget is met on average and, s being the learned spread of costs, exceeded by more than the bound less
than once in a thousand runs, whatever the longest trace may cost. Until ``MIN_SAMPLES`` traces have come back the
second line counts every trace at the worst: spent + (k + 1) worst <= total + bound.

The expected cost of a question's trace is the mean of its own, shrunk towards the batch's as by two traces more.
"""

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

from pets.core.money import TRACES, Currency, amount_words
from pets.errors import BudgetError
from pets.types import Usage

SHRINKAGE_TRACES = 2.0  # of the batch's mean that a question's own count against
RELEARN_GROWTH = 1.05  # of the traces seen, after which the ledger holds the new mean
MIN_SAMPLES = 16  # traces, to know what traces cost
Z = 3.09  # one in a thousand
WHOLE = 1000  # thousandths of a trace


def mean_trace(tokens: float, traces: int, batch_mean: float) -> float:
    """Tokens of a question's mean trace, shrunk towards the batch's: ``traces`` are back, with ``tokens`` in all."""
    return (tokens + SHRINKAGE_TRACES * batch_mean) / (traces + SHRINKAGE_TRACES)


def cancelled_part(written: float, mean: float) -> int:
    """Thousandths of a trace that a cancelled one counts: tokens written over those of the mean trace, at most all.

    >>> [cancelled_part(written, mean_trace(300, traces=2, batch_mean=100.0)) for written in (0, 50, 500)]
    [1, 400, 1000]
    """
    return max(1, min(WHOLE, math.ceil(WHOLE * written / mean))) if mean else WHOLE


def whole_traces(parts: int) -> int:
    """The traces that so many thousandths of one take, the last one whole.

    >>> [whole_traces(parts) for parts in (0, 1, 1000, 1001)]
    [0, 1, 1, 2]
    """
    return -(-parts // WHOLE)


@dataclass(frozen=True, slots=True)
class Window:
    """An endless stream's allowance: every ``questions`` arrivals bring ``amount`` more; what is left carries over."""

    questions: int
    amount: int

    def __post_init__(self) -> None:
        if self.questions < 1 or self.amount < 0:
            raise BudgetError(f"a window needs at least one question and an amount that is not negative; got {self}.")


@dataclass(slots=True)
class Budget:
    """``total`` units, at most ``cap`` traces per question; the only mutable ledger of the core.

    >>> budget = Budget(total=10, cap=4)
    >>> budget.reserve(3); budget.settle(Usage()); budget.refund(2)
    >>> budget.spent, budget.reserved, budget.free
    (1, 0, 9)
    >>> budget.reserve(3); [budget.settle(Usage(part=400)) for _ in range(3)]; budget.spent, budget.parts
    [None, None, None]
    (3, 1200)
    """

    total: int
    cap: int | None = None
    currency: Currency = TRACES
    window: Window | None = None
    spent: int = 0
    reserved: int = 0
    settled: int = 0  # traces paid for that came to their end
    parts: int = 0  # thousandths of traces, of all that were cancelled; whole ones of them are in `spent`

    def __post_init__(self) -> None:
        if not isinstance(self.total, int) or self.total < 0:
            raise BudgetError(f"a budget is a whole number, 0 or more; got {self.total!r}.")
        if self.cap is not None and self.cap < 1:
            raise BudgetError(f"the cap is at least 1 trace per question; got {self.cap}. Leave it out for no cap.")

    @classmethod
    def per_window(
        cls, questions: int, amount: int, *, cap: int | None = None, currency: Currency = TRACES
    ) -> "Budget":
        """An endless stream's budget: ``amount`` for every ``questions`` arrivals, nothing before the first."""
        return cls(0, cap, currency, Window(questions, amount))

    @property
    def free(self) -> int:
        """Neither spent nor reserved; negative only after an overrun."""
        return self.total - self.spent - self.reserved

    @property
    def affordable(self) -> int:
        """How many more traces can be reserved."""
        return max(0, self.free // self.currency.hold)

    @property
    def expected(self) -> int:
        """How many more traces the budget is likely to pay for: at the mean cost so far, the hold before any."""
        if not self.settled or not self.spent or self.currency.counts_traces:
            return self.affordable
        in_flight = self.reserved // self.currency.hold
        return max(0, (self.total - self.spent) * self.settled // self.spent - in_flight)

    def reserve(self, traces: int = 1) -> None:
        """Set aside the hold of ``traces`` traces; refuses what it cannot cover."""
        amount = traces * self.currency.hold
        if traces < 0 or (traces and amount > self.free):
            raise BudgetError(
                f"cannot reserve {traces} traces ({amount} {self.currency.unit}): {self.free} left of {self.total}."
            )
        self.reserved += amount

    def settle(self, usage: Usage) -> None:
        """Turn one reservation into what the trace really cost."""
        self.refund()
        self.charge(usage)

    def charge(self, usage: Usage) -> None:
        """Count a trace that was paid for without a reservation: by an earlier run."""
        if usage.part is not None and self.currency.counts_traces:
            before = whole_traces(self.parts)
            self.parts += usage.part
            self.spent += self.currency.per_trace * (whole_traces(self.parts) - before)
            return
        self.settled += usage.part is None
        self.spent += self.currency.cost(usage)

    def refund(self, traces: int = 1) -> None:
        """Give back the reservation of traces that were never paid for."""
        amount = traces * self.currency.hold
        if amount > self.reserved:
            raise BudgetError(f"cannot settle or refund {amount} {self.currency.unit}: {self.reserved} are reserved.")
        self.reserved -= amount

    def hold_at(self, hold: int) -> None:
        """Hold another amount for every trace from now on, those in flight included."""
        in_flight = self.reserved // self.currency.hold
        self.currency = replace(self.currency, hold=hold)
        self.reserved = in_flight * hold

    def grow(self, amount: int) -> None:
        """A top-up: more of the same currency."""
        if not isinstance(amount, int) or amount < 0:
            raise BudgetError(f"a top-up is a whole number, 0 or more; got {amount!r}.")
        self.total += amount

    def to_plain(self) -> dict[str, Any]:
        """Plain data for :meth:`from_plain`."""
        return dict(zip(self.__slots__, astuple(self), strict=True))

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> "Budget":
        """The budget that :meth:`to_plain` described."""
        window = None if data["window"] is None else Window(*data["window"])
        return cls(**{**data, "currency": Currency(*data["currency"]), "window": window})


class UnitCost:
    """A :class:`CostEstimator` for budgets of traces: each costs 1, so that the budget alone admits launches."""

    def can_launch(self) -> bool:
        return True

    def reserve(self, question: str) -> int:
        return 1

    def settle(self, question: str, held: int, cost: int) -> None:
        """A trace for which ``held`` was held has cost ``cost``."""

    def release(self, held: int) -> None:
        """A trace for which ``held`` was held will never be paid for."""

    def learn(self, question: str, cost: int) -> None:
        """See what a trace cost."""

    def forget(self, question: str) -> None:
        """No more traces of this question will come."""

    def expected(self, question: str) -> int:
        return 0


class CostEstimator:
    """Learns what traces cost and says whether one more may be launched; ``worst`` is the dearest possible trace's.

    >>> estimator = CostEstimator(Budget(1000, currency=Currency.tokens(hold=400)), worst=400, bound=100)
    >>> held = estimator.reserve("q"), estimator.reserve("q")
    >>> estimator.can_launch()                                          # 800 at the worst; a third would make 1200
    False
    >>> estimator.settle("q", held[0], cost=90); estimator.budget.spent = 90
    >>> estimator.expected("q"), estimator.can_launch()
    (90, True)
    """

    def __init__(self, budget: Budget, worst: int, bound: int) -> None:
        total, unit = budget.total if budget.window is None else budget.window.amount, budget.currency.unit
        if not budget.spent and total + bound < worst:
            raise BudgetError(
                f"a budget of {amount_words(total, unit)} does not pay for one trace, which may cost "
                f"{amount_words(worst, unit)}. Raise the budget or lower --max-tokens."
            )
        self.budget, self.worst, self.bound = budget, worst, bound
        self._seen = self._sum = self._squares = self._dearest = 0
        self._own: dict[str, list[int]] = {}  # a question's traces and their cost
        self._expected = 0  # of what is in flight
        self._in_flight = 0
        self._relearn = 1.0

    def can_launch(self) -> bool:
        """Whether the budget admits one more trace; see the module's docstring."""
        spent, total, traces = self.budget.spent, self.budget.total, self._in_flight + 1
        likely = spent + self._expected + self._usual
        if self._seen < MIN_SAMPLES:
            return likely <= total and spent + traces * self.worst <= total + self.bound
        return likely <= total and likely + Z * self._spread * math.sqrt(traces) + self._dearest <= total + self.bound

    def reserve(self, question: str) -> int:
        """Hold what a trace of this question is expected to cost, and return the amount."""
        amount = self.expected(question)
        self._expected += amount
        self._in_flight += 1
        return amount

    def settle(self, question: str, held: int, cost: int) -> None:
        """A trace for which ``held`` was held has cost ``cost``."""
        self.release(held)
        self.learn(question, cost)

    def release(self, held: int) -> None:
        """A trace for which ``held`` was held will never be paid for."""
        self._expected -= held
        self._in_flight -= 1

    def learn(self, question: str, cost: int) -> None:
        """See what a trace cost."""
        own = self._own.setdefault(question, [0, 0])
        own[0] += 1
        own[1] += cost
        self._seen += 1
        self._sum += cost
        self._squares += cost * cost
        self._dearest = max(self._dearest, cost)
        if self._seen >= self._relearn:
            self._relearn = RELEARN_GROWTH * self._seen
            self.budget.hold_at(self._usual)

    def forget(self, question: str) -> None:
        """No more traces of this question will come; what it cost stays among the batch's."""
        self._own.pop(question, None)

    def expected(self, question: str) -> int:
        """The cost to expect of a trace of this question."""
        seen, cost = self._own.get(question, (0, 0))
        return max(1, min(self.worst, round((cost + SHRINKAGE_TRACES * self._usual) / (seen + SHRINKAGE_TRACES))))

    @property
    def _usual(self) -> int:
        """The batch's mean cost, the worst before any is known."""
        return max(1, min(self.worst, round(self._sum / self._seen))) if self._seen else self.worst

    @property
    def _spread(self) -> float:
        """The deviation of costs, all questions together."""
        mean = self._sum / self._seen
        return math.sqrt(max(0.0, self._squares / self._seen - mean * mean))
