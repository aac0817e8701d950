"""One question while it is asked: texts become classes, classes votes, and votes the one :class:`Answer`.

A trace keeps its canonical *form*; the allocator is told the *label* of the form's class, for most answer types the
same string. Where forms can turn out to be one answer later (``1/2`` and a formula that comes to it), classes grow as
traces come back, and the allocator is told which of them have merged.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from pets.answers.auto import Auto, choose_type
from pets.answers.base import MAX_CACHED_CHARS, AnswerType, Classes, Reading
from pets.answers.choice import Choice
from pets.answers.json import reading_of_calls
from pets.answers.text import Text
from pets.confidence import Kind
from pets.core.certificate import Decision
from pets.core.money import Currency
from pets.core.tally import (
    K0,
    NAMES,
    confidence_weights,
    count_votes,
    pattern,
    weighted_majority,
    weighted_votes,
    weights_by_answer,
)
from pets.prompts import TOOL_CALLS, is_cut
from pets.questions import Problem
from pets.registry import make_answer_type, spec_of
from pets.samplers import Completion, Message, Prompt
from pets.store import StoredTrace
from pets.types import Launch, Question, Verdict

Certify = Callable[[Decision], float]
Compare = Callable[["OpenQuestion", str, str], Awaitable[tuple[bool, float]]]
"""Compares two forms of a question: whether they are the same, and the processor seconds that this took."""
TraceReader = Callable[[Completion, AnswerType], Reading | None]
"""Reads the answer of a trace; ``None`` where it was cut."""
Keep = Literal["nothing", "totals", "traces"]
"""What is kept of an open question: nothing, what its answer needs, or every trace."""
Outcome = Literal["read", "cut", "refused", "unreadable", "failed"]
REFUSALS = frozenset({"content_filter", "refusal"})  # finish reasons
UNREAD = "unread"
"""The finish of a trace whose reading took too long: it is read again when its run is resumed."""
EXCERPT_CHARS = 300
CANCELLED_FOR_TWICE_THE_DOUBT = 15  # traces
MAX_IDLE_QUESTIONS = 4096  # of a batch, that stay open with nothing in flight; a batch may have millions
MISSING = ""  # a launch of the warm-up that is not back, or failed; no form is empty

cached_answer_type = lru_cache(maxsize=1024)(make_answer_type)


def answer_type_of(problem: Problem, override: str | AnswerType | None = None) -> AnswerType:
    """How a question's answers are read: as ``override`` says, but for ``auto``, or as the question itself says."""
    named = named_type(problem.answer_type if override is None else override)
    if isinstance(named, Auto) and (own := named_type(problem.answer_type)) != Auto():
        named = own  # what auto has chosen for a question is its own type, too
    return named.settled(words_of(problem), problem.options) if isinstance(named, Auto) else named


def named_type(answer: str | AnswerType) -> AnswerType:
    """The answer type of this name, or itself."""
    return cached_answer_type(answer) if isinstance(answer, str) else answer


def words_of(problem: Problem) -> str:
    """The last message of a question's prompt: the question itself."""
    content = problem.prompt.content
    return content if isinstance(content, str) else content[-1].content


def chosen_for(problem: Problem, texts: Iterable[str], override: str | AnswerType | None = None) -> Problem:
    """The question with the type that ``auto`` chooses from the texts of its first traces, where one states an answer.

    >>> chosen_for(Problem("q", Prompt.question("What is 2 + 2?"), "auto"), ["It is 4."]).answer_type
    'auto:type=number'
    """
    if not answer_type_of(problem, override).chosen_from_traces:
        return problem
    name = choose_type(words_of(problem), texts)
    return problem if name is None else replace(problem, answer_type=f"auto:type={name}")


def instructions(problems: Iterable[Problem], override: str | AnswerType | None = None) -> set[str]:
    """The instructions that :func:`instructed` adds to questions."""
    return {answer_type_of(problem, override).instruction for problem in problems if problem.prompt.bare} - {""}


