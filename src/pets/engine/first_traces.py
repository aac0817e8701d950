"""A run's first traces are read before more go out: a budget is not spent on traces that cast no vote.

The first 20 traces, or a tenth of the budget where that is fewer, are launched alone, one per question where the policy
allows it. As soon as half of them were read the rest of the run goes on; once more than half cast no vote it stops.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

from pets.answers.base import AnswerType
from pets.core.budget import Budget
from pets.engine.question import OpenQuestion, Outcome, excerpt_of, outcome_of
from pets.engine.summary import outcome_words, remedy_words
from pets.errors import FirstTracesError
from pets.samplers import Completion
from pets.store import RunView, StoredTrace

__all__ = ["Choose", "FirstTraces"]

MOST_TRACES = 20
BUDGET_SHARE = 10  # the first traces are a tenth of the budget at most
ANY_NUMBER = 1 << 60
FEWEST_TRACES = 3  # one odd trace of a small budget stops nothing

Choose = Callable[[Sequence[tuple[OpenQuestion, Completion]], bool], AnswerType | None]
"""Chooses the answer type of questions that do not say from the traces so far; ``None`` waits for more, if any come."""


class FirstTraces:
    """How the first ``size`` traces of a run were read, and whether more may go out.

    ``keep_going`` goes on whatever they say. ``choose`` decides on the answer type of questions whose own waits for
    traces; before that none of their traces is counted. With ``alone=False`` they need not go out before all others:
    a first wave of batch jobs is as large as it is.
    """

    def __init__(
        self, size: int, choose: Choose | None = None, *, keep_going: bool = False, alone: bool = True
    ) -> None:
        self.size = size
        self.alone = alone
        self.keep_going = keep_going
        self.choose = choose
        self.outcomes: Counter[Outcome] = Counter()
        self._excerpts: dict[Outcome, str] = {}
        self._answer_type = ""  # that could not read a trace
        self._error = ""  # of a trace that failed

    @classmethod
    def of(cls, budget: Budget, *, keep_going: bool = False, fewest: int = FEWEST_TRACES) -> "FirstTraces":
        """As many as the budget allows, each at the price of the dearest, and ``fewest`` of a small one.

        >>> [FirstTraces.of(Budget(total)).size for total in (5000, 160, 8)]
        [20, 16, 3]
        """
        amount = budget.total if budget.window is None else budget.window.amount
        size = max(fewest, min(MOST_TRACES, amount // budget.currency.hold // BUDGET_SHARE))
        return cls(size, keep_going=keep_going)

    @property
    def passed(self) -> bool:
        """Whether at least half of the first traces were read: the run goes on."""
        return self.keep_going or 2 * self.outcomes["read"] >= self.size

    @property
    def failed(self) -> bool:
        """Whether more than half of the first traces cast no vote: the run stops."""
        return not self.passed and 2 * (self.outcomes.total() - self.outcomes["read"]) > self.size

    def room(self, in_flight: int) -> int:
        """How many more may be launched while it is not known how the run begins."""
        return self.size - self.outcomes.total() - in_flight if self.alone else ANY_NUMBER

    def count(self, trace: StoredTrace, answer_type: str) -> None:
        """Take note of a trace that came back, or failed."""
        outcome = outcome_of(trace)
        self.outcomes[outcome] += 1
        if outcome == "unreadable":
            self._answer_type = answer_type
        self._error = trace.error or self._error
        self._quote(trace, outcome)

    def count_stored(self, run: RunView, answer_type: str) -> None:
        """Take note of the traces of an earlier time; texts are read only where the run will not go on.

        Those that failed tell of the server as it was then.
        """
        for trace in run.traces(texts=False):
            if trace.error is None:
                self.count(trace, answer_type)
        if self.failed:
            for trace in islice(run.traces(), self.size):
                self._quote(trace, outcome_of(trace))

    def _quote(self, trace: StoredTrace, outcome: Outcome) -> None:
        if trace.text and outcome not in self._excerpts:
            self._excerpts[outcome] = excerpt_of(trace.text)

    def error(self, max_tokens: int | None) -> FirstTracesError:
        """What went wrong, in one line with what to do about it, and one of the traces."""
        bad = [(outcome, number) for outcome, number in self.outcomes.most_common() if outcome != "read"]
        seen = self.outcomes.total()
        counts = " and ".join(f"{number} of {seen} {self._words(outcome, max_tokens)}" for outcome, number in bad)
        worst = bad[0][0]
        return FirstTracesError(
            f"{counts}: {remedy_words(worst, max_tokens)}, or go on as it is with --keep-going.",
            self._excerpts.get(worst, ""),
        )

    def _words(self, outcome: Outcome, max_tokens: int | None) -> str:
        words = {
            "unreadable": f"traces hold no answer that `{self._answer_type}` can read",
            "failed": f"traces failed ({self._error.rstrip('.')})",
        }
        return words.get(outcome, f"traces were {outcome_words(outcome, max_tokens)}")
