"""DeepConf, online: warm-up traces set a confidence bar, and only traces above it vote, weighted by confidence.

After ``warmup`` traces the bar is that percentile of their confidences which ``keep`` percent of them reach. Traces
under it, warm-ups included, have no vote. Sampling goes on one by one until the leader's share of the weight is at
least ``threshold``. Fu, Wang, Tian and Zhao, "Deep Think with Confidence" (2025): 16 warm-ups, consensus 0.95, budget
512; keep=10 is their DeepConf-low, keep=90 DeepConf-high, the conservative one. Their confidence is the lowest
group's: `pets replay --confidence lowest`, where the pool has it.

DeepConf also cuts a trace off as soon as it falls under the bar; recorded traces were generated whole: compare this
policy by traces, not by tokens.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pets.core.policy import QuotaPolicy, View
from pets.core.tally import Missing, Tally, confidence_weights, weighted_votes
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class ConfGuided(QuotaPolicy):
    """Votes are confidences at or above the bar; :meth:`answer` is their winner.

    A vote without a confidence is a declared choice: ``missing`` is error, ignore (it weighs nothing) or unweighted
    (all traces weigh 1, none is dropped). A trace without an answer needs none.

    >>> rule = ConfGuided(warmup=4, keep=50)
    >>> tally = Tally.of(["A", "B", "A", "B"], [9.0, 2.0, 8.0, 3.0])
    >>> rule.weights(tally), rule.answer(tally), rule.quota(tally, View())
    ([9.0, 0.0, 8.0, 0.0], 'A', 4)
    """

    sees = "traces"
    solitary = True
    sweep = ("threshold", (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0))

    warmup: int = 16
    keep: float = 90.0
    threshold: float = 0.95
    cap: int = 512
    missing: Missing = "error"

    def __post_init__(self) -> None:
        if not (1 <= self.warmup <= self.cap):
            raise InputError(f"conf_guided needs 1 <= warmup <= cap; got warmup={self.warmup} and cap={self.cap}.")
        if not (0.0 < self.keep <= 100.0 and 0.0 < self.threshold <= 1.0):
            raise InputError(f"conf_guided needs 0 < keep <= 100 (percent) and 0 < threshold <= 1; got {self}.")
        if self.missing not in ("error", "ignore", "unweighted"):
            raise InputError(f"missing is error, ignore or unweighted; got {self.missing!r}.")

    def quota(self, tally: Tally, view: View) -> int:
        launched = tally.launched
        if launched < self.warmup:
            return self.warmup
        if launched >= self.cap:
            return launched
        votes = weighted_votes(tally.answers, self.weights(tally))
        total = sum(votes.values())
        return launched + (total <= 0.0 or max(votes.values()) / total < self.threshold)

    def weights(self, tally: Tally) -> list[float]:
        """One weight a trace, in launch order; 0 under the bar."""
        answers, confidences = tally.answers, tally.confidences
        if len(confidences) != len(answers):
            raise InputError(f"{len(answers)} answers but {len(confidences)} confidences in {tally.question!r}.")
        voting = [0.0 if answer is None else c for answer, c in zip(answers, confidences, strict=True)]
        weights = confidence_weights(voting, self.missing)
        if self.missing == "unweighted" and None in voting:
            return weights
        bar = _bar(confidences[: self.warmup], self.keep)
        return [weight if weight >= bar else 0.0 for weight in weights]


@lru_cache(maxsize=1 << 12)
def _bar(warmups: tuple[float | None, ...], keep: float) -> float:
    """The confidence that ``keep`` percent of the warm-ups reach, interpolated; asked again for every later trace."""
    confidences = [confidence for confidence in warmups if confidence is not None]
    return float(np.percentile(confidences, 100.0 - keep)) if confidences else 0.0
