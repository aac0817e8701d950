"""PETS-Oracle: one-shot budgets for questions whose answer distribution is known; an upper bound, not deployable.

The questions' own probit curves (a, b) are clustered by k-means, each cluster gets the greedy plan's budget (Liu
et al., PETS, appendix E).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from pets.core.grid import NO_CAP, Grid, Pool, Row, fit_oracle, plan_for
from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError

__all__ = ["Oracle"]


@dataclass(frozen=True, slots=True)
class Oracle(QuotaPolicy):
    """``labels`` says which cluster a question is in, ``grids`` each cluster's ``(share, a, b, voting)``.

    >>> oracle = Oracle(K=2).fit({"easy": ((60, 4), 0), "hard": ((33, 31), 0)}, np.random.default_rng(0))
    >>> view = View(budget_left=32, questions_left=2, cap=64)
    >>> oracle.quota(Tally(question="easy"), view) < oracle.quota(Tally(question="hard"), view)
    True
    """

    K: int = 5
    grids: tuple[Row, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """One shot."""
        return 1

    def fit(self, pools: Mapping[str, Pool], rng: np.random.Generator) -> Self:
        """The oracle that knows these questions: id -> ``(vote counts, no-answers)`` of a large pool."""
        grid, labels = fit_oracle(list(pools.values()), self.K, rng)
        return replace(self, grids=grid.rows, labels=dict(zip(pools, labels.tolist(), strict=True)))

    def quota(self, tally: Tally, view: View) -> int:
        """The plan's budget for the question's cluster."""
        cluster = self.labels.get(tally.question)
        if cluster is None:
            known = len(self.labels)
            raise InputError(f"the oracle knows {known} questions, not {tally.question!r}; fit it on that one's pool.")
        cap = NO_CAP if view.cap is None else view.cap
        return plan_for(Grid.from_rows(self.grids), max(view.mean_left, 1.0), 1, cap).budget(cluster, view.coin)
