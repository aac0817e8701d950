"""How good the answers are by now: certificates and expected self-consistency; a run in a few numbers and in words."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import nsmallest
from html import escape
from itertools import chain, combinations
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from pets._extras import require
from pets.answers.text import Text
from pets.core.allocator import Allocator
from pets.core.certificate import Decision, decision_certificate, expected_share, prior_deviation
from pets.core.money import Currency, amount_words
from pets.core.policy import Policy
from pets.core.prior import BatchFit
from pets.core.tally import Tally
from pets.core.weighted import ConfidenceSpread
from pets.engine.fetch import Outage
from pets.engine.question import ANSWER_FIELDS, Answer, Outcome
from pets.store import StoredTrace
from pets.store.records import LOST

PROGRESS_QUESTIONS = 2000  # that a look while the run goes on takes
WEIGHTED_PROGRESS_QUESTIONS = 200  # where votes are weighted: a certificate takes about 20 ms
PRIOR_QUESTIONS = 20_000  # that a prior is learned from
SHOWN_ANSWERS = 20  # in a notebook's table
NORMAL_95 = 1.959963984540054
NO_VOTE: tuple[Outcome, ...] = ("cut", "refused", "unreadable", "failed")
MIN_VOTES = 3  # of a question, before they say whether its votes agree
MIN_VOTES_IN_ALL = 12
SETTLED = 0.99  # the certificate of an answer that no merge would firm up
MAX_NAMES = 12  # of a question's votes, that are looked at
DIFFERENT_SHARE = 0.8  # of votes for an answer of their own: nearly all are different

Doubt = Outcome | Literal["spelling", "cap", "near tie", "few traces"]
CERTAIN = 0.95  # certificate from which a question is left alone
FEW_VOTES = 8  # with fewer than these a close vote is no near tie yet


class Consistency(NamedTuple):
    """The expected self-consistency of a run's answers and the ends of its 95 % interval."""

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
    """Certificates of a batch: each question's by the prior that the decisions of the others teach."""

    def __init__(self, decisions: Iterable[Decision], zone: float = 0.0) -> None:
        batch = list(decisions)
        groups = list(chain.from_iterable(map(attrgetter("weights"), batch)))
        self._batch = Counter(map(attrgetter("tally"), batch))
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


@lru_cache(maxsize=1)  # a run's summary and its answers ask for the same one
def _fitted(tallies: tuple[tuple[Tally, int], ...]) -> BatchFit:
    return BatchFit(dict(tallies))


