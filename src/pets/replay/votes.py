"""Running votes: the winner after every prefix of every question's path, by the one tie rule."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pets.core.tally import confidence_weights, top_p, weighted_majority, weighted_votes

__all__ = ["NOBODY", "Codes", "coded", "running_votes", "running_weighted_votes", "tied"]

Codes = NDArray[np.int32]
Labels = Sequence[str | None]

NOBODY = -1  # no answer, and the vote where none was cast


def coded(paths: Sequence[Labels]) -> tuple[Codes, list[dict[str, int]]]:
    """Each path's answers as the rank of their first launch, so that the smallest of the tied was launched first.

    >>> coded([["B", None, "A", "B"]])
    (array([[ 0, -1,  1,  0]], dtype=int32), [{'B': 0, 'A': 1}])
    """
    names: list[dict[str, int]] = []
    rows = []
    for path in paths:
        ranks: dict[str, int] = {}
        rows.append([NOBODY if label is None else ranks.setdefault(label, len(ranks)) for label in path])
        names.append(ranks)
    return np.array(rows, dtype=np.int32), names


def running_votes(codes: Codes) -> Codes:
    """The majority after n = 0..P traces; codes (N, P) of :func:`coded` -> (N, P + 1).

    >>> running_votes(np.array([[-1, 0, 1, 1]], dtype=np.int32))
    array([[-1, -1,  0,  0,  1]], dtype=int32)
    """
    N, P = codes.shape
    votes = np.full((N, P + 1), NOBODY, dtype=np.int32)
    kinds = np.arange(max(1, int(codes.max(initial=0)) + 1), dtype=np.int32)
    counts = (codes[:, :, None] == kinds).cumsum(axis=1, dtype=np.int32)
    winner = counts.argmax(axis=2)  # the first of the tied: launch order
    votes[:, 1:] = np.where(counts.max(axis=2) > 0, winner, NOBODY)
    return votes


def running_weighted_votes(path: Labels, confidences: Sequence[float | None], ranks: dict[str, int]) -> list[int]:
    """The paper's weighted vote after n = 0..P traces of one path: the top 70 % by confidence, weighted by it."""
    weights = voting_weights(path, confidences)
    winners = (weighted_majority(path[:n], top_p(path[:n], weights[:n])) for n in range(1, len(path) + 1))
    return [NOBODY] + [NOBODY if winner is None else ranks[winner] for winner in winners]


def voting_weights(path: Labels, confidences: Sequence[float | None]) -> list[float]:
    """The confidences of the votes; a vote without one raises, a trace without a vote needs none."""
    return confidence_weights([0.0 if label is None else c for label, c in zip(path, confidences, strict=True)])


def tied(path: Labels, confidences: Sequence[float | None] | None = None) -> bool:
    """Whether two answers share the lead in the vote (the weighted one if confidences are given).

    >>> tied(["A", "B", None]), tied(["A", "A", "B"]), tied([None])
    (True, False, False)
    """
    weights = [1.0] * len(path) if confidences is None else top_p(path, voting_weights(path, confidences))
    votes = sorted(weighted_votes(path, weights).values(), reverse=True)
    return len(votes) > 1 and votes[0] == votes[1]
