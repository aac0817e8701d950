"""Several models in one vote: which of them takes launch k.

Launch k of a question goes to the model that a low-discrepancy sequence says, so that after n launches model i has had
n p_i of them, p_i its share of the weights, but for less than one:

    | N_i(n) - n p_i | <= 1 - 1 / (2 m - 2)        for m models, at every n

That is the best bound that any sequence has (R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32,
1980), by his rule: of the models that are due, the one whose deadline comes first; equal ones in the order given. Any
n launches in a row differ from the shares by less than two traces.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from pets.errors import InputError

MAX_PERIOD = 10_000  # launches, after which the sequence begins anew


@dataclass(frozen=True, slots=True)
class ModelMixture:
    """Models by their ``weights``, each more than 0; the sequence of their turns repeats itself.

    >>> ModelMixture((2, 1)).turns, ModelMixture((1, 1, 1)).turns, ModelMixture((0.5, 1.5)).turns
    ((0, 1, 0), (0, 1, 2), (1, 0, 1, 1))
    >>> [ModelMixture((2, 1)).model_of(i) for i in range(6)]
    [0, 1, 0, 0, 1, 0]
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.weights or not all(0 < weight < float("inf") for weight in self.weights):
            raise InputError(f"weights of models are numbers greater than 0; got {self.weights}.")
        if sum(_whole(self.weights)) > MAX_PERIOD:
            raise InputError(f"the weights {self.weights} have too many digits; give smaller whole numbers.")

    @property
    def turns(self) -> tuple[int, ...]:
        """The models of one period, in order."""
        return _turns(self.weights)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each model's share of the launches."""
        total = sum(self.weights)
        return tuple(weight / total for weight in self.weights)

    def model_of(self, i: int) -> int:
        """The model that takes launch i of the sequence."""
        turns = self.turns
        return turns[i % len(turns)]

    def model_at(self, i: int, attempt: int) -> int | None:
        """The model that takes the launch when ``attempt`` others would not: each one's turns go round among the rest.

        >>> mixture = ModelMixture((1, 1, 1))
        >>> [mixture.model_at(i, 1) for i in range(6)], [mixture.model_at(1, attempt) for attempt in range(4)]
        ([1, 0, 0, 2, 2, 1], [1, 0, 2, None])
        """
        model = self.model_of(i)
        others = [other for other in range(len(self.weights)) if other != model]
        if not attempt or not others:
            return None if attempt else model
        period, number = divmod(i, len(self.turns))
        missed = period * self.turns.count(model) + self.turns[:number].count(model)
        substitute = ModelMixture(tuple(self.weights[other] for other in others)).model_at(missed, attempt - 1)
        return None if substitute is None else others[substitute]


def _whole(weights: tuple[float, ...]) -> tuple[int, ...]:
    """The smallest whole numbers that are to each other as the weights."""
    fractions = [Fraction(str(weight)) for weight in weights]
    scale = lcm(*(fraction.denominator for fraction in fractions))
    numbers = [int(fraction * scale) for fraction in fractions]
    return tuple(number // gcd(*numbers) for number in numbers)


@lru_cache(maxsize=256)
def _turns(weights: tuple[float, ...]) -> tuple[int, ...]:
    whole = _whole(weights)
    period, spread = sum(whole), max(1, 2 * len(whole) - 2)
    had = [0] * len(whole)
    turns = []
    for turn in range(1, period + 1):
        due = [(spread * (turn * weight - count * period), weight) for weight, count in zip(whole, had, strict=True)]
        deadlines = [
            (Fraction((spread - 1) * period - lag, weight), model)
            for model, (lag, weight) in enumerate(due)
            if lag >= period or spread == 1
        ]
        model = min(deadlines)[1]
        had[model] += 1
        turns.append(model)
    return tuple(turns)