def sampled(questions: Sequence[str], most: int) -> Sequence[str]:
    """The questions, or ``most`` of them evenly spread."""
    return questions[:: max(1, -(-len(questions) // most))]


def expected_of(allocator: Allocator, questions: Sequence[str]) -> Consistency:
    """The expected self-consistency of the answers and its 95 % interval; of many questions, from a sample."""
    decisions = list(map(allocator.decision, sampled(questions, PRIOR_QUESTIONS)))
    return Consistency(*Certifier(decisions, allocator.policy.zone).expected(decisions))


def expected_so_far(allocator: Allocator, questions: Sequence[str]) -> ExpectedConsistency:
    """A run as it stands: a sample of large batches, lengths left aside so that it costs little."""
    weighs = allocator.policy.sees == "traces"
    sample = sampled(questions, WEIGHTED_PROGRESS_QUESTIONS if weighs else PROGRESS_QUESTIONS)
    seen = [allocator.decision(id) for id in sample]
    decisions = [replace(decision, tally=replace(decision.tally, mean_tokens=0.0)) for decision in seen]
    certificates = list(map(Certifier(decisions, allocator.policy.zone), decisions))
    rows = list(zip(sample, certificates, strict=True))
    return ExpectedConsistency(
        consistency=sum(certificates) / len(rows),
        answered=sum(bool(decision.tally.counts) for decision in decisions) / len(rows),
        hardest=tuple(nsmallest(5, rows, key=itemgetter(1))),
        to_gain=sum(1.0 - certificate for id, certificate in rows if not allocator.stopped(id)) / len(rows),
    )


def policy_certificate(policy: Policy, decision: Decision) -> float:
    """P(the answer is the vote over infinitely many traces) under a policy's own belief and zone."""
    return decision_certificate(decision, policy.belief, zone=policy.zone)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How a run goes. ``rate`` is traces per second since it began or was resumed. It is in its ``wave``-th of at most
    ``waves``, 0 where there are none; ``points_given_up`` of expected self-consistency are what these cost."""

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

    ``consistency`` is the expected self-consistency with its interval, for the ``zone`` where there is one. ``lost``
    launches were in flight at a kill: charged, and among ``failed``. ``cancelled`` traces were in flight when their
    questions were settled, and are in ``spent`` at what was written of them. ``reused`` counts those that other runs
    had paid for, by run; they are among ``traces``, and in ``spent`` at what they cost then. ``models`` counts the
    traces of each model of a mixture. ``complete`` is False where the run was stopped before its end; it is ``settled``
    where further traces would have changed next to nothing, and the rest of its budget was kept. ``answers`` holds
    every question's where they were asked for.
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
        rows = [answer.to_plain() for answer in self.answers]
        return require("pandas", "pandas").DataFrame(rows, columns=list(ANSWER_FIELDS))

    def __repr__(self) -> str:
        run = "" if self.run is None else f" of run {self.run}"
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.3f}"
        return (
            f"<Solution{run}: {self.answered:,} of {self.questions:,} questions answered with {self.traces:,} traces, "
            f"expected self-consistency {self.consistency}{accuracy}>"
        )

    def _repr_html_(self) -> str:
        """The first answers as a table, for a notebook."""
        shown, right = self.answers[:SHOWN_ANSWERS], {True: "yes", False: "no", None: ""}
        columns = ["id", "answer", "certificate", "traces", "votes", "right"]
        rows = [[a.id, a.answer or "", f"{a.certificate:.3f}", a.traces, vote_words(a), right[a.right]] for a in shown]
        if self.accuracy is None:
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        hidden = len(self.answers) - len(shown)
        more = f"<p>and {hidden:,} more in <code>.answers</code></p>" if hidden else ""
        return f"<p>{escape(repr(self)[1:-1])}</p>{html_table(columns, rows)}{more}"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a notebook; every cell is escaped, since texts come from files and servers."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def vote_words(answer: Answer) -> str:
    """The votes of an answer, such as "3 x B, 1 x C"."""
    return ", ".join(f"{votes:g} x {form}" for form, votes in answer.votes.items())


class TraceTotals:
    """Adds up the traces of a run; ``price`` is what those cost in money that do not say so themselves."""

    def __init__(self, price: Currency | None) -> None:
        self.failed = self.lost = self.cancelled = self.tokens = self.prompt_tokens = 0
        self.reused: Counter[int] = Counter()  # traces that other runs paid for, by run
        self.given: Counter[int] = Counter()  # traces that came back, by model
        self._price, self._picodollars, self._reused_tokens, self._reused_picodollars = price, 0, 0, 0

    def add(self, trace: StoredTrace) -> None:
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
        """What the traces cost in dollars, where a price is known."""
        return None if self._price is None else self._picodollars / 1e12

    def reused_words(self, traces: int) -> str:
        """A sentence on the runs that paid for some of these ``traces``, and what those had cost; empty for none."""
        if not self.reused:
            return ""
        runs = ", ".join(f"run {run} ({reused:,})" for run, reused in sorted(self.reused.items()))
        dollars = "" if self._price is None else f", {amount_words(self._reused_picodollars, 'picodollars')}"
        total = self.reused.total()
        return (
            f"{amount_words(total, 'traces')} reused from {runs}, which had cost "
            f"{amount_words(self._reused_tokens, 'tokens')}{dollars}; {traces - total:,} paid for by this run."
        )


@dataclass(slots=True)
class AnswerSummary:
    """Counts over answers; ``distinct`` ones were seen among the ``votes`` of questions that have a few of them."""

    questions: int = 0
    asked: int = 0  # questions with a trace
    answered: int = 0
    traces: int = 0
    failed: int = 0
    cut: int = 0
    refused: int = 0
    unreadable: int = 0
    votes: float = 0.0
    distinct: int = 0
    judged: int = 0  # questions with gold that could be compared
    judged_answered: int = 0  # those of them with an answer
    right: int = 0  # those of them that are right
    levels: dict[str, tuple[int, int]] = field(default_factory=dict)  # by level that questions name: judged, right
    read_as: Counter[str] = field(default_factory=Counter)  # questions by the answer type that auto chose
    excerpt: str = ""  # of a trace, where nothing was answered so far
    error: str = ""  # the last one

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> "AnswerSummary":
        summary = cls()
        for answer in answers:
            summary.add(answer)
        return summary

    def add(self, answer: Answer) -> None:
        self.questions += 1
        self.asked += answer.traces > 0
        self.answered += answer.answer is not None
        for name in ("traces", *NO_VOTE):
            setattr(self, name, getattr(self, name) + getattr(answer, name))
        if answer.right is not None:
            self.judged += 1
            self.judged_answered += answer.answer is not None
            self.right += answer.right
            if answer.level:
                judged, right = self.levels.get(answer.level, (0, 0))
                self.levels[answer.level] = judged + 1, right + answer.right
        self.error = answer.error or self.error
        if answer.read_as is not None:
            self.read_as[answer.read_as] += 1
        if answer.answer is None and not self.excerpt:
            self.excerpt = answer.text or ""
        if (votes := sum(answer.votes.values())) >= MIN_VOTES:
            self.votes += votes
            self.distinct += len(answer.votes)

    @property
    def accuracy(self) -> tuple[float, float, float]:
        """The share of questions with gold that are right, and Wilson's 95 % interval."""
        share = self.right / self.judged
        return (share, *wilson(share, self.judged))

    @property
    def no_vote_share(self) -> float:
        return (self.cut + self.refused + self.unreadable + self.failed) / max(1, self.traces)

    @property
    def disagrees(self) -> bool:
        """Whether nearly every vote is for an answer of its own: the answers are read by a wrong type, or are open."""
        return self.votes >= MIN_VOTES_IN_ALL and self.distinct >= DIFFERENT_SHARE * self.votes


def duration_words(seconds: float) -> str:
    """Hours, minutes and seconds, however long it is.

    >>> duration_words(93_784), duration_words(4e15)
    ('26:03:04', '1111111111111:06:40')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def levels_words(levels: Mapping[str, tuple[int, int]]) -> str:
    """Accuracy by level; empty where there are not several.

    >>> levels_words({"hard": (4, 1), "easy": (2, 2)})
    'Accuracy by level: easy 1.000 (2 of 2), hard 0.250 (1 of 4).'
    """
    if len(levels) < 2:
        return ""
    parts = [f"{level} {right / judged:.3f} ({right:,} of {judged:,})" for level, (judged, right) in levels.items()]
    return f"Accuracy by level: {', '.join(sorted(parts))}."


def likely_merge(answer: Answer) -> str:
    """Two answers of a question that may be one, where joining them could change or firm up its vote; else empty.

    All words of the one stand in the other; numbers and letters are never two spellings of one.

    >>> likely_merge(Answer("q", "Mandarin", {"Mandarin": 23, "Mandarin Chinese": 18}, 0.8))
    '"Mandarin" and "Mandarin Chinese": 23 votes against 18'
    """
    if answer.certificate >= SETTLED:
        return ""
    names = sorted(answer.votes, key=lambda name: -answer.votes[name])[:MAX_NAMES]
    words = {name: frozenset((Text().canonical(name) or "").split()) for name in names}
    for first, second in combinations(names, 2):
        pair, both = (words[first], words[second]), answer.votes[first] + answer.votes[second]
        alike = pair[0] < pair[1] or pair[1] < pair[0]
        spelled = all(word.isalpha() and len(word) > 1 and word != "not" for word in pair[0] | pair[1])
        if alike and spelled and all(pair) and (first == names[0] or both >= answer.votes[names[0]]):
            return f'"{first}" and "{second}": {answer.votes[first]:g} votes against {answer.votes[second]:g}'
    return ""


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of ``count``: honest at 0 and 1, too.

    >>> [round(bound, 3) for bound in wilson(0.5, 2)], [round(bound, 3) for bound in wilson(0.0, 1)]
    ([0.095, 0.905], [0.0, 0.793])
    """
    z2 = NORMAL_95**2 / count
    centre = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * share * (1 - share) + z2 * z2 / 4) / (1 + z2)
    return max(0.0, centre - half), min(1.0, centre + half)


def no_vote_words(
    counted: Answer | AnswerSummary,
    max_tokens: int | None,
    *,
    limit_option: str = "--max-tokens",
    answer_option: str = "--answer",
) -> str:
    """How many traces cast no vote, why, and what to do about most of them; empty where all voted.

    >>> no_vote_words(Answer("q1", traces=800, cut=274), 9000)
    '274 of 800 traces (34 %) cast no vote: cut at 9,000 tokens; raise --max-tokens.'
    """
    numbers = {outcome: number for outcome in NO_VOTE if (number := getattr(counted, outcome))}
    if not numbers:
        return ""
    total, traces = sum(numbers.values()), counted.traces
    percent = "under 1" if 100 * total < traces else f"{100 * total / traces:.0f}"
    reasons = {outcome: no_vote_reason(outcome, max_tokens, limit_option, answer_option) for outcome in numbers}
    several = (f"{number:,} {reasons[outcome][0]}" for outcome, number in numbers.items())
    kinds, remedy = reasons[max(numbers, key=numbers.__getitem__)]
    if len(numbers) > 1:
        kinds = ", ".join(several)
    return f"{total:,} of {amount_words(traces, 'traces')} ({percent} %) cast no vote: {kinds}; {remedy}."


def no_vote_reason(
    outcome: Outcome, max_tokens: int | None, limit_option: str = "--max-tokens", answer_option: str = "--answer"
) -> tuple[str, str]:
    """Why traces cast no vote, and what to do about it; options are named as where the user sets them."""
    limit = "the server's own limit" if max_tokens is None else f"{max_tokens:,} tokens"
    reasons = {
        "cut": (f"cut at {limit}", f"raise {limit_option}" if max_tokens else "give the server a longer context"),
        "refused": ("refused by the server's content filter", "ask another model, or in other words"),
        "unreadable": ("without an answer that could be read", f"choose how answers are read with {answer_option}"),
    }
    return reasons.get(outcome, ("failed", "check the server"))


def doubt_of(answer: Answer, cap: int | None) -> Doubt | None:
    """Why an answer is uncertain; ``None`` where it is not. No question gets more than ``cap`` traces.

    >>> doubt_of(Answer("q", "4", {"4": 1}, 0.6, traces=9, no_answer=8, cut=7, failed=1), 64)
    'cut'
    >>> doubt_of(Answer("q", "Mandarin", {"Mandarin": 9, "Mandarin Chinese": 8}, 0.6, traces=17), 64)
    'spelling'
    >>> [doubt_of(Answer("q", "4", {"4": n, "5": n - 1}, 0.6, traces=2 * n - 1), 17) for n in (2, 6, 9)]
    ['few traces', 'near tie', 'cap']
    """
    if answer.certificate >= CERTAIN:
        return None
    if 2 * answer.no_answer >= max(1, answer.traces):
        return max(NO_VOTE, key=lambda outcome: getattr(answer, outcome))
    if likely_merge(answer):
        return "spelling"
    if cap is not None and answer.traces >= cap:
        return "cap"
    most, next_most = sorted([*answer.votes.values(), 0.0, 0.0], reverse=True)[:2]
    if most + next_most >= FEW_VOTES and most - next_most <= math.sqrt(most + next_most):
        return "near tie"  # within what tosses of a coin differ by
    return "few traces"


def doubt_words(doubt: Doubt, max_tokens: int | None, cap: int | None, run: int) -> str:
    """Why some answers are uncertain, and what can be done about it."""
    words = {
        "spelling": f"split between spellings of what may be one answer; try pets runs reread {run} --answer text",
        "cap": f"at the most traces that a question may get, {cap}; raise --max-traces",
        "near tie": "a near tie; more traces settle some, --policy okg:zone=0.1 stops at those that none would",
        "few traces": "few traces so far; more budget settles most of them",
    }
    if doubt in words:
        return words[doubt]
    return f"most traces cast no vote, {'; '.join(no_vote_reason(doubt, max_tokens))}"  # type: ignore[arg-type]
