"""One repetition of a pool: the traces that every policy sees, and what their votes are worth after each of them.

A policy that is told one trace at a time sees a question only through a prefix of its path. So any run reduces to how
many traces each question has had, and ``agree[q, n]``, ``correct[q, n]`` and ``tokens[q, n]`` hold all outcomes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pets.core.tally import majority, top_p, weighted_majority
from pets.errors import InputError
from pets.replay.protocol import Protocol
from pets.replay.readings import ReadPool, ReadQuestion
from pets.replay.votes import NOBODY, Codes, coded, running_votes, running_weighted_votes, tied, voting_weights
from pets.types import Question, Trace

__all__ = ["Draw", "draw", "size_of", "vote_accuracy"]

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

NO_TRACE = -2  # the code of an answer that no trace of the path gave; no vote equals it


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What is fixed before any policy runs. N questions with P traces each.

    ``paths`` (N, P) are indices into the recorded traces in launch order, ``spare`` those that are
    neither drawn nor part of the target.
    ``agree`` (N, P + 1) says whether the vote of the first n traces is the target, ``correct`` whether it is gold;
    ``judged`` where gold is known, ``tied`` where two answers share the target's lead. ``tokens`` are cumulative.
    """

    pool: ReadPool
    repetition: int
    paths: Indices
    spare: tuple[Indices, ...]
    agree: Flags
    correct: Flags
    judged: Flags
    tied: Flags
    tokens: NDArray[np.int64] | None
    traces: dict[str, tuple[Trace, ...]]

    @property
    def size(self) -> int:
        """P."""
        return int(self.paths.shape[1])

    def questions(self, chosen: Sequence[int] | None = None) -> list[Question]:
        """What the allocator is told of the questions: never their gold."""
        rows = range(len(self.pool.questions)) if chosen is None else chosen
        return [Question(self.pool.questions[row].id, options=self.pool.options) for row in rows]


def size_of(pool: ReadPool, protocol: Protocol) -> int:
    """P: as many traces of every question as asked for, or as its shortest question has (half of them: disjoint)."""
    have = pool.shortest if protocol.target == "whole" else pool.shortest // 2
    if have < 1:
        raise InputError(f'pool "{pool.name}": a question with 1 trace has no disjoint halves. Replay it whole.')
    return min(protocol.size, have)


def draw(pool: ReadPool, protocol: Protocol, repetition: int) -> Draw:
    """Draw the traces of one repetition; the same for every policy."""
    rng = np.random.default_rng(protocol.seeds(pool.name, repetition))
    size = size_of(pool, protocol)
    shuffled = [rng.permutation(len(question.labels)) for question in pool.questions]
    paths = np.array([order[:size] for order in shuffled])
    if protocol.target == "whole":
        targets, spare = list(paths), [order[size:] for order in shuffled]
    else:
        halves = [np.split(order, [len(order) // 2]) for order in shuffled]
        targets = [other[:size] for _, other in halves]
        spare = [np.concatenate([own[size:], other[size:]]) for own, other in halves]
    labels = [_taken(question.labels, path) for question, path in zip(pool.questions, paths, strict=True)]
    codes, ranks = coded(labels)
    votes = _weighted(pool, labels, ranks, paths) if protocol.weighted else running_votes(codes)
    target, ties = _targets(pool, targets, ranks, protocol.weighted)
    gold = [ranks[row].get(question.gold or "", NO_TRACE) for row, question in enumerate(pool.questions)]
    voted = votes != NOBODY
    return Draw(
        pool=pool,
        repetition=repetition,
        paths=paths,
        spare=tuple(spare),
        agree=voted & (votes == np.array(target)[:, None]),
        correct=voted & (votes == np.array(gold)[:, None]),
        judged=np.array([question.gold is not None for question in pool.questions]),
        tied=np.array(ties),
        tokens=_tokens(pool, paths),
        traces={q.id: _traces(q, path) for q, path in zip(pool.questions, paths.tolist(), strict=True)},
    )


def _taken(values: Sequence[str | None], path: Indices) -> list[str | None]:
    return [values[j] for j in path.tolist()]


def _weighted(
    pool: ReadPool, labels: Sequence[Sequence[str | None]], ranks: Sequence[dict[str, int]], paths: Indices
) -> Codes:
    rows = []
    for question, path, names, order in zip(pool.questions, labels, ranks, paths.tolist(), strict=True):
        confidences = confidences_of(question)
        rows.append(running_weighted_votes(path, [confidences[j] for j in order], names))
    return np.array(rows, dtype=np.int32)


def confidences_of(question: ReadQuestion) -> tuple[float | None, ...]:
    """A question's confidences, without which there is no weighted vote."""
    if question.confidence is None:
        raise InputError(f"question {question.id!r} has no confidences; the weighted vote needs them. Drop --weighted.")
    return question.confidence


def vote_accuracy(pool: ReadPool, weighted: bool) -> float | None:
    """The share of questions whose vote over all recorded traces equals gold, where gold is known."""
    judged = [question for question in pool.questions if question.gold is not None]
    right = [_vote(q.labels, confidences_of(q) if weighted else None) == q.gold for q in judged]
    return sum(right) / len(right) if right else None


def _vote(labels: Sequence[str | None], confidences: Sequence[float | None] | None) -> str | None:
    if confidences is None:
        return majority(labels)
    return weighted_majority(labels, top_p(labels, voting_weights(labels, confidences)))


def _targets(
    pool: ReadPool, targets: Sequence[Indices], ranks: Sequence[dict[str, int]], weighted: bool
) -> tuple[list[int], list[bool]]:
    """The target of each question as a code of its path, and whether it was a tie."""
    codes, ties = [], []
    for question, path, names in zip(pool.questions, targets, ranks, strict=True):
        labels = _taken(question.labels, path)
        confidences = [confidences_of(question)[j] for j in path.tolist()] if weighted else None
        winner = _vote(labels, confidences)
        codes.append(names.get(winner or "", NO_TRACE))
        ties.append(tied(labels, confidences))
    return codes, ties


def _tokens(pool: ReadPool, paths: Indices) -> NDArray[np.int64] | None:
    """Cumulative tokens (N, P + 1); ``None`` unless every question has them."""
    recorded = [question.tokens for question in pool.questions if question.tokens is not None]
    if len(recorded) < len(pool.questions):
        return None
    total = np.zeros((paths.shape[0], paths.shape[1] + 1), dtype=np.int64)
    for row, (tokens, path) in enumerate(zip(recorded, paths, strict=True)):
        np.cumsum(np.array(tokens, dtype=np.int64)[path], out=total[row, 1:])
    return total


def _traces(question: ReadQuestion, path: Sequence[int]) -> tuple[Trace, ...]:
    id, labels, tokens, confidences = question.id, question.labels, question.tokens, question.confidence
    return tuple(
        Trace(id, n, labels[j], confidences[j] if confidences else None, tokens[j] if tokens else 0)
        for n, j in enumerate(path)
    )
