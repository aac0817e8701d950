"""Two runs over the same questions: where their answers differ, and whose are right more often."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt

from scipy.stats import binomtest

from pets.answers.base import AnswerType
from pets.engine.progress import NORMAL_95
from pets.engine.question import Answer, answer_type_of
from pets.questions import Problem


@dataclass(frozen=True, slots=True)
class PairedAccuracy:
    """Accuracy over the questions that both runs asked and whose gold can be read.

    ``first_only`` and ``second_only`` are right in one run alone. The difference is the second's accuracy less the
    first's, with a 95 % interval (Agresti and Min, 2005) and the exact McNemar test.

    >>> paired = PairedAccuracy(judged=40, first_right=20, second_right=28, first_only=2, second_only=10)
    >>> round(paired.difference, 3), [round(bound, 3) for bound in paired.interval], round(paired.p_value, 4)
    (0.2, [0.032, 0.349], 0.0386)
    """

    judged: int
    first_right: int
    second_right: int
    first_only: int
    second_only: int

    @property
    def difference(self) -> float:
        """The second run's accuracy less the first's."""
        return (self.second_only - self.first_only) / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        n, b, c = self.judged + 2, self.first_only + 0.5, self.second_only + 0.5
        centre, spread = (c - b) / n, NORMAL_95 * sqrt(b + c - (c - b) ** 2 / n) / n
        return max(-1.0, centre - spread), min(1.0, centre + spread)

    @property
    def p_value(self) -> float:
        """The chance that two runs as good as each other differ so much (two-sided)."""
        discordant = self.first_only + self.second_only
        return float(binomtest(self.first_only, discordant).pvalue) if discordant else 1.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A question that two runs answer differently."""

    id: str
    first: str | None
    second: str | None
    gold: str | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """What two runs say of the ``shared`` questions; ``accuracy`` is ``None`` where none of these has gold."""

    shared: int
    first_only: int
    second_only: int
    differences: tuple[Difference, ...] = field(default=())
    accuracy: PairedAccuracy | None = None


def compare_runs(
    problems: Mapping[str, Problem],
    first: Iterable[Answer],
    second: Iterable[Answer],
    answer_type: str | AnswerType | None = None,
) -> RunComparison:
    """Compare two runs; ``problems`` are the first's, whose answers are read by ``answer_type`` or by their own."""
    by_id, others = {answer.id: answer for answer in first}, list(second)
    shared = [(by_id[other.id], other) for other in others if other.id in by_id]
    differences = []
    for mine, other in shared:
        one, two = mine.canonical, other.canonical
        if one != two and not (one and two and answer_type_of(problems[mine.id], answer_type).same(one, two)):
            differences.append(Difference(mine.id, mine.answer, other.answer, mine.gold))
    right = [(mine.right, other.right) for mine, other in shared if mine.right is not None and other.right is not None]
    accuracy = None
    if right:
        first_right, second_right = sum(one for one, _ in right), sum(two for _, two in right)
        both = sum(one and two for one, two in right)
        accuracy = PairedAccuracy(len(right), first_right, second_right, first_right - both, second_right - both)
    only = len(by_id) - len(shared), len(others) - len(shared)
    return RunComparison(len(shared), *only, tuple(differences), accuracy)
