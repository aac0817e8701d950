"""PETS-Oracle: one-shot budgets for questions whose answer distribution is known; not deployable.

The training questions' probit curves (a, b) are clustered by k-means, each cluster gets the greedy plan's budget, and
an arriving question, whose true curve is revealed, that of the nearest centre (Liu et al., PETS, appendix E). The paper
calls it an upper bound. It is none in measurements: it knows the shares, not the votes that were drawn, and a policy
that looks at those can pass it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pets.core.grid import NO_CAP, Grid, Row, fit_oracle, plan_for
from pets.core.policy import QuotaPolicy, Training, View
from pets.core.tally import Tally, count_votes
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class Oracle(QuotaPolicy):
    """``labels`` says which cluster a question is in, ``grids`` each cluster's ``(share, a, b, voting)``.

    >>> paths = ["A" * 64, "A" * 62 + "B" * 2, "A" * 34 + "B" * 30]
    >>> arriving = {"easy": "A" * 60 + "B" * 4, "hard": "A" * 33 + "B" * 31}
    >>> oracle = Oracle(K=2).fit(Training(paths, arriving=arriving))
    >>> view = View(budget_left=32, questions_left=2, cap=64)
    >>> oracle.quota(Tally(question="easy"), view) < oracle.quota(Tally(question="hard"), view)
    True
    """

    K: int = 5
    grids: tuple[Row, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return 1

    def fit(self, training: Training) -> Self:
        """The oracle that knows the questions to come, by a large recorded pool of each; clusters are of training."""
        votes, arriving = (list(map(count_votes, paths)) for paths in (training.paths, training.arriving.values()))
        grid, labels = fit_oracle(votes, self.K, training.rng(), arriving)
        return replace(self, grids=grid.rows, labels=dict(zip(training.arriving, labels.tolist(), strict=True)))

    def quota(self, tally: Tally, view: View) -> int:
        cluster = self.labels.get(tally.question)
        if cluster is None:
            questions = len(self.labels)
            raise InputError(f"the oracle knows {questions} questions, not {tally.question!r}; fit it on its answers.")
        cap = NO_CAP if view.cap is None else view.cap
        return plan_for(Grid.from_rows(self.grids), max(view.mean_left, 1.0), 1, cap).budget(cluster, view.coin)
