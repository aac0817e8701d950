"""What traces cost: the one place that knows. Amounts are whole traces, tokens or picodollars, so nothing drifts."""

from dataclasses import dataclass

from pets.errors import BudgetError
from pets.types import Usage


def amount_words(number: float, unit: str) -> str:
    """An amount for people.

    >>> amount_words(2_500_000_000_000, "picodollars"), amount_words(0.000169, "usd"), amount_words(1600, "traces")
    ('$2.5', '$0.000169', '1,600 traces')
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
        """An amount and its unit as people know them: dollars with decimals, whole traces and tokens."""
        return (round(amount / 1e12, 9), "usd") if self.unit == "picodollars" else (amount, self.unit)

    @classmethod
    def tokens(cls, hold: int) -> "Currency":
        """Prompt and completion tokens; ``hold`` is the most that one trace can use."""
        return cls("tokens", hold, per_trace=0, per_token=1, per_prompt_token=1)

    @classmethod
    def money(
        cls, prompt: float, output: float, cached: float | None = None, *, prompt_tokens: int, max_tokens: int
    ) -> "Currency":
        """Picodollars, from dollars per million tokens; holds the price of the longest trace, nothing of it cached.

        >>> currency = Currency.money(0.15, 0.60, 0.075, prompt_tokens=100, max_tokens=1000)
        >>> currency.hold, currency.cost(Usage(prompt_tokens=100, cached_tokens=80))
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

    def usage_worth(self, amount: int) -> Usage:
        """The tokens of output, or of the prompt where output is free, that cost this amount or just less.

        >>> Currency.money(1, 40, prompt_tokens=10, max_tokens=100).usage_worth(4_010_000_000).tokens
        100
        """
        if self.per_token:
            return Usage(tokens=amount // self.per_token)
        return Usage(prompt_tokens=amount // max(1, self.per_prompt_token))

    def cost(self, usage: Usage) -> int:
        """What a trace that used so much cost: in money what it says itself, where it does, else by its tokens."""
        if usage.cost is not None and self.unit == "picodollars":
            return usage.cost
        per_cached_token = self.per_prompt_token if self.per_cached_token is None else self.per_cached_token
        prompt = self.per_prompt_token * (usage.prompt_tokens - usage.cached_tokens)
        return self.per_trace + self.per_token * usage.tokens + prompt + per_cached_token * usage.cached_tokens

    def hold_for(self, longest: Usage) -> int:
        """What is held for a trace that uses no more than ``longest``: at least 1."""
        return max(1, self.cost(longest))

    def words(self, amount: float) -> str:
        """An amount for people; see :func:`amount_words`."""
        return amount_words(amount, self.unit)


TRACES = Currency()
