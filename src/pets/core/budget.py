"""The budget: reserved before dispatch, settled on return, never exceeded.

All amounts are whole numbers of the smallest unit (traces, tokens, or picodollars), so nothing drifts.

    total >= spent + reserved        at every moment, as long as no trace costs more than its hold

A trace that costs more than was held for it is charged in full (the money is gone): ``spent - total`` then says how far
over the total that went, and nothing more is granted.
"""

from dataclasses import dataclass, replace
from typing import Any

from pets.errors import BudgetError
from pets.types import Trace


def amount_words(number: float, unit: str) -> str:
    """An amount for people.

    >>> amount_words(2_500_000_000_000, "picodollars"), amount_words(0.000169, "usd"), amount_words(1600, "traces")
    ('$2.5', '$0.000169', '1,600 traces')
    >>> amount_words(0.000013, "usd")
    '$0.000013'
    """
    if unit in ("picodollars", "usd"):
        dollars = number / (1e12 if unit == "picodollars" else 1)
        return f"${dollars:,.6g}" if dollars >= 1e-4 or not dollars else f"${dollars:.12f}".rstrip("0")
    return f"{number:,.0f} {unit.removesuffix('s') if number == 1 else unit}"


@dataclass(frozen=True, slots=True)
class Currency:
    """What a trace costs, and ``hold``: what is reserved for one before it is dispatched (its most, to be safe).

    ``per_cached_token`` is the price of prompt tokens from the server's cache, that of the others if it has none.
    """

    unit: str = "traces"
    hold: int = 1
    per_trace: int = 1
    per_token: int = 0
    per_prompt_token: int = 0
    per_cached_token: int | None = None

    def __post_init__(self) -> None:
        prices = (self.per_trace, self.per_token, self.per_prompt_token, self.per_cached_token or 0)
        if min(prices) < 0 or self.hold < 1:
            raise BudgetError(f"prices are not negative and the hold is at least 1; got {self}.")

    def shown(self, amount: float) -> tuple[float, str]:
        """An amount and its unit as people know them: dollars with decimals, whole traces and tokens.

        >>> Currency.money(0.15, 0.60, prompt_tokens=100, max_tokens=1000).shown(2_500_000_000_000)
        (2.5, 'usd')
        """
        return (round(amount / 1e12, 9), "usd") if self.unit == "picodollars" else (amount, self.unit)

    @classmethod
    def tokens(cls, hold: int) -> "Currency":
        """Prompt and completion tokens; ``hold`` is the most that one trace can use.

        >>> Currency.tokens(hold=2048).cost(Trace("q", 0, tokens=900, prompt_tokens=100))
        1000
        """
        return cls("tokens", hold, per_trace=0, per_token=1, per_prompt_token=1)

    @classmethod
    def money(
        cls, prompt: float, output: float, cached: float | None = None, *, prompt_tokens: int, max_tokens: int
    ) -> "Currency":
        """Picodollars, from dollars per million tokens; holds the price of the longest trace, nothing of it cached.

        >>> currency = Currency.money(0.15, 0.60, 0.075, prompt_tokens=100, max_tokens=1000)
        >>> currency.hold, currency.cost(Trace("q", 0, prompt_tokens=100, cached_tokens=80))
        (615000000, 9000000)
        """
        per_prompt_token, per_token = round(prompt * 1_000_000), round(output * 1_000_000)
        hold = max(1, per_prompt_token * prompt_tokens + per_token * max_tokens)
        per_cached_token = None if cached is None else round(cached * 1_000_000)
        return cls("picodollars", hold, 0, per_token, per_prompt_token, per_cached_token)

    @property
    def counts_traces(self) -> bool:
        """Whether every trace costs the same."""
        return self.per_token == self.per_prompt_token == 0

    def tokens_worth(self, amount: int) -> tuple[int, int]:
        """How many tokens of output, or of the prompt where output is free, cost this amount or just less.

        >>> Currency.money(1, 40, prompt_tokens=10, max_tokens=100).tokens_worth(4_010_000_000)
        (100, 0)
        >>> Currency.money(1, 0, prompt_tokens=10, max_tokens=100).tokens_worth(10_000_000)
        (0, 10)
        """
        if self.per_token:
            return amount // self.per_token, 0
        return 0, amount // max(1, self.per_prompt_token)

    def cost(self, trace: Trace) -> int:
        """What ``trace`` really cost: in money what it says itself, where it does, else by its tokens."""
        if trace.cost is not None and self.unit == "picodollars":
            return trace.cost
        per_cached_token = self.per_prompt_token if self.per_cached_token is None else self.per_cached_token
        prompt = self.per_prompt_token * (trace.prompt_tokens - trace.cached_tokens)
        return self.per_trace + self.per_token * trace.tokens + prompt + per_cached_token * trace.cached_tokens


TRACES = Currency()


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
    >>> budget.reserve(3); budget.settle(Trace("q", 0, "A")); budget.refund(2)
    >>> budget.spent, budget.reserved, budget.free
    (1, 0, 9)
    """

    total: int
    cap: int | None = None
    currency: Currency = TRACES
    window: Window | None = None
    spent: int = 0
    reserved: int = 0
    settled: int = 0  # traces paid for

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
        if not self.settled or not self.spent:
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

    def settle(self, trace: Trace) -> None:
        """Turn one reservation into what the trace really cost."""
        self.refund()
        self.charge(trace)

    def charge(self, trace: Trace) -> None:
        """Count a trace that was paid for without a reservation: by an earlier run."""
        self.settled += 1
        self.spent += self.currency.cost(trace)

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
        currency = self.currency
        return {
            "total": self.total,
            "cap": self.cap,
            "currency": [getattr(currency, name) for name in Currency.__slots__],
            "window": None if self.window is None else [self.window.questions, self.window.amount],
            "spent": self.spent,
            "reserved": self.reserved,
            "settled": self.settled,
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> "Budget":
        """The budget that :meth:`to_plain` described."""
        window = None if data["window"] is None else Window(*data["window"])
        currency = Currency(*data["currency"])
        return cls(data["total"], data["cap"], currency, window, data["spent"], data["reserved"], data["settled"])
