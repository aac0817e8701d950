"""What equal shares would have brought: uniform's self-consistency on the questions of a run, estimated.

Nobody samples a run twice to know. Its votes give every question a posterior of theta under the learned prior; theta
is drawn, uniform's traces are drawn from theta, and its vote is compared with argmax theta. O(draws questions traces).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pets.core.okg import voting_chance
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.engine.forecast import Forecast

__all__ = ["equal_shares"]

DRAWS = 16
QUESTIONS = 400  # that are played, evenly spread over the run

Floats = NDArray[np.float64]


def equal_shares(tallies: Sequence[Tally], prior: LearnedPrior, *, most: int, seed: int = 0) -> Forecast:
    """Uniform up to ``most`` traces per question."""
    chosen = tallies[:: max(1, -(-len(tallies) // QUESTIONS))]
    rng = np.random.default_rng(seed)
    consistency = np.array(
        [np.mean([_right(tally, prior, most, rng) for tally in chosen], axis=0) for _ in range(DRAWS)]
    )
    return Forecast(np.arange(1.0, most + 1), consistency.mean(axis=0), consistency.std(axis=0))


def _right(tally: Tally, prior: LearnedPrior, most: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Whether uniform's vote is argmax theta after each of ``most`` traces, (most,), for one draw of theta."""
    theta = prior.draw(tally, rng)
    return np.asarray(_leaders(theta, voting_chance(tally), most, rng) == theta.argmax())


def _leaders(theta: Floats, chance: float, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The leader after each of ``most`` traces, -1 before the first vote; a tie goes to the answer seen first."""
    answers = rng.choice(len(theta), size=most, p=theta / theta.sum())
    votes = np.zeros((most, len(theta)))
    votes[np.arange(most), answers] = rng.random(most) < chance
    counts = votes.cumsum(axis=0)
    first = np.where(counts.any(axis=0), (counts > 0).argmax(axis=0), most)
    leaders: NDArray[np.int64] = (counts - first / (2 * most + 2)).argmax(axis=1)
    return np.where(counts.any(axis=1), leaders, -1)
