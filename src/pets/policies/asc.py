"""Adaptive-Consistency: sample one by one until the leader very probably beats the runner-up.

With v1, v2 the two largest counts and a uniform prior on the leader's share of the two, stop after the trace at which

    P(share > 1/2) = 1 - I_0.5(v1 + 1, v2 + 1) >= threshold.

Aggarwal, Madaan, Yang and Mausam, "Let's Sample Step by Step" (EMNLP 2023): the Beta criterion, 0.95 and 40.
"""

from dataclasses import dataclass
from typing import ClassVar

from pets.core.dirichlet import p_leader_counts
from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Tally
from pets.errors import InputError

__all__ = ["ASC"]


@dataclass(frozen=True, slots=True)
class ASC(QuotaPolicy):
    """Stops at ``threshold`` or ``cap`` traces; traces without an answer cost and cast no vote.

    >>> rule = ASC()
    >>> rule.quota(Tally((3,)), View()), rule.quota(Tally((4,)), View()), rule.quota(Tally((4, 1)), View())
    (4, 4, 6)
    """

    solitary: ClassVar[bool] = True
    sweep: ClassVar[tuple[str, tuple[float, ...]] | None] = (
        "threshold",
        (0.6, 0.8, 0.85, 0.88, 0.9, 0.92, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999),
    )

    threshold: float = 0.95
    cap: int = 40

    def __post_init__(self) -> None:
        if not (0.5 < self.threshold <= 1.0 and self.cap >= 1):
            raise InputError(f"asc needs 0.5 < threshold <= 1 (a tie has 0.5) and cap >= 1; got {self}.")

    def quota(self, tally: Tally, view: View) -> int:
        """One more until the leader is settled."""
        launched = tally.launched
        if launched >= self.cap or p_leader_counts(tally.counts[:2], 1.0, 2) >= self.threshold:
            return launched
        return launched + 1
