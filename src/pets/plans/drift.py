"""A drift alarm: do the warm-up patterns of the stream still fit the plan?

The plan's shares are themselves an estimate, from n training questions. So the null is that training and stream share
one theta ~ Dir(1/2): given the training, the next pattern is x with chance

    p_t(x) = (1/2 + n share_x + N_x) / (5/2 + n + N),       N_x patterns x so far in the stream.

The alternative forgets everything at some start s: q_s(x) = (1/2 + C_x) / (5/2 + C), C counted from s on. Each
E_s = prod q_s / p_t is a martingale under the null with mean 1, and so is their mixture over the starts 0, 64, 128, ...
with weights 1 / (k (k + 1)). By Ville's inequality

    P(the mixture ever reaches 1 / rate) <= rate,

whatever the length of the stream and however often one looks (Ville 1939; Ramdas et al., Game-theoretic statistics,
2023). A plan's shares are less noisy than those of n drawn patterns (:func:`pets.core.tally.soft_assignment`), which
makes the true rate lower still.
"""

import math
from collections.abc import Callable

import numpy as np

from pets.core.tally import NAMES, PATTERNS
from pets.errors import InputError
from pets.plans.plan import StreamPlan

START_EVERY = 64  # questions from one possible start of a drift to the next
JEFFREYS = 0.5  # Jeffreys' pseudo-count
FORGET_LOG_EVIDENCE = -30.0  # the log evidence at which a start is forgotten: that can only lower the mixture
MAX_STARTS = 256  # starts that are followed; of more, the least likely is forgotten

OnAlarm = Callable[["Drift"], None] | None


class Drift:
    """Watches the warm-up patterns of a stream; ``rate`` is the chance of an alarm, ever, where nothing has changed.

    >>> drift = Drift(shares=(0.7, 0.2, 0.05, 0.04, 0.01), questions=100)
    >>> for pattern in [0, 0, 1] * 20 + [4] * 20:
    ...     drift.see(pattern)
    >>> drift.alarm, drift.seen, drift.p_value < 0.01
    (True, 80, True)
    """

    def __init__(self, shares: tuple[float, ...], questions: int, rate: float = 0.01, on_alarm: OnAlarm = None) -> None:
        if len(shares) != len(PATTERNS) or not 0.0 < rate < 1.0 or questions < 1:
            expected = f"{len(PATTERNS)} shares, at least 1 training question and a rate between 0 and 1"
            raise InputError(f"a drift alarm takes {expected}; got {len(shares)}, {questions} and {rate}.")
        self.shares = shares
        self.rate, self.on_alarm = rate, on_alarm
        self.seen = 0
        self.alarmed_at: int | None = None  # questions seen when the alarm was raised
        self._null = JEFFREYS + questions * np.array(shares)  # pseudo-counts of the null
        self._counts = np.zeros(len(PATTERNS), dtype=np.int64)
        self._hits = np.zeros((0, len(PATTERNS)))  # patterns since each start
        self._evidence = np.zeros(0)  # log E of each start, its weight included
        self._starts = 0  # starts so far
        self._top = 0.0  # the highest log evidence so far

    @classmethod
    def of(cls, plan: StreamPlan, rate: float = 0.01, on_alarm: OnAlarm = None) -> "Drift":
        """The alarm for a plan."""
        return cls(plan.grid.shares, plan.provenance.questions, rate, on_alarm)

    def see(self, pattern: int) -> None:
        """Take in a question's warm-up pattern, by its place in ``PATTERNS``; the first alarm calls ``on_alarm``."""
        if not 0 <= pattern < len(PATTERNS):
            raise InputError(f"pattern {pattern}; expected a place among the {len(PATTERNS)} warm-up patterns.")
        if self.seen % START_EVERY == 0:
            self._starts += 1
            self._evidence = np.append(self._evidence, -math.log(self._starts * (self._starts + 1)))
            self._hits = np.vstack([self._hits, np.zeros(len(PATTERNS))])
        chances = (JEFFREYS + self._hits[:, pattern]) / (JEFFREYS * len(PATTERNS) + self._hits.sum(axis=1))
        self._evidence += np.log(chances)
        self._evidence -= math.log(self._null[pattern] / self._null.sum())
        self._hits[:, pattern] += 1
        self._null[pattern] += 1
        self._counts[pattern] += 1
        self.seen += 1
        hopeful = self._evidence > FORGET_LOG_EVIDENCE
        if len(hopeful) > MAX_STARTS:
            hopeful[self._evidence.argmin()] = False
        self._evidence, self._hits = self._evidence[hopeful], self._hits[hopeful]
        self._top = max(self._top, self.log_evidence)
        if self.alarmed_at is None and self.alarm:
            self.alarmed_at = self.seen
            if self.on_alarm is not None:
                self.on_alarm(self)

    @property
    def log_evidence(self) -> float:
        """log of the mixture; starts that are yet to come count 1 each."""
        return float(np.logaddexp(np.logaddexp.reduce(self._evidence), -math.log(self._starts + 1)))

    @property
    def p_value(self) -> float:
        """Anytime valid: the smallest ``rate`` at which there would have been an alarm by now."""
        return math.exp(-self._top)

    @property
    def alarm(self) -> bool:
        """Whether the patterns no longer fit the plan; it stays until a new plan is made."""
        return self.p_value <= self.rate

    @property
    def words(self) -> str:
        """The alarm for a person."""
        return (
            f"Drift: after {self.seen:,} questions the warm-up patterns no longer fit the plan "
            f"(p = {self.p_value:.2g}). The budget is kept; fit a new plan on recent answers to spend it well."
        )

    def to_plain(self) -> dict[str, object]:
        """The state in a few plain values, for a log or a dashboard."""
        seen = max(1, self.seen)
        return {
            "alarm": self.alarm,
            "alarmed_at": self.alarmed_at,
            "p_value": self.p_value,
            "rate": self.rate,
            "seen": self.seen,
            "planned": dict(zip(NAMES, self.shares, strict=True)),
            "found": {name: int(count) / seen for name, count in zip(NAMES, self._counts, strict=True)},
        }
