"""The records of a store, frozen and plain, and their rows: the one place that knows the order of the columns."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, Self, TypeVar

from pets.confidence import Confidence
from pets.core.money import Currency
from pets.errors import InputError, StateError
from pets.openai.batch import BatchJob
from pets.prompts import Message, Prompt
from pets.questions import Problem
from pets.registry import answer_types
from pets.types import Launch, SoftVote, Trace, Usage

LOST = "in flight when the run was broken off: what became of it is not known"
"""The error of a trace that never came back."""
CANCELLED = "cancelled"
"""The finish of a trace that was cancelled when its question was settled: behind it nothing is reused."""
DELETED = "(deleted)"
"""What stands for a prompt or an error that was deleted."""

RunState = Literal["running", "stopped", "finished"]
Row = tuple[Any, ...]
Parsed = TypeVar("Parsed")

NOTHING = Usage()
BAD_VALUES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a value raises that is not what was written."""
PLAIN_RECORD = {"total": int, "currency": dict, "spec": dict, "verb": str, "model": str, "name": str, "endpoints": list}

# How a prompt stands in the store. A million questions are mostly of the first two forms, which cost nothing to read.
TEXT, USER, CHAT = 0, 1, 2


def read_rows(noun: str, read: Callable[[Row], Parsed], rows: Iterable[Row]) -> list[Parsed]:
    """What ``read`` makes of rows of a store; a damaged one raises ``StateError``, in one line."""
    try:
        return list(map(read, rows))
    except BAD_VALUES as error:
        raise StateError(f"{noun} of the store is damaged ({error}); take the store from a copy.") from None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All that a run needs to go on in another process: plain data, no key of any server.

    ``spec`` is what the user said, in sections as :meth:`pets.engine.spec.RunSpec.to_plain` writes it; ``total`` is
    what its budget comes to in the currency's smallest unit, or ``window`` of a stream without an end: so many
    questions share so much. ``sources`` name the model and server of each endpoint, empty where they are not known.
    ``answer_type``, for all questions, and ``seeds_by="place"`` are of runs of earlier versions alone.
    """

    total: int
    currency: Currency = field(default_factory=Currency)
    spec: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    verb: Literal["solve", "stream"] = "solve"
    window: tuple[int, int] | None = None
    model: str = ""
    endpoints: tuple[str, ...] = ()
    name: str = ""  # of the question set
    version: str = ""  # of pets
    answer_type: str | None = None
    sources: tuple[str, ...] = ()
    seeds_by: Literal["place", "prompt"] = "place"

    @property
    def budget(self) -> str:
        """The budget as the user wrote it."""
        return str(self._option("spending", "budget", ""))

    @property
    def policy(self) -> str:
        """The policy's spec; of one that was fitted, its name."""
        policy = self._option("spending", "policy", "")
        return str(policy["name"] if isinstance(policy, Mapping) else policy)

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of traces are written."""
        return bool(self._option("keeping", "keep_texts", True))

    @property
    def confidence(self) -> str | None:
        """The kind that votes are weighted by, where the user chose one."""
        kind: str | None = self._option("reading", "confidence", None)
        return kind

    @property
    def batch_api(self) -> bool:
        """Whether the run is sampled by batch jobs."""
        return bool(self._option("serving", "batch_api", False))

    @property
    def trace_sources(self) -> tuple[str, ...]:
        """``sources``; those of a run of before follow from its model and endpoints.

        >>> RunRecord(1, model="qwen3", endpoints=("http://localhost:8000/v1/",)).trace_sources
        ('qwen3 at http://localhost:8000/v1',)
        """
        if self.sources or not self.endpoints:
            return self.sources
        names, sources = [str(share["name"]) for share in self._option("serving", "models", ())], []
        for endpoint in self.endpoints:
            name = next((name for name in names if endpoint.startswith(f"{name}=")), None)
            url = endpoint.removeprefix(f"{name}=")
            sources.append(f"{self.model if name is None else name} at {url.rstrip('/')}")
        return tuple(sources)

    def _option(self, section: str, name: str, default: Any) -> Any:
        return self.spec.get(section, {}).get(name, default)

    def to_json(self) -> str:
        """The record as the store keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The record that :meth:`to_json` wrote."""
        try:
            data = json.loads(text)
            for name, kind in PLAIN_RECORD.items():
                if not isinstance(data[name], kind):
                    raise TypeError(f"{name} is {type(data[name]).__name__}")
            for section in data["spec"].values():
                section.items()
            window = None if data["window"] is None else tuple(data["window"])
            lists = {name: tuple(data.get(name, ())) for name in ("endpoints", "sources")}
            return cls(**{**data, **lists, "currency": Currency(**data["currency"]), "window": window})
        except BAD_VALUES as error:
            raise StateError(f"the settings of a run are damaged ({error}); this pets cannot read them.") from None


@dataclass(frozen=True, slots=True)
class StoredTrace(Usage):
    """A trace as it came back, whole: enough to vote, to audit and to replay without asking the model again.

    ``answer`` is canonical, ``None`` where no vote is cast, ``spelling`` how the trace wrote it, where that differs and
    is known; ``error`` says why nothing came back after ``tries``. ``endpoint`` and ``model`` are places in the run's
    lists. ``tokens`` and ``cost`` are those paid for, failed tries included; ``wasted`` counts tries charged for
    nothing, and choices that came with it unasked. ``soft`` is what the trace might have said, where votes are soft.
    ``reused_from`` is the run that paid for it, where that was another. One that was cancelled has a ``part`` and the
    finish CANCELLED.
    """

    question: str
    number: int
    answer: str | None = None
    text: str = ""
    finish: str = ""
    confidences: Confidence | None = None
    error: str | None = None
    endpoint: int = 0
    seconds: float = 0.0
    tries: int = 1
    wasted: int = 0
    model: int = 0
    soft: SoftVote | None = None
    reused_from: int | None = None
    spelling: str | None = None

    @property
    def launch(self) -> Launch:
        """The launch that this trace answers."""
        return Launch(self.question, self.number)

    def trace(self, confidence_kind: str | None = None, label: str | None = None, lost: Usage = NOTHING) -> Trace:
        """The trace for the allocator: its vote for ``label``, else for its answer, weighted by the confidence of that
        kind. What attempts before it have ``lost`` is charged already."""
        confidence = None
        if confidence_kind is not None and self.confidences is not None:
            confidence = getattr(self.confidences, confidence_kind)
        return Trace(
            self.question,
            self.number,
            label or self.answer,
            confidence,
            self.soft,
            tokens=self.tokens - lost.tokens,
            prompt_tokens=self.prompt_tokens - lost.prompt_tokens,
            cached_tokens=self.cached_tokens,
            cost=None if self.cost is None else self.cost - (lost.cost or 0),
            part=self.part,
        )


@dataclass(frozen=True, slots=True)
class LostLaunch:
    """A launch that was dispatched and never came back; ``held`` is what was reserved for it."""

    question: str
    number: int
    held: int


@dataclass(frozen=True, slots=True)
class ModelTotals:
    """The traces of one model of a run, without those that failed; tokens are those of all."""

    model: int
    traces: int
    votes: int
    tokens: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in numbers. ``spent`` counts lost launches at what was held for them; times are seconds since 1970.

    ``traces`` came to their end; ``cancelled`` ones did not: ``cancelled_parts`` thousandths of one, in all.
    """

    id: int
    state: RunState
    created: float
    updated: float
    questions: int
    traces: int
    answered: int
    lost: int
    tokens: int
    prompt_tokens: int
    spent: int
    settings: RunRecord
    reused: int = 0
    cancelled: int = 0
    cancelled_parts: int = 0


