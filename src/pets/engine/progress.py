"""How good the answers are by now: certificates and expected self-consistency, and a run in a few numbers."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from html import escape
from typing import Any, Literal, NamedTuple

from pets._extras import require
from pets.core.allocator import Allocator
from pets.core.budget import Currency, amount_words
from pets.core.certificate import Decision, decision_certificate, expected_share, prior_deviation
from pets.core.policy import IndexPolicy, Policy
from pets.core.prior import BatchFit
from pets.core.tally import Tally
from pets.core.weighted import ConfidenceSpread
from pets.engine.fetch import Outage
from pets.engine.question import Answer
from pets.engine.summary import AnswerSummary
from pets.store import StoredTrace
from pets.store.records import LOST

PROGRESS_QUESTIONS = 2000  # that a look while the run goes on takes
WEIGHTED_PROGRESS_QUESTIONS = 200  # where votes are weighted: a certificate takes about 20 ms
PRIOR_QUESTIONS = 20_000  # that a prior is learned from
SHOWN_ANSWERS = 20  # in a notebook's table
TARGET_GROWTH = 1.02  # of a run, after which its target is looked at again
SETTLED_GROWTH, SETTLED_FROM = 1.2, 8  # the same of a run without one, and the traces per question from which on
LEAST_GAIN = 1e-3  # of self-consistency that further traces might bring, for a run to go on


class Consistency(NamedTuple):
    """The expected self-consistency of a run's answers and the ends of its 95 % interval.

    >>> Consistency(0.93, 0.9, 0.96).low
    0.9
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class ExpectedConsistency:
    """The expected self-consistency, the share of questions with a vote, and the least certain questions.

    ``to_gain`` is the part of the doubt, 1 - consistency, in questions that may still get traces.
    """

    consistency: float
    answered: float
    hardest: tuple[tuple[str, float], ...]
    to_gain: float


class Certifier:
    """Certificates of a batch, whose own decisions teach how its votes agree, and how their weights are spread.

    A question is certified by the prior that the others teach."""

    def __init__(self, decisions: Iterable[Decision], zone: float = 0.0) -> None:
        batch = list(decisions)
        groups = [group for decision in batch for group in decision.weights]
        self._batch = Counter(decision.tally for decision in batch)
        self.fit = _fitted(tuple(self._batch.items()))
        self.zone = zone
        self._spread = ConfidenceSpread.learn(groups) if groups else None

    def __call__(self, decision: Decision) -> float:
        """P(the answer is the vote over infinitely many traces); with a zone, that no other is ahead of it by more."""
        return decision_certificate(decision, self.fit.without(decision.tally), self._spread, zone=self.zone)

    def expected(self, decisions: Iterable[Decision]) -> tuple[float, float, float]:
        """The expected self-consistency of these answers and its 95 % interval, wider where little is known."""
        states: Counter[Tally] = Counter()
        for tally, questions in self._batch.items():
            states[replace(tally, nulls=0, mean_tokens=0.0)] += questions
        return expected_share(map(self, decisions), prior_deviation(states))


@lru_cache(maxsize=1)
def _fitted(tallies: tuple[tuple[Tally, int], ...]) -> BatchFit:
    """The prior of a batch; its summary and its answers ask for the same one."""
    return BatchFit(dict(tallies))


