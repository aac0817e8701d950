"""What a policy is: a pure function of what is visible.

An *index* policy scores a tally and the allocator serves the highest. A *quota* policy says how many traces a
tally deserves now; it is asked when everything granted so far has come back. Whoever writes a policy writes that
one method, on a frozen slotted dataclass whose fields are plain data:

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, slots=True)
... class FewestFirst(IndexPolicy):
...     def index(self, tally: Tally, view: View) -> float:
...         return -tally.launched
>>> FewestFirst().index(Tally((2, 1)), View())
-3
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from pets.core import race
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally, majority, weighted_majority
from pets.core.waves import Wave, dealt_shares
from pets.errors import InputError
from pets.types import Trace


@dataclass(frozen=True, slots=True)
class View:
    """The read-only rest of what a policy may know.

    ``budget_left`` (R_t, in traces) is what the ``questions_left`` questions (H_t, this one among them) without a final
    grant may still use, the traces that they have launched included. ``coin`` is the question's own uniform draw from
    [0, 1); ``stops`` are the sizes at which the latest questions stopped, oldest first. An index policy sees ``cap``
    alone: its scores are kept per belief state.
    """

    budget_left: int = 0
    questions_left: int = 1
    cap: int | None = None
    coin: float = 0.0
    stops: tuple[int, ...] = ()

    @property
    def mean_left(self) -> float:
        """B_bar_t = R_t / H_t."""
        return self.budget_left / max(1, self.questions_left)


@dataclass(frozen=True, slots=True)
class Training:
    """What :meth:`Policy.fit` may learn from: recorded questions like those to come.

    ``paths[q]`` are the recorded answers of training question q, ``tokens[q]`` their tokens; no tokens at all where
    some were not recorded. ``options`` is the size of a closed answer set. ``arriving`` maps the ids of the questions
    to come to their own recorded answers: an oracle may look and nobody else.
    """

    paths: Sequence[Sequence[str | None]]
    tokens: Sequence[Sequence[int]] | None = None
    options: int | None = None
    arriving: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    seed: int | tuple[int, ...] = 0

    def rng(self) -> np.random.Generator:
        """A generator for what is random in a fit, anew at ``seed``: every policy draws the same."""
        return np.random.default_rng(self.seed)


class Policy:
    """What index and quota policies have in common.

    ``sees`` says what the tally must hold: sorted counts (questions in the same state then share one queue entry) or
    whole traces. A policy that ``learns`` is refitted when the warm-up is in (without one, when ``refit_growth`` traces
    per question are), and again whenever the traces told have grown by that factor. A ``solitary`` one looks at one
    question alone: of the view it uses the cap at most. A ``blind`` one decides by the view, whatever the traces say.
    ``sweep`` names the option, and its values, over which the replay lab draws the policy's curve.
    """

    __slots__ = ()
    sees: ClassVar[Literal["counts", "traces"]] = "counts"
    refit_growth: ClassVar[float] = 2.0
    solitary: ClassVar[bool] = False
    blind: ClassVar[bool] = False
    sweep: ClassVar[tuple[str, tuple[float, ...]] | None] = None
    zone: float = 0.0  # the lead that a rival needs to matter; policies that know the indifference zone have a field
    cap: int | None = None  # of traces of a question, whatever they say; stopping rules have a field
    waves: int = 0  # parallel batches that the whole budget is spent in, 0: no limit; some index policies have a field

    @property
    def warmup(self) -> int:
        """Traces that every question gets before it is compared with any other."""
        return 0

    @property
    def learns(self) -> bool:
        """Whether :meth:`refit` is to be called."""
        return False

    @property
    def marks(self) -> bool:
        """Whether trace length is part of a question's belief state: ``Tally.mark``, the class of its mean tokens."""
        return False

    @property
    def length_edges(self) -> tuple[float, ...]:
        """Where the length classes are cut, ascending; none as long as none were learned."""
        return ()

    @property
    def belief(self) -> LearnedPrior:
        """What the policy in force holds of the model: the prior of certificates. Equal shares where it learns none."""
        return LearnedPrior()

    def with_waves(self, waves: int) -> Self:
        """The same policy with the budget spent in at most so many waves, for those that can plan them."""
        if "waves" not in {field.name for field in fields(self)}:  # type: ignore[arg-type]
            name = type(self).__module__.rpartition(".")[2]  # what a user calls it
            raise InputError(f"{name} knows no waves; leave them out, or choose okg.")
        return replace(self, waves=waves)  # type: ignore[type-var]

    def log_price(self, view: View) -> float | None:
        """The log of the price that a price rule goes by at this view; None for every other policy."""
        return None

    def fewest(self, tally: Tally, view: View, price: float = -math.inf) -> int:
        """m: the fewest further votes, all for today's leader, after which the question could be settled; 0: it is.

        The tally is that of all that is back, in any order; what is pending does not count. A stopping rule is settled
        when it grants no more, the price rule when nothing is worth the price at this view, an index policy when its
        index has fallen to ``price``; all of them at the view's cap. By default the leader is walked up, at most 64
        steps. :mod:`pets.core.race` says what m is for.
        """
        by_state = self.sees != "traces" and (self.solitary or isinstance(self, IndexPolicy))
        if not by_state or type(self).__hash__ is None:  # a policy that changes has no hash, and is asked anew
            return race.fewest(partial(self._more, view=view, price=price), tally)
        state = Tally(tally.counts, tally.nulls, options=tally.options, mark=tally.mark, extra=tally.extra)
        return _fewest(self, state, view.cap, price)

    def _more(self, tally: Tally, view: View, price: float) -> int:
        """The traces that a question gets next, when all that it got is back; 0 when it is settled."""
        raise NotImplementedError

    def to_plain(self) -> dict[str, Any]:
        """The options as plain data."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_plain(cls, options: Mapping[str, Any]) -> Self:
        """The policy that :meth:`to_plain` described."""
        return cls(**{name: frozen(value) for name, value in options.items()})

    def check(self, trace: Trace) -> None:
        """Refuse a trace that the policy cannot use, before it is counted; for policies that see traces."""

    def weights(self, tally: Tally) -> list[float] | None:
        """What each trace weighs in the verdict, in launch order, 0 for no vote, for policies that see traces; ``None``
        where each vote counts one."""
        return None

    def answer(self, tally: Tally) -> str | None:
        """The verdict on a tally's traces, for policies that see them: the vote, unless they say otherwise."""
        weights = self.weights(tally)
        return majority(tally.answers) if weights is None else weighted_majority(tally.answers, weights)

    def fit(self, training: Training) -> Self:
        """A new policy that is trained on recorded questions, before any question of its own arrives."""
        return self

    def refit(self, batch: Mapping[Tally, int]) -> Self:
        """A new policy that has learned from the batch (tally -> number of questions in it)."""
        return self


