"""What a stream says of a question: its answer, how far to trust it, and what it took."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pets.core.certificate import certificate
from pets.core.patterns import K0, NAMES, pattern
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.plans.traces import Asked, Drawn
from pets.questions import Problem

__all__ = ["OpenQuestion", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of a stream's results.

    ``certificate`` is the probability that ``answer`` is the vote over infinitely many traces, under the plan's prior.
    ``votes`` are in the order of first launch. ``traces`` were paid for; of them ``no_answer`` cast no vote, and
    ``failed`` of these never came. ``warmup`` is the pattern of the first four. ``text`` is the first trace that gave
    the answer. ``complete`` is False where the stream was stopped before the question had all that it was to get.
    ``error`` says why a question was not asked at all.
    """

    id: str
    answer: str | None = None
    votes: Mapping[str, int] | None = None
    certificate: float = 0.0
    traces: int = 0
    no_answer: int = 0
    failed: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    warmup: str | None = None
    text: str | None = None
    complete: bool = True
    gold: str | None = None
    error: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """A row of JSON; gold and error only where there is one.

        >>> Outcome("q1", error="the budget is used up").to_plain()
        {'id': 'q1', 'error': 'the budget is used up'}
        """
        if self.error is not None:
            return {"id": self.id, "error": self.error}
        row = asdict(self)
        del row["error"]
        if self.gold is None:
            del row["gold"]
        return row


class OpenQuestion:
    """A question on its way: what has come back for it, by launch number."""

    def __init__(self, problem: Problem, asked: Asked) -> None:
        self.problem, self.asked = problem, asked
        self.in_flight = 0
        self.options = asked.options
        self._drawn: dict[int, Drawn] = {}

    @property
    def begun(self) -> bool:
        """Whether a trace of it has come back, or failed."""
        return bool(self._drawn)

    def came(self, number: int, drawn: Drawn) -> int | None:
        """Keep a trace; the warm-up's pattern when this one completes it, but not of a warm-up in which some failed."""
        self._drawn[number] = drawn
        if number >= K0 or not all(n in self._drawn for n in range(K0)) or self._warmup_failed():
            return None
        return self.pattern

    @property
    def pattern(self) -> int | None:
        """The warm-up's pattern; none before it is complete."""
        if not all(n in self._drawn for n in range(K0)):
            return None
        tally = Tally.of([self._drawn[n].label for n in range(K0)])
        return pattern(tally.counts, tally.nulls)

    def outcome(self, prior: LearnedPrior, complete: bool) -> Outcome:
        """The question's line: the vote over what has come back, classes that turned out to be one merged."""
        traces = [self._drawn[number] for number in sorted(self._drawn)]
        names = self.asked.names(dict.fromkeys(one.form for one in traces if one.form is not None))
        votes: dict[str, int] = {}
        texts: dict[str, str | None] = {}
        for one in traces:
            if one.form is not None:
                name = names[one.form]
                votes[name] = votes.get(name, 0) + 1
                texts.setdefault(name, one.text)
        answer = max(votes, key=votes.__getitem__, default=None)
        return Outcome(
            id=self.problem.id,
            answer=answer,
            votes=votes,
            certificate=round(certificate(self._tally(votes), prior), 6),
            traces=len(traces),
            no_answer=sum(one.form is None for one in traces),
            failed=sum(one.error is not None for one in traces),
            tokens=sum(one.tokens for one in traces),
            prompt_tokens=sum(one.prompt_tokens for one in traces),
            warmup=None if self.pattern is None else NAMES[self.pattern],
            text=None if answer is None else texts[answer],
            complete=complete,
            gold=self.problem.gold,
        )

    def _tally(self, votes: Mapping[str, int]) -> Tally:
        counts = tuple(sorted(votes.values(), reverse=True))
        came, tokens = len(self._drawn), sum(one.tokens for one in self._drawn.values())
        options = None if self.options is None else max(self.options, len(counts))
        return Tally(counts, came - sum(counts), 0, options, mean_tokens=tokens / came if came else 0.0)

    def _warmup_failed(self) -> bool:
        return any(self._drawn[n].error is not None for n in range(K0))
