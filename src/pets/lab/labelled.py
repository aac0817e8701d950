"""Labelled pools: equal recorded answers get one label, and gold the label of the answers that equal it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pets.answers.auto import Auto, choose_type, kinds_words
from pets.answers.base import AnswerType
from pets.answers.final import places
from pets.errors import InputError
from pets.pools import Pool, PooledQuestion
from pets.registry import answer_types, make_answer_type

RAW = "raw"  # strings as they were recorded
DIGITS = frozenset("0123456789")
LONG_ANSWER_CHARS = 80  # longer strings are what models say, and no answers
TEXT_WORDS = 4  # as many are, where one states an answer
READ_SHARE = 0.5  # of the recorded strings, that an answer type reads if they are such answers
SHOW_HOW = "Say how they are read: --answer auto, number, choice, math, ...; --answer raw takes them as they are."
SAMPLED_TEXTS = 1_000  # that show whether answers are whole texts


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """One question's votes in recorded order. ``gold`` is a label, or a string that no trace gave, or unknown.

    ``models`` are those whose turn each trace was, in a mixture.
    """

    id: str
    labels: tuple[str | None, ...]
    gold: str | None
    tokens: tuple[int, ...] | None
    confidence: tuple[float | None, ...] | None
    models: tuple[int, ...] | None = None

    def with_traces(self, kept: Sequence[int]) -> "LabelledQuestion":
        """The question with the traces at some places alone."""
        columns = {name: getattr(self, name) for name in ("labels", "tokens", "confidence", "models")}
        changes: dict[str, Any] = {name: own and tuple(own[j] for j in kept) for name, own in columns.items()}
        return replace(self, **changes)


def leader_share(labels: Iterable[str | None]) -> float:
    """The leader's share of the votes; 0 where there is none."""
    votes = [label for label in labels if label is not None]
    return max(map(votes.count, set(votes)), default=0) / max(1, len(votes))


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

    def without(self, dropped: Sequence[LabelledQuestion], reason: str) -> "LabelledPool":
        """The pool without some of its questions; its note says how many, and why."""
        if not dropped:
            return self
        ids = {question.id for question in dropped}
        kept = tuple(question for question in self.questions if question.id not in ids)
        if not kept:
            raise InputError(f'pool "{self.name}": every question {reason}; there is nothing to replay.')
        note = f"{len(ids):,} questions are left out: each {reason}"
        if len(ids) == 1:
            note = f"1 question is left out: it {reason}"
        return replace(self, questions=kept, note="; ".join(filter(None, (self.note, note))))


def all_tokens(questions: Sequence[LabelledQuestion]) -> list[tuple[int, ...]] | None:
    """The tokens of every trace of each question; none unless every question has them."""
    recorded = [question.tokens for question in questions if question.tokens is not None]
    return recorded if len(recorded) == len(questions) else None


def read_answers(pool: Pool, answer: str | None = None) -> LabelledPool:
    """The pool's votes by the given answer type, by default that of its manifest, else as recorded (``raw``).

    Texts are read where an answer type is given, or where there is nothing else (by ``auto``, each question by the type
    that its traces look like); so are recorded answers that turn out to be texts. Choices whose answers are all bare
    digits are read as the labels of that range. Where a manifest's type reads fewer than half of the answers they are
    taken as recorded. In a pool of choices the options are the different answers of the whole pool. A question to which
    no trace gave an answer is left out. ``note`` says what was done; where nothing can be read it raises.
    """
    if not pool.questions:
        raise InputError(f'pool "{pool.name}" has no question; there is nothing to replay.')
    spec = answer or (_digits(pool) if pool.kind == "choice" else None) or _manifest_kind(pool) or _unnamed(pool)
    questions, read_by, note = _read(pool, spec, asked=answer is not None)
    options = None
    if "choice" in (spec.partition(":")[0], read_by):
        options = max(2, len({label for question in questions for label in question.labels} - {None}))
    read = LabelledPool(pool.name, tuple(questions), read_by, options, note)
    if all(label is None for question in read.questions for label in question.labels):
        example = next((text for q in pool.questions for text in q.texts or q.answers if text is not None), None)
        if example is None:
            raise InputError(f'pool "{pool.name}": no trace gave an answer; there is nothing to replay.')
        shown = example if len(example) <= LONG_ANSWER_CHARS else f"...{example[-LONG_ANSWER_CHARS:]}"
        raise InputError(
            f'"{read.answer}" reads no answer in pool "{pool.name}", not in {shown!r} for one. Try another --answer.'
        )
    silent = [question for question in read.questions if all(label is None for label in question.labels)]
    return read.without(silent, "has no answer that could be read")


