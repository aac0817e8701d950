"""Budgets as people write them: ``16x`` (traces per question, on average), ``5000``, ``2Mtok``, ``5usd``; prices, and
the models that they are for, with their weights where several vote.

List prices are in dollars per million tokens, as published; they change, so a run that spends money should say its own.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from pets.core.mixture import ModelMixture
from pets.core.money import Currency
from pets.errors import BudgetError, InputError

FORM = re.compile(r"\+?\s*\$?\s*(\d[\d_,]*(?:\.\d+)?|\.\d+)\s*([a-zA-Z$]*)")
UNITS: dict[str, tuple[Literal["mean", "traces", "tokens", "usd"], int]] = {
    "": ("traces", 1),
    "traces": ("traces", 1),
    "x": ("mean", 1),
    "tok": ("tokens", 1),
    "tokens": ("tokens", 1),
    "ktok": ("tokens", 10**3),
    "mtok": ("tokens", 10**6),
    "gtok": ("tokens", 10**9),
    "usd": ("usd", 1),
    "$": ("usd", 1),
}
PICODOLLARS = 10**12

Models = str | Sequence[str] | Mapping[str, float]
"""One model, several with equal weights or written ``NAME=WEIGHT``, or each with its weight."""


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars per million tokens of prompt and of output; in batch jobs they cost the share ``batch`` of it.

    ``cached`` is the price of prompt tokens that the server has in its cache, that of the others where it is ``None``.

    >>> TokenPrice.parse("in=0.15,out=0.60").dollars(prompt_tokens=1_000_000, tokens=500_000)
    0.45
    """

    prompt: float
    output: float
    batch: float = 0.5
    cached: float | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.prompt < 1e6 and 0 <= self.output < 1e6) or self.prompt + self.output == 0:
            raise InputError(f"prices are dollars per million tokens, not negative and not both 0; got {self}.")
        if self.cached is not None and not 0 <= self.cached <= self.prompt:
            raise InputError(f"cached tokens cost no more than others, and not less than nothing; got {self.cached}.")
        if not 0 < self.batch <= 1:
            raise InputError(f"batch jobs cost a share of the price, more than 0 and at most 1; got {self.batch}.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """``in=0.15,out=0.60``, optionally with ``cached=0.075`` and ``batch=0.6``."""
        parts = dict(part.partition("=")[::2] for part in text.replace(" ", "").split(","))
        names = {"in": "prompt", "out": "output", "batch": "batch", "cached": "cached"}
        try:
            return cls(**{names[name]: float(dollars) for name, dollars in parts.items()})
        except InputError:  # it says what is wrong
            raise
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "a price is in=DOLLARS,out=DOLLARS per million tokens, where it matters with cached=DOLLARS for cached "
                f"prompts and batch=SHARE for batch jobs; got {text!r}."
            ) from None

    @classmethod
    def dearest(cls, prices: Sequence["TokenPrice"]) -> "TokenPrice":
        """The highest price of each kind: what is held for a launch that any of several models may take.

        >>> TokenPrice.dearest([TokenPrice(1.0, 40.0), TokenPrice(3.0, 2.0, cached=0.5)])
        TokenPrice(prompt=3.0, output=40.0, batch=0.5, cached=1.0)
        """
        if len(set(prices)) == 1:
            return prices[0]
        cached = max(price.prompt if price.cached is None else price.cached for price in prices)
        highest = {name: max(getattr(price, name) for price in prices) for name in ("prompt", "output", "batch")}
        return cls(**highest, cached=cached)

    def in_batches(self) -> "TokenPrice":
        """The price of batch jobs; of such a price, itself."""
        cached = None if self.cached is None else self.cached * self.batch
        return TokenPrice(self.prompt * self.batch, self.output * self.batch, 1.0, cached)

    def dollars(self, prompt_tokens: int, tokens: int) -> float:
        """What tokens cost, none of them cached."""
        return (self.prompt * prompt_tokens + self.output * tokens) / 1e6

    def currency(self, *, prompt_tokens: int = 0, max_tokens: int = 0) -> Currency:
        """What traces cost at this price, with so many tokens held for each."""
        return Currency.money(self.prompt, self.output, self.cached, prompt_tokens=prompt_tokens, max_tokens=max_tokens)


LIST_PRICES = {
    "gpt-4o": TokenPrice(2.50, 10.00, cached=1.25),
    "gpt-4o-mini": TokenPrice(0.15, 0.60, cached=0.075),
    "gpt-4.1": TokenPrice(2.00, 8.00, cached=0.50),
    "gpt-4.1-mini": TokenPrice(0.40, 1.60, cached=0.10),
    "gpt-4.1-nano": TokenPrice(0.10, 0.40, cached=0.025),
    "gpt-5": TokenPrice(1.25, 10.00, cached=0.125),
    "gpt-5-mini": TokenPrice(0.25, 2.00, cached=0.025),
    "gpt-5-nano": TokenPrice(0.05, 0.40, cached=0.005),
    "deepseek-chat": TokenPrice(0.28, 0.42),
    "deepseek-reasoner": TokenPrice(0.28, 0.42),
    "mistral-large-latest": TokenPrice(2.00, 6.00),
    "mistral-small-latest": TokenPrice(0.10, 0.30),
}


def price_of(model: str, own: TokenPrice | None = None) -> TokenPrice | None:
    """The user's price, else the list price of this model, else none.

    >>> price_of("openai/gpt-4o-mini"), price_of("my-own")
    (TokenPrice(prompt=0.15, output=0.6, batch=0.5, cached=0.075), None)
    """
    return own or LIST_PRICES.get(model) or LIST_PRICES.get(model.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class ModelShare:
    """One of several models: its weight, and its price where it has one of its own.

    >>> ModelShare.parse("Qwen/Qwen3-8B=2"), ModelShare.parse("qwen3:8b").weight
    (ModelShare(name='Qwen/Qwen3-8B', weight=2, price=None), 1)
    """

    name: str
    weight: float = 1
    price: TokenPrice | None = None

    @classmethod
    def parse(cls, text: str) -> "ModelShare":
        """``NAME=WEIGHT``, or ``NAME`` alone for a weight of 1."""
        name, _, number = text.rpartition("=")
        try:
            weight = float(number) if name else 1.0
        except ValueError:  # a name with an equals sign
            return cls(text)
        return cls(name or text, int(weight) if weight.is_integer() else weight)

    def __str__(self) -> str:
        return self.name if self.weight == 1 else f"{self.name}={self.weight:g}"


def model_shares(models: Models | None) -> tuple[ModelShare, ...]:
    """Several models with their weights; none where there is one model, or none.

    >>> model_shares(["a=2", "b"]) == model_shares({"a": 2, "b": 1}), model_shares("a=2")
    (True, ())
    """
    if models is None or isinstance(models, str) or len(models) < 2:
        return ()
    if isinstance(models, Mapping):
        shares = [ModelShare(*pair) for pair in models.items()]
    else:
        shares = list(map(ModelShare.parse, models))
    ((name, count),) = Counter(share.name for share in shares).most_common(1)
    if count > 1:
        raise InputError(f"the model {name} is named twice; name it once, with a weight: {name}=2.")
    ModelMixture(tuple(share.weight for share in shares))  # or refuses their weights
    return tuple(shares)


def with_prices(shares: Sequence[ModelShare], prices: Mapping[str, TokenPrice | str]) -> tuple[ModelShare, ...]:
    """The models with prices of their own."""
    if unknown := set(prices) - {share.name for share in shares}:
        raise InputError(f"there is a price for {min(unknown)}, which is none of several models.")
    parsed = {name: TokenPrice.parse(price) if isinstance(price, str) else price for name, price in prices.items()}
    return tuple(replace(share, price=parsed.get(share.name, share.price)) for share in shares)


def model_name(models: Models | None) -> str | None:
    """The name of the one model, or of all with their weights.

    >>> model_name("a"), model_name(["a=2", "b"]), model_name(["a"]), model_name(None)
    ('a', 'a=2, b', 'a', None)
    """
    if models is None or isinstance(models, str):
        return models
    if len(models) == 1:
        return ModelShare.parse(next(iter(models))).name
    return ", ".join(map(str, model_shares(models))) or None


@dataclass(frozen=True, slots=True)
class Amount:
    """A budget: a number and its unit.

    >>> Amount.parse("16x"), Amount.parse("2Mtok").number, Amount.parse("5usd").unit
    (Amount(number=16.0, unit='mean'), 2000000.0, 'usd')
    """

    number: float
    unit: Literal["mean", "traces", "tokens", "usd"]

    @classmethod
    def parse(cls, text: str) -> "Amount":
        """The amount that was written."""
        match = FORM.fullmatch(text.strip())
        word = "" if match is None else (match[2].lower() or ("usd" if "$" in text else ""))
        if match is None or word not in UNITS:
            raise BudgetError(
                f"{text!r} is no budget. Write 16x (traces per question, on average), 5000 (traces), 2Mtok or 5usd."
            )
        unit, scale = UNITS[word]
        number = float(match[1].replace("_", "").replace(",", "")) * scale
        if number <= 0 or (unit in ("traces", "tokens") and number != int(number)):
            money = f" For money write {match[1]}usd." if unit == "traces" and number > 0 else ""
            raise BudgetError(f"a budget is more than 0, traces and tokens whole numbers; got {text!r}.{money}")
        return cls(number, unit)

    @classmethod
    def parse_mean(cls, text: str) -> float:
        """Traces per question on average, written as 16x; no other unit will do."""
        amount = cls.parse(text)
        if amount.unit != "mean":
            raise BudgetError(f"here a budget is traces per question on average, such as 16x; got {text!r}.")
        return amount.number

    def traces(self, questions: int) -> int:
        """How many traces it is for so many questions; no other unit will do."""
        if self.ledger_unit != "traces":
            raise BudgetError("here traces are counted, not tokens or money: write 8x (per question) or 5000 (in all).")
        return total_of(self, questions)

    @property
    def ledger_unit(self) -> str:
        """The unit of the ledger: traces, tokens or picodollars."""
        return {"mean": "traces", "usd": "picodollars"}.get(self.unit, self.unit)


def total_of(amount: Amount, questions: int) -> int:
    """The amount in the ledger's smallest unit."""
    if amount.unit == "mean":
        return int(amount.number * questions + 1e-9)
    return round(amount.number * (PICODOLLARS if amount.unit == "usd" else 1))


def currency_of(amount: Amount, price: TokenPrice | None, *, prompt_tokens: int, max_tokens: int | None) -> Currency:
    """What a trace costs in the amount's unit; held for each is what the longest costs."""
    if amount.ledger_unit == "traces":
        return Currency()
    if amount.unit == "usd" and price is None:
        raise BudgetError("a budget in dollars needs a price: --price in=DOLLARS,out=DOLLARS per million tokens.")
    if max_tokens is None:
        raise BudgetError(
            f"a budget in {amount.unit} holds the longest trace that may come, and the server does not say how long "
            "that is, or leaves nothing beside the longest prompt. Give --max-tokens N."
        )
    if price is None or amount.unit == "tokens":
        return Currency.tokens(prompt_tokens + max_tokens)
    return price.currency(prompt_tokens=prompt_tokens, max_tokens=max_tokens)
