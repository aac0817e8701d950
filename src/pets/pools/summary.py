"""A recorded pool in a dozen figures: sizes, agreement, accuracy, tokens, confidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pets.core.tally import majority
from pets.errors import PoolError
from pets.pools.question import Pool


@dataclass(frozen=True, slots=True)
class Summary:
    """A pool in figures; ``None`` where nothing was recorded to compute one from. Strings are compared as they stand.

    ``answers`` are the different ones seen for a question. ``pass_at_1`` is the mean share of traces that equal gold
    (no answer is wrong), ``vote_accuracy`` the share of questions whose vote does. ``unanimous`` and ``leader_share``
    are over the votes cast. ``confidence_missing`` is the share of all traces without one.
    """

    pool: str
    kind: str | None
    questions: int
    skipped: int
    traces: int
    traces_min: int
    traces_max: int
    answers_mean: float
    answers_max: int
    pass_at_1: float | None
    vote_accuracy: float | None
    unanimous: float | None
    leader_share: float | None
    no_answer: float
    tokens_mean: float | None
    tokens_median: float | None
    tokens_p95: float | None
    tokens_max: int | None
    confidence_mean: float | None
    confidence_sd: float | None
    confidence_missing: float | None


def summarize(pool: Pool) -> Summary:
    """The figures of a pool.

    >>> from pets.pools import PooledQuestion
    >>> summary = summarize(Pool("toy", (PooledQuestion("q1", ("A", "B", "A", None), gold="A"),)))
    >>> summary.pass_at_1, summary.vote_accuracy, round(summary.leader_share, 3), summary.no_answer
    (0.5, 1.0, 0.667, 0.25)
    """
    questions = pool.questions
    if not questions:
        raise PoolError(f'pool "{pool.name}" has no question; there is nothing to summarize. Read it again.')
    votes = [Counter(answer for answer in question.answers if answer is not None) for question in questions]
    voted = [count for count in votes if count]
    sizes = [len(question.answers) for question in questions]
    with_gold = [question for question in questions if question.gold is not None]
    tokens = [count for question in questions for count in question.tokens or ()]
    measured = [question.confidence for question in questions if question.confidence is not None]
    confidences = [value for values in measured for value in values if value is not None]
    return Summary(
        pool=pool.name,
        kind=pool.kind,
        questions=len(questions),
        skipped=len(pool.skipped),
        traces=sum(sizes),
        traces_min=min(sizes),
        traces_max=max(sizes),
        answers_mean=sum(map(len, votes)) / len(votes),
        answers_max=max(map(len, votes)),
        pass_at_1=_mean([q.answers.count(q.gold) / len(q.answers) for q in with_gold]),
        vote_accuracy=_mean([majority(q.answers) == q.gold for q in with_gold]),
        unanimous=_mean([len(count) == 1 for count in voted]),
        leader_share=_mean([max(count.values()) / count.total() for count in voted]),
        no_answer=(sum(sizes) - sum(count.total() for count in votes)) / sum(sizes),
        tokens_mean=_mean(tokens),
        tokens_median=float(np.median(tokens)) if tokens else None,
        tokens_p95=float(np.percentile(tokens, 95)) if tokens else None,
        tokens_max=max(tokens, default=None),
        confidence_mean=_mean(confidences),
        confidence_sd=float(np.std(confidences)) if confidences else None,
        confidence_missing=(sum(sizes) - len(confidences)) / sum(sizes) if measured else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
