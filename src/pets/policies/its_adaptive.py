"""Doubling: sample 2, 4, 8, ... traces in all until the leader has a supermajority of the votes.

The adaptive self-consistency of Red Hat's its_hub library, where the supermajority is 75 %. There a trace that does
not parse counts as an answer of its own; here it casts no vote, as everywhere in this library.
"""

from dataclasses import dataclass

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class ITSAdaptive(QuotaPolicy):
    """Stops when the leader's share of the votes is at least ``threshold``, or at ``cap`` traces.

    It begins with ``start`` traces. As many that agree stop at any threshold: the rule's consistency has a ceiling that
    no threshold lifts, but a larger start does.

    >>> rule = ITSAdaptive()
    >>> rule.quota(Tally(), View()), rule.quota(Tally((1, 1)), View()), rule.quota(Tally((3, 1)), View())
    (2, 4, 4)
    """

    solitary = True
    sweep = ("threshold", (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0))

    threshold: float = 0.75
    cap: int = 64
    start: int = 2

    def __post_init__(self) -> None:
        if not (0.0 < self.threshold <= 1.0 and min(self.cap, self.start) >= 1):
            raise InputError(f"its_adaptive needs 0 < threshold <= 1, cap >= 1 and start >= 1; got {self}.")

    def quota(self, tally: Tally, view: View) -> int:
        launched = tally.launched
        if launched < self.start:
            return min(self.cap, self.start)
        if launched >= self.cap or (tally.counts and tally.counts[0] / tally.votes >= self.threshold):
            return launched
        doublings = (launched // self.start).bit_length()
        return min(self.cap, self.start << doublings)
