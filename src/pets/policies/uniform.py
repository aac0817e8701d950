"""Standard self-consistency: the same number of traces for every question."""

from dataclasses import dataclass

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally


@dataclass(frozen=True, slots=True)
class Uniform(QuotaPolicy):
    """Each question gets floor(R_t / H_t), at least 1, so that a budget that does not divide is used up all the same.

    It is asked again when that has come back: traces that cost less than was held for them leave more for all.

    >>> Uniform().quota(Tally(), View(budget_left=50, questions_left=3))
    16
    """

    blind = True

    def quota(self, tally: Tally, view: View) -> int:
        return max(1, view.budget_left // max(1, view.questions_left))