def instructed(problem: Problem, override: str | AnswerType | None = None) -> Problem:
    """A bare question with its answer type's instruction; any other as it is."""
    if not problem.prompt.bare:
        return problem
    return replace(problem, prompt=problem.prompt.instructed(answer_type_of(problem, override).instruction))


def prompt_of(problem: Problem, system: str | None) -> Prompt:
    """The question's prompt, under another system message if there is one."""
    if system is None:
        return problem.prompt
    content = problem.prompt.content
    if isinstance(content, str):
        return Prompt.chat(content, system)
    return Prompt((Message("system", system), *(message for message in content if message.role != "system")))


def outcome_of(trace: StoredTrace) -> Outcome:
    """Whether a trace was read, else why not: failed, refused, cut or unreadable."""
    if trace.error is not None:
        return "failed"
    if trace.answer is not None:
        return "read"
    if trace.finish.lower() in REFUSALS:
        return "refused"
    return "cut" if is_cut(trace.finish) else "unreadable"


def excerpt_of(text: str) -> str:
    """The beginning and the end of a trace's text, short enough to be shown."""
    text = text.strip()
    if len(text) <= EXCERPT_CHARS:
        return text
    half = EXCERPT_CHARS // 2 - 3
    return f"{text[:half]} ... {text[-half:]}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's outcome, the same for every verb.

    ``answer`` is what most traces of the winning class wrote, the earliest of equals; ``canonical`` the form that was
    compared. ``votes`` name each class as its traces wrote it, in the order of first launch. ``certificate`` is the
    probability that ``answer`` is the vote over infinitely many traces, weighted where the votes that decided were;
    with a ``zone``, that no other answer is ahead of it by more. ``traces`` were paid for; of them ``no_answer`` cast
    no vote: ``failed`` never came, ``cut`` were at their token limit, ``refused`` by the server's filter,
    ``unreadable`` for the answer type. ``cancelled`` ones were in flight when the question was settled, and are not
    among ``traces``; what was written of them is in ``tokens`` and ``cost``, which is in dollars where a price is
    known. ``warmup`` is the pattern of the first four traces. ``text`` is the surest trace that gave the answer; where
    there is none, a part of one that gave none. ``complete`` is True where the policy had all that it wanted of the
    question. ``right`` says whether the answer is ``gold``, where that can be told. ``error`` says why a question was
    given up, or not asked at all. ``read_as`` is the answer type that ``auto`` chose, ``level`` the question's own.
    """

    id: str
    answer: str | None = None
    votes: Mapping[str, float] = field(default_factory=dict)
    certificate: float = 0.0
    traces: int = 0
    no_answer: int = 0
    failed: int = 0
    cut: int = 0
    refused: int = 0
    unreadable: int = 0
    cancelled: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cost: float | None = None
    warmup: str | None = None
    text: str | None = field(default=None, repr=False)  # there may be pages of it
    complete: bool = False
    gold: str | None = None
    right: bool | None = None
    error: str | None = None
    zone: float | None = None
    canonical: str | None = None
    read_as: str | None = None
    level: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """A row of JSON; gold, right, error, zone, read_as and level only where there is one.

        >>> Answer("q1", "42", {"42": 3}, 0.8, traces=3).to_plain()["votes"]
        {'42': 3}
        """
        row = {"id": self.id, "answer": self.answer, "canonical": self.canonical, "votes": dict(self.votes)}
        for name in ANSWER_FIELDS:
            value = getattr(self, name)
            if name not in row and (value is not None or name not in LEFT_OUT):
                row[name] = value
        return row


ANSWER_FIELDS = tuple(option.name for option in fields(Answer))
LEFT_OUT = frozenset({"gold", "right", "error", "zone", "read_as", "level"})  # of a row, where there is none


class BestTrace(NamedTuple):
    """The surest trace of an answer: the greatest of several, of equals the first launched."""

    confidence: float
    minus_number: int
    text: str

    @property
    def number(self) -> int:
        return -self.minus_number


# The same tuple for the same forms: a million questions begin with the few that there are.
_shared = lru_cache(maxsize=1 << 12)(tuple)


@lru_cache(maxsize=1 << 14)
def _reading_of_short(answer_type: AnswerType, text: str) -> Reading | None:
    """The answer of a short text, kept because short answers come again and again."""
    return answer_type.read(text)


def reading_of(answer_type: AnswerType, text: str, finish: str, ignore: Iterable[str] = ()) -> Reading | None:
    """The answer of a trace: what it says, or calls, but for fields to ``ignore``; one that was cut gave none."""
    if is_cut(finish):
        return None
    return reading_of_calls(answer_type, text, ignore) if finish == TOOL_CALLS else answer_type.read(text)


@dataclass(slots=True, eq=False)
class QuestionTotals:
    """What is kept of a question's traces: sums, and the surest trace of each form; there may be millions of these."""

    tokens: int = 0
    prompt_tokens: int = 0
    failed: int = 0
    cut: int = 0
    refused: int = 0
    unreadable: int = 0
    cancelled: int = 0
    cancelled_tokens: int = 0
    cost: int = 0  # picodollars, where a price is known
    excerpt: str = ""  # of a trace without an answer, until one has one
    lost: int = 0  # attempts that were charged and tried again
    spellings: dict[tuple[str, str], tuple[int, int, BestTrace]] = field(default_factory=dict)
    """By form and spelling: how many traces, the number of the first, with a minus, and the surest."""
    warmup: tuple[str | None, ...] = ()  # forms of the first four launches, by number

    def add(self, trace: StoredTrace, confidence_kind: str | None, price: Currency | None = None) -> None:
        """Count a trace that came back, failed or was cancelled; ``confidence_kind`` says which traces are surest."""
        self.prompt_tokens += trace.prompt_tokens
        self.cost += 0 if price is None else price.cost(trace)
        self.lost += trace.wasted
        if trace.part is not None:
            self.cancelled += 1
            self.cancelled_tokens += trace.tokens
            return
        self.tokens += trace.tokens
        outcome = outcome_of(trace)
        if outcome != "read":
            setattr(self, outcome, getattr(self, outcome) + 1)
            if not self.spellings and not self.excerpt:
                self.excerpt = excerpt_of(trace.text)
        if trace.number < K0:
            forms = [*self.warmup, *[MISSING] * (trace.number + 1 - len(self.warmup))]
            forms[trace.number] = MISSING if trace.error is not None else trace.answer
            self.warmup = _shared(tuple(forms))
        if (form := trace.answer) is None:
            return
        confidence = 0.0 if trace.confidences is None else float(getattr(trace.confidences, confidence_kind or "tail"))
        self.excerpt = ""
        key = form, form if trace.spelling is None else trace.spelling
        best = BestTrace(confidence, -trace.number, trace.text)
        count, first, before = self.spellings.get(key, (0, -trace.number, best))
        self.spellings[key] = count + 1, max(first, -trace.number), max(before, best)


