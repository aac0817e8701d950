r"""Best-of-Infinity: sample one by one until a Bayes factor says that the leader is the mode.

The answers seen and one bucket for all unseen ones, which counts as ``unknown`` votes, have counts n_k; then

    theta ~ Dirichlet(n_1 + 1, ..., n_{K-1} + 1, unknown + 1),      P = P(argmax theta = leader),

and sampling stops when K P / (1 - P), the odds of P over those of one class in K, reaches the threshold.

Komiyama, Oba and Oyamada, "Best-of-∞" (2025), with the bucket of 0.3 votes, the threshold of 10 and the 100 traces
of their program. They draw theta 1000 times; here P is an integral, so large factors are not noise. As there, the
rule is asked from the first vote on: one vote has factor 4.1, so thresholds up to that stop at it.

With a ``zone``, which the paper does not know, P is the chance that no share exceeds the leader's by more than that,
rivals added up (:mod:`pets.core.certificate`).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf

from pets.core.certificate import doubt_by_pairs
from pets.core.dirichlet import p_argmax
from pets.core.policy import QuotaPolicy, View, check_zone
from pets.core.tally import Tally
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class BoInf(QuotaPolicy):
    """Stops at a Bayes factor of ``threshold`` or at ``cap``; traces without an answer cost and cast no vote.

    >>> rule = BoInf()
    >>> rule.quota(Tally((2,)), View()), rule.quota(Tally((3,)), View()), rule.quota(Tally((3, 2)), View())
    (3, 3, 6)
    """

    solitary = True
    sweep = (
        "threshold",
        (2.0, 4.5, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 18.0, 22.0, 26.0, 30.0, 40.0, 50.0, 70.0, 100.0, 150.0, 200.0,
         300.0, 500.0, 1000.0, 2000.0, 4000.0, 10000.0),
    )  # fmt: skip

    threshold: float = 10.0
    unknown: float = 0.3
    cap: int = 100
    zone: float = 0.0

    def __post_init__(self) -> None:
        if not (0.0 < self.threshold < inf and 0.0 <= self.unknown < inf and self.cap >= 1):
            raise InputError(f"boinf needs a finite threshold > 0, unknown >= 0 and cap >= 1; got {self}.")
        check_zone(self.zone)

    def quota(self, tally: Tally, view: View) -> int:
        launched = tally.launched
        if launched >= self.cap:
            return launched
        settled = tally.counts and _bayes_factor(tally.counts, self.unknown, self.zone) >= self.threshold
        return launched if settled else launched + 1


@lru_cache(maxsize=1 << 18)
def _bayes_factor(counts: tuple[int, ...], unknown: float, zone: float) -> float:
    """K P / (1 - P) of the leader; ``counts`` descend."""
    if zone:
        doubt = doubt_by_pairs((*(count + 1.0 for count in counts), unknown + 1.0), zone)
        return (len(counts) + 1) * (1.0 - doubt) / doubt if doubt > 0.0 else inf
    P = p_argmax([*(count + 1.0 for count in counts), unknown + 1.0])
    others = float(P[1:].sum())  # not 1 - P[0]: nothing cancels
    return P.size * float(P[0]) / others if others > 0.0 else inf
