"""From the traces of a request to its answer: the vote, how far to trust it, and the trace that speaks for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pets.answers.base import AnswerType
from pets.core.certificate import certificate
from pets.core.patterns import K0, NAMES, pattern
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally, confidence_weights, weighted_votes
from pets.gateway.replies import Drawn

__all__ = ["Ballot", "Judgement", "judge"]


@dataclass(frozen=True, slots=True)
class Ballot:
    """One trace with the answer that was read in it; ``drawn`` is None where nothing came back."""

    number: int
    form: str | None = None
    drawn: Drawn | None = None

    @property
    def confidence(self) -> float | None:
        """DeepConf's tail confidence, where the server gave log-probabilities."""
        found = None if self.drawn is None else self.drawn.completion.confidence
        return None if found is None else found.tail


@dataclass(frozen=True, slots=True)
class Judgement:
    """The vote. ``certificate`` is P(the answer is the vote over infinitely many traces); None for a weighted vote
    whose winner is not the plain vote's. ``grid`` is the pattern of the four warm-up traces, such as "3-1".
    ``weighted`` only where it was asked for and every voter had a confidence.
    """

    answer: str | None
    votes: Mapping[str, float]
    certificate: float | None
    best: Ballot | None
    no_answer: int
    grid: str | None
    weighted: bool = False


def judge(
    ballots: Sequence[Ballot], kind: AnswerType, options: int | None, weighted: bool, prior: LearnedPrior
) -> Judgement:
    """The vote over traces in launch order. A tie goes to the answer that was launched first."""
    forms = [ballot.form for ballot in ballots]
    names = kind.merge([form for form in forms if form is not None])
    answers = [None if form is None else names[form] for form in forms]
    confidences = [ballot.confidence for ballot in ballots if ballot.form is not None]
    weights = [1.0] * len(ballots)
    weighted = weighted and None not in confidences
    if weighted:
        given = iter(confidence_weights(confidences))
        weights = [1.0 if form is None else next(given) for form in forms]
    plain = weighted_votes(answers, [1.0] * len(answers))
    votes = weighted_votes(answers, weights)
    answer = max(votes, key=votes.__getitem__, default=None)
    tally = Tally.of(answers, options=options)
    leads = answer is not None and plain[answer] == max(plain.values())
    voters = [ballot for ballot, said in zip(ballots, answers, strict=True) if said is not None and said == answer]
    came = voters or [ballot for ballot in ballots if ballot.drawn is not None]
    best = max(came, key=lambda one: (one.confidence or 0.0, -one.number), default=None)
    lengths = [one.drawn.completion.tokens or 0 for one in ballots if one.drawn is not None]
    mark = prior.mark(sum(lengths) / len(lengths)) if any(lengths) else 0
    sure = _certificate(tally.counts, tally.nulls, options, mark, prior) if leads else None
    return Judgement(answer, votes, 0.0 if answer is None else sure, best, tally.nulls, _grid(answers), weighted)


def as_plain(judgement: Judgement) -> dict[str, Any]:
    """The part of a reply's ``pets`` object that the vote decides."""
    total = sum(judgement.votes.values())
    return {
        "answer": judgement.answer,
        "votes": dict(judgement.votes),
        "agreement": max(judgement.votes.values()) / total if total else None,
        "certificate": judgement.certificate,
        "no_answer": judgement.no_answer,
        "weighted": judgement.weighted,
        "grid": judgement.grid,
    }


@lru_cache(maxsize=1 << 14)
def _certificate(counts: tuple[int, ...], nulls: int, options: int | None, mark: int, prior: LearnedPrior) -> float:
    return certificate(Tally(counts, nulls, options=options, mark=mark), prior)


def _grid(answers: Sequence[str | None]) -> str | None:
    """The warm-up's pattern."""
    if len(answers) < K0:
        return None
    first = Tally.of(answers[:K0])
    return NAMES[pattern(first.counts, first.nulls)]
