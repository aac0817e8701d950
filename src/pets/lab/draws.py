"""One repetition of a pool: the traces that every policy sees, and what their votes are worth after each of them.

A policy that is told one trace at a time sees a question only through a prefix of its path. So any run reduces to how
many traces each question has had, and ``agree[q, n]``, ``correct[q, n]`` and ``tokens[q, n]`` hold all outcomes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pets.core.tally import confidence_weights, top_p, weighted_majority, weighted_votes
from pets.errors import InputError
from pets.lab.config import ReplayConfig
from pets.lab.labelled import LabelledPool, LabelledQuestion, all_tokens
from pets.types import Question, Trace

Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Labels = Sequence[str | None]

ROUNDING = 1e-9  # 0.1 x 20 votes is 2
NO_VOTE = -1  # no answer, and the vote where none was cast


def coded(paths: Sequence[Labels]) -> tuple[Codes, list[dict[str, int]]]:
    """Each path's answers as the rank of their first launch, so that the smallest of the tied was launched first.

    >>> coded([["B", None, "A", "B"]])
    (array([[ 0, -1,  1,  0]], dtype=int32), [{'B': 0, 'A': 1}])
    """
    names: list[dict[str, int]] = []
    rows = []
    for path in paths:
        ranks: dict[str, int] = {}
        rows.append([NO_VOTE if label is None else ranks.setdefault(label, len(ranks)) for label in path])
        names.append(ranks)
    return np.array(rows, dtype=np.int32), names


def running_votes(codes: NDArray[np.integer]) -> Codes:
    """The majority after n = 0..P traces; codes (N, P) -> (N, P + 1). A tie goes to the code that came first.

    >>> running_votes(np.array([[-1, 1, 0, 0]], dtype=np.int32))
    array([[-1, -1,  1,  1,  0]], dtype=int32)
    """
    N, P = codes.shape
    votes = np.full((N, P + 1), NO_VOTE, dtype=np.int32)
    kinds = np.arange(max(1, int(codes.max(initial=0)) + 1), dtype=np.int32)
    counts = (codes[:, :, None] == kinds).cumsum(axis=1, dtype=np.int32)
    first = (counts > 0).argmax(axis=1, keepdims=True).astype(np.int32)
    winner = (counts * P - first).argmax(axis=2)
    votes[:, 1:] = np.where(counts.max(axis=2) > 0, winner, NO_VOTE)
    return votes


def running_weighted_votes(path: Labels, confidences: Sequence[float | None], ranks: dict[str, int]) -> list[int]:
    """The paper's weighted vote after n = 0..P traces of one path."""
    winners = (weighted_majority(path[:n], kept_weights(path[:n], confidences[:n])) for n in range(len(path) + 1))
    return [NO_VOTE if winner is None else ranks[winner] for winner in winners]


def kept_weights(path: Labels, confidences: Sequence[float | None] | None) -> list[float]:
    """What each trace weighs: 1 without confidences, else its own if it is among the top 70 % of those that voted. A
    vote without a confidence raises."""
    if confidences is None:
        return [1.0] * len(path)
    weights = confidence_weights([0.0 if label is None else c for label, c in zip(path, confidences, strict=True)])
    return top_p(path, weights)


