"""How much of a run is in flight, how long it may take, and when it ends before its budget does.

On a live server a question's traces are raced (:mod:`pets.core.race`): ``concurrency`` is the only cap of their width,
and ``hurry`` says how many of them may turn out not to be needed. By default it is a little above 0 if every server is
known to stop when a request is cancelled, or can be seen to, and 0 from then on where one is seen to go on; else it is
0: nothing is cancelled.

Batch jobs bring nothing back one by one: their budget is spent in a few waves, each decided from all before it. The
unit of time is the mean trace's; the slowest of a wave takes s = 1.25 of them. With U = max(1, B / c) for B traces of
which c are in flight at once, uniform takes about U - 1 + s, and W waves U - 1 + W s, because each waits for its
slowest trace while nothing else is in flight.

A run ends early when it is told to, meets its target, is settled, begins badly or loses too much. Its first traces are
read before more go out: a budget is not spent on traces that cast no vote. The first 20, or a tenth of the budget where
that is fewer, are launched alone, one per question where the policy allows it. As soon as half of them were read the
rest of the run goes on; once more than half cast no vote it stops.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.policy import IndexPolicy, Policy
from pets.core.prior import OPEN_SLOTS, STRENGTHS, LearnedPrior
from pets.core.waves import ENDS, HORIZONS, Mixture, SequentialDesign
from pets.engine.fetch import FATAL_STATUSES, Fetcher, most_unknown_traces
from pets.engine.progress import expected_so_far, no_vote_reason
from pets.engine.question import Outcome, excerpt_of, outcome_of
from pets.errors import BusyError, FirstTracesError, PetsError, RefusedError, SamplerError
from pets.samplers import Sampler
from pets.store import RunView, StoredTrace

if TYPE_CHECKING:
    from pets.engine.arrivals import Wiring

Floats = NDArray[np.float64]

REFUSALS_BEFORE_END = 3  # of different questions before anything came back: the request itself is wrong
MAX_FIRST_TRACES = 20
BUDGET_SHARE = 10  # the first traces are a tenth of the budget at most
FEWEST_TRACES = 3  # one odd trace of a small budget stops nothing
TARGET_GROWTH = 1.02  # of a run, after which its target is looked at again
SETTLED_GROWTH, SETTLED_FROM = 1.2, 8  # the same of a run without one, and the traces per question from which on
LEAST_GAIN = 1e-3  # of self-consistency that further traces might bring, for a run to go on
RACE_TAIL = 2.0  # mean traces' times that a race takes longer than all traces at once, about
SLOWEST_TRACE = 1.25  # of a wave; in times of the mean one
ENOUGH_WAVES = 12  # nearly as good as a look after every trace
PRICES = np.geomspace(0.3, 1e-5, 24)  # of a trace, in doubt


async def hurry_of(hurry: float | None, samplers: Iterable[Sampler], usual: float) -> float:
    """The hurry that the user says; else the ``usual`` one where all servers stop, or tell whether they do."""
    if hurry is not None:
        return hurry
    for sampler in samplers:
        if not sampler.stops and await sampler.requests_running() is None:
            return 0.0
    return usual


@dataclass(frozen=True, slots=True)
class Pace:
    """How a batch is spread over time: ``traces`` are B, ``concurrency`` is c; in ``waves`` at most, 0 where traces are
    ``raced`` or all asked for at once."""

    concurrency: int
    questions: int = 0
    traces: int = 0
    waves: int = 0
    raced: bool = False

    @property
    def _uniform_times(self) -> float:
        return max(1.0, self.traces / self.concurrency) - 1 + SLOWEST_TRACE

    @property
    def trace_times(self) -> float:
        """The time of the run, in mean traces' times."""
        more = SLOWEST_TRACE * (self.waves - 1) if self.waves else RACE_TAIL * self.raced
        return self._uniform_times + more

    @property
    def times_as_long(self) -> float:
        """The time of the run in times of all traces at once."""
        return self.trace_times / self._uniform_times

    def points_given_up(self, options: int | None = None) -> float:
        """Points of expected self-consistency that the waves cost, against a look after every trace.

        Any degree of agreement is taken for as likely as the others, for nothing is known of the questions beforehand.

        >>> [round(Pace(64, 10, 60, waves).points_given_up(options=4), 1) for waves in (1, 2, 4, 8)]
        [4.4, 1.7, 0.6, 0.1]
        """
        if not self.waves or self.questions < 2:  # a single question gets all there is, whenever that is decided
            return 0.0
        waves, mean = (self.waves, max(self.waves, ENOUGH_WAVES)), self.traces / self.questions
        given_up, least = (np.interp(mean, *_doubts(options or OPEN_SLOTS, many)) for many in waves)
        return 100 * max(0.0, float(given_up - least))


def pace_of(policy: Policy, traces: int, questions: int, concurrency: int, *, needs_feedback: bool = False) -> Pace:
    """The pace of a batch of so many questions and traces.

    A single question has one wave, for there is nothing to allocate, unless the run ``needs_feedback`` all the same: to
    stop at a target, or to learn what traces cost.
    """
    waves = policy.waves if questions > 1 or needs_feedback else min(1, policy.waves)
    return Pace(concurrency, questions, traces, waves, raced=not (waves or policy.blind))


