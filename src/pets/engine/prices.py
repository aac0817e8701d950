"""What tokens cost: a small table of known models, and the user's own price, which always wins.

List prices in dollars per million tokens, as published; they change, so a run that spends money should say its own.
"""

from dataclasses import dataclass
from typing import Self

from pets.errors import InputError

__all__ = ["KNOWN", "Price", "price_of"]


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of prompt and of output.

    >>> Price.parse("in=0.15,out=0.60").dollars(prompt_tokens=1_000_000, tokens=500_000)
    0.45
    """

    prompt: float
    output: float

    def __post_init__(self) -> None:
        if not (0 <= self.prompt < 1e6 and 0 <= self.output < 1e6) or self.prompt + self.output == 0:
            raise InputError(f"prices are dollars per million tokens, not negative and not both 0; got {self}.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """``in=0.15,out=0.60``."""
        parts = dict(part.partition("=")[::2] for part in text.replace(" ", "").split(","))
        try:
            if set(parts) != {"in", "out"}:
                raise ValueError
            return cls(float(parts["in"]), float(parts["out"]))
        except ValueError:
            raise InputError(f"a price is in=DOLLARS,out=DOLLARS per million tokens; got {text!r}.") from None

    def dollars(self, *, prompt_tokens: int, tokens: int) -> float:
        """What so many tokens cost."""
        return (self.prompt * prompt_tokens + self.output * tokens) / 1e6


KNOWN = {
    "gpt-4o": Price(2.50, 10.00),
    "gpt-4o-mini": Price(0.15, 0.60),
    "gpt-4.1": Price(2.00, 8.00),
    "gpt-4.1-mini": Price(0.40, 1.60),
    "gpt-4.1-nano": Price(0.10, 0.40),
    "gpt-5": Price(1.25, 10.00),
    "gpt-5-mini": Price(0.25, 2.00),
    "gpt-5-nano": Price(0.05, 0.40),
    "deepseek-chat": Price(0.28, 0.42),
    "deepseek-reasoner": Price(0.28, 0.42),
    "mistral-large-latest": Price(2.00, 6.00),
    "mistral-small-latest": Price(0.10, 0.30),
}


def price_of(model: str, given: Price | None = None) -> Price | None:
    """The user's price, else the table's for this model, else none.

    >>> price_of("openai/gpt-4o-mini"), price_of("my-own")
    (Price(prompt=0.15, output=0.6), None)
    """
    return given or KNOWN.get(model) or KNOWN.get(model.rpartition("/")[2])
