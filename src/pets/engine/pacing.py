"""How long a batch may take: in how many waves its budget is spent, how long a wave waits, how many are in flight.

Every trace that is decided before others are back is decided more blindly, so quality costs time. The unit of time is
the mean trace's; the slowest of a wave takes s = 1.25 of them. With U = max(1, B / c) for B traces of which c are in
flight at once, uniform takes about U - 1 + s, and W waves

    U - 1 + W s,

because each waits for its slowest trace while nothing else is in flight. ``patience`` says how many times as long as
uniform the run may take: W = 1 + (patience - 1) (U - 1 + s) / s. By default it is 2, and a batch that uniform asks all
at once has 4 waves.

Large batches need no waves: with many more questions than traces in flight there is always one worth asking, whatever
the others turn out to say. Where they end, and where a policy knows no waves, fewer are in flight instead: L / k, with
L traces left, and k at the very end, which takes k log(c / k) longer than all at once.
"""

import asyncio
import math
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pets.core.cost import MIN_SAMPLES, CostEstimator, UnitCost
from pets.core.policy import IndexPolicy, Policy
from pets.core.prior import OPEN_SLOTS, STRENGTHS, LearnedPrior
from pets.core.waves import ENDS, HORIZONS, Mixture, SequentialDesign
from pets.engine.arrivals import Wiring

Floats = NDArray[np.float64]

PATIENCE = 2.0
SLOWEST_TRACE = 1.25  # of a wave; in times of the mean one
FEWEST_WAVES = 4  # of a small batch, unless its user is less patient
MOST_WAVES = 16  # beyond, a run is as good without
MOST_LEFT_PER_IN_FLIGHT = 8.0  # traces left for each in flight, at the end of a batch without waves
QUESTIONS_PER_IN_FLIGHT = 32  # with that many questions for each trace in flight a batch is not small
ENOUGH_WAVES = 12  # nearly as good as a look after every trace
PRICES = np.geomspace(0.3, 1e-5, 24)  # of a trace, in doubt
STRAGGLERS_SHARE = 0.125  # of a wave, at most, that the next one may begin without


