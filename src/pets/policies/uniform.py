"""Standard self-consistency: the same number of traces for every question."""

from dataclasses import dataclass

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True)
class Uniform(QuotaPolicy):
    """Each question gets floor(R_t / H_t), so that a budget that does not divide is used up all the same.

    >>> Uniform().quota(Tally(), View(budget_left=50, questions_left=3))
    16
    """

    @property
    def rounds(self) -> int:
        """One grant a question."""
        return 1

    def quota(self, tally: Tally, view: View) -> int:
        """The mean of what is left."""
        return view.budget_left // max(1, view.questions_left)
