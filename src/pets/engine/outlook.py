"""How good the answers are by now: certificates under the prior that the batch itself teaches."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pets.core.allocator import Allocator
from pets.core.certificate import certificate
from pets.core.prior import LearnedPrior, fit_prior
from pets.core.tally import Tally

__all__ = ["Certifier", "Outlook", "Watch", "outlook", "tallies_of"]

GLANCE = 2000  # questions that a look while the run goes on takes
STUDY = 20_000  # questions that a prior is learned from


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected self-consistency, the share of questions with a vote, and the least certain questions."""

    consistency: float
    answered: float
    hardest: tuple[tuple[str, float], ...]


class Certifier:
    """Certificates of a batch, each belief state's worked out once."""

    def __init__(self, tallies: Iterable[Tally]) -> None:
        self.prior: LearnedPrior = fit_prior(Counter(tallies))
        self._known: dict[Tally, float] = {}

    def __call__(self, tally: Tally, traces: float | None = None) -> float:
        """P(the leader is the vote after so many traces in all); ``None``: after infinitely many."""
        mark = self.prior.mark(tally.mean_tokens) if tally.mean_tokens else 0
        state = Tally(tally.counts, tally.nulls, 0, tally.options, mark=mark)
        if traces is not None:
            return certificate(state, self.prior, traces)
        if state not in self._known:
            self._known[state] = certificate(state, self.prior)
        return self._known[state]


def tallies_of(allocator: Allocator, questions: Sequence[str], most: int = STUDY) -> list[Tally]:
    """What is known of the questions, or of ``most`` of them evenly spread."""
    return [allocator.tally(id) for id in questions[:: max(1, -(-len(questions) // most))]]


def outlook(allocator: Allocator, questions: Sequence[str]) -> Outlook:
    """A glance at a run: a sample of large batches, lengths left aside so that it costs little."""
    chosen = questions[:: max(1, -(-len(questions) // GLANCE))]
    tallies = [_bare(allocator.tally(id)) for id in chosen]
    certify = Certifier(tallies)
    sure = [certify(tally) for tally in tallies]
    hardest = sorted(zip(chosen, sure, strict=True), key=lambda one: one[1])[:5]
    answered = sum(bool(tally.counts) for tally in tallies) / len(tallies)
    return Outlook(sum(sure) / len(sure), answered, tuple(hardest))


def _bare(tally: Tally) -> Tally:
    return Tally(tally.counts, tally.nulls, 0, tally.options)


@dataclass(slots=True)
class Watch:
    """Looks at a run whenever it has grown by a fiftieth, until the target is met."""

    target: float
    _next: float = field(default=1.0)

    def met(self, allocator: Allocator, questions: Sequence[str]) -> bool:
        """Whether every question looked at has a vote and the expected self-consistency is there."""
        if allocator.told < max(self._next, len(questions)):
            return False
        self._next = 1.02 * allocator.told + 1
        seen = outlook(allocator, questions)
        return seen.consistency >= self.target