def question_row(run: int, position: int, problem: Problem) -> Row:
    """The parameters of ``ADD_QUESTION``; refused where a text is none that every database takes."""
    content: Any = problem.prompt.content
    if isinstance(content, str):
        form = TEXT
    elif len(content) == 1 and content[0].role == "user":
        content, form = content[0].content, USER
    else:
        content, form = json.dumps([(turn.role, turn.content) for turn in content], ensure_ascii=False), CHAT
    texts = (problem.id, content, problem.answer_type, problem.gold, problem.level)
    for text in filter(None, texts):
        if storable(text) != text:
            fault = "holds a NUL character" if "\0" in text else "is no UTF-8"
            raise InputError(f"a question cannot be kept: {text[:40]!r} {fault}. Repair it.")
    return (run, position, problem.id, content, form, problem.answer_type, problem.gold, problem.level, problem.options)


@lru_cache(maxsize=1024)
def reader_of(spec: str, code: str | None) -> str:
    """The answer type that a store names; as ``recorded`` if it runs other code than what the user named, ``code``.

    >>> reader_of("number", None), reader_of("python:os:system", None), reader_of("python:a:b", "python:a:b")
    ('number', 'recorded:python:os:system', 'python:a:b')
    """
    named = answer_types().get(spec.partition(":")[0])
    return f"recorded:{spec}" if spec != code and named is not None and named.runs_code else spec


