"""How good the answers are by now: certificates and expected self-consistency, and a run in a few numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pets.core.allocator import Allocator
from pets.core.certificate import certificate
from pets.core.policy import Policy
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import Tally
from pets.engine.fetch import Outage
from pets.engine.question import Answer

__all__ = [
    "Certifier",
    "ExpectedConsistency",
    "Snapshot",
    "Solution",
    "TargetMonitor",
    "expected_so_far",
    "policy_certificate",
    "tallies_of",
]

PROGRESS_QUESTIONS = 2000  # that a look while the run goes on takes
PRIOR_QUESTIONS = 20_000  # that a prior is learned from
TARGET_GROWTH = 1.02  # of a run, after which its target is looked at again


@dataclass(frozen=True, slots=True)
class ExpectedConsistency:
    """The expected self-consistency, the share of questions with a vote, and the least certain questions."""

    consistency: float
    answered: float
    hardest: tuple[tuple[str, float], ...]


class Certifier:
    """Certificates of a batch, each belief state's worked out once."""

    def __init__(self, tallies: Iterable[Tally], zone: float = 0.0) -> None:
        self.prior: LearnedPrior = fit_prior(Counter(tallies))
        self.zone = zone
        self._certificates: dict[Tally, float] = {}

    def __call__(self, tally: Tally, traces: float | None = None) -> float:
        """P(the leader is the vote after ``traces`` traces in all); ``None``: after infinitely many.

        With a zone: P(no answer is then ahead of it by more).
        """
        mark = self.prior.mark(tally.mean_tokens) if tally.mean_tokens else 0
        state = Tally(tally.counts, tally.nulls, 0, tally.options, mark=mark)
        if traces is not None:
            return certificate(state, self.prior, traces, zone=self.zone)
        if state not in self._certificates:
            self._certificates[state] = certificate(state, self.prior, zone=self.zone)
        return self._certificates[state]


def tallies_of(allocator: Allocator, questions: Sequence[str], most: int = PRIOR_QUESTIONS) -> list[Tally]:
    """What is known of the questions, or of ``most`` of them evenly spread."""
    return [allocator.tally(id) for id in questions[:: max(1, -(-len(questions) // most))]]


def expected_so_far(allocator: Allocator, questions: Sequence[str]) -> ExpectedConsistency:
    """A run as it stands: a sample of large batches, lengths left aside so that it costs little."""
    sample = questions[:: max(1, -(-len(questions) // PROGRESS_QUESTIONS))]
    tallies = [_without_lengths(allocator.tally(id)) for id in sample]
    certify = Certifier(tallies, allocator.policy.zone)
    certificates = [certify(tally) for tally in tallies]
    hardest = sorted(zip(sample, certificates, strict=True), key=lambda row: row[1])[:5]
    answered = sum(bool(tally.counts) for tally in tallies) / len(tallies)
    return ExpectedConsistency(sum(certificates) / len(certificates), answered, tuple(hardest))


def _without_lengths(tally: Tally) -> Tally:
    return Tally(tally.counts, tally.nulls, 0, tally.options)


def policy_certificate(policy: Policy, tally: Tally) -> float:
    """P(the leader is the vote over infinitely many traces) under a policy's own belief and zone; remembered by state.

    >>> policy_certificate(Policy(), Tally((9, 1))) > policy_certificate(Policy(), Tally((5, 4)))
    True
    """
    belief = policy.belief
    mark = belief.mark(tally.mean_tokens) if tally.mean_tokens else 0
    return _certificate(Tally(tally.counts, tally.nulls, 0, tally.options, mark=mark), belief, policy.zone)


@lru_cache(maxsize=1 << 14)
def _certificate(state: Tally, belief: LearnedPrior, zone: float) -> float:
    return certificate(state, belief, zone=zone)


@dataclass(slots=True)
class TargetMonitor:
    """Looks at a run whenever it has grown by a fiftieth, until the target is met."""

    target: float
    _next_look: float = field(default=1.0)

    def met(self, allocator: Allocator, questions: Sequence[str]) -> bool:
        """Whether the expected self-consistency is there; a question without a vote counts as wrong."""
        if allocator.told < max(self._next_look, len(questions)):
            return False
        self._next_look = TARGET_GROWTH * allocator.told + 1
        return expected_so_far(allocator, questions).consistency >= self.target


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How a run goes. ``rate`` is traces per second since it began or was resumed; ``outage`` says
    why no server can be reached now. It is in its ``wave``-th of at most ``waves``, 0 where there are none, which
    costs so many points of expected self-consistency against one trace at a time."""

    questions: int
    traces: int
    failed: int
    in_flight: int
    spent: float
    total: float
    unit: str
    seconds: float
    rate: float
    expected_left: int
    faults: dict[str, int]
    outage: Outage | None
    expected: ExpectedConsistency | None
    wave: int = 0
    waves: int = 0
    points_given_up: float = 0.0
    wave_seconds_left: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Until the last wave is over, or the budget spent at this rate; ``None`` as long as nothing is known."""
        if self.wave_seconds_left is not None:
            return self.wave_seconds_left
        return self.expected_left / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True)
class Solution:
    """How a run went; of its ``questions`` so many were ``answered``.

    ``consistency`` is the expected self-consistency and its 95 % interval, for the ``zone`` where there is one.
    ``lost`` launches were in flight at a kill: charged, and among ``failed``. ``complete`` is False where it was
    stopped before its end. ``answers`` holds every question's where they were asked for. ``models`` counts the traces
    that each model of a mixture gave; it is empty where one model was asked.
    """

    run: int | None
    questions: int
    answered: int
    traces: int
    failed: int
    lost: int
    tokens: int
    prompt_tokens: int
    cost: float | None
    spent: float
    total: float
    unit: str
    consistency: tuple[float, float, float]
    zone: float
    faults: dict[str, int]
    complete: bool
    answers: tuple[Answer, ...] = ()
    models: Mapping[str, int] = field(default_factory=dict)
