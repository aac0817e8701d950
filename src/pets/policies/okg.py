"""PETS-Offline: each trace goes where it is expected to change the belief in the leader most.

``prior=1`` is the paper's: the optimistic knowledge gradient R+ under Dir(1) (Chen, Lin and Zhou 2013; Liu et al.,
PETS), exact. The default learns the prior from the batch while it runs, trace lengths included, and looks ahead over
batches of traces instead of one optimistic vote (:mod:`pets.core.prior`, :mod:`pets.core.dirichlet`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, Self

from pets.core.dirichlet import okg_index
from pets.core.policy import IndexPolicy, View, check_prior, check_zone
from pets.core.prior import NO_LENGTH, OPEN_SLOTS, STRENGTHS, LearnedPrior, class_tokens, fit_prior, shares_of
from pets.core.tally import Tally
from pets.core.waves import Mixture, Wave, plan_wave
from pets.errors import InputError


@dataclass(frozen=True, slots=True)
class OKG(IndexPolicy):
    """``prior``: "learned", or pseudo-votes for each option (the paper's is 1), with ``unseen`` slots of an open set.

    ``lengths``: whether the learned prior looks at token counts. ``cost="tokens"`` ranks by gain per token instead of
    gain per trace. ``zone``: the lead, as a share of all traces, that a rival needs to matter; 0 is the paper's target.
    ``waves``: how many parallel batches of all questions the budget is spent in at most (0: no limit). ``shares``,
    ``edges``, ``kind_shares`` and ``tokens``: what it has learned.

    >>> OKG().index(Tally((2, 1)), View()) > OKG().index(Tally((3,)), View())
    True
    """

    refit_growth = 1.25

    prior: float | Literal["learned"] = "learned"
    unseen: int = 1
    lengths: bool = True
    cost: Literal["traces", "tokens"] = "traces"
    zone: float = 0.0
    waves: int = 0
    shares: tuple[tuple[float, ...], ...] = LearnedPrior().shares
    edges: tuple[float, ...] = ()
    kind_shares: tuple[tuple[float, ...], ...] = LearnedPrior().kind_shares
    tokens: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_prior(self.prior, self.unseen)
        check_zone(self.zone, self.prior)
        if self.waves < 0:
            raise InputError(f"waves are 1 or more, or 0 for no limit; got {self.waves}.")

    @property
    def learns(self) -> bool:
        return self.prior == "learned" or self.cost == "tokens"

    @property
    def marks(self) -> bool:
        """Lengths are part of the state when the learned prior or the cost looks at them."""
        return self.cost == "tokens" or (self.prior == "learned" and self.lengths)

    @property
    def length_edges(self) -> tuple[float, ...]:
        return self.edges

    @property
    def belief(self) -> LearnedPrior:
        if self.prior != "learned":
            return LearnedPrior()
        return LearnedPrior(self.shares, self.edges, self.kind_shares)

    def refit(self, batch: Mapping[Tally, int]) -> Self:
        learned = fit_prior(batch, self.lengths)
        tokens = class_tokens(batch, learned) if self.cost == "tokens" else ()
        edges = learned.edges if self.marks else ()
        return replace(self, shares=learned.shares, edges=edges, kind_shares=learned.kind_shares, tokens=tokens)

    def plan_wave(self, states: Mapping[Tally, int], wave: Wave) -> Mapping[Tally, Sequence[int]]:
        return plan_wave(self._mixture, states, wave, self.zone)

    def _mixture(self, tally: Tally) -> Mixture:
        if not isinstance(self.prior, str):
            return Mixture(tally.slots(self.unseen), (self.prior,), (1.0,))
        return Mixture(tally.options or OPEN_SLOTS, STRENGTHS, shares_of(self.shares, tally.mark))

    def index(self, tally: Tally, view: View) -> float:
        """log of the gain per trace times the chance that a trace votes; less the log of what it costs."""
        tokens, mark = self.tokens or (1.0,), tally.mark
        cost = math.log(fmean(tokens) if mark == NO_LENGTH else tokens[min(mark, len(tokens) - 1)])
        if not isinstance(self.prior, str):
            return okg_index(tally, self.prior, self.unseen) - cost
        return self.belief.log_gain(tally, self.zone) + math.log(tally.voting_chance) - cost
