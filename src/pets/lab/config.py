"""The settings of a replay in one plain object, the same for every worker."""

from dataclasses import dataclass
from typing import ClassVar, Literal
from zlib import crc32

from pets.arguments import Interval, check_fields, setting
from pets.confidence import Kind
from pets.errors import InputError

BUDGETS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 48.0)
"""Mean traces per question at which online policies run; those over the size or under a warm-up are left out."""


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """The paper's protocol: ``size`` traces of each question drawn at random, ``repetitions`` times.

    ``reference`` "whole" is the vote of the traces drawn; "disjoint" splits a question's traces in two halves of at
    most ``size`` each: the policy draws from one, the reference is the vote of the other. ``train`` is by default the
    paper's, 30 of 100 or more questions and 10 of fewer. With a ``tolerance`` of 0 a good verdict is the reference.
    ``certified`` are mean budgets at which certificates of offline policies are checked.
    With a ``clock`` every trace takes its tokens as time, and a question's traces race (:mod:`pets.lab.clock`).

    >>> ReplayConfig(size=64).train_of(198), ReplayConfig().train_of(30)
    (30, 10)
    """

    title: ClassVar = "Protocol"

    repetitions: int = setting(30, "How many random draws are averaged.", within=Interval(1))
    size: int = setting(64, "How many traces are drawn per question.", flags=("--pool-size",), within=Interval(1))
    reference: Literal["whole", "disjoint"] = setting(
        "whole",
        "What self-consistency is agreement with: the vote of the traces drawn, or of others that the policy cannot "
        "draw.",
    )
    weighted: bool = setting(False, "Weigh votes by confidence and keep the top 70 % of them.")
    train: int | None = setting(
        None, "How many questions train the online policies; 30, or 10 in a small pool.", within=Interval(1)
    )
    budgets: tuple[float, ...] = BUDGETS
    certified: tuple[float, ...] = ()
    tolerance: float = setting(
        0.1,
        "What another answer may lead a verdict by, as a share of the reference's votes, for the verdict to be good.",
        within=Interval(0, 1, open=")"),
    )
    confidence: Kind | None = setting(None, "Which recorded confidence weighs votes; the pool's own if not given.")
    attainable: bool = setting(False, "Compute the attainable limit for four answers, too: half a minute per pool.")
    seed: int = setting(0, "The same seed gives the same table.", within=Interval(0))
    min_traces: int | None = setting(
        None,
        "Leave out questions with fewer traces; if not given, a pool is as long as its shortest question, a few "
        "stragglers left out.",
        within=Interval(1),
    )
    clock: bool = setting(
        False,
        "Let every trace take its tokens as time, and the traces of a question race: tokens, time and consistency of "
        "stopping rules and price over hurries, or at the hurry that --policy asc:hurry=0.5 names.",
    )

    def __post_init__(self) -> None:
        if isinstance(self.budgets, list):
            object.__setattr__(self, "budgets", tuple(self.budgets))
        check_fields(self)
        if not self.budgets or min(self.budgets) < 1:
            raise InputError(f"mean budgets are 1 trace or more; got {self.budgets}.")
        if self.clock and (self.weighted or self.certified):
            raise InputError("on the clock votes count one each, and no certificates are checked; drop one of the two.")
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
