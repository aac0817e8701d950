"""The budget: reserved before dispatch, settled on return, never exceeded.

All amounts are whole numbers of the smallest unit (traces, tokens, or picodollars), so nothing drifts.

    total >= spent + reserved        at every moment, as long as no trace costs more than its hold

A trace that was cancelled before its end costs what was written of it; in a budget of traces its part, in thousandths.
These add up, and a whole trace is spent as soon as one is begun, so that the budget is not exceeded by a part either.

A trace that costs more than was held for it is charged in full (the money is gone): ``spent - total`` then says how far
over the total that went, and nothing more is granted.
"""

from dataclasses import astuple, dataclass, replace
from typing import Any

from pets.core.money import TRACES, Currency
from pets.errors import BudgetError
from pets.types import Usage


def whole_traces(parts: int) -> int:
    """The traces that so many thousandths of one take, the last one whole.

    >>> [whole_traces(parts) for parts in (0, 1, 1000, 1001)]
    [0, 1, 1, 2]
    """
    return -(-parts // 1000)


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
        """An endless stream's budget: ``amount`` for every ``questions`` arrivals.

        >>> Budget.per_window(100, 1600).total
        0
        """
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
        """Hold another amount for every trace from now on, those in flight included: what they turn out to cost.

        >>> budget = Budget(total=1000, currency=Currency.tokens(hold=400))
        >>> budget.reserve(2); budget.hold_at(100)
        >>> budget.reserved, budget.affordable
        (200, 8)
        """
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
