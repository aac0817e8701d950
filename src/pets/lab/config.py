"""The settings of a replay in one plain object, the same for every worker."""

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

from pets.arguments import check_fields
from pets.errors import InputError

Target = Literal["whole", "disjoint"]

BUDGETS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 48.0)
"""Mean traces per question at which online policies run; those over the size or under a warm-up are left out."""


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """The paper's protocol: ``size`` traces of each question drawn at random, ``repetitions`` times.

    ``target`` "whole" is the vote of the traces drawn; "disjoint" splits a question's traces in two halves of at most
    ``size`` each: the policy draws from one, the target is the vote of the other. ``train`` is the number of
    training questions of online policies: ``None`` is the paper's, 30 of 100 or more questions and 10 of fewer.
    ``zone`` is what another answer may lead a verdict by, as a share of the target's votes, for the verdict to be good
    (0: a good verdict is the target). ``confidence`` is the kind that weighs votes (mean, tail, lowest, bottom); by
    default the pool's own. ``limit`` asks for the attainable limit where it takes half a minute per pool.
    ``certified`` are mean budgets at which certificates of offline policies are checked.
    ``min_traces`` leaves out questions with fewer traces; ``None`` leaves out stragglers alone.

    >>> ReplayConfig(size=64).train_of(198), ReplayConfig().train_of(30)
    (30, 10)
    """

    repetitions: int = 30
    size: int = 64
    target: Target = "whole"
    weighted: bool = False
    train: int | None = None
    budgets: tuple[float, ...] = BUDGETS
    certified: tuple[float, ...] = ()
    zone: float = 0.1
    confidence: str | None = None
    limit: bool = False
    seed: int = 0
    min_traces: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.budgets, list):
            object.__setattr__(self, "budgets", tuple(self.budgets))
        check_fields(self)
        if min(self.repetitions, self.size) < 1 or self.seed < 0:
            raise InputError(f"a replay needs repetitions >= 1, size >= 1 and seed >= 0; got {self}.")
        if self.target not in ("whole", "disjoint"):
            raise InputError(f"the target is whole or disjoint; got {self.target!r}.")
        if self.train is not None and self.train < 1:
            raise InputError(f"online policies need at least 1 training question; got train={self.train}.")
        if not self.budgets or min(self.budgets) < 1:
            raise InputError(f"mean budgets are 1 trace or more; got {self.budgets}.")
        if not 0.0 <= self.zone < 1.0:
            raise InputError(f"the zone is a share, 0 <= zone < 1; got {self.zone}.")
        if self.certified and self.weighted:
            raise InputError("certificates are checked against the majority vote; drop the weights.")

    def train_of(self, questions: int) -> int:
        """How many of ``questions`` train the online policies; at least one must be left to arrive."""
        train = self.train if self.train is not None else (30 if questions >= 100 else 10)
        if questions <= train:
            raise InputError(
                f"{questions} questions are too few for {train} training questions and a stream. "
                "Ask for fewer with --train, or leave the online policies out."
            )
        return train

    def seeds(self, pool: str, repetition: int) -> list[int]:
        """What seeds everything random of one repetition: nothing else does, so workers cannot matter."""
        return [self.seed, crc32(pool.encode("utf-8", "surrogatepass")), repetition]