class IndexPolicy(Policy, ABC):
    """Serves the question with the highest index; -inf is never served."""

    __slots__ = ()

    @abstractmethod
    def index(self, tally: Tally, view: View) -> float:
        """The value of one more trace; any monotone scale."""

    def _more(self, tally: Tally, view: View, price: float) -> int:
        """One more as long as the index is above the price, or the warm-up is not over."""
        if view.cap is not None and tally.returned >= view.cap:
            return 0
        return int(tally.returned < self.warmup or self.index(tally, view) > price)

    def plan_wave(self, states: Mapping[Tally, int], wave: Wave) -> Mapping[Tally, Sequence[int]]:
        """How many traces each question gets in the next wave, for policies with a field ``waves``.

        ``states`` says how many questions have each tally. By default an equal share of the budget for each wave left,
        dealt out by the index with what is dealt pending.
        """
        view = View(cap=wave.cap)

        def score(tally: Tally) -> float:
            return math.inf if tally.launched < self.warmup else self.index(tally, view)

        return dealt_shares(score, states, wave)


class QuotaPolicy(Policy, ABC):
    """Grants traces question by question; at most ``rounds`` batches after the warm-up (0: no limit)."""

    __slots__ = ()

    @property
    def rounds(self) -> int:
        """How many times a question may be granted more; 1 is one-shot."""
        return 0

    @abstractmethod
    def quota(self, tally: Tally, view: View) -> int:
        """How many traces the question deserves in all, given what it has shown; <= launched stops it."""

    def fewest(self, tally: Tally, view: View, price: float = -math.inf) -> int:
        """As :meth:`Policy.fewest`; with a limit of rounds the batch that is granted next, which goes out whole."""
        if not self.rounds:
            return super().fewest(tally, view, price)
        return self._more(replace(tally, pending=0), view, price) if tally.rounds < self.rounds else 0

    def _more(self, tally: Tally, view: View, price: float) -> int:
        """What the warm-up or the quota leaves to launch."""
        total = self.warmup if tally.returned < self.warmup else math.floor(self.quota(tally, view))
        return max(0, (total if view.cap is None else min(total, view.cap)) - tally.returned)


@lru_cache(maxsize=1 << 16)
def _fewest(policy: Policy, tally: Tally, cap: int | None, price: float) -> int:
    """m of a belief state, for policies to which nothing else matters."""
    return race.fewest(partial(policy._more, view=View(cap=cap), price=price), tally)


def plain(value: object) -> Any:
    """Tuples as lists, all the way down."""
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def frozen(value: object) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(frozen(item) for item in value) if isinstance(value, list) else value


def check_prior(prior: float | str, unseen: int) -> None:
    """Refuse what is no prior: pseudo-votes for each option, or "learned"."""
    if prior == "learned":
        return
    if isinstance(prior, str):
        raise InputError(f'a prior is a number or "learned"; got {prior!r}.')
    if not 0.0 < prior < math.inf:
        raise InputError(f"a prior is a positive number of pseudo-votes for each option; got {prior}. Try 1.")
    if unseen < 1:
        raise InputError(f"an open answer set keeps at least 1 unseen slot; got unseen={unseen}.")


def check_zone(zone: float, prior: float | str = "learned") -> None:
    """Refuse what is no indifference zone, and one that the policy's gain cannot see."""
    if not 0.0 <= zone < 1.0:
        raise InputError(f"an indifference zone is a difference of shares, 0 <= zone < 1; got {zone}. Try 0.1.")
    if zone and prior != "learned":
        raise InputError(f"a zone needs the learned prior; got prior={prior}. Drop one of the two.")