@lru_cache(maxsize=64)
def _doubts(slots: int, waves: int) -> tuple[Floats, Floats]:
    """Mean traces of new questions under the best plans of so many waves, and the expected share of wrong verdicts."""
    mixture = Mixture(slots, STRENGTHS, LearnedPrior().shares[0])
    design = SequentialDesign(mixture.of_at_most(max(HORIZONS)), HORIZONS[max(HORIZONS)])
    ends = [end for end in ENDS if end <= design.T]
    look = design.looks({0: design.rows([()])}, PRICES, waves, ends)[0]
    best = look.cost[0].argmin(axis=0), np.arange(len(PRICES))
    votes = look.votes[0][best]
    return votes, look.cost[0][best] - PRICES * votes


class Ending(NamedTuple):
    """Why a run launches nothing more; one with an ``error`` raises it when nothing is in flight."""

    reason: str
    error: PetsError | None = None


@dataclass(slots=True)
class FirstTraces:
    """How the first ``size`` traces of a run were read, and whether more may go out.

    ``keep_going`` goes on whatever they say; without ``alone``, as in batch jobs, others go out beside them.
    """

    size: int
    keep_going: bool = False
    alone: bool = True
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    _excerpts: dict[Outcome, str] = field(default_factory=dict)
    _answer_type: str = ""  # that could not read a trace
    _error: str = ""  # of a trace that failed

    @classmethod
    def of(cls, budget: Budget, *, keep_going: bool = False, alone: bool = True) -> "FirstTraces":
        """The first traces of a run: a share of the budget, each at the price of the dearest, and a few of a small one.

        >>> [FirstTraces.of(Budget(total)).size for total in (5000, 160, 8)]
        [20, 16, 3]
        """
        amount = budget.total if budget.window is None else budget.window.amount
        size = max(FEWEST_TRACES, min(MAX_FIRST_TRACES, amount // budget.currency.hold // BUDGET_SHARE))
        return cls(size, keep_going=keep_going, alone=alone)

    @property
    def passed(self) -> bool:
        """Whether at least half of the first traces were read: the run goes on."""
        return self.keep_going or 2 * self.outcomes["read"] >= self.size

    @property
    def failed(self) -> bool:
        """Whether more than half of the first traces cast no vote: the run stops."""
        return not self.passed and 2 * (self.outcomes.total() - self.outcomes["read"]) > self.size

    def count(self, trace: StoredTrace, type_name: Callable[[], str]) -> None:
        """Count a trace that came back, or failed; ``type_name`` says how its question's answers are read."""
        outcome = outcome_of(trace)
        self.outcomes[outcome] += 1
        if outcome == "unreadable":
            self._answer_type = type_name()
        self._error = trace.error or self._error
        if trace.text and outcome not in self._excerpts:
            self._excerpts[outcome] = excerpt_of(trace.text)

    def count_stored(self, run: RunView, type_name: Callable[[], str]) -> None:
        """Count the traces of an earlier process, but for those that failed: these tell of the server at that time."""
        for trace in run.traces(texts=False):
            if trace.error is None and trace.part is None:
                self.count(trace, type_name)
        if self.failed:  # else no text is read
            for trace in islice((trace for trace in run.traces() if trace.part is None), self.size):
                if trace.text:
                    self._excerpts.setdefault(outcome_of(trace), excerpt_of(trace.text))

    def error(self, max_tokens: int | None) -> FirstTracesError:
        """What went wrong, what to do about it, and one of the traces."""
        bad = [(outcome, number) for outcome, number in self.outcomes.most_common() if outcome != "read"]
        words = {
            "unreadable": f"hold no answer that `{self._answer_type}` can read",
            "failed": f"failed ({self._error.rstrip('.')})",
        }
        parts = list[str]()
        for outcome, number in bad:
            became = words.get(outcome) or f"were {no_vote_reason(outcome, max_tokens)[0]}"
            parts.append(f"{number} of {self.outcomes.total()} traces {became}")
        worst = bad[0][0]
        remedy = f"{no_vote_reason(worst, max_tokens)[1]}, or go on as it is with --keep-going."
        return FirstTracesError(f"{' and '.join(parts)}: {remedy}", self._excerpts.get(worst, ""))


class StopRules:
    """Ends a run: :meth:`ending` says why, once there is a reason.

    ``first_traces`` are read before others go out. A batch of ``ids`` ends once it meets its ``target``, or is settled.
    ``max_tokens`` of a trace is for the words of an error.
    """

    def __init__(
        self,
        allocator: Allocator,
        fetcher: Fetcher,
        first_traces: FirstTraces,
        ids: list[str],
        target: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self.drained = False  # whether the run was told to end
        self.enough: Literal["target", "settled"] | None = None  # why the questions have all that they need
        self.turned_away = False  # whether the server refused a run that never had a trace: what is in flight is free
        self.first_traces = first_traces
        self.failures: dict[str, SamplerError] = {}  # the last one of each question
        self._allocator, self._fetcher, self._ids = allocator, fetcher, ids
        self._target, self._max_tokens = target, max_tokens
        self._next_look = 0.0  # at whether the questions have enough, in traces
        self._refused: set[str] = set()  # questions
        self._losses: SamplerError | None = None

    def begin(self) -> None:
        """Forget what failed before, as the run begins or goes on."""
        self._losses, self._fetcher.unknown_traces = None, 0

    def drain(self, *, on: bool = True) -> None:
        """Tell the run to end; ``on=False``: a run that was told goes on."""
        self.drained = on

    @property
    def may_resume(self) -> bool:
        """Whether the run ends before its budget does, so that what was not asked can be asked again."""
        return self.drained or self._losses is not None

    def ending(self) -> Ending | None:
        """Why nothing more is launched; ``None`` while the run goes on."""
        first = self.first_traces
        if first.failed and self._allocator.budget.affordable > 0:
            return Ending("first traces", first.error(self._max_tokens))
        if self._losses is not None:
            return Ending("losses", self._losses)
        if self.drained:
            return Ending("drained")
        if self._ids and self.enough is None:
            self.enough = self._have_enough()
        return None if self.enough is None else Ending(self.enough)

    def _have_enough(self) -> Literal["target", "settled"] | None:
        """Look whether the target is met, a question without a vote counting as wrong, or nothing is left to gain for a
        policy that learns where to spend; whoever spends evenly means to."""
        allocator, target, traces = self._allocator, self._target, self._allocator.told
        learns = isinstance(allocator.policy, IndexPolicy) and allocator.policy.learns
        settled_from = SETTLED_FROM * len(self._ids)
        first = settled_from if target is None else len(self._ids)
        if traces < max(self._next_look, first) or not (learns or target):
            return None
        self._next_look = (SETTLED_GROWTH if target is None else TARGET_GROWTH) * traces + 1
        seen = expected_so_far(allocator, self._ids)
        if target is not None and seen.consistency >= target:
            return "target"
        return "settled" if traces >= settled_from and learns and seen.to_gain < LEAST_GAIN else None

    def failed(self, question: str, error: SamplerError) -> None:
        """Remember why traces did not come; a run whose failures may have cost too much sends no new request."""
        self.failures[question] = error
        if error.status in FATAL_STATUSES:
            self.turn_away()
        lost = self._fetcher.unknown_traces
        if self._losses is None and lost >= most_unknown_traces(self._allocator.budget):
            self._losses = BusyError(
                f"{lost} traces came to nothing, and the server may have sampled and billed them. The last error: "
                f"{str(error).rstrip('.')}. Nothing more is asked, so that no more is lost. Look at the server, and at "
                "the time limit of a proxy before it; then go on with the run."
            )
            self._fetcher.drain()

    def refused(self, question: str, error: RefusedError) -> None:
        """Raise where several questions are refused and nothing came: the request is wrong, whatever it asks."""
        if self._allocator.told:  # the server takes such requests
            return
        self._refused.add(question)
        if len(self._refused) >= min(REFUSALS_BEFORE_END, len(self._ids) or REFUSALS_BEFORE_END):
            self.turn_away()
            raise error

    def turn_away(self) -> None:
        """The server refuses the run outright: its key, its model, or every question."""
        self.turned_away = not self._fetcher.served and not self._allocator.told


class Pacing:
    """How many traces may be in flight, and when the next wave begins.

    Unless the user said how much to hurry, a run hurries no more once a server goes on with what was cancelled.
    """

    def __init__(self, wiring: "Wiring", pace: Pace, *, hurry_said: bool = False) -> None:
        self._allocator, self._questions, self._ledger = wiring.allocator, wiring.questions, wiring.ledger
        self._stops, self._pool, self._costs, self._pace = wiring.stops, wiring.fetcher.pool, wiring.costs, pace
        self._wave: tuple[int, int] | None = None  # the one under way, and how many are left
        self._used_up = False  # what the last wave left was spent, too
        self._may_calm = not hurry_said

    def room(self) -> int:
        """How many more traces may be launched now."""
        if self._may_calm and self._pool.ignores_cancel:
            self._may_calm = False
            self._allocator.hurry_by(0.0)
        in_flight, first = self._questions.in_flight, self._stops.first_traces
        room = self._pace.concurrency - in_flight
        if first.passed or not first.alone:
            return room
        return min(room, first.size - first.outcomes.total() - in_flight)  # until it is known how the run begins

    def asked(self) -> None:
        """Keep in the ledger which wave is under way, once launches were asked for."""
        allocator = self._allocator
        if self._pace.waves and (wave := (allocator.wave, allocator.waves_left)) != self._wave:
            self._wave = wave
            self._ledger.begin_wave(allocator.wave)

    def next_wave(self) -> bool:
        """Spend what is left after the last wave in one more."""
        allocator = self._allocator
        if not self._pace.waves or allocator.waves_left or self._questions.in_flight or self._used_up:
            return False
        self._used_up = self._costs.can_launch() and allocator.budget.expected > 0
        return self._used_up and allocator.next_wave(extra=True)