def sampled(questions: Sequence[str], most: int) -> Sequence[str]:
    """The questions, or ``most`` of them evenly spread."""
    return questions[:: max(1, -(-len(questions) // most))]


def decisions_of(allocator: Allocator, questions: Iterable[str]) -> list[Decision]:
    """The votes that decided each of the questions, as they stand."""
    return [allocator.decision(id) for id in questions]


def expected_of(allocator: Allocator, questions: Sequence[str]) -> Consistency:
    """The expected self-consistency of the answers and its 95 % interval; of many questions, from a sample."""
    decisions = decisions_of(allocator, sampled(questions, PRIOR_QUESTIONS))
    return Consistency(*Certifier(decisions, allocator.policy.zone).expected(decisions))


def expected_so_far(allocator: Allocator, questions: Sequence[str]) -> ExpectedConsistency:
    """A run as it stands: a sample of large batches, lengths left aside so that it costs little."""
    weighs = allocator.policy.sees == "traces"
    sample = sampled(questions, WEIGHTED_PROGRESS_QUESTIONS if weighs else PROGRESS_QUESTIONS)
    decisions = [replace(d, tally=replace(d.tally, mean_tokens=0.0)) for d in decisions_of(allocator, sample)]
    certify = Certifier(decisions, allocator.policy.zone)
    certificates = [certify(decision) for decision in decisions]
    hardest = sorted(zip(sample, certificates, strict=True), key=lambda row: row[1])[:5]
    answered = sum(bool(decision.tally.counts) for decision in decisions) / len(decisions)
    doubts = [1.0 - chance for id, chance in zip(sample, certificates, strict=True) if not allocator.stopped(id)]
    to_gain = sum(doubts) / len(certificates)
    return ExpectedConsistency(sum(certificates) / len(certificates), answered, tuple(hardest), to_gain)


def policy_certificate(policy: Policy, decision: Decision) -> float:
    """P(the answer is the vote over infinitely many traces) under a policy's own belief and zone.

    >>> from pets.core.tally import Tally
    >>> decided, open_race = Decision(Tally((9, 1))), Decision(Tally((5, 4)))
    >>> policy_certificate(Policy(), decided) > policy_certificate(Policy(), open_race)
    True
    """
    return decision_certificate(decision, policy.belief, zone=policy.zone)


@dataclass(slots=True)
class ProgressMonitor:
    """Looks at a run as it grows: is its ``target`` met, and is anything left that more traces could gain?

    The latter is asked of policies that learn where to spend; whoever spends evenly means to.
    """

    target: float | None = None
    _next_look: float = field(default=0.0)

    def ending(self, allocator: Allocator, questions: Sequence[str]) -> Literal["target", "settled"] | None:
        """Why the run may end, ``None`` while it goes on; a question without a vote counts as wrong."""
        weighs_gain = isinstance(allocator.policy, IndexPolicy) and allocator.policy.learns
        first, growth = (1, TARGET_GROWTH) if self.target is not None else (SETTLED_FROM, SETTLED_GROWTH)
        if allocator.told < max(self._next_look, first * len(questions)) or not (weighs_gain or self.target):
            return None
        self._next_look = growth * allocator.told + 1
        seen = expected_so_far(allocator, questions)
        if self.target is not None and seen.consistency >= self.target:
            return "target"
        many = allocator.told >= SETTLED_FROM * len(questions)
        return "settled" if many and weighs_gain and seen.to_gain < LEAST_GAIN else None


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

    @property
    def seconds_left(self) -> float | None:
        """Until the budget is spent at this rate; ``None`` as long as nothing is known."""
        return self.expected_left / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True, repr=False)
class Solution:
    """How a run went; ``answered`` of ``questions`` got a vote. In a notebook it shows its answers as a table.

    ``consistency`` is the expected self-consistency with its interval, for the ``zone`` where there is one.
    ``lost`` launches were in flight at a kill: charged, and among ``failed``. ``complete`` is False where it was
    stopped before its end. ``answers`` holds every question's where they were asked for. ``models`` counts the traces
    that each model of a mixture gave; it is empty where one model was asked. ``reused`` counts the traces that other
    runs had paid for, by run; they are among ``traces``, and in ``spent`` at what they cost then. A run is ``settled``
    where further traces would have changed next to nothing, and the rest of its budget was kept.
    ``cancelled`` traces were in flight when their questions were settled, and are in ``spent`` at what was written of
    them.
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
    consistency: Consistency
    zone: float
    faults: dict[str, int]
    complete: bool
    answers: tuple[Answer, ...] = ()
    models: Mapping[str, int] = field(default_factory=dict)
    reused: Mapping[int, int] = field(default_factory=dict)
    settled: bool = False
    cancelled: int = 0

    @property
    def accuracy(self) -> float | None:
        """The share of the questions with gold whose answer is right; ``None`` where no gold is known."""
        summary = AnswerSummary.of(self.answers)
        return summary.accuracy[0] if summary.judged else None

    def to_pandas(self) -> Any:
        """A DataFrame of pandas with a row for every answer."""
        columns = [column.name for column in fields(Answer)]
        return require("pandas", "pandas").DataFrame([answer.to_plain() for answer in self.answers], columns=columns)

    def __repr__(self) -> str:
        run = "" if self.run is None else f" of run {self.run}"
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.3f}"
        return (
            f"<Solution{run}: {self.answered:,} of {self.questions:,} questions answered with {self.traces:,} traces, "
            f"expected self-consistency {self.consistency}{accuracy}>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the first answers as a table."""
        shown, columns = self.answers[:SHOWN_ANSWERS], ["id", "answer", "certificate", "traces", "votes"]
        rows = [[a.id, a.answer or "", f"{a.certificate:.3f}", a.traces, vote_words(a)] for a in shown]
        if self.accuracy is not None:
            columns.append("right")
            rows = [[*row, {True: "yes", False: "no", None: ""}[a.right]] for a, row in zip(shown, rows, strict=True)]
        hidden = len(self.answers) - len(shown)
        more = f"<p>and {hidden:,} more in <code>.answers</code></p>" if hidden else ""
        return f"<p>{escape(repr(self)[1:-1])}</p>{html_table(columns, rows)}{more}"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a notebook; every cell is escaped, since texts come from files and servers.

    >>> html_table(["id"], [["a<b"]])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>a&lt;b</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def vote_words(answer: Answer) -> str:
    """Who got how many votes."""
    return ", ".join(f"{votes:g} x {form}" for form, votes in answer.votes.items())


class TraceTotals:
    """Adds up the traces of a run; ``on_trace`` is called with each that is :meth:`counted`.

    ``price`` is what traces cost in money that do not say so themselves.
    """

    def __init__(self, price: Currency | None, on_trace: Callable[[StoredTrace], None] = lambda trace: None) -> None:
        self.failed = self.lost = self.cancelled = self.tokens = self.prompt_tokens = 0
        self.reused: Counter[int] = Counter()
        """Traces that other runs paid for, by run."""
        self._reused_tokens = self._reused_picodollars = 0
        self.given: Counter[int] = Counter()
        """Traces that came back, by model."""
        self._picodollars = 0
        self._price, self._on_trace = price, on_trace

    def counted(self, trace: StoredTrace) -> None:
        """A trace came back, failed or was cancelled."""
        self.add(trace)
        self._on_trace(trace)

    def add(self, trace: StoredTrace) -> None:
        """Add a trace."""
        self.failed += trace.error is not None
        self.lost += trace.error == LOST
        self.cancelled += trace.part is not None
        self.given[trace.model] += trace.error is None and trace.part is None
        self.tokens += trace.tokens
        self.prompt_tokens += trace.prompt_tokens
        picodollars = 0 if self._price is None else self._price.cost(trace)
        self._picodollars += picodollars
        if trace.reused_from is not None:
            self.reused[trace.reused_from] += 1
            self._reused_tokens += trace.tokens + trace.prompt_tokens
            self._reused_picodollars += picodollars

    @property
    def cost(self) -> float | None:
        """In dollars, where a price is known."""
        return None if self._price is None else self._picodollars / 1e12

    def reused_words(self, traces: int) -> str:
        """Which runs paid for some of the run's ``traces``, and what those had cost; nothing where none did."""
        if not self.reused:
            return ""
        runs = ", ".join(f"run {run} ({reused:,})" for run, reused in sorted(self.reused.items()))
        dollars = "" if self._price is None else f", {amount_words(self._reused_picodollars, 'picodollars')}"
        total = self.reused.total()
        return (
            f"{amount_words(total, 'traces')} reused from {runs}, which had cost "
            f"{amount_words(self._reused_tokens, 'tokens')}{dollars}; {traces - total:,} paid for by this run."
        )
