"""What the answers of a run come to: how many there are, why others are missing, and whether the votes agree."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pets.engine.question import Answer

__all__ = ["AnswerSummary"]

MIN_VOTES = 3  # of a question, before they say whether its votes agree
MIN_VOTES_IN_ALL = 12
DIFFERENT_SHARE = 0.8  # of votes for an answer of their own: nearly all are different


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
    agreed: Counter[int] = field(default_factory=Counter)  # questions without two votes that differ, by their traces
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
        self.error = answer.error or self.error
        if answer.answer is None and not self.excerpt:
            self.excerpt = answer.text or ""
        self.agreed[answer.traces] += len(answer.votes) == 1
        if (votes := sum(answer.votes.values())) >= MIN_VOTES:
            self.votes += votes
            self.distinct += len(answer.votes)

    def unanimous(self, traces: int) -> int:
        """How many questions have at least so many traces and no two votes that differ."""
        return sum(number for size, number in self.agreed.items() if size >= traces)

    @property
    def disagrees(self) -> bool:
        """Whether nearly every vote is for an answer of its own: they were not read as they should be, or are open."""
        return self.votes >= MIN_VOTES_IN_ALL and self.distinct >= DIFFERENT_SHARE * self.votes