def problem_of(row: Row, code: str | None = None) -> Problem:
    """The question of a row of ``QUESTIONS``; of its code the store alone names none."""
    _, id, content, form, answer, gold, level, options, instruction = row
    if not (isinstance(id, str) and isinstance(content, str) and isinstance(answer, str)):
        raise TypeError("another type than was written")
    if form == USER:
        content = (Message("user", content),)
    elif form == CHAT:
        content = tuple(Message(role, text) for role, text in json.loads(content))
    prompt = Prompt(content, instruction=instruction or "")
    return Problem(id, prompt, reader_of(answer, code), gold, level, options)


def trace_row(run: int, trace: StoredTrace) -> Row:
    """The parameters of ``ADD_TRACE``."""
    c = trace.confidences
    measured = (None,) * 5 if c is None else (c.mean, c.tail, c.lowest, c.bottom, c.tokens)
    soft = None if trace.soft is None else json.dumps(trace.soft.to_plain(), ensure_ascii=False)
    texts = [trace.answer, trace.finish, trace.error, soft, trace.spelling]
    if storable(joined := "".join(filter(None, texts))) != joined:
        texts = [text and storable(text) for text in texts]
    answer, finish, error, soft, spelling = texts
    counted = (answer, finish, trace.tokens, trace.prompt_tokens)
    tried = (error, trace.endpoint, trace.seconds, trace.tries, trace.wasted)
    sampled = (*tried, trace.model, trace.cached_tokens, soft, trace.cost, trace.reused_from, spelling, trace.part)
    return (run, trace.question, trace.number, *counted, *measured, *sampled)


def trace_of(row: Row) -> StoredTrace:
    """The trace of a row of ``TRACES``."""
    _, question, number, answer, text, finish, tokens, prompt_tokens, *rest = row
    if not (isinstance(question, str) and isinstance(text, str) and isinstance(tokens, int)):
        raise TypeError("another type than was written")
    mean, tail, lowest, bottom, measured, *sampled, cached_tokens, soft, cost, reused_from, spelling, part = rest
    confidences = None if measured is None else Confidence(mean, tail, lowest, bottom, measured)
    vote = None if soft is None else SoftVote.from_plain(json.loads(soft))
    read: Row = (question, number, answer, text, finish, confidences, *sampled, vote, reused_from, spelling)
    used = {"tokens": tokens, "prompt_tokens": prompt_tokens, "cached_tokens": cached_tokens, "cost": cost}
    return StoredTrace(*read, **used, part=part)


def job_row(run: int, job: BatchJob) -> Row:
    """The parameters of ``SAVE_JOB``."""
    file, id = (text and storable(text) for text in (job.file, job.id))
    return (run, job.key, job.endpoint, json.dumps(job.lines), job.created, job.wave, file, id, job.model)


def job_of(row: Row) -> BatchJob:
    """The job of a row of ``JOBS``."""
    key, endpoint, lines, *rest = row
    return BatchJob(key, endpoint, tuple((seed, n) for seed, n in json.loads(lines)), *rest)


def storable(text: str) -> str:
    """The text without halves of surrogate pairs, which a model cut off within a character leaves and UTF-8 lacks, and
    without NUL characters, which PostgreSQL lacks.

    >>> storable("x" + chr(0xD83D)), storable("x" + chr(0))
    ('x?', 'x\ufffd')
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
