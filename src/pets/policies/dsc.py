"""Difficulty-Adaptive Self-Consistency: what harder questions needed decides what the next one gets.

Questions come from the hardest to the easiest, one after the other: rank them, and add each when the last has
stopped. A question opens with one window of 4 and stops there if the asc rule (see ``asc``) is met. After ``run``
consecutive questions that stopped in their opening, every easier one gets 1 trace. Otherwise a question goes on to

    4 x round(mean stop size of the previous ``memory`` questions / 4)

traces at once, then by 4 until the asc rule stops it.

Wang, Feng, Li, Yuan, Zhang, Tan, Pan, Hu and Li, "Make Every Penny Count" (Findings of NAACL 2025). Their
pre-allocation averages the least traces that would have done, which only hindsight knows; here it is the sizes of
past stops. The opening, their pre-sample, lets a question stop below the mean of those before it.
"""

from dataclasses import dataclass

from pets.core.dirichlet import p_leader
from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class DSC(QuotaPolicy):
    """``threshold`` and ``cap`` as in asc, ``window`` the step of 4.

    The opening is a single window unless the threshold asks for more than that many unanimous votes (over 0.968 for
    4): then it is as many windows as they need.

    >>> rule, past = DSC(), (40, 12, 8, 4)
    >>> rule.quota(Tally(), View(stops=past)), rule.quota(Tally((2, 2)), View(stops=past))
    (4, 16)
    >>> rule.quota(Tally(), View(stops=(4,) * 32))
    1
    """

    sweep = ("threshold", (0.6, 0.8, 0.85, 0.88, 0.9, 0.92, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999))

    threshold: float = 0.95
    cap: int = 40
    window: int = 4
    run: int = 32
    memory: int = 16

    def __post_init__(self) -> None:
        if not (0.5 < self.threshold <= 1.0 and min(self.cap, self.window) >= 1):
            raise InputError(f"dsc needs 0.5 < threshold <= 1 (a tie has 0.5), cap >= 1 and window >= 1; got {self}.")
        if not (1 <= self.run <= 64 and 1 <= self.memory <= 64):
            raise InputError(f"dsc looks back on 1 to 64 stops; got run={self.run} and memory={self.memory}.")

    def quota(self, tally: Tally, view: View) -> int:
        launched, opening = tally.launched, self._opening()
        if launched == 0:
            return 1 if self._easy(view.stops, opening) else opening
        if launched == 1 < opening or launched >= self.cap or self._settled(tally.counts):  # 1: an easy one
            return launched
        ahead = self._preallocated(view.stops) if launched == opening else 0
        return min(self.cap, max(ahead, launched + self.window))

    def _settled(self, counts: tuple[int, ...]) -> bool:
        first, second = (*counts, 0, 0)[:2]
        return p_leader((first + 1.0, second + 1.0)) >= self.threshold

    def _opening(self) -> int:
        """The least number of windows whose unanimous votes would settle a question."""
        size = self.window
        while size < self.cap and not self._settled((size,)):
            size += self.window
        return min(size, self.cap)

    def _easy(self, stops: tuple[int, ...], opening: int) -> bool:
        """Whether the latest questions all stopped in their opening (or were given 1 for that reason)."""
        return len(stops) >= self.run and max(stops[-self.run :]) <= opening

    def _preallocated(self, stops: tuple[int, ...]) -> int:
        latest = stops[-self.memory :]
        return self.window * round(sum(latest) / len(latest) / self.window) if latest else 0
