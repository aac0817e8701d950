"""The price rule: a stream buys traces for a question while their index is above a common, steered price.

Beyond the paper: with unlimited rounds it allocates as offline okg does; ``rounds`` trades that for latency. A single
round has no price to follow, only a plan to make: it is the paper's one-shot plan (:func:`pets.core.grid.one_shot`).

A cold start needs no training questions. Whenever the traces told have doubled, the prior is fitted to the tallies of
all questions so far (:mod:`pets.core.prior`). Some of these questions are then drawn anew, theta from each one's
posterior, and traced: the stream goes by the price table of these paths, or for one round by the shares and curves of
their warm-up patterns.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Self

import numpy as np

from pets.core.dirichlet import okg_index
from pets.core.grid import NO_CAP, Grid, Row, cold_rows, fit_grid, one_shot
from pets.core.policy import QuotaPolicy, Training, View, check_prior, check_zone
from pets.core.price import PriceTable, batch, check_prices, fit_prices, learned_batch, log_price_at, redrawn
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import K0, PATTERNS, Tally, count_votes
from pets.errors import InputError

PATHS = 64  # at least this many go into a price table: a training question may lend several, in random orders
COLD_TRACES = 64  # traces of a path that a cold start draws
COLD_QUESTIONS = 8  # questions before a cold start believes the stream at all


@dataclass(frozen=True, slots=True)
class PriceRule(QuotaPolicy):
    """``rounds`` parallel batches at most after the warm-up (0: one trace at a time, no limit).

    ``prior`` is "learned" from the training questions, with trace lengths where ``lengths`` and tokens are there, or
    pseudo-votes for each option. ``zone`` is the lead that a rival needs to matter, as a share of all traces. ``table``
    (``(log price, mean spend)`` rows), ``grids`` (of the one-shot plan), ``shares``, ``edges`` and ``kind_shares`` (the
    learned prior) are what :meth:`fit` learns, with ``cold`` the stream itself; without training they are those of a
    declared population, four options and Dir(1/2).

    With ``use_up`` a question gets no less than what no other question could use,

        b_t >= R_t - leave - cap (H_t - 1),

    the mirror of the promise b_t <= R_t - K0 (H_t - 1): all but ``leave`` traces are spent. By windows H_t ends with
    the window: ``leave`` keeps a little from being forced on its last question.

    >>> rule, view = PriceRule(rounds=2), View(budget_left=160, questions_left=10, cap=64)
    >>> rule.quota(Tally((4,), options=4), view) < rule.quota(Tally((2, 2), options=4), view)
    True
    >>> view = View(budget_left=100, questions_left=2, cap=64)
    >>> PriceRule(rounds=1, use_up=True).quota(Tally((4,)), view), PriceRule(rounds=1).quota(Tally((4,)), view) < 36
    (36, True)
    """

    rounds: int = 0
    warmup: int = 4
    prior: float | Literal["learned"] = "learned"
    unseen: int = 1
    lengths: bool = True
    use_up: bool = False
    leave: int = 0
    cold: bool = False
    zone: float = 0.0
    table: PriceTable | None = None
    grids: tuple[Row, ...] | None = None
    shares: tuple[tuple[float, ...], ...] = LearnedPrior().shares
    edges: tuple[float, ...] = ()
    kind_shares: tuple[tuple[float, ...], ...] = LearnedPrior().kind_shares

    def __post_init__(self) -> None:
        check_prior(self.prior, self.unseen)
        check_zone(self.zone, self.prior)
        if self.zone and self.rounds == 1:
            raise InputError("price with rounds=1 is a plan for the majority; a zone needs rounds=2 or more, or 0.")
        if self.rounds < 0 or self.warmup < 1:
            raise InputError(f"price needs rounds >= 0 and warmup >= 1; got {self.rounds} and {self.warmup}.")
        if self.leave < 0:
            raise InputError(f"price leaves 0 traces or more of a budget; got leave={self.leave}.")
        if self.table is not None:
            check_prices(self.table)
        if self.rounds == 1 and self.warmup != K0:
            raise InputError(
                f"price with rounds=1 plans on the patterns of {K0} warm-up traces; got warmup={self.warmup}. "
                "Leave the warm-up out, or allow more rounds."
            )

    def fit(self, training: Training) -> Self:
        return self if self.cold else self._fitted(training, training.rng())

    def _fitted(self, training: Training, rng: np.random.Generator) -> Self:
        pools, tokens, options = training.paths, training.tokens, training.options
        if self.rounds == 1:
            return replace(self, grids=fit_grid([count_votes(pool) for pool in pools], len(PATTERNS)).rows)
        rule = self.with_prior(training)
        places = [q for q in range(len(pools)) for _ in range(-(-PATHS // len(pools)))]
        orders = [(q, rng.permutation(len(pools[q])).tolist()) for q in places]
        paths = [[pools[q][j] for j in order] for q, order in orders]
        lengths = None if tokens is None else [[tokens[q][j] for j in order] for q, order in orders]
        table = fit_prices(rule._buy, paths, lengths, options=options, rounds=self.rounds, warmup=self.warmup)
        return replace(rule, table=table)

    def with_prior(self, training: Training) -> Self:
        """The same rule with the prior of these questions, if it learns one."""
        if self.prior != "learned":
            return self
        lengths = training.tokens if training.tokens is not None and self.lengths else [[0] for _ in training.paths]
        tallies = (
            Tally(*count_votes(path), options=training.options, mean_tokens=sum(tokens) / max(1, len(tokens)))
            for path, tokens in zip(training.paths, lengths, strict=True)
        )
        return self._with_belief(fit_prior(Counter(tallies)))

    def _with_belief(self, prior: LearnedPrior) -> Self:
        return replace(self, shares=prior.shares, edges=prior.edges, kind_shares=prior.kind_shares)

    @property
    def learns(self) -> bool:
        return self.cold

    def refit(self, batch: Mapping[Tally, int]) -> Self:
        """A cold start's rule after these questions; as it was as long as they are a handful."""
        voted = [tally for tally in batch if tally.votes]
        if not self.cold or len(voted) < COLD_QUESTIONS:
            return self
        prior = fit_prior(batch, self.lengths)
        rule = self._with_belief(prior)
        tallies = [voted[len(voted) * i // PATHS] for i in range(PATHS)]  # evenly spread over the stream
        rng = np.random.default_rng(0)  # a fixed draw
        drawn = [redrawn(tally, prior, COLD_TRACES, rng) for tally in tallies]
        paths = [[None if answer is None else str(answer) for answer in path] for path in drawn]
        if self.rounds == 1:
            return replace(rule, grids=fit_grid([count_votes(path) for path in paths], len(PATTERNS)).rows)
        tokens = [[round(tally.mean_tokens)] * COLD_TRACES for tally in tallies]
        options = Counter(tally.options for tally in tallies).most_common(1)[0][0]
        table = fit_prices(rule._buy, paths, tokens, options=options, rounds=self.rounds, warmup=self.warmup)
        return replace(rule, table=table)

    @property
    def trained(self) -> "PriceRule":
        """The rule in force: this one, or without training that of the declared population."""
        lesson = self.grids if self.rounds == 1 else self.table
        return _declared(self) if lesson is None else self

    @property
    def belief(self) -> LearnedPrior:
        """The prior of the rule in force: an answer is certified by the belief that decided on its traces."""
        return self.trained._learned if self.prior == "learned" else LearnedPrior()

    @property
    def _learned(self) -> LearnedPrior:
        return LearnedPrior(self.shares, self.edges, self.kind_shares)

    def log_price(self, view: View) -> float | None:
        return None if self.rounds == 1 else log_price_at(self.trained.table or (), view.mean_left)

    def quota(self, tally: Tally, view: View) -> int:
        """What is launched, and a batch more while the index is above the price; in one round the plan's budget."""
        wanted = self._wanted(tally, view)
        if not self.use_up or view.cap is None:
            return wanted
        return max(wanted, view.budget_left - self.leave - view.cap * (view.questions_left - 1))

    def _wanted(self, tally: Tally, view: View) -> int:
        rule = self.trained
        if self.rounds == 1:
            return one_shot(Grid.from_rows(rule.grids or ()), tally, view)
        left = self.rounds - tally.rounds if self.rounds else 0
        if self.rounds and left < 1:
            return tally.launched
        cap = NO_CAP if view.cap is None else view.cap
        return tally.launched + rule._buy(tally, log_price_at(rule.table or (), view.mean_left), left, cap)

    def _buy(self, tally: Tally, log_price: float, left: int, cap: int) -> int:
        prior = self.prior
        if isinstance(prior, str):
            return learned_batch(self._learned, tally, log_price, left, cap, self.zone)
        return batch(lambda state: okg_index(state, prior, self.unseen), tally, log_price, left, cap)


@lru_cache(maxsize=16)
def _declared(rule: PriceRule) -> PriceRule:
    """The rule trained on questions drawn from Dir(1/2) over four options, 64 traces each; a fixed draw."""
    if rule.rounds == 1:
        return replace(rule, grids=cold_rows(len(PATTERNS)))
    rng = np.random.default_rng(0)
    pools = [rng.choice(list("ABCD"), size=64, p=theta).tolist() for theta in rng.dirichlet([0.5] * 4, 64)]
    return rule._fitted(Training(pools, options=4), rng)
