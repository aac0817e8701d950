"""The plain lead rule: sample one by one until the leader is so many votes ahead of the runner-up.

For two answers it is Wald's sequential probability ratio test between a share theta and 1 - theta, the test of fewest
expected samples at its error rates, whatever theta (Wald and Wolfowitz 1948).
"""

from dataclasses import dataclass

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class Lead(QuotaPolicy):
    """Stops at a lead of ``votes`` or at ``cap`` traces; traces without an answer cost and cast no vote.

    >>> rule = Lead(votes=3)
    >>> rule.quota(Tally((2,)), View()), rule.quota(Tally((3,)), View()), rule.quota(Tally((3, 1)), View())
    (3, 3, 5)
    """

    solitary = True
    sweep = ("votes", tuple(range(1, 25)))

    votes: int = 4
    cap: int = 64

    def __post_init__(self) -> None:
        if min(self.votes, self.cap) < 1:
            raise InputError(f"lead needs votes >= 1 and cap >= 1; got {self}.")

    def quota(self, tally: Tally, view: View) -> int:
        first, second = (*tally.counts, 0, 0)[:2]
        launched = tally.launched
        return launched if launched >= self.cap or first - second >= self.votes else launched + 1
