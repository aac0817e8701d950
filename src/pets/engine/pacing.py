"""How much of a run is in flight, and how long it may take: races on live servers, waves of batch jobs.

On a live server a question's traces are raced (:mod:`pets.core.race`): ``concurrency`` is the only cap of their width,
and ``hurry`` says how many of them may turn out not to be needed. Where nobody says, it is a little above 0 if every
server is known to stop when a request is cancelled, or can be seen to, and else 0: nothing is cancelled. It is 0 from
then on, too, once a server is seen to go on.

Batch jobs bring nothing back one by one: their budget is spent in a few waves, each decided from all before it. The
unit of time is the mean trace's; the slowest of a wave takes s = 1.25 of them. With U = max(1, B / c) for B traces of
which c are in flight at once, uniform takes about U - 1 + s, and W waves U - 1 + W s, because each waits for its
slowest trace while nothing else is in flight.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pets.core.budget import CostEstimator, UnitCost
from pets.core.policy import Policy
from pets.core.prior import OPEN_SLOTS, STRENGTHS, LearnedPrior
from pets.core.waves import ENDS, HORIZONS, Mixture, SequentialDesign
from pets.engine.arrivals import Wiring
from pets.samplers import Sampler

Floats = NDArray[np.float64]

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
    """How a batch is spread over time.

    ``traces`` are B, ``concurrency`` is c; ``waves`` at most, 0 where traces are ``raced`` or all asked for at once.
    """

    concurrency: int
    questions: int = 0
    traces: int = 0
    waves: int = 0
    raced: bool = False

    @property
    def uniform_times(self) -> float:
        """How long all traces at once take, in mean traces' times."""
        return max(1.0, self.traces / self.concurrency) - 1 + SLOWEST_TRACE

    @property
    def trace_times(self) -> float:
        """How long the run takes, in mean traces' times."""
        if self.waves:
            return self.uniform_times + SLOWEST_TRACE * (self.waves - 1)
        return self.uniform_times + (RACE_TAIL if self.raced else 0.0)

    @property
    def times_as_long(self) -> float:
        """How many times as long as all traces at once the run takes."""
        return self.trace_times / self.uniform_times

    def points_given_up(self, options: int | None = None) -> float:
        """Points of expected self-consistency that the waves cost, against a look after every trace.

        Nothing is known of the questions beforehand: any degree of agreement is as likely as the others.

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

    >>> from pets.policies.okg import OKG
    >>> [pace_of(OKG(waves=waves), 60, 10, 64).waves for waves in (0, 4)]
    [0, 4]
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


class Pacing:
    """How many traces may be in flight, and when the next wave begins.

    Unless the user said how much to hurry, a run goes on with hurry 0 once a server is seen to go on with what was
    cancelled: that would be paid for as a whole.
    """

    def __init__(
        self, pace: Pace, wiring: Wiring, costs: CostEstimator | UnitCost, *, hurry_said: bool = False
    ) -> None:
        self.in_flight = wiring.in_flight
        self._pace, self._wiring, self._costs = pace, wiring, costs
        self._allocator = wiring.allocator
        self._wave: tuple[int, int] | None = None  # the one under way, and how many are left
        self._used_up = False  # what the last wave left was spent, too
        self._may_calm = not hurry_said

    def room(self) -> int:
        """How many more traces may be launched now."""
        if self._may_calm and self._wiring.fetcher.pool.stop_checks.goes_on:
            self._may_calm = False
            self._allocator.hurry_by(0.0)
        in_flight, first = self.in_flight.total, self._wiring.stops.first_traces
        room = self._pace.concurrency - in_flight
        return room if first is None or first.passed else min(room, first.room(in_flight))

    def asked(self, launches: int) -> None:
        """Launches were asked for: keep in the ledger which wave is under way."""
        wave = (self._allocator.wave, self._allocator.waves_left)
        if self._pace.waves and launches and wave != self._wave:
            self._wave = wave
            self._wiring.ledger.begin_wave(self._allocator.wave)

    def next_wave(self) -> bool:
        """Spend what is left after the last wave in one more."""
        allocator = self._allocator
        if not self._pace.waves or allocator.waves_left or self.in_flight.total or self._used_up:
            return False
        if not self._costs.can_launch() or not allocator.budget.expected:
            return False
        self._used_up = True
        return allocator.next_wave(extra=True)
