"""The paper's split: some questions train an online policy, the rest arrive in random order."""

from collections import Counter
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from pets.core.grid import Pool as Votes
from pets.core.policy import Policy
from pets.policies.online_grid import OnlineGrid
from pets.policies.oracle import Oracle
from pets.policies.price import Price
from pets.replay.protocol import Protocol
from pets.replay.readings import ReadPool, ReadQuestion

__all__ = ["Split", "fitted", "split"]


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of the training questions, and of the others in the order of their arrival."""

    pool: ReadPool
    train: tuple[int, ...]
    arrivals: tuple[int, ...]
    seeds: tuple[int, ...]

    def rng(self) -> np.random.Generator:
        """A fresh generator for a fit: every policy of the repetition gets the same."""
        return np.random.default_rng([*self.seeds, 2])


def split(pool: ReadPool, protocol: Protocol, repetition: int) -> Split:
    """The split of one repetition; the same for every policy."""
    seeds = protocol.seeds(pool.name, repetition)
    train = protocol.train_of(len(pool.questions))
    order = np.random.default_rng([*seeds, 1]).permutation(len(pool.questions)).tolist()
    return Split(pool, tuple(order[:train]), tuple(order[train:]), tuple(seeds))


@singledispatch
def fitted(policy: Policy, parts: Split) -> Any:
    """The policy, trained on the whole recorded pools of the training questions if it takes training."""
    return policy


@fitted.register
def _(policy: OnlineGrid, parts: Split) -> OnlineGrid:
    return policy.fit([_votes(parts.pool.questions[row]) for row in parts.train])


@fitted.register
def _(policy: Price, parts: Split) -> Price:
    if policy.cold:  # the stream is its training
        return policy
    training = [parts.pool.questions[row] for row in parts.train]
    tokens = [question.tokens for question in training if question.tokens is not None]
    return policy.fit(
        [question.labels for question in training],
        parts.rng(),
        parts.pool.options,
        tokens if len(tokens) == len(training) else None,
    )


@fitted.register
def _(policy: Oracle, parts: Split) -> Oracle:
    """The oracle is told the arriving questions' own answer distributions: an upper bound."""
    arriving = [parts.pool.questions[row] for row in parts.arrivals]
    return policy.fit({question.id: _votes(question) for question in arriving}, parts.rng())


def _votes(question: ReadQuestion) -> Votes:
    counts = Counter(label for label in question.labels if label is not None)
    return tuple(sorted(counts.values(), reverse=True)), question.labels.count(None)