STRAGGLERS_SHARE = 0.1  # of the questions, at most, that may have too few traces to count
NO_TRACE = -2  # the code of an answer that no trace of the path gave; no vote equals it


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What the verdict after each of n = 0..P traces is worth, (N, P + 1) each: whether it is the target, whether no
    answer's share of the target's votes exceeds its own by more than the zone, and whether it is gold."""

    agree: Flags
    good: Flags
    correct: Flags


@dataclass(frozen=True, slots=True, eq=False)
class DrawTargets:
    """Scores verdicts, given as codes of each path's answers in the order of first launch (``ranks``); ``target`` (N,)
    and ``gold`` (N,) are codes, ``within`` (N, K) the codes that are good enough."""

    ranks: tuple[dict[str, int], ...]
    target: Codes
    within: Flags
    gold: Codes

    def score(self, votes: Codes) -> Outcomes:
        """The outcomes of verdicts (N, P + 1); no verdict is neither the target, nor good, nor correct."""
        voted = votes != NO_VOTE
        rows = np.arange(len(votes))[:, None]
        return Outcomes(
            agree=voted & (votes == self.target[:, None]),
            good=voted & self.within[rows, np.maximum(votes, 0)],
            correct=voted & (votes == self.gold[:, None]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What is fixed before any policy runs: N questions with P traces each.

    ``paths`` (N, P) are indices into the recorded traces in launch order, ``spare`` those that are neither drawn nor
    part of the target. ``outcomes`` are those of the vote; ``judge`` scores other verdicts. ``judged`` says where gold
    is known, ``tied`` where two answers share the target's lead. ``tokens`` (N, P + 1) are cumulative; ``None`` unless
    every question has them.
    """

    pool: LabelledPool
    repetition: int
    paths: Indices
    spare: tuple[Indices, ...]
    outcomes: Outcomes
    judge: DrawTargets
    judged: Flags
    tied: Flags
    tokens: Indices | None
    traces: dict[str, tuple[Trace, ...]]

    @property
    def size(self) -> int:
        """P."""
        return int(self.paths.shape[1])

    @property
    def full_vote(self) -> tuple[Flags, Flags]:
        """What the vote of all traces is worth, (N,) each: does it agree, is it good."""
        return self.outcomes.agree[:, -1], self.outcomes.good[:, -1]

    def questions(self, subset: Sequence[int] | None = None) -> list[Question]:
        """What the allocator is told of the questions: never their gold."""
        rows = range(len(self.pool.questions)) if subset is None else subset
        return [Question(self.pool.questions[row].id, options=self.pool.options) for row in rows]


def size_of(pool: LabelledPool, config: ReplayConfig) -> int:
    """P: as many traces of every question as asked for, or as its shortest question has (half of them: disjoint)."""
    have = pool.shortest if config.reference == "whole" else pool.shortest // 2
    if have < 1:
        raise InputError(f'pool "{pool.name}": a question with 1 trace has no disjoint halves. Replay it whole.')
    return min(config.size, have)


