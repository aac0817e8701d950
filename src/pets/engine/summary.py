"""What the answers of a run come to: how many there are, why others are missing, whether the votes agree,
and why one is uncertain, as far as something can be done about it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from pets.answers.text import Text
from pets.engine.question import Answer, Outcome

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
WORD_LETTERS = 3  # of a word that two answers share, for them to look like one


@dataclass(slots=True)
class AnswerSummary:
    """Counts over the answers that were handed out, one by one.

    ``distinct`` answers were seen among the ``votes`` of questions that have a few of them.

    >>> summary = AnswerSummary.of([Answer("q1", "4", {"4": 2}, traces=2), Answer("q2", traces=3, no_answer=3, cut=3)])
    >>> summary.answered, summary.questions, summary.cut
    (1, 2, 3)
    """

    questions: int = 0
    asked: int = 0  # those of them with a trace
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
    right: int = 0
    read_as: Counter[str] = field(default_factory=Counter)  # questions by the answer type that auto chose
    levels: dict[str, tuple[int, int]] = field(default_factory=dict)  # by level: questions with gold, right ones
    excerpt: str = ""  # of a trace, where nothing was answered so far
    error: str = ""  # the last one

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> "AnswerSummary":
        """Of all answers at once."""
        summary = cls()
        for answer in answers:
            summary.add(answer)
        return summary

    def add(self, answer: Answer) -> None:
        """Count one more."""
        self.questions += 1
        self.asked += answer.traces > 0
        self.answered += answer.answer is not None
        self.traces += answer.traces
        self.failed += answer.failed
        self.cut += answer.cut
        self.refused += answer.refused
        self.unreadable += answer.unreadable
        self.judged += answer.right is not None
        self.judged_answered += answer.right is not None and answer.answer is not None
        self.right += answer.right is True
        if answer.level and answer.right is not None:
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
        """The share of traces that cast no vote."""
        return (self.cut + self.refused + self.unreadable + self.failed) / max(1, self.traces)

    @property
    def disagrees(self) -> bool:
        """Whether nearly every vote is for an answer of its own: they were not read as they should be, or are open."""
        return self.votes >= MIN_VOTES_IN_ALL and self.distinct >= DIFFERENT_SHARE * self.votes


def levels_words(levels: Mapping[str, tuple[int, int]]) -> str:
    """Accuracy by level; empty where there are not several.

    >>> levels_words({"hard": (4, 1), "easy": (2, 2)})
    'Accuracy by level: easy 1.000 (2 of 2), hard 0.250 (1 of 4).'
    """
    parts = [f"{level} {right / judged:.3f} ({right:,} of {judged:,})" for level, (judged, right) in levels.items()]
    return f"Accuracy by level: {', '.join(sorted(parts))}." if len(parts) > 1 else ""


def likely_merge(answer: Answer) -> str:
    """Two names of its votes that may be one answer, where joining them could change or firm up the vote; else empty.

    All words of the one stand in the other; numbers and letters are never two spellings of one.

    >>> likely_merge(Answer("q", "Mandarin", {"Mandarin": 23, "Mandarin Chinese": 18}, 0.8))
    '"Mandarin" and "Mandarin Chinese": 23 votes against 18'
    >>> likely_merge(Answer("q", "Paris", {"Paris": 5, "Rome": 4}, 0.6))
    ''
    """
    if answer.certificate >= SETTLED or len(answer.votes) < 2:
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
    """How many traces cast no vote, of which kind, and what to do about most of them; empty where all voted.

    >>> no_vote_words(Answer("q1", traces=800, cut=274), 9000)
    '274 of 800 traces (34 %) cast no vote: cut at 9,000 tokens; raise --max-tokens.'
    >>> no_vote_words(Answer("q1", traces=2, unreadable=1, failed=1), None)
    '2 of 2 traces (100 %) cast no vote: 1 without an answer that could be read, 1 failed; \
choose how answers are read with --answer.'
    """
    numbers = {outcome: number for outcome in NO_VOTE if (number := getattr(counted, outcome))}
    if not numbers:
        return ""
    total, traces = sum(numbers.values()), counted.traces
    percent = "under 1" if 100 * total < traces else f"{100 * total / traces:.0f}"
    kinds = ", ".join(
        f"{number:,} {outcome_words(outcome, max_tokens)}" if len(numbers) > 1 else outcome_words(outcome, max_tokens)
        for outcome, number in numbers.items()
    )
    worst = max(numbers, key=numbers.__getitem__)
    remedy = remedy_words(worst, max_tokens, limit_option=limit_option, answer_option=answer_option)
    noun = "trace" if traces == 1 else "traces"
    return f"{total:,} of {traces:,} {noun} ({percent} %) cast no vote: {kinds}; {remedy}."


def outcome_words(outcome: Outcome, max_tokens: int | None) -> str:
    """What became of a trace that cast no vote."""
    limit = "the server's own limit" if max_tokens is None else f"{max_tokens:,} tokens"
    words = {
        "cut": f"cut at {limit}",
        "refused": "refused by the server's content filter",
        "unreadable": "without an answer that could be read",
    }
    return words.get(outcome, "failed")


def remedy_words(
    outcome: Outcome, max_tokens: int | None, *, limit_option: str = "--max-tokens", answer_option: str = "--answer"
) -> str:
    """What to do about traces that cast no vote; options are named as where the user sets them."""
    remedies = {
        "cut": "give the server a longer context" if max_tokens is None else f"raise {limit_option}",
        "refused": "ask another model, or in other words",
        "unreadable": f"choose how answers are read with {answer_option}",
    }
    return remedies.get(outcome, "check the server")


def doubt_of(answer: Answer, cap: int | None) -> Doubt | None:
    """Why an answer is uncertain; ``None`` where it is not. No question gets more than ``cap`` traces.

    >>> doubt_of(Answer("q", "4", {"4": 9}, 0.99, traces=9), 64) is None
    True
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
    (first, most), (second, next_most) = _leaders(answer.votes)
    if next_most and look_alike(first, second):
        return "spelling"
    if cap is not None and answer.traces >= cap:
        return "cap"
    if most + next_most >= FEW_VOTES and most - next_most <= math.sqrt(most + next_most):
        return "near tie"  # within what tosses of a coin differ by
    return "few traces"


