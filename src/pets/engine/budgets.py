"""Budgets as people write them: ``16x`` (traces a question, on average), ``5000``, ``2Mtok``, ``5usd``."""

import re
from dataclasses import dataclass
from typing import Literal

from pets.core.budget import Currency
from pets.engine.prices import Price
from pets.errors import BudgetError

__all__ = ["Amount", "currency_of", "total_of"]

FORM = re.compile(r"\+?\s*\$?\s*(\d[\d_,]*(?:\.\d+)?|\.\d+)\s*([a-zA-Z$]*)")
UNITS: dict[str, tuple[Literal["mean", "traces", "tokens", "usd"], int]] = {
    "": ("traces", 1),
    "traces": ("traces", 1),
    "x": ("mean", 1),
    "tok": ("tokens", 1),
    "ktok": ("tokens", 10**3),
    "mtok": ("tokens", 10**6),
    "gtok": ("tokens", 10**9),
    "usd": ("usd", 1),
    "$": ("usd", 1),
}
PICO = 10**12


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount with its unit.

    >>> Amount.parse("16x"), Amount.parse("2Mtok").number, Amount.parse("5usd").unit
    (Amount(number=16.0, unit='mean'), 2000000.0, 'usd')
    """

    number: float
    unit: Literal["mean", "traces", "tokens", "usd"]

    @classmethod
    def parse(cls, text: str) -> "Amount":
        """The amount that was written."""
        found = FORM.fullmatch(text.strip())
        word = "" if found is None else (found[2].lower() or ("usd" if "$" in text else ""))
        if found is None or word not in UNITS:
            raise BudgetError(
                f"{text!r} is no budget. Write 16x (traces a question, on average), 5000 (traces), 2Mtok or 5usd."
            )
        unit, scale = UNITS[word]
        number = float(found[1].replace("_", "").replace(",", "")) * scale
        if number <= 0 or (unit in ("traces", "tokens") and number != int(number)):
            raise BudgetError(f"a budget is more than 0, traces and tokens whole numbers; got {text!r}.")
        return cls(number, unit)

    @property
    def coin(self) -> str:
        """The unit of the ledger: traces, tokens or picodollars."""
        return {"mean": "traces", "usd": "picodollars"}.get(self.unit, self.unit)


def total_of(amount: Amount, questions: int) -> int:
    """The amount in the ledger's smallest unit.

    >>> total_of(Amount.parse("2.5x"), 10), total_of(Amount.parse("5usd"), 10)
    (25, 5000000000000)
    """
    if amount.unit == "mean":
        return int(amount.number * questions + 1e-9)
    return round(amount.number * (PICO if amount.unit == "usd" else 1))


def currency_of(amount: Amount, price: Price | None, *, prompt_tokens: int, max_tokens: int) -> Currency:
    """What a trace costs in the amount's unit; the hold is the dearest trace's, until cheaper ones were seen."""
    if amount.unit == "tokens":
        return Currency.tokens(prompt_tokens + max_tokens)
    if amount.unit == "usd":
        if price is None:
            raise BudgetError("a budget in dollars needs a price: --price in=DOLLARS,out=DOLLARS per million tokens.")
        return Currency.money(price.prompt, price.output, prompt_tokens=prompt_tokens, max_tokens=max_tokens)
    return Currency()