UNCOUNTED = QuestionTotals()
"""Totals of questions whose traces are counted when they are read from their store."""


class OpenQuestion:
    """A question, what has come back for it, and how its texts are read: as ``answer`` says, else as the question says.

    ``confidence_kind`` says which traces are surest, ``price`` what they cost, ``options`` the size of a closed answer
    set where nothing else does. ``payer`` is for whom it is asked, ``reader`` reads answers that are no texts.
    """

    def __init__(
        self,
        problem: Problem,
        answer: str | AnswerType | None = None,
        *,
        position: int = 0,
        options: int | None = None,
        confidence_kind: str | None = None,
        price: Currency | None = None,
        totals: QuestionTotals | None = None,
        keep_traces: bool = False,
        payer: str = "",
        reader: TraceReader | None = None,
    ) -> None:
        self.position, self.price, self.confidence_kind = position, price, confidence_kind
        self.totals = totals or QuestionTotals()
        self.traces: dict[int, StoredTrace] | None = {} if keep_traces else None
        self.raw: dict[int, Mapping[str, Any]] = {}  # choices as the server gave them, where every trace is kept
        self.payer, self._reader = payer, reader
        self.reading = asyncio.Lock()  # where reading takes its time, one batch of traces after the other
        self._merges: list[tuple[str, str]] = []
        self._joined: dict[str, str] = {}  # forms that a model has put into a class, with its name
        self.take(problem, answer)
        self.options = problem.options or self.answer_type.options or options
        self.compared_seconds = 0.0  # of processor time, that comparing its answers has taken

    @property
    def id(self) -> str:
        return self.problem.id

    @property
    def question(self) -> Question:
        """The question as the allocator knows it."""
        return Question(self.id, options=self.options)

    def take(self, problem: Problem, answer: str | AnswerType | None = None) -> None:
        """Read its traces as the problem says, before the first has a vote."""
        self.problem, self.answer_type = problem, answer_type_of(problem, answer)
        merges = self.answer_type.merges and self._reader is None  # forms of other readers are their own
        self._classes: Classes | None = self.answer_type.classes() if merges else None

    @property
    def read_as(self) -> str | None:
        """The answer type that ``auto`` has chosen; ``None`` where another was named, or nothing is chosen yet."""
        named, is_choice = named_type(self.problem.answer_type), isinstance(self.answer_type, Choice)
        if not isinstance(named, Auto) or (named.type is None and not is_choice):
            return None
        return ("choice" if is_choice else named.type) if answer_type_of(self.problem) == self.answer_type else None

    def read(self, completions: Iterable[Completion]) -> list[Reading | None]:
        """The answer of each trace; one that was cut at its limit gave none."""
        if self._reader is not None:
            return [self._reader(completion, self.answer_type) for completion in completions]
        readings: list[Reading | None] = []
        keeps = self.answer_type.reads_at_once and self.answer_type.__hash__ is not None
        for completion in completions:
            if keeps and completion.finish == "stop" and len(completion.text) <= MAX_CACHED_CHARS:
                readings.append(_reading_of_short(self.answer_type, completion.text))
            else:
                readings.append(reading_of(self.answer_type, completion.text, completion.finish))
        return readings

    async def classify(self, forms: Iterable[str | None], compare: Compare) -> None:
        """Find the classes of forms; ``compare`` is awaited where no look decides, and while the question has time."""
        if self._classes is None:
            return
        for form in forms:
            if form is None:
                continue
            steps = self._classes.adding(form)
            try:
                pair = next(steps)
                while True:
                    same = self.answer_type.same_at_once(*pair)
                    if same is None and self.compared_seconds < self.answer_type.question_seconds:
                        same, seconds = await compare(self, *pair)
                        self.compared_seconds += seconds
                    pair = steps.send(bool(same))
            except StopIteration as end:
                self._note_merges(form, end.value)

    def class_names(self) -> list[str]:
        """The names of its classes, in the order in which they were first seen."""
        return [] if self._classes is None else self._classes.names()

    def class_of(self, form: str) -> str | None:
        """The class that a form belongs to, or was put into; ``None`` where it is new."""
        return form if form in self.class_names() else self._joined.get(form)

    def put_into(self, form: str, name: str) -> None:
        """Make a form one of a class, which may be its own."""
        if form == name:
            self.label(form)
        else:
            self._joined[form] = name

    def label(self, form: str) -> str:
        """The name of a form's class, as far as it is known by now."""
        if self._classes is None:  # stores of version 0.2.0 and before have 1/2 for 0.5, and "3 pm" for 15:00
            written_now = self._reader or form.isalnum() or not isinstance(self.answer_type, Text)
            return form if written_now else self.answer_type.canonical(form) or form
        self._note_merges(form, self._classes.add(form))
        return self._classes.find(form)

    def _note_merges(self, form: str, merges: Iterable[tuple[str, str]]) -> None:
        self._merges += [(name, into) for name, into in merges if name != form]

    def pop_merges(self) -> list[tuple[str, str]]:
        """Names of classes that have become one since the last call, as ``(absorbed, into)``."""
        merges, self._merges = self._merges, []
        return merges

    def restore(self, forms: Iterable[str]) -> dict[str, str]:
        """Forms of an earlier run, in launch order, each with the name of its class; later ones will join them."""
        listed = list(forms)
        for form in listed:
            self.label(form)
        self.pop_merges()  # nobody has been told their names yet
        return {form: self.label(form) for form in listed}

    def add(self, trace: StoredTrace) -> None:
        if self.totals is not UNCOUNTED:
            self.totals.add(trace, self.confidence_kind, self.price)
        if self.traces is not None and trace.part is None:
            self.traces[trace.number] = trace

    @property
    def warmup(self) -> int | None:
        """The pattern of the first four traces; none before they are there, or where one of them failed."""
        forms = self.totals.warmup
        if len(forms) < K0 or MISSING in forms:
            return None
        return pattern(*count_votes([None if form is None else self.label(form) for form in forms]))

    def best(self, answer: str | None, names: Mapping[str, str] | None = None) -> BestTrace | None:
        """The surest trace of an answer, over all forms of its class; ``names`` are the representatives."""
        names = self.representatives() if names is None else names
        surest: BestTrace | None = None
        for (form, _), (_, _, best) in self.totals.spellings.items():
            if names.get(form, form) == answer and (surest is None or best > surest):
                surest = best
        return surest

    def answer(
        self, verdict: Verdict, certify: Certify, *, complete: bool, error: str | None = None, zone: float = 0.0
    ) -> Answer:
        """The question's row: the verdict and its certificate, each class under its form that was launched first."""
        names, totals = self.representatives(), self.totals
        shown = self._shown(names)
        if self._classes is not None:
            verdict = _renamed(verdict, names)
        answer, mean_tokens = verdict.answer, totals.tokens / verdict.traces if verdict.traces else 0.0
        best, warmup = self.best(answer, names), self.warmup
        certificate = certify(Decision.of(verdict, self.options, mean_tokens))
        return Answer(
            id=self.id,
            answer=None if answer is None else shown.get(answer, answer),
            canonical=answer,
            votes={shown.get(name, name): int(votes) if votes.is_integer() else votes for name, votes in verdict.votes},
            certificate=round(raced_certificate(certificate, totals.cancelled), 6),
            traces=verdict.traces + totals.lost,
            no_answer=verdict.no_answer + totals.lost,
            failed=totals.failed + totals.lost,
            cut=totals.cut,
            refused=totals.refused,
            unreadable=totals.unreadable,
            cancelled=totals.cancelled,
            tokens=totals.tokens + totals.cancelled_tokens,
            prompt_tokens=totals.prompt_tokens,
            cost=None if self.price is None else round(totals.cost / 1e12, 9),
            warmup=None if warmup is None else NAMES[warmup],
            text=(totals.excerpt or None) if best is None else best.text,
            complete=complete,
            gold=self.problem.gold,
            right=self.is_right(answer),
            error=error,
            zone=None if verdict.weights is not None else zone or None,
            read_as=self.read_as,
            level=self.problem.level or None,
        )

    def is_right(self, answer: str | None) -> bool | None:
        """Whether an answer is gold; ``None`` without one, and where comparing them would take long."""
        answer_type, gold = self.answer_type, self.problem.gold
        form = None if gold is None else answer_type.gold_form(gold)
        if form is None or answer is None:
            return None if form is None else False
        return answer == form or (answer_type.same_soon(answer, form) if answer_type.merges else False)

    def verdict(self, *, weighted: bool = False, raced: bool = False) -> Verdict:
        """The vote over the traces kept, in launch order up to the first that is missing, for one that somebody awaits.

        What finishes first is short, and short traces vote differently: a vote cut off by its deadline does not count
        those that overtook others. It counts all where none before the gap voted, or they were ``raced``. Votes are
        ``weighted`` by confidence, unless a trace that voted has none.
        """
        kept = self.traces or {}
        traces = [kept[number] for number in takewhile(kept.__contains__, range(len(kept)))]
        if raced or all(trace.answer is None for trace in traces):
            traces = [kept[number] for number in sorted(kept)]
        labels = [None if trace.answer is None else self.label(trace.answer) for trace in traces]
        confidences = [0.0 if t.answer is None else t.trace(self.confidence_kind or "tail").confidence for t in traces]
        weighted = weighted and None not in confidences
        weights = confidence_weights(confidences) if weighted else [1.0] * len(labels)
        groups = weights_by_answer(labels, weights) if weighted else None
        votes = tuple(weighted_votes(labels, weights).items())
        return Verdict(self.id, weighted_majority(labels, weights), votes, len(labels), labels.count(None), groups)

    def representatives(self) -> dict[str, str]:
        """Each form with the first launched one of its class."""
        launched: dict[str, int] = {}
        for (form, _), (_, number, _) in self.totals.spellings.items():
            launched[form] = max(number, launched.get(form, number))
        forms = sorted(launched, key=launched.__getitem__, reverse=True)
        if self._classes is None:
            return dict(zip(forms, map(self.label, forms), strict=True))
        names = {form: self.label(form) for form in [*forms, *forms]}  # twice: the last may join earlier ones
        first: dict[str, str] = {}
        return {form: first.setdefault(names[form], form) for form in forms}

    def spellings(self) -> dict[str, str]:
        """Each form with what its class is shown as."""
        names = self.representatives()
        shown = self._shown(names)
        return {form: shown.get(name, name) for form, name in names.items()}

    def _shown(self, names: Mapping[str, str]) -> dict[str, str]:
        """Each class's name with the spelling that most of its traces have, the earliest of equals; no two alike."""
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        for (form, spelling), (count, first, _) in self.totals.spellings.items():
            spelled = counts.setdefault(names.get(form, form), {})
            before = spelled.get(spelling, (0, first))
            spelled[spelling] = before[0] + count, max(before[1], first)
        shown: dict[str, str] = {}
        for name, spelled in counts.items():
            spelling = max(spelled, key=spelled.__getitem__)
            shown[name] = f"{spelling} ({name})" if spelling in shown.values() else spelling
        return shown


