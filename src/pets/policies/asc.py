"""Adaptive-Consistency: sample one by one until the leader very probably beats the runner-up.

With v1, v2 the two largest counts and a uniform prior on the leader's share of the two, the Beta form stops after the
trace at which

    P(share > 1/2) = 1 - I_0.5(v1 + 1, v2 + 1) >= threshold;

the Dirichlet form when the leader very probably has the largest of all shares, under Dir(counts + 1) over the answers
seen (two at least: one answer alone has a rival without a vote).

Aggarwal, Madaan, Yang and Mausam, "Let's Sample Step by Step" (EMNLP 2023): 0.95 and 40, the Beta form preferred.

With a ``zone``, which the paper does not know, a rival counts only when its share of all votes is that much larger than
the leader's. With S the pair's share of the votes the bar is (1 - zone / S) / 2 instead of 1/2: exact for two answers.
In the Dirichlet form rivals add up (:mod:`pets.core.certificate`).
"""

from dataclasses import dataclass
from typing import Literal

from scipy.special import betainc

from pets.core.certificate import doubt_by_pairs
from pets.core.dirichlet import p_leader
from pets.core.policy import QuotaPolicy, View, check_zone
from pets.core.tally import Tally
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class ASC(QuotaPolicy):
    """Stops at ``threshold`` or ``cap`` traces; traces without an answer cost and cast no vote.

    >>> rule = ASC()
    >>> rule.quota(Tally((3,)), View()), rule.quota(Tally((4,)), View()), rule.quota(Tally((4, 1)), View())
    (4, 4, 6)
    >>> [ASC(form=form, zone=0.3).quota(Tally((9, 5, 1)), View()) for form in ("beta", "dirichlet")]
    [15, 15]
    """

    solitary = True
    sweep = (
        "threshold",
        (0.6, 0.7, 0.75, 0.8, 0.83, 0.85, 0.88, 0.9, 0.92, 0.935, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.993,
         0.995, 0.997, 0.998, 0.999, 0.9995, 0.9999),
    )  # fmt: skip

    threshold: float = 0.95
    cap: int = 40
    form: Literal["beta", "dirichlet"] = "beta"
    zone: float = 0.0

    def __post_init__(self) -> None:
        if not (0.5 < self.threshold <= 1.0 and self.cap >= 1):
            raise InputError(f"asc needs 0.5 < threshold <= 1 (a tie has 0.5) and cap >= 1; got {self}.")
        if self.form not in ("beta", "dirichlet"):
            raise InputError(f"asc has the forms beta and dirichlet; got {self.form!r}.")
        check_zone(self.zone)

    def quota(self, tally: Tally, view: View) -> int:
        launched = tally.launched
        settled = p_settled if self.form == "beta" else p_settled_among_all
        if launched >= self.cap or (tally.counts and settled(tally.counts, self.zone) >= self.threshold):
            return launched
        return launched + 1


def p_settled(counts: tuple[int, ...], zone: float) -> float:
    """P(the runner-up of the counts is not ahead of the leader by more than the zone)."""
    first, second = (*counts, 0)[:2]
    if not zone:
        return p_leader((first + 1.0, second + 1.0))
    bar = max(0.0, (1.0 - zone * sum(counts) / (first + second)) / 2.0)
    return 1.0 - float(betainc(first + 1.0, second + 1.0, bar))


def p_settled_among_all(counts: tuple[int, ...], zone: float) -> float:
    """P(no answer of the counts is ahead of the leader by more than the zone), under Dir(counts + 1)."""
    alpha = tuple(count + 1.0 for count in (counts if len(counts) > 1 else (*counts, 0)))
    return 1.0 - doubt_by_pairs(alpha, zone) if zone else p_leader(alpha)