def _leaders(votes: Mapping[str, float]) -> list[tuple[str, float]]:
    """The two answers with most votes; of fewer, with answers without any."""
    return [*sorted(votes.items(), key=lambda vote: -vote[1]), ("", 0.0), ("", 0.0)][:2]


def look_alike(answer: str, other: str) -> bool:
    """Whether all words of one answer are in the other, a longer one among them.

    >>> look_alike("mandarin", "Mandarin (Chinese)"), look_alike("12", "112"), look_alike("x + 1", "x")
    (True, False, False)
    """
    few, many = sorted((_words(answer), _words(other)), key=len)
    return few <= many and any(len(word) >= WORD_LETTERS and not word.isdecimal() for word in few)


def _words(answer: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in answer.casefold()).split())


def doubt_words(doubt: Doubt, max_tokens: int | None, cap: int | None, run: int) -> str:
    """The doubt of some questions, and what can be done about it.

    >>> doubt_words("cap", 512, 64, 3)
    'at the most traces that a question may get, 64; raise --max-traces'
    """
    words = {
        "spelling": f"split between spellings of what may be one answer; try pets runs reread {run} --answer text",
        "cap": f"at the most traces that a question may get, {cap}; raise --max-traces",
        "near tie": "a near tie; more traces settle some, --policy okg:zone=0.1 stops at those that none would",
        "few traces": "few traces so far; more budget settles most of them",
    }
    if doubt in words:
        return words[doubt]
    outcome: Outcome = doubt  # type: ignore[assignment]
    return f"most traces cast no vote, {outcome_words(outcome, max_tokens)}; {remedy_words(outcome, max_tokens)}"
