"""What the demo shows: a table, a plot, the least certain answers, and the same as a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import plotext
from rich.console import Console
from rich.table import Table

from pets.engine import Answer
from pets.errors import InputError
from pets.pools import Pool
from pets.questions import question_set
from pets.replay import replay, traces_at_mean
from pets.report.html import ComparedRun, VotedQuestion, comparison_page

__all__ = ["POLICIES", "PolicyRun", "averaged", "print_report", "savings", "write_page"]

POLICIES = ("okg", "uniform")
REPETITIONS = 5
TRACES_PER_QUESTION = 8
ANSWERS_SHOWN = 6  # the least certain ones
BAR_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """One policy's answers and its self-consistency after every trace."""

    policy: str
    answers: tuple[Answer, ...]
    consistency: float
    accuracy: float
    curve: tuple[float, ...]
    population: Mapping[str, str | None]

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(mean traces per question, self-consistency) after every trace."""
        return tuple((traces / len(self.answers), value) for traces, value in enumerate(self.curve, 1))

    def least_certain(self) -> list[Answer]:
        """The answers to look at first."""
        return sorted(self.answers, key=lambda answer: answer.certificate or 0.0)[:ANSWERS_SHOWN]


def savings(ours: PolicyRun, theirs: PolicyRun) -> str:
    """After how many traces each first reached what ``theirs`` had in the end."""
    level = theirs.consistency
    our_traces, their_traces = (
        next((traces for traces, value in enumerate(run.curve, 1) if value >= level), None) for run in (ours, theirs)
    )
    if our_traces is None or their_traces is None:
        return f"{ours.policy} did not reach {theirs.policy}'s self-consistency of {level:.1%} this time."
    reached = f"A self-consistency of {level:.1%}, {theirs.policy}'s in the end: first reached by {ours.policy} after"
    share = f": {1 - our_traces / their_traces:.0%} saved" if our_traces < their_traces else ""
    return f"{reached} {our_traces} traces, by {theirs.policy} after {their_traces}{share}."


def averaged(pool: Pool) -> str:
    """What a single run cannot show: both policies over the whole recorded pool, a few times."""
    (replayed,) = replay([pool], [*POLICIES], repetitions=REPETITIONS, answer="raw")
    ours, theirs = (replayed.result(policy) for policy in POLICIES)
    at = TRACES_PER_QUESTION * ours.questions
    gain = 100 * (ours.consistency[:, at] - theirs.consistency[:, at])
    levels = (traces_at_mean(result, 0.95) for result in (ours, theirs))
    return (
        f"Averages, {ours.questions} recorded questions, {REPETITIONS} draws of {ours.size} traces: at "
        f"{TRACES_PER_QUESTION} traces per question {POLICIES[0]} is {gain.mean():+.1f} ± {gain.std(ddof=1):.1f} "
        f"points ahead; for a self-consistency of 0.95 it needs {next(levels):.1f}, {POLICIES[1]} {next(levels):.1f}."
    )


def print_report(runs: Sequence[PolicyRun], averages: str, console: Console) -> None:
    """Print the table, the plot and the least certain answers."""
    ours, theirs = runs
    table = Table()
    for name in ("policy", "traces", "self-consistency", "accuracy"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for run in runs:
        table.add_row(run.policy, f"{len(run.curve):,}", f"{run.consistency:.1%}", f"{run.accuracy:.1%}")
    gains = (ours.consistency - theirs.consistency, ours.accuracy - theirs.accuracy)
    table.add_row("gain, points", "", *(f"{100 * gain:+.1f}" for gain in gains))
    console.print(table)
    console.print(savings(ours, theirs))
    console.print(averages)
    _plot(runs)
    console.print(f"The least certain answers of {ours.policy}:")
    for answer in ours.least_certain():
        votes = sorted(answer.votes.items(), key=lambda vote: -vote[1])
        console.print(f"  {_short(answer.id)}  certain {answer.certificate:.0%}, {answer.traces} traces", markup=False)
        for label, count in votes[:3]:
            bar = "█" * max(1, round(BAR_CHARACTERS * count / sum(answer.votes.values())))
            console.print(f"    {label[:14]:14} {bar} {count}", markup=False)


def write_page(path: Path, runs: Sequence[PolicyRun], averages: str, source: str, sampled: int) -> None:
    """Write the same as a page of HTML."""
    ours, theirs = runs
    compared = [ComparedRun(r.policy, len(r.curve), r.consistency, r.accuracy, r.points) for r in runs]
    voted = [
        VotedQuestion(
            _short(row.id),
            row.answer,
            tuple(row.votes.items()),
            row.certificate or 0.0,
            ours.population[row.id],
            row.gold,
        )
        for row in ours.least_certain()
    ]
    notes = [
        f"{len(ours.answers)} questions; {sampled:,} traces were sampled, those that both policies asked for once.",
        "Self-consistency: the share of questions whose vote is the vote of 128 recorded traces. Accuracy: is right.",
        f"On so few questions one vote is {100 / len(ours.answers):.1f} points of self-consistency. {averages}",
    ]
    lead = f"Traces from {source}. {savings(ours, theirs)}"
    try:
        path.write_text(comparison_page("PETS: where the budget went", lead, compared, voted, notes), "utf-8")
    except OSError as error:
        raise InputError(f'the report "{path}" cannot be written ({error.strerror}). Name another: --report.') from None


def _plot(runs: Sequence[PolicyRun]) -> None:
    plotext.clear_figure()
    for run in runs:
        across, up = zip(*run.points, strict=True)
        plotext.plot(list(across), list(up), label=run.policy)
    plotext.title("self-consistency against mean traces per question")
    plotext.plot_size(width=min(90, plotext.terminal_width() or 90), height=18)
    click.echo(plotext.build())  # click drops the colours where stdout is no terminal


def _short(id: str) -> str:
    """The question itself, without the examples before it."""
    prompts = {problem.id: problem.prompt.content for problem in question_set("starter").problems}
    return str(prompts[id]).rsplit("Question: ", 1)[1].removesuffix("\nAnswer:")
