"""Labelled pools: equal recorded answers get one label, and gold the label of the answers that equal it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pets.answers.base import AnswerType
from pets.errors import InputError
from pets.pools import Pool, PooledQuestion
from pets.registry import make_answer_type

__all__ = ["RAW", "LabelledPool", "LabelledQuestion", "read_answers"]

RAW = "raw"  # strings as they were recorded
DIGITS = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """One question's votes in recorded order. ``gold`` is a label, or a string that no trace gave, or unknown."""

    id: str
    labels: tuple[str | None, ...]
    gold: str | None
    tokens: tuple[int, ...] | None
    confidence: tuple[float | None, ...] | None


@dataclass(frozen=True, slots=True)
class LabelledPool:
    """A pool as votes, read by answer type ``answer``; ``options`` is the size of a closed answer set."""

    name: str
    questions: tuple[LabelledQuestion, ...]
    answer: str
    options: int | None
    note: str = ""

    @property
    def shortest(self) -> int:
        """The fewest traces that a question has."""
        return min(len(question.labels) for question in self.questions)

    @property
    def pass_at_1(self) -> float | None:
        """The mean share of traces that equal gold, where gold is known; a trace without an answer does not."""
        shares = [q.labels.count(q.gold) / len(q.labels) for q in self.questions if q.gold is not None]
        return sum(shares) / len(shares) if shares else None


def read_answers(pool: Pool, answer: str | None = None) -> LabelledPool:
    """The pool's votes by the given answer type, by default that of its manifest, else as recorded (``raw``).

    Choices whose answers are bare digits, all of them, are read as the labels of that range. A manifest's type that
    reads fewer than half of the answers is not what these strings are: then they are taken as recorded, and ``note``
    says so. In a pool of choices the options are the different answers of the whole pool.
    """
    if not pool.questions:
        raise InputError(f'pool "{pool.name}" has no question; there is nothing to replay.')
    spec = answer or (_digits(pool) if pool.kind == "choice" else None) or pool.kind or RAW
    questions = _read(pool, None if spec == RAW else make_answer_type(spec))
    note = ""
    if answer is None and spec != RAW and _share_read(pool, questions) < 0.5:
        note = f'"{spec}" reads fewer than half of its answers: they are compared as recorded'
        questions = _read(pool, None)
    options = None
    if spec.partition(":")[0] == "choice":
        options = max(2, len({label for question in questions for label in question.labels} - {None}))
    return LabelledPool(pool.name, tuple(questions), RAW if note else spec, options, note)


def _digits(pool: Pool) -> str | None:
    """The spec of the digits that all answers of a pool of choices are; ``None`` if one is anything else."""
    recorded = {answer for question in pool.questions for answer in question.answers if answer is not None}
    if not recorded <= DIGITS or len(recorded) < 2:
        return None
    return f"choice:digits={min(recorded)}-{max(recorded)}"


def _read(pool: Pool, kind: AnswerType | None) -> list[LabelledQuestion]:
    return [_question(question, kind) for question in pool.questions]


def _question(question: PooledQuestion, kind: AnswerType | None) -> LabelledQuestion:
    labels: Sequence[str | None] = question.answers if kind is None else kind.labels(question.answers)
    gold = question.gold
    if kind is not None and gold is not None:
        gold = _gold(kind, gold, labels)
    return LabelledQuestion(question.id, tuple(labels), gold, question.tokens, question.confidence)


def _gold(kind: AnswerType, gold: str, labels: Sequence[str | None]) -> str | None:
    """Gold's label. It joins the classes after the votes are counted: it must not make two of them one."""
    form = kind.canonical(gold)
    if form is None:
        return None
    names = [name for name in dict.fromkeys(labels) if name is not None]
    return next((name for name in names if kind.same(name, form)), form)


def _share_read(pool: Pool, questions: Sequence[LabelledQuestion]) -> float:
    recorded = sum(answer is not None for question in pool.questions for answer in question.answers)
    read = sum(label is not None for question in questions for label in question.labels)
    return read / max(1, recorded)