def raced_certificate(certificate: float, cancelled: int) -> float:
    """The certificate of a vote of which so many traces were cancelled when it was settled.

    Those that finish first agree more among themselves than with the rest: the doubt is multiplied by 1 + cancelled/15.

    >>> round(raced_certificate(0.94, 5), 3), raced_certificate(0.4, 60)
    (0.92, 0.0)
    """
    return max(0.0, 1.0 - (1.0 - certificate) * (1.0 + cancelled / CANCELLED_FOR_TWICE_THE_DOUBT))


def _renamed(verdict: Verdict, names: Mapping[str, str]) -> Verdict:
    """A verdict on classes by their names, in the order of first launch."""
    votes, groups = defaultdict[str, float](float), defaultdict[str, tuple[float, ...]](tuple)
    for label, number in verdict.votes:
        votes[names.get(label, label)] += number
    for label, group in verdict.weights or ():
        groups[names.get(label, label)] += group
    answer = None if verdict.answer is None else names.get(verdict.answer, verdict.answer)
    weights = None if verdict.weights is None else tuple(groups.items())
    return replace(verdict, answer=answer, votes=tuple(votes.items()), weights=weights)


def group_by_question(traces: Iterable[StoredTrace]) -> Iterator[tuple[str, list[StoredTrace]]]:
    """Traces that come question by question, a question at a time."""
    for id, group in groupby(traces, attrgetter("question")):
        yield id, list(group)


