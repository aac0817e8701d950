"""PETS-Offline: each trace goes where one more vote could raise the belief in the leader most.

The optimistic knowledge gradient (Chen, Lin and Zhou 2013; Liu et al., PETS) with an exact index.
"""

from dataclasses import dataclass

from pets.core.okg import check_prior, okg_index
from pets.core.policy import IndexPolicy, View
from pets.core.tally import Tally

__all__ = ["OKG"]


@dataclass(frozen=True, slots=True)
class OKG(IndexPolicy):
    """``prior`` pseudo-votes for each option (the paper's Dir(1)); ``unseen`` slots of an open answer set.

    >>> OKG().index(Tally((2, 1)), View()) > OKG().index(Tally((3,)), View())
    True
    """

    prior: float = 1.0
    unseen: int = 1

    def __post_init__(self) -> None:
        check_prior(self.prior, self.unseen)

    def index(self, tally: Tally, view: View) -> float:
        """log of the optimistic gain times the chance that a trace votes."""
        return okg_index(tally, self.prior, self.unseen)