def _read(pool: Pool, spec: str, *, asked: bool) -> tuple[list[LabelledQuestion], str, str]:
    """Labels, the answer type that they are of, and what there is to say of how they were read."""
    recorded, note = [_question(question, question.answers, None) for question in pool.questions], ""
    if spec == RAW:
        return recorded, RAW, note
    if spec == "auto":
        kinds: list[AnswerType] = [
            Auto(choose_type("", filter(None, q.texts or q.answers)) or "text") for q in pool.questions
        ]
    else:
        kinds = [make_answer_type(spec)] * len(pool.questions)
    pairs = list(zip(pool.questions, kinds, strict=True))
    if any(q.texts is not None and (asked or _unread(q)) for q in pool.questions):
        questions = [_question(q, _from_texts(q, kind), kind) for q, kind in pairs]
    else:
        questions = [_question(q, q.answers, kind) for q, kind in pairs]
        share = _share_read(pool, questions)
        if share < READ_SHARE and (asked or _holds_texts(pool)):
            extracted = [_question(q, _extracted(q.answers, kind), kind) for q, kind in pairs]
            if _share_read(pool, extracted) > max(READ_SHARE, share):
                questions, note = extracted, f'its answers are whole texts: "{spec}" reads the answer of each'
        if share < READ_SHARE and not asked and not note:
            return recorded, RAW, f'"{spec}" reads fewer than half of its answers: they are compared as recorded'
    chosen: Counter[str] = Counter(kind.type for kind in kinds if isinstance(kind, Auto) and kind.type)
    if chosen:
        note = "; ".join(filter(None, (note, kinds_words(chosen).rstrip("."))))
        spec = next(iter(chosen)) if len(chosen) == 1 else RAW  # of several kinds, the labels are what they are
    return questions, spec, note


def relabelled(pool: Pool, read: LabelledPool) -> Pool:
    """The pool with its answers and gold as they were read: a pool that can be written.

    >>> asked = PooledQuestion("q", (None, None), "72", texts=("So it is 72.", "The answer is 71."))
    >>> pool = Pool("p", (asked,))
    >>> relabelled(pool, read_answers(pool, "number")).questions[0].answers
    ('72', '71')
    """
    labelled = {question.id: question for question in read.questions}
    pairs = [(question, labelled[question.id]) for question in pool.questions if question.id in labelled]
    questions = tuple(replace(question, answers=own.labels, gold=own.gold or question.gold) for question, own in pairs)
    return replace(pool, questions=questions, kind=read.answer)


def _digits(pool: Pool) -> str | None:
    """The spec of the digits that all answers of a pool of choices are; ``None`` if one is anything else."""
    recorded = {answer for question in pool.questions for answer in question.answers if answer is not None}
    if not recorded <= DIGITS or len(recorded) < 2:
        return None
    return f"choice:digits={min(recorded)}-{max(recorded)}"


def _unread(question: PooledQuestion) -> bool:
    return question.texts is not None and all(answer is None for answer in question.answers)


def _from_texts(question: PooledQuestion, kind: AnswerType) -> Sequence[str | None]:
    if question.texts is None:
        return question.answers
    cut = question.cut or (False,) * len(question.texts)
    return _extracted([None if at_limit else text for text, at_limit in zip(question.texts, cut, strict=True)], kind)


def _extracted(texts: Sequence[str | None], kind: AnswerType) -> list[str | None]:
    return [None if text is None else kind.extract(text) for text in texts]


def _question(question: PooledQuestion, answers: Sequence[str | None], kind: AnswerType | None) -> LabelledQuestion:
    labels: Sequence[str | None] = answers if kind is None else kind.labels(answers)
    gold = question.gold
    if kind is not None and gold is not None:
        gold = kind.gold_label(gold, labels)
    return LabelledQuestion(question.id, tuple(labels), gold, question.tokens, question.confidence, question.models)


def _share_read(pool: Pool, questions: Sequence[LabelledQuestion]) -> float:
    recorded = sum(answer is not None for question in pool.questions for answer in question.answers)
    read = sum(label is not None for question in questions for label in question.labels)
    return read / max(1, recorded)


def _manifest_kind(pool: Pool) -> str | None:
    """The kind that the manifest names, unless it is one that no file can name: making it may run code."""
    named = None if pool.kind is None else answer_types().get(pool.kind.partition(":")[0])
    if named is not None and not named.files_may_name:
        raise InputError(
            f'the manifest of pool "{pool.name}" says {pool.kind!r}, which no file can name: give it with --answer, if '
            "you mean it."
        )
    return pool.kind


def _holds_texts(pool: Pool) -> bool:
    """Whether most of the recorded answers are whole texts, by the first thousand of them."""
    recorded = (answer for question in pool.questions for answer in question.answers if answer is not None)
    texts = [_is_text(answer) for answer in islice(recorded, SAMPLED_TEXTS)]
    return sum(texts) > READ_SHARE * len(texts)


def _is_text(answer: str) -> bool:
    """Whether a recorded string is what a model said, and no answer: long, or words around one that is stated.

    >>> _is_text("Let's think. The answer is 17."), _is_text("the answer"), _is_text(r"\\boxed{17}")
    (True, False, False)
    """
    if len(answer) > LONG_ANSWER_CHARS:
        return True
    return len(answer.split()) >= TEXT_WORDS and any(place != "line" for place, _ in places(answer))


def _unnamed(pool: Pool) -> str:
    """How a pool is read that has no answer type: texts by what they look like, answers as they are, unless they are
    whole texts, of which hardly two would be equal."""
    if all(_unread(question) for question in pool.questions):
        return "auto"
    if _holds_texts(pool):
        raise InputError(f'pool "{pool.name}": its answers look like whole texts. {SHOW_HOW}')
    return RAW