def traces_of_each(problems: Iterable[Problem], traces: Iterable[StoredTrace]) -> Iterator[list[StoredTrace]]:
    """The traces of each question, which come in the order of the questions; none where a question has none."""
    groups = group_by_question(traces)
    id, group = next(groups, ("", []))
    for problem in problems:
        yield group if problem.id == id else []
        if problem.id == id:
            id, group = next(groups, ("", []))


class OpenQuestions:
    """The questions that are asked, each with what has come back for it.

    ``answer`` replaces how questions say that they are read; ``options`` is the size of a closed answer set, by answer
    type, for questions that do not say; ``confidence``, ``price`` and ``keep`` hold for all. ``problems`` are those of
    a batch: each is opened when it is first launched, and closed while nothing of it is in flight where there are many.
    """

    def __init__(
        self,
        answer: str | AnswerType | None = None,
        options: Mapping[str, int | None] | None = None,
        confidence: Kind | None = None,
        price: Currency | None = None,
        *,
        keep: Keep = "nothing",
        problems: Sequence[Problem] = (),
    ) -> None:
        self.by_id: dict[str, OpenQuestion] = {}
        self.idle: set[str] = set()  # open questions of a stream or a gateway with nothing in flight
        self.in_flight = 0  # traces; of submissions also those that wait for a place
        self.totals: dict[str, QuestionTotals] = {}  # by question, where they are kept
        self.problems = list(problems)  # of a batch, each with the answer type that was chosen for it, once it is
        self.ids = list(map(attrgetter("id"), problems))
        self._positions = dict(zip(self.ids, range(len(problems)), strict=True))
        self._answer, self._options = answer, dict(options or {})
        self._confidence, self._price, self._keep = confidence, price, keep
        self._in_flight: Counter[str] = Counter()  # by question

    def make(self, problem: Problem, position: int, totals: QuestionTotals | None = None) -> OpenQuestion:
        """A question as this run reads it, to be opened by :meth:`open`."""
        spec = self._answer if isinstance(self._answer, str) else problem.answer_type
        return OpenQuestion(
            problem,
            self._answer,
            position=position,
            options=self._options.get(spec),
            confidence_kind=self._confidence,
            price=self._price,
            totals=totals,
            keep_traces=self._keep == "traces",
        )

    def open(self, question: OpenQuestion) -> None:
        self.by_id[question.id] = question
        self.idle.add(question.id)

    def get(self, id: str) -> OpenQuestion:
        """An open question; one of a batch is opened when it is first asked for."""
        if id not in self.by_id:
            position = self._positions[id]
            totals = self.totals.setdefault(id, QuestionTotals()) if self._keep == "totals" else UNCOUNTED
            self.by_id[id] = self.make(self.problems[position], position, totals)
        return self.by_id[id]

    def group(self, launches: Iterable[tuple[Launch, int]]) -> Iterator[tuple[OpenQuestion, range, list[int]]]:
        """Launches with what is held for each, by question; those of a question are numbered in a row."""
        parts: dict[str, tuple[int, list[int]]] = {}
        for launch, hold in launches:
            parts.setdefault(launch.question, (launch.number, []))[1].append(hold)
        for id, (first, holds) in parts.items():
            yield self.get(id), range(first, first + len(holds)), holds

    def in_flight_of(self, id: str) -> int:
        return self._in_flight[id]

    def launched(self, question: OpenQuestion, traces: int) -> None:
        self.idle.discard(question.id)
        self.in_flight += traces
        self._in_flight[question.id] += traces

    def back(self, question: OpenQuestion, traces: int = 1) -> None:
        """Traces of a question came back, or will not come any more; an open one rests when no other is in flight."""
        id = question.id
        self.in_flight -= traces
        self._in_flight[id] -= traces
        if self._in_flight[id]:
            return
        del self._in_flight[id]
        if id in self.by_id and not self.problems:
            self.idle.add(id)
        elif len(self.by_id) > MAX_IDLE_QUESTIONS and not question.answer_type.merges:
            self.by_id.pop(id, None)  # opened again when it is next launched

    def close(self, question: OpenQuestion) -> None:
        """A question is asked no more."""
        self.idle.discard(question.id)
        del self.by_id[question.id]

    def choose(self, question: OpenQuestion, problem: Problem) -> None:
        """Read a question as ``problem`` has it from now on; none of its traces has a vote yet."""
        question.take(problem)
        if self.problems:
            self.problems[question.position] = problem

    def labels_of(self, id: str, forms: list[str]) -> dict[str, str]:
        """Name the classes of a batch's earlier answers; those of the traces to come will join them."""
        position = self._positions[id]
        question = self.make(self.problems[position], position, UNCOUNTED)
        if question.answer_type.merges:
            self.by_id[id] = question
        return question.restore(forms)

    def type_name(self, problem: Problem) -> str:
        """How a question's answers are read, as users name it."""
        answer_type = answer_type_of(problem, self._answer)
        return spec_of(answer_type) or type(answer_type).__name__
