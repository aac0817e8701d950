"""When a run ends before its budget does: it is told to, meets its target, is settled, begins badly or loses too much.

A run's first traces are read before more go out: a budget is not spent on traces that cast no vote. The first 20, or a
tenth of the budget where that is fewer, are launched alone, one per question where the policy allows it. As soon as
half of them were read the rest of the run goes on; once more than half cast no vote it stops.
"""

from collections import Counter
from itertools import islice
from typing import Literal, NamedTuple

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.fetch import Fetcher, most_unknown_traces
from pets.engine.progress import ProgressMonitor
from pets.engine.question import Outcome, excerpt_of, outcome_of
from pets.engine.summary import outcome_words, remedy_words
from pets.errors import BusyError, FirstTracesError, PetsError, RefusedError, SamplerError
from pets.store import RunView, StoredTrace

REFUSALS_BEFORE_END = 3  # of different questions before anything came back: the request itself is wrong


MAX_FIRST_TRACES = 20
BUDGET_SHARE = 10  # the first traces are a tenth of the budget at most
ANY_NUMBER = 1 << 60  # traces
FEWEST_TRACES = 3  # one odd trace of a small budget stops nothing


class Ending(NamedTuple):
    """Why a run launches nothing more. With an ``error`` it gives no answers, and raises when nothing is in flight."""

    reason: str
    error: PetsError | None = None


class FirstTraces:
    """How the first ``size`` traces of a run were read, and whether more may go out.

    ``keep_going`` goes on whatever they say. With ``alone=False`` they need not go out before all others: a first wave
    of batch jobs is as large as it is.
    """

    def __init__(self, size: int, *, keep_going: bool = False, alone: bool = True) -> None:
        self.size = size
        self.alone = alone
        self.keep_going = keep_going
        self.outcomes: Counter[Outcome] = Counter()
        self._excerpts: dict[Outcome, str] = {}
        self._answer_type = ""  # that could not read a trace
        self._error = ""  # of a trace that failed

    @classmethod
    def of(
        cls, budget: Budget, *, keep_going: bool = False, fewest: int = FEWEST_TRACES, alone: bool = True
    ) -> "FirstTraces":
        """As many as the budget allows, each at the price of the dearest, and ``fewest`` of a small one.

        >>> [FirstTraces.of(Budget(total)).size for total in (5000, 160, 8)]
        [20, 16, 3]
        """
        amount = budget.total if budget.window is None else budget.window.amount
        size = max(fewest, min(MAX_FIRST_TRACES, amount // budget.currency.hold // BUDGET_SHARE))
        return cls(size, keep_going=keep_going, alone=alone)

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
            if trace.error is None and trace.part is None:
                self.count(trace, answer_type)
        if self.failed:
            for trace in islice((trace for trace in run.traces() if trace.part is None), self.size):
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


class StopRules:
    """Ends a run: :meth:`ending` says why, once there is a reason.

    ``first_traces`` are read before others go out. ``monitor`` looks whether ``ids`` have all that they need.
    ``max_tokens`` is the token limit of a trace, for the words of an error.
    """

    def __init__(
        self,
        allocator: Allocator,
        fetcher: Fetcher,
        *,
        first_traces: FirstTraces | None = None,
        monitor: ProgressMonitor | None = None,
        ids: list[str] | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self.drained = False
        """Whether the run was told to end."""
        self.enough: Literal["target", "settled"] | None = None
        """Why the questions have all that they need, once they do."""
        self.turned_away = False
        """True once the server refused a run that never had a trace: requests in flight cost nothing."""
        self.first_traces = first_traces
        self.failures: dict[str, SamplerError] = {}
        """The last error of questions that were given up, or of which a trace was."""
        self._allocator, self._fetcher = allocator, fetcher
        self._monitor, self._ids, self._max_tokens = monitor, ids or [], max_tokens
        self._refused: set[str] = set()  # questions
        self._losses: SamplerError | None = None
        self._had_traces = False

    def begin(self) -> None:
        """The run begins, or goes on: what failed before is not held against it."""
        self._losses, self._fetcher.unknown_traces = None, 0
        self._had_traces = self._had_traces or self._allocator.told > 0

    def drain(self, *, on: bool = True) -> None:
        """Tell the run to end; ``on=False``: a run that was told goes on."""
        self.drained = on

    @property
    def may_resume(self) -> bool:
        """Whether the run ends before its budget does, so that what was not asked can be asked again."""
        return self.drained or self._losses is not None

    def ending(self) -> Ending | None:
        """Why nothing more is launched; ``None`` while the run goes on."""
        first = self.first_traces
        if first is not None and first.failed and self._allocator.budget.affordable > 0:
            return Ending("first traces", first.error(self._max_tokens))
        if self._losses is not None:
            return Ending("losses", self._losses)
        if self.drained:
            return Ending("drained")
        if self._monitor is not None and self._ids and self.enough is None:
            self.enough = self._monitor.ending(self._allocator, self._ids)
        return None if self.enough is None else Ending(self.enough)

    def delivered(self) -> None:
        """Traces came back: the server takes such requests."""
        self._had_traces = True

    def failed(self, question: str, error: SamplerError) -> None:
        """Remember why traces did not come; a run whose failures may have cost too much sends no new request."""
        self.failures[question] = error
        lost = self._fetcher.unknown_traces
        if self._losses is None and lost >= most_unknown_traces(self._allocator.budget):
            self._losses = BusyError(
                f"{lost} traces came to nothing, and the server may have sampled and billed them. The last error: "
                f"{str(error).rstrip('.')}. Nothing more is asked, so that no more is lost. Look at the server, and at "
                "the time limit of a proxy before it; then go on with the run."
            )
            self._fetcher.drain()

    def refused(self, question: str, error: RefusedError) -> None:
        """A question was refused; raises where the request itself is wrong, whatever it asks."""
        if self._had_traces:
            return
        self._refused.add(question)
        if len(self._refused) >= min(REFUSALS_BEFORE_END, len(self._ids) or REFUSALS_BEFORE_END):
            self.turn_away()
            raise error

    def turn_away(self) -> None:
        """The server refuses the run outright."""
        self.turned_away = not self._fetcher.served and not self._allocator.told
