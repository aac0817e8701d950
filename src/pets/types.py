"""The nouns that every part shares: a launch is a decision, a trace what came back for it, a verdict what votes say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``options`` is the size of a closed answer set; ``None`` means open (a number, a formula).

    ``hurry`` is that of this question alone, ``None`` that of all.
    """

    id: str
    options: int | None = None
    hurry: float | None = None


class Launch(NamedTuple):
    """A trace that the allocator asks for; ``number`` counts the question's launches from 0."""

    question: str
    number: int


class SoftVote(NamedTuple):
    """The token that decides a trace's answer, and the probabilities of what might have stood in its place.

    A token is named by the answer that it spells; ``""`` stands for all tokens that spell none.
    """

    token: str
    shares: tuple[tuple[str, float], ...]

    def to_plain(self) -> list[Any]:
        """As JSON holds it: ``["B", {"B": 0.7, "C": 0.3}]``."""
        return [self.token, dict(self.shares)]

    @classmethod
    def from_plain(cls, data: Sequence[Any]) -> Self:
        """The vote that :meth:`to_plain` described."""
        token, shares = data
        return cls(token, tuple(shares.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a trace used, by which a :class:`~pets.core.money.Currency` says what it cost.

    ``cached_tokens`` are prompt tokens from the server's cache. ``cost`` is in picodollars, where its model has a price
    of its own. ``part`` is what a cancelled trace counts in a budget of traces, in thousandths.
    """

    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cost: int | None = None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Trace(Usage):
    """What came back for one launch.

    ``answer`` is the canonical answer; ``None`` means that the trace failed, was cut, refused or did not parse:
    it costs budget and casts no vote. ``confidence`` is ``None`` where the server gives none, never a default.
    ``soft`` is the vote of runs whose votes are soft.
    """

    question: str
    number: int
    answer: str | None = None
    confidence: float | None = None
    soft: SoftVote | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The vote on one question: ``answer`` is ``None`` when no trace voted; ``votes`` are in launch order.

    Where votes are weighted, ``weights`` are those of the votes that decided, answer by answer.
    """

    question: str
    answer: str | None
    votes: tuple[tuple[str, float], ...]
    traces: int
    no_answer: int
    weights: tuple[tuple[str, tuple[float, ...]], ...] | None = None

    @property
    def agreement(self) -> float | None:
        """The leader's share of the votes cast; ``None`` when none was cast."""
        total = sum(weight for _, weight in self.votes)
        return max(weight for _, weight in self.votes) / total if total > 0 else None
