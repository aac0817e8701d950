"""PETS-Online: four warm-up traces place a question in a difficulty grid, and the grid's budget is spent in one shot.

Budgets come from the greedy plan over the grids, made anew for every question on what is left, R_t / H_t (Liu et
al., PETS, section 4 and appendix C).
"""

from dataclasses import dataclass, replace
from typing import Self

from pets.core.grid import Aggregation, Grid, Row, cold_rows, fit_grid, one_shot
from pets.core.policy import QuotaPolicy, Training, View
from pets.core.tally import K0, Tally, count_votes
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class OnlineGrid(QuotaPolicy):
    """K grids as rows ``(share, a, b, voting)``, easiest first; :meth:`fit` takes them from training questions.

    ``aggregation`` is how a grid's curve comes from its questions': the least L1 "loss", as the paper recommends, or
    the "average" of their parameters. Without training (``grids=None``) grids are those of a declared population, four
    options and Dir(1/2).

    >>> paths = ["A" * 60 + "B" * 4, "A" * 40 + "B" * 24, "A" * 64, "A" * 30 + "B" * 20 + "C" * 14]
    >>> trained = OnlineGrid(K=2).fit(Training(paths))
    >>> view = View(budget_left=160, questions_left=10, cap=64)
    >>> trained.quota(Tally((4,)), view) < trained.quota(Tally((2, 1, 1)), view)
    True
    """

    K: int = 5
    aggregation: Aggregation = "loss"
    grids: tuple[Row, ...] | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.K <= 5:
            raise InputError(f"online_grid has 2 to 5 difficulty grids; got K={self.K}.")
        if self.grids is not None and len(self.grids) != self.K:
            raise InputError(f"online_grid has K={self.K} but {len(self.grids)} grids; fit it anew.")

    @property
    def warmup(self) -> int:
        return K0

    @property
    def rounds(self) -> int:
        return 1

    def fit(self, training: Training) -> Self:
        votes = [count_votes(path) for path in training.paths]
        return replace(self, grids=fit_grid(votes, self.K, self.aggregation).rows)

    @property
    def grid(self) -> Grid:
        rows = cold_rows(self.K, self.aggregation) if self.grids is None else self.grids
        return Grid.from_rows(rows)

    def quota(self, tally: Tally, view: View) -> int:
        return one_shot(self.grid, tally, view)
