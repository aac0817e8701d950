"""What ``pets stream`` runs: its questions, its budget, its traces, and Ctrl-C."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import click

from pets.cli._signals import INTERRUPTED, interruptible
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.tally import majority
from pets.engine.budgets import Amount, total_of
from pets.errors import BudgetError, InputError
from pets.plans import Drift, Outcome, RecordedTraces, Stream
from pets.plans.traces import Source
from pets.pools import Pool
from pets.questions import Problem
from pets.replay.config import ReplayConfig
from pets.replay.draws import draw_traces
from pets.replay.labelled import read_answers
from pets.samplers import Prompt, Sampler

__all__ = ["Replayed", "Running", "in_order", "stream_budget"]

WINDOW = 100  # questions, where a stream has no end and no window was given


def stream_budget(
    mean: float, cap: int, *, budget: str | None, horizon: int | None, window: int | None, known: int | None
) -> tuple[Budget, int | None]:
    """The budget and the horizon: in all for a known number of questions, by windows without an end.

    >>> stream_budget(16.0, 64, budget=None, horizon=10, window=None, known=None)[0].total
    160
    >>> stream_budget(16.0, 64, budget="500", horizon=None, window=50, known=None)[0].window
    Window(questions=50, amount=500)
    """
    if horizon is not None and window is not None:
        raise InputError(
            "--horizon is for a known number of questions, --window for a stream without an end. Take one."
        )
    amount = Amount(mean, "mean") if budget is None else Amount.parse(budget)
    if amount.unit not in ("mean", "traces"):
        raise BudgetError(f"a stream's budget is counted in traces, such as 16x or 5000; got {budget!r}.")
    horizon = horizon or (None if window else known)
    if horizon is not None:
        return Budget(total_of(amount, horizon), cap), horizon
    window = window or WINDOW
    return Budget.per_window(window, total_of(amount, window), cap=cap), None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A pool whose traces are drawn in an order of their own, as the replay lab draws them.

    ``options`` is the size of a closed answer set, ``cap`` the traces that every question has, ``targets`` the vote of
    each question over all of them.
    """

    source: RecordedTraces
    problems: tuple[Problem, ...]
    targets: dict[str, str | None]
    cap: int

    @classmethod
    def of(cls, pool: Pool, answer: str | None, cap: int, seed: int) -> "Replayed":
        """The draw of a seed."""
        read = read_answers(pool, answer)
        drawn = draw_traces(read, ReplayConfig(repetitions=1, size=cap, seed=seed), 0)
        targets = {id: majority([trace.answer for trace in path]) for id, path in drawn.traces.items()}
        problems = tuple(cls.problem(id) for id in targets)
        return cls(RecordedTraces(drawn.traces, read.options), problems, targets, drawn.size)

    @staticmethod
    def problem(id: str) -> Problem:
        """A question that is known by its id alone."""
        return Problem(id, Prompt(id))


async def in_order(problems: Sequence[Problem]) -> AsyncIterator[Problem]:
    """Questions that are all there."""
    for problem in problems:
        yield problem


@dataclass(slots=True)
class Running:
    """One run of the verb: lines on stdout as they come, words on stderr."""

    allocator: Allocator
    source: Source
    samplers: Sequence[Sampler] = ()
    drift: Drift | None = None
    targets: dict[str, str | None] | None = None
    at_once: int = 8
    concurrency: int = 64
    answered: int = 0
    agreed: int = 0
    unread: int = 0  # lines that held no question
    stream: Stream | None = field(default=None, init=False)

    def run(self, problems: AsyncIterator[Problem]) -> bool:
        """Run to the end; False if it was stopped before."""
        try:
            asyncio.run(self._run(problems))
        except asyncio.CancelledError:
            click.echo("Stopped at once: traces in flight are lost.", err=True)
            sys.exit(INTERRUPTED)
        assert self.stream is not None
        self._print_summary(self.stream)
        return not self.stream.draining

    def refuse(self, line: int, why: str) -> None:
        """Answer a line that holds no question."""
        self.unread += 1
        click.echo(json.dumps({"line": line, "error": why}, ensure_ascii=False))

    async def _run(self, problems: AsyncIterator[Problem]) -> None:
        async with AsyncExitStack() as stack:
            for sampler in self.samplers:
                await stack.enter_async_context(sampler)
            options = {"at_once": self.at_once, "concurrency": self.concurrency}
            self.stream = Stream(self.allocator, self.source, self._say, drift=self.drift, alarmed=_alarm, **options)
            with interruptible(self.stream.drain, "No more questions; waiting for the traces in flight."):
                await self.stream.run(problems)

    def _say(self, outcome: Outcome) -> None:
        if outcome.error is None:
            self.answered += 1
            self.agreed += outcome.answer is not None and outcome.answer == (self.targets or {}).get(outcome.id)
        click.echo(json.dumps(outcome.to_plain(), ensure_ascii=False))

    def _print_summary(self, stream: Stream) -> None:
        budget, refused = self.allocator.budget, stream.refused + self.unread
        share = f" ({budget.spent / budget.total:.1%})" if budget.total else ""
        words = [f"{self.answered:,} questions answered, {budget.spent:,} traces of {budget.total:,}{share}."]
        if refused:
            words.append(f'{refused:,} not asked; a line with "error" says why of each.')
        if self.targets is not None and self.answered:
            words.append(f"Self-consistency with the vote of all traces drawn: {self.agreed / self.answered:.3f}.")
        if self.drift is not None:
            state = "ALARM" if self.drift.alarm else "none"
            words.append(f"Drift from the plan: {state} (p = {self.drift.p_value:.3g}, {self.drift.seen:,} warm-ups).")
        if stream.draining:
            words.append("Stopped before the end: questions without a line were not asked.")
        for line in words:
            click.echo(line, err=True)


def _alarm(drift: Drift) -> None:
    click.echo(
        f"Drift: after {drift.seen:,} questions the warm-up patterns no longer fit the plan (p = {drift.p_value:.2g}). "
        "The budget is kept; fit a new plan on recent answers to spend it well.",
        err=True,
    )
