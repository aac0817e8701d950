"""The price rule: a stream buys traces for a question while their index is above a common, steered price.

Beyond the paper: with unlimited rounds it allocates as offline okg does; ``rounds`` trades that for latency.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

from pets.core.grid import NO_CAP
from pets.core.okg import check_prior, okg_index
from pets.core.policy import QuotaPolicy, View
from pets.core.price import PriceTable, batch, fit_prices
from pets.core.tally import Tally
from pets.errors import InputError

__all__ = ["Price"]


@dataclass(frozen=True, slots=True)
class Price(QuotaPolicy):
    """``rounds`` parallel batches at most after the warm-up (0: one trace at a time, no limit).

    ``table`` holds ``(log price, mean spend)`` rows; :meth:`fit` takes them from training questions. Without
    training they are those of a declared population, four options and Dir(1/2).

    >>> rule = Price(rounds=1)
    >>> view = View(budget_left=160, questions_left=10, cap=64)
    >>> rule.quota(Tally((4,), options=4), view) < rule.quota(Tally((2, 2), options=4), view)
    True
    """

    rounds: int = 0
    warmup: int = 4
    prior: float = 1.0
    unseen: int = 1
    table: tuple[tuple[float, float], ...] | None = None

    def __post_init__(self) -> None:
        check_prior(self.prior, self.unseen)
        if self.rounds < 0 or self.warmup < 1:
            raise InputError(f"price needs rounds >= 0 and warmup >= 1; got {self.rounds} and {self.warmup}.")

    def fit(self, pools: Sequence[Sequence[str | None]], rng: np.random.Generator, options: int | None = None) -> Self:
        """The same rule with the prices of training questions, each given by its recorded answers."""
        paths = [[pool[j] for j in rng.permutation(len(pool))] for pool in pools for _ in range(-(-64 // len(pools)))]
        table = fit_prices(self._index, paths, options=options, rounds=self.rounds, warmup=self.warmup)
        return replace(self, table=tuple(zip(table.log_prices, table.spends, strict=True)))

    @property
    def prices(self) -> PriceTable:
        """The table in force."""
        return _table(_cold(replace(self, table=None)) if self.table is None else self.table)

    def quota(self, tally: Tally, view: View) -> int:
        """What is launched, and a batch more while the index is above the price."""
        left = self.rounds - tally.rounds if self.rounds else 0
        if self.rounds and left < 1:
            return tally.launched
        cap = NO_CAP if view.cap is None else view.cap
        log_price = self.prices.log_price(view.mean_left)
        return tally.launched + batch(self._index, tally, log_price, left, cap)

    def _index(self, tally: Tally) -> float:
        return okg_index(tally, self.prior, self.unseen)


@lru_cache(maxsize=64)
def _table(rows: tuple[tuple[float, float], ...]) -> PriceTable:
    log_prices, spends = zip(*rows, strict=True)
    return PriceTable(log_prices, spends)


@lru_cache(maxsize=16)
def _cold(rule: Price) -> tuple[tuple[float, float], ...]:
    """The table on 64 questions drawn from Dir(1/2) over four options, 64 traces each; a fixed, declared draw."""
    rng = np.random.default_rng(0)
    pools = [rng.choice(list("ABCD"), size=64, p=theta).tolist() for theta in rng.dirichlet([0.5] * 4, 64)]
    fitted = rule.fit(pools, rng, options=4).table
    assert fitted is not None
    return fitted
