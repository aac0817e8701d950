"""PETS-Offline, confidence-weighted: okg under a Dirichlet-Normal belief in theta_m mu_m.

The paper fixes the confidence variance at 1, so confidences are divided by their pooled within-answer spread
(never centred: that would move argmax theta mu). ConfidenceSpread and prior come from the batch's warm-up and then stay
fixed. :meth:`OKGWeighted.answer` is the terminal rule argmax_m P(y_W_inf = m | S), or its proxy, the weighted vote of
the surest 70 % (Liu et al., PETS, appendix B).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from pets.core.policy import IndexPolicy, View, check_prior
from pets.core.tally import Missing, Tally, confidence_weights, top_p
from pets.core.weighted import Belief, ConfidenceSpread, R_plus, p_argmax
from pets.errors import InputError
from pets.types import Trace


@dataclass(frozen=True, slots=True)
class OKGWeighted(IndexPolicy):
    """``scale``, ``beta_0`` and ``v_0`` are the confidences' spread and prior; ``learn`` them from the warm-up.

    A trace without a confidence is a declared choice: ``missing`` is error, ignore or unweighted. ``verdict`` is the
    terminal rule, or the filtered weighted "vote" that stands in for it. ``waves``: how many parallel batches of all
    questions the budget is spent in, equal shares of it; 0 for no limit.

    >>> policy = OKGWeighted(scale=1.0, beta_0=8.0, v_0=1.0, learn=False)
    >>> tally = Tally.of(["A", "B", "A"], [8.0, 9.5, 8.5], options=4)
    >>> policy.answer(tally), math.exp(policy.index(tally, View())) > 0
    ('A', True)
    """

    sees = "traces"

    prior: float = 1.0
    unseen: int = 1
    warmup: int = 3
    missing: Missing = "error"
    scale: float = 1.0
    beta_0: float = 1.0
    v_0: float = 1.0
    learn: bool = True
    verdict: Literal["terminal", "vote"] = "terminal"
    waves: int = 0

    def __post_init__(self) -> None:
        check_prior(self.prior, self.unseen)
        if self.waves < 0:
            raise InputError(f"waves are 1 or more, or 0 for no limit; got {self.waves}.")
        if not (self.scale > 0.0 and self.v_0 > 0.0 and math.isfinite(self.beta_0) and self.warmup >= 0):
            raise InputError(f"okg_weighted needs scale > 0, v_0 > 0, a finite beta_0 and warmup >= 0; got {self}.")
        if self.missing not in ("error", "ignore", "unweighted"):
            raise InputError(f"missing is error, ignore or unweighted; got {self.missing!r}.")

    @property
    def learns(self) -> bool:
        return self.learn

    def check(self, trace: Trace) -> None:
        if trace.answer is not None and trace.confidence is None and self.missing == "error":
            raise InputError(
                f"trace {trace.number} of {trace.question!r} voted without a confidence; "
                'choose missing="ignore" or missing="unweighted", or a policy that needs none (okg).'
            )

    def refit(self, batch: Mapping[Tally, int]) -> Self:
        """Spread and prior from the batch, once: the unit of confidence must not move while votes are compared.

        A batch whose answers show no spread yet teaches nothing; the next one may.
        """
        groups = [values for tally in batch for values in self._confidences(tally).values()]
        if not self.learn or all(len(set(group)) == 1 for group in groups):
            return self
        spread = ConfidenceSpread.learn(groups)
        return replace(self, scale=spread.scale, beta_0=spread.beta_0, v_0=spread.v_0, learn=False)

    def belief_of(self, tally: Tally) -> Belief:
        """S of the answers seen, in the order of first launch, then the unseen slots; pending as a fantasy."""
        seen = self._confidences(tally)
        spread = ConfidenceSpread(self.scale, self.beta_0, self.v_0)
        rows = [(self.prior + len(values), *spread.posterior(values)) for values in seen.values()]
        rows += [(self.prior, self.beta_0, self.v_0)] * (tally.slots(self.unseen) - len(rows))
        alpha, beta, v = zip(*rows, strict=True)
        belief = Belief(alpha, beta, v)
        return belief.fantasy(tally.pending) if tally.pending else belief

    def index(self, tally: Tally, view: View) -> float:
        gain = R_plus(self.belief_of(tally)) * tally.voting_chance
        return math.log(gain) if gain > 0.0 else -math.inf

    def weights(self, tally: Tally) -> list[float]:
        """The confidences of the votes; of the surest 70 % alone where the weighted vote is the verdict."""
        cast = [0.0 if a is None else c for a, c in zip(tally.answers, tally.confidences, strict=True)]
        weights = confidence_weights(cast, self.missing)
        return top_p(tally.answers, weights) if self.verdict == "vote" else weights

    def answer(self, tally: Tally) -> str | None:
        """The Bayes-optimal terminal decision among the answers seen, or the weighted vote of the surest 70 %."""
        if self.verdict == "vote":
            return IndexPolicy.answer(self, tally)
        seen = list(self._confidences(tally))
        if len(seen) <= 1:
            return seen[0] if seen else None
        return seen[int(np.argmax(p_argmax(self.belief_of(tally))[: len(seen)]))]

    def _confidences(self, tally: Tally) -> dict[str, list[float]]:
        """Confidences of the votes, answer by answer in the order of first launch; failed traces have none to miss."""
        if len(tally.confidences) != len(tally.answers):
            counts = f"{len(tally.answers)} answers but {len(tally.confidences)} confidences"
            raise InputError(f"{counts} in {tally.question!r}; give one for each trace, None where there is none.")
        cast = [(a, c) for a, c in zip(tally.answers, tally.confidences, strict=True) if a is not None]
        weights = confidence_weights([c for _, c in cast], self.missing)
        unweighted = self.missing == "unweighted" and any(c is None for _, c in cast)
        seen: dict[str, list[float]] = {}
        for (answer, confidence), weight in zip(cast, weights, strict=True):
            if confidence is not None or unweighted:
                seen.setdefault(answer, []).append(self.beta_0 * self.scale if unweighted else weight)
        return seen