@dataclass(frozen=True, slots=True)
class Pace:
    """How a batch is spread over time.

    ``traces`` are B, ``concurrency`` is c; ``waves`` at most, 0 for no limit; ``left_per_in_flight`` is k, where there
    are no waves.
    """

    concurrency: int
    questions: int = 0
    traces: int = 0
    waves: int = 0
    left_per_in_flight: float = 0.0

    @property
    def rounds(self) -> float:
        """U: how many traces each place in flight serves, one after the other."""
        return max(1.0, self.traces / self.concurrency)

    @property
    def uniform_times(self) -> float:
        """How long all traces at once take, in mean traces' times."""
        return self.rounds - 1 + SLOWEST_TRACE

    @property
    def trace_times(self) -> float:
        """How long the run takes, in mean traces' times."""
        if self.waves:
            return self.rounds - 1 + SLOWEST_TRACE * self.waves
        return self.uniform_times + _tail(self.left_per_in_flight, self.rounds, self.concurrency)

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

    def limit(self, left: int) -> int:
        """How many may be in flight when ``left`` traces, those in flight included, are left of the budget.

        >>> [Pace(64, 198, left_per_in_flight=8.0).limit(left) for left in (792, 200, 20)]
        [64, 25, 8]
        >>> Pace(64, 5000, left_per_in_flight=8.0).limit(64), Pace(64, waves=4).limit(20)
        (64, 64)
        """
        k = self.left_per_in_flight
        if k <= 1:
            return self.concurrency
        return min(self.concurrency, max(math.ceil(k), self.questions // QUESTIONS_PER_IN_FLIGHT, int(left / k)))


def pace_of(
    policy: Policy,
    traces: int,
    questions: int,
    concurrency: int,
    *,
    waves: int | None = None,
    patience: float | None = None,
    needs_feedback: bool = False,
) -> Pace:
    """The pace of a batch of so many questions and traces; ``waves`` and ``patience`` are the user's.

    A single question has one wave, for there is nothing to allocate, unless the run ``needs_feedback`` all the same: to
    stop at a target, or to learn what traces cost.

    >>> from pets.policies.okg import OKG
    >>> [pace_of(OKG(), 6 * questions, questions, 64).waves for questions in (10, 100, 300, 5000)]
    [4, 8, 0, 0]
    >>> pace_of(OKG(), 60, 10, 64, patience=8).waves, pace_of(OKG(), 60, 10, 64, waves=2).waves
    (8, 2)
    """
    pace = Pace(concurrency, questions, traces)
    if waves is not None:
        return replace(pace, waves=policy.with_waves(waves).waves)
    if policy.waves:
        return replace(pace, waves=policy.waves if questions > 1 or needs_feedback else 1)
    if not isinstance(policy, IndexPolicy) or policy.blind or questions < 2:
        return pace
    longer = ((PATIENCE if patience is None else patience) - 1) * pace.uniform_times  # than uniform
    if patience is None:
        longer = max(longer, (FEWEST_WAVES - 1) * SLOWEST_TRACE)
    small = questions < QUESTIONS_PER_IN_FLIGHT * concurrency
    wanted = int(1 + longer / SLOWEST_TRACE + 1e-9)
    plans_waves = "waves" in {option.name for option in fields(policy)}  # type: ignore[arg-type]
    if small and wanted <= MOST_WAVES and plans_waves:
        return replace(pace, waves=wanted)
    return replace(pace, left_per_in_flight=_left_per_in_flight(longer, pace.rounds, concurrency))


def _left_per_in_flight(longer: float, rounds: float, concurrency: int) -> float:
    """The largest k that makes the run no ``longer``."""
    ks = [k / 4 for k in range(4, int(4 * MOST_LEFT_PER_IN_FLIGHT) + 1)]
    return max((k for k in ks if _tail(k, rounds, concurrency) <= longer), default=1.0)


def _tail(k: float, rounds: float, concurrency: int) -> float:
    """How much longer a run takes whose last L traces are asked L / k at a time, and k at a time at the very end."""
    begin = min(concurrency * k, rounds * concurrency)  # where the width begins to shrink
    if k <= 1 or begin <= k * k:
        return 0.0
    return k * (1 + math.log(begin / (k * k))) - begin / concurrency


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


@dataclass(slots=True)
class WaveClock:
    """When a wave need no longer wait for the last of its traces.

    Waiting pays as long as it can still raise the traces that a wave brings per second. Let the best moment so far be
    when j of its s traces were back after t seconds: were the others all to come after s t / j seconds, the wave would
    bring no more per second than it would have brought then. So it waits no longer, if an eighth of it at most (or one
    trace) is out. What is out is pending, not dropped: it votes when it comes.

    >>> clock = WaveClock()
    >>> clock.begin(0.0, pending=0); clock.launched(10)
    >>> for out in range(9, 0, -1): clock.back(10.0 - out, out)
    >>> clock.waits_until(in_flight=1)
    10.0
    """

    begun_at: float = 0.0
    size: int = 0
    durations: list[float] = field(default_factory=list)
    """Seconds of the waves that are over."""
    _seconds_per_trace: float = math.inf  # at the best moment

    def begin(self, now: float, pending: int) -> None:
        """A wave begins, with traces of earlier ones still out."""
        if self.size:
            self.durations.append(now - self.begun_at)
        self.begun_at, self.size, self._seconds_per_trace = now, pending, math.inf

    def launched(self, traces: int) -> None:
        """More of the wave's traces are out."""
        self.size += traces

    def back(self, now: float, in_flight: int) -> None:
        """Traces came back; so many are out."""
        back = self.size - in_flight
        if 2 * back >= self.size:
            self._seconds_per_trace = min(self._seconds_per_trace, (now - self.begun_at) / back)

    def waits_until(self, in_flight: int) -> float:
        """The time from which the next wave may begin, though so many traces are out."""
        if in_flight > max(1, STRAGGLERS_SHARE * self.size):
            return math.inf
        return self.begun_at + self.size * self._seconds_per_trace

    def seconds_left(self, now: float, waves_left: int) -> float | None:
        """Until the last wave is over, if they take as long as those before; ``None`` before one is over."""
        if not self.durations:
            return None
        usual = sum(self.durations) / len(self.durations)
        return max(0.0, self.begun_at + usual - now) + usual * waves_left


class Pacing:
    """How many traces may be in flight, and when the next wave begins."""

    def __init__(self, pace: Pace, wiring: Wiring, costs: CostEstimator | UnitCost) -> None:
        self.clock = WaveClock()
        self.in_flight = wiring.in_flight
        self._pace, self._wiring, self._costs = pace, wiring, costs
        self._allocator = wiring.allocator
        self._wave: tuple[int, int] | None = None  # the one under way, and how many are left
        self._used_up = False  # what the last wave left was spent, too
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The run begins, with launches of an earlier process in flight."""
        self.clock.begin(asyncio.get_running_loop().time(), 0)
        self.clock.launched(self.in_flight.total)

    def close(self) -> None:
        """The run is over."""
        if self._timer is not None:
            self._timer.cancel()

    def room(self) -> int:
        """How many more traces may be launched now."""
        in_flight, first = self.in_flight.total, self._wiring.stops.first_traces
        room = self._limit() - in_flight
        return room if first is None or first.passed else min(room, first.room(in_flight))

    def _limit(self) -> int:
        budget = self._allocator.budget
        if isinstance(self._costs, CostEstimator) and budget.settled < MIN_SAMPLES:
            return self._pace.concurrency
        return self._pace.limit(budget.expected + self.in_flight.total)

    def asked(self, launches: int) -> None:
        """Launches were asked for: keep time of the wave under way, and in the ledger which one that is."""
        if not self._pace.waves:
            return
        wave = (self._allocator.wave, self._allocator.waves_left)
        if launches and wave != self._wave:
            self._wave = wave
            self.clock.begin(asyncio.get_running_loop().time(), self.in_flight.total)
            self._wiring.ledger.begin_wave(self._allocator.wave)
        self.clock.launched(launches)

    def back(self, question: str) -> int:
        """A trace of a question came back, or will not come; how many others of it are in flight."""
        left = self.in_flight.back(question)
        if self._pace.waves:
            self.clock.back(asyncio.get_running_loop().time(), self.in_flight.total)
        return left

    def next_wave(self) -> bool:
        """Begin the next wave without the last traces of this one, once it does not pay to wait for them.

        What is left after the last wave is spent in one more.
        """
        allocator, in_flight = self._allocator, self.in_flight.total
        if not self._pace.waves or not self._costs.can_launch() or not allocator.budget.expected:
            return False
        if in_flight:
            return allocator.waves_left > 0 and self._leave_stragglers()
        if allocator.waves_left:
            return allocator.next_wave()
        if self._used_up:
            return False
        self._used_up = True
        return allocator.next_wave(extra=True)

    def _leave_stragglers(self) -> bool:
        loop, until = asyncio.get_running_loop(), self.clock.waits_until(self.in_flight.total)
        if loop.time() >= until:
            return self._allocator.next_wave()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if until == math.inf else loop.call_at(until, self._wiring.wake)
        return False
