"""A cold start: the price rule without a training pool, which learns from the stream that it serves.

Whenever the traces told have doubled, the prior is fitted to the tallies of all questions so far, with no labels
(:mod:`pets.core.prior`). Some of these questions are then drawn anew, theta ~ Dir(a + counts) with a from each one's
posterior, and traced: these paths stand in for a training pool. Their price table, or for one round the shares and
curves of the warm-up patterns, are what the stream goes by until the next time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pets.core.grid import Pool, fit_grid
from pets.core.patterns import PATTERNS
from pets.core.price import fit_prices
from pets.core.prior import STRENGTHS, LearnedPrior, fit_prior, slots
from pets.core.tally import Tally
from pets.plans.policy import StreamPrice

__all__ = ["ColdPrice"]

PATHS = 64  # drawn questions in a table
SIZE = 64  # traces of each
LEAST = 8  # questions before the stream is believed at all

Path = list[str | None]


@dataclass(frozen=True, slots=True)
class ColdPrice(StreamPrice):
    """:class:`~pets.plans.policy.StreamPrice` that begins with a declared population and learns the stream's own.

    >>> easy = {Tally((4,), options=4, question=str(q)): 1 for q in range(40)}
    >>> rule = ColdPrice(rounds=3).refit(easy)
    >>> sum(rule.shares[0][:2]) > 0.8, rule.table is not None
    (True, True)
    """

    @property
    def learns(self) -> bool:
        """From the stream: there is nothing else."""
        return True

    def refit(self, batch: Mapping[Tally, int]) -> Self:
        """The rule of the questions so far; as it was as long as they are a handful."""
        voted = [tally for tally in batch if tally.votes]
        if len(voted) < LEAST:
            return self
        prior = fit_prior(batch, self.lengths)
        learned = replace(self, shares=prior.shares, edges=prior.edges)
        chosen = _spread(voted)
        paths = _redrawn(chosen, prior)
        if self.rounds == 1:
            return replace(learned, grids=fit_grid([_votes(path) for path in paths], len(PATTERNS)).rows)
        tokens = [[round(tally.mean_tokens)] * SIZE for tally in chosen]
        options = Counter(tally.options for tally in chosen).most_common(1)[0][0]
        table = fit_prices(learned._buy, paths, tokens, options=options, rounds=self.rounds, warmup=self.warmup)
        return replace(learned, table=table.rows)


def _spread(tallies: Sequence[Tally]) -> list[Tally]:
    """PATHS of them, evenly spread over the stream; where there are fewer, each several times."""
    return [tallies[len(tallies) * i // PATHS] for i in range(PATHS)]


def _redrawn(tallies: Sequence[Tally], prior: LearnedPrior) -> list[Path]:
    """A path for each question, from its own posterior; a fixed draw. Labels are places in the order of votes."""
    rng = np.random.default_rng(0)
    paths: list[Path] = []
    for tally in tallies:
        marked = replace(tally, mark=prior.mark(tally.mean_tokens))
        strength = STRENGTHS[rng.choice(len(STRENGTHS), p=prior.posterior(marked))]
        alpha = np.full(slots(tally), strength)
        alpha[: len(tally.counts)] += tally.counts
        gammas = rng.standard_gamma(alpha)
        answers = rng.choice(len(alpha), size=SIZE, p=gammas / gammas.sum()).tolist()
        silent = rng.random(SIZE) < tally.nulls / tally.returned
        paths.append([None if mute else str(k) for k, mute in zip(answers, silent.tolist(), strict=True)])
    return paths


def _votes(path: Path) -> Pool:
    counts = Counter(answer for answer in path if answer is not None)
    return tuple(sorted(counts.values(), reverse=True)), path.count(None)
