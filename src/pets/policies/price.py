"""The price rule: a stream buys traces for a question while their index is above a common, steered price.

Beyond the paper: with unlimited rounds it allocates as offline okg does; ``rounds`` trades that for latency. A single
round has no price to follow, only a plan to make: it is the paper's one-shot plan (:func:`pets.core.grid.one_shot`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Self

import numpy as np

from pets.core.grid import NO_CAP, Grid, Row, cold_rows, fit_grid, one_shot
from pets.core.okg import check_prior, okg_index
from pets.core.patterns import K0, PATTERNS
from pets.core.policy import QuotaPolicy, View
from pets.core.price import PriceTable, batch, fit_prices, learned_batch, log_price_at
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import Tally
from pets.errors import InputError

__all__ = ["Price"]

PATHS = 64  # at least so many go into a price table: a training question may lend several, in random orders


@dataclass(frozen=True, slots=True)
class Price(QuotaPolicy):
    """``rounds`` parallel batches at most after the warm-up (0: one trace at a time, no limit).

    ``prior`` is "learned" from the training questions, with trace lengths where ``lengths`` and tokens are there, or
    pseudo-votes for each option. :meth:`fit` fills in the rest: ``table`` holds ``(log price, mean spend)`` rows,
    ``grids`` those of the one-shot plan, ``shares`` and ``edges`` the learned prior. Without training they are those
    of a declared population, four options and Dir(1/2).

    >>> rule = Price(rounds=2)
    >>> view = View(budget_left=160, questions_left=10, cap=64)
    >>> rule.quota(Tally((4,), options=4), view) < rule.quota(Tally((2, 2), options=4), view)
    True
    """

    rounds: int = 0
    warmup: int = 4
    prior: float | Literal["learned"] = "learned"
    unseen: int = 1
    lengths: bool = True
    table: tuple[tuple[float, float], ...] | None = None
    grids: tuple[Row, ...] | None = None
    shares: tuple[tuple[float, ...], ...] = LearnedPrior().shares
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.prior, str):
            if self.prior != "learned":
                raise InputError(f'a prior is a number or "learned"; got {self.prior!r}.')
        else:
            check_prior(self.prior, self.unseen)
        if self.rounds < 0 or self.warmup < 1:
            raise InputError(f"price needs rounds >= 0 and warmup >= 1; got {self.rounds} and {self.warmup}.")
        if self.table is not None:
            PriceTable.from_rows(self.table)  # refuses what is none
        if self.rounds == 1 and self.warmup != K0:
            raise InputError(
                f"price with rounds=1 plans on the patterns of {K0} warm-up traces; got warmup={self.warmup}. "
                "Leave the warm-up out, or allow more rounds."
            )

    def fit(
        self,
        pools: Sequence[Sequence[str | None]],
        rng: np.random.Generator,
        options: int | None = None,
        tokens: Sequence[Sequence[int]] | None = None,
    ) -> Self:
        """The same rule, trained on questions of which each is given by its recorded answers, and their tokens."""
        if self.rounds == 1:
            return replace(self, grids=fit_grid([_votes(pool) for pool in pools], len(PATTERNS)).rows)
        rule = self._learned(pools, options, tokens)
        places = [q for q in range(len(pools)) for _ in range(-(-PATHS // len(pools)))]
        orders = [(q, rng.permutation(len(pools[q])).tolist()) for q in places]
        paths = [[pools[q][j] for j in order] for q, order in orders]
        lengths = None if tokens is None else [[tokens[q][j] for j in order] for q, order in orders]
        table = fit_prices(rule._buy, paths, lengths, options=options, rounds=self.rounds, warmup=self.warmup)
        return replace(rule, table=table.rows)

    def _learned(
        self, pools: Sequence[Sequence[str | None]], options: int | None, tokens: Sequence[Sequence[int]] | None
    ) -> Self:
        """The same rule with the prior of these questions, if it learns one."""
        if self.prior != "learned":
            return self
        seen = tokens if tokens is not None and self.lengths else [[0] for _ in pools]
        means = [sum(lengths) / max(1, len(lengths)) for lengths in seen]
        tallies = [
            Tally(*_votes(pool), options=options, mean_tokens=mean) for pool, mean in zip(pools, means, strict=True)
        ]
        found = fit_prior(Counter(tallies))
        return replace(self, shares=found.shares, edges=found.edges)

    @property
    def trained(self) -> "Price":
        """The rule in force: this one, or without training that of the declared population."""
        known = self.grids if self.rounds == 1 else self.table
        return _cold(self) if known is None else self

    def quota(self, tally: Tally, view: View) -> int:
        """What is launched, and a batch more while the index is above the price; the plan's budget in one round."""
        if self.rounds == 1:
            return one_shot(Grid.from_rows(self.trained.grids or ()), tally, view)
        left = self.rounds - tally.rounds if self.rounds else 0
        if self.rounds and left < 1:
            return tally.launched
        cap = NO_CAP if view.cap is None else view.cap
        rule = self.trained
        log_price = log_price_at(rule.table or (), view.mean_left)
        return tally.launched + rule._buy(tally, log_price, left, cap)

    def _buy(self, tally: Tally, log_price: float, left: int, cap: int) -> int:
        """Traces to launch now at this price."""
        prior = self.prior
        if isinstance(prior, str):
            return learned_batch(LearnedPrior(self.shares, self.edges), tally, log_price, left, cap)
        return batch(lambda one: okg_index(one, prior, self.unseen), tally, log_price, left, cap)


def _votes(pool: Sequence[str | None]) -> tuple[tuple[int, ...], int]:
    """Vote counts, descending, and no-answers."""
    counts = Counter(answer for answer in pool if answer is not None)
    return tuple(sorted(counts.values(), reverse=True)), len(pool) - counts.total()


@lru_cache(maxsize=16)
def _cold(rule: Price) -> Price:
    """The rule trained on questions drawn from Dir(1/2) over four options, 64 traces each; a fixed, declared draw."""
    if rule.rounds == 1:
        return replace(rule, grids=cold_rows(len(PATTERNS)))
    rng = np.random.default_rng(0)
    pools = [rng.choice(list("ABCD"), size=64, p=theta).tolist() for theta in rng.dirichlet([0.5] * 4, 64)]
    return rule.fit(pools, rng, options=4)