def without_short(pool: LabelledPool, config: ReplayConfig) -> LabelledPool:
    """The pool without questions that have fewer traces than ``config.min_traces``; where that is not given, without
    stragglers: at most a tenth of them, with less than half of the traces that would be drawn of the others."""
    counts = sorted(len(question.labels) for question in pool.questions)
    least = config.min_traces
    if least is None:
        halves = 1 if config.reference == "whole" else 2
        usual = min(config.size * halves, counts[len(counts) // 2])
        few = sum(2 * count < usual for count in counts)
        least = (usual + 1) // 2 if 0 < few <= len(counts) * STRAGGLERS_SHARE else 0
    short = [question for question in pool.questions if len(question.labels) < least]
    return pool.without(short, f"has fewer than {least} traces")


def draw_traces(pool: LabelledPool, config: ReplayConfig, repetition: int) -> Draw:
    """Draw the traces of one repetition; the same for every policy."""
    rng = np.random.default_rng(config.seeds(pool.name, repetition))
    size = size_of(pool, config)
    shuffled = [shuffled_traces(question, rng) for question in pool.questions]
    paths = np.array([order[:size] for order in shuffled])
    if config.reference == "whole":
        targets, spare = list(paths), [order[size:] for order in shuffled]
    else:
        halves = [np.split(order, [len(order) // 2]) for order in shuffled]
        targets = [other[:size] for _, other in halves]
        spare = [np.concatenate([own[size:], other[size:]]) for own, other in halves]
    traces = {q.id: _traces(q, path) for q, path in zip(pool.questions, paths.tolist(), strict=True)}
    labels = [[trace.answer for trace in path] for path in traces.values()]
    codes, ranks = coded(labels)
    judge, ties = _judge(pool, targets, ranks, config)
    if config.weighted:
        confidences = [[trace.confidence for trace in path] for path in traces.values()]
        paired = zip(labels, confidences, ranks, strict=True)
        votes = np.array([running_weighted_votes(*path) for path in paired], dtype=np.int32)
    else:
        votes = running_votes(codes)
    tokens = np.cumsum([[0, *(trace.tokens for trace in path)] for path in traces.values()], axis=1)
    return Draw(
        pool=pool,
        repetition=repetition,
        paths=paths,
        spare=tuple(spare),
        outcomes=judge.score(votes),
        judge=judge,
        judged=np.array([question.gold is not None for question in pool.questions]),
        tied=np.array(ties),
        tokens=None if all_tokens(pool.questions) is None else tokens,
        traces=traces,
    )


def shuffled_traces(question: LabelledQuestion, rng: np.random.Generator) -> Indices:
    """The recorded traces in a random order; in a mixture each model's among themselves, so that turns stay turns."""
    order = rng.permutation(len(question.labels))
    if question.models is None:
        return order
    turns = np.array(question.models)
    mixed = np.empty_like(order)
    for model in np.unique(turns):
        mixed[turns == model] = order[turns[order] == model]
    return mixed


def confidences_of(question: LabelledQuestion) -> tuple[float | None, ...]:
    """A question's confidences, without which there is no weighted vote."""
    if question.confidence is None:
        raise InputError(f"question {question.id!r} has no confidences; the weighted vote needs them. Drop --weighted.")
    return question.confidence


def vote_accuracy(pool: LabelledPool, weighted: bool) -> float | None:
    """The share of questions whose vote over all recorded traces equals gold, where gold is known."""
    judged = [question for question in pool.questions if question.gold is not None]
    weights = (kept_weights(q.labels, confidences_of(q) if weighted else None) for q in judged)
    right = [weighted_majority(q.labels, weight) == q.gold for q, weight in zip(judged, weights, strict=True)]
    return sum(right) / len(right) if right else None


def _judge(
    pool: LabelledPool, targets: Sequence[Indices], ranks: Sequence[dict[str, int]], config: ReplayConfig
) -> tuple[DrawTargets, list[bool]]:
    """What each question's verdicts are held against, and whether its target was a tie."""
    codes, ties, gold = [], [], []
    within = np.zeros((len(ranks), max(1, *map(len, ranks))), dtype=np.bool_)
    for row, (question, path, names) in enumerate(zip(pool.questions, targets, ranks, strict=True)):
        labels = [question.labels[j] for j in path.tolist()]
        confidences = [confidences_of(question)[j] for j in path.tolist()] if config.weighted else None
        weights = kept_weights(labels, confidences)
        votes = weighted_votes(labels, weights)
        codes.append(names.get(weighted_majority(labels, weights) or "", NO_TRACE))
        gold.append(names.get(question.gold or "", NO_TRACE))
        lead = max(votes.values(), default=0.0)
        ties.append(list(votes.values()).count(lead) > 1)
        within[row, [names[label] for label in good_labels(names, votes, config.tolerance)]] = True
        if codes[-1] >= 0:
            within[row, codes[-1]] = True
    return DrawTargets(tuple(ranks), np.array(codes, dtype=np.int32), within, np.array(gold, dtype=np.int32)), ties


def good_labels(verdicts: Iterable[str], votes: Mapping[str, float], zone: float) -> list[str]:
    """The verdicts that no answer leads by more than ``zone`` in its share of the target's votes; none for zone 0.

    >>> good_labels("ABC", {"A": 10, "B": 9, "C": 1}, 0.1)
    ['A', 'B']
    """
    if zone == 0.0 or not votes:
        return []
    least = max(votes.values()) - (zone + ROUNDING) * sum(votes.values())
    return [label for label in verdicts if votes.get(label, 0.0) >= least]


def _traces(question: LabelledQuestion, path: Sequence[int]) -> tuple[Trace, ...]:
    labels = question.labels
    tokens, confidences = question.tokens or (0,) * len(labels), question.confidence or (None,) * len(labels)
    return tuple(Trace(question.id, n, labels[j], confidences[j], tokens=tokens[j]) for n, j in enumerate(path))
