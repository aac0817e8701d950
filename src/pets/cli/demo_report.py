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
from pets.questions import question_set
from pets.report.page import ComparedRun, VotedQuestion, comparison_page

__all__ = ["Compared", "print_report", "write_page"]

SHOWN = 6  # of the least certain answers
BAR = 32  # characters


@dataclass(frozen=True, slots=True)
class Compared:
    """One policy's answers and its self-consistency after every trace."""

    policy: str
    answers: tuple[Answer, ...]
    consistency: float
    accuracy: float
    curve: tuple[float, ...]
    population: Mapping[str, str | None]

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(mean traces a question, self-consistency)."""
        many = len(self.answers)
        return tuple((told / many, value) for told, value in enumerate(self.curve, 1))

    def least_certain(self) -> list[Answer]:
        """The answers to look at first."""
        return sorted(self.answers, key=lambda answer: answer.certificate)[:SHOWN]


def saved(ours: Compared, theirs: Compared) -> str:
    """How many traces ``ours`` needed for what ``theirs`` had in the end."""
    needed = next((told for told, value in enumerate(ours.curve, 1) if value >= theirs.consistency), None)
    if needed is None:
        return f"{ours.policy} did not reach {theirs.policy}'s self-consistency of {theirs.consistency:.1%} this time."
    share = 1 - needed / len(theirs.curve)
    return (
        f"{ours.policy} reached {theirs.policy}'s self-consistency of {theirs.consistency:.1%} after {needed} of "
        f"{len(theirs.curve)} traces: {share:.0%} saved."
    )


def print_report(runs: Sequence[Compared], console: Console) -> None:
    """For the terminal."""
    ours, theirs = runs
    table = Table()
    for name in ("policy", "traces", "self-consistency", "accuracy"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for run in runs:
        table.add_row(run.policy, f"{len(run.curve):,}", f"{run.consistency:.1%}", f"{run.accuracy:.1%}")
    gains = (ours.consistency - theirs.consistency, ours.accuracy - theirs.accuracy)
    table.add_row("gain, points", "", *(f"{100 * gain:+.1f}" for gain in gains))
    console.print(table)
    console.print(saved(ours, theirs))
    _plot(runs)
    console.print(f"The least certain answers of {ours.policy}:")
    for answer in ours.least_certain():
        votes = sorted(answer.votes.items(), key=lambda vote: -vote[1])
        console.print(f"  {_short(answer.id)}  certain {answer.certificate:.0%}, {answer.traces} traces", markup=False)
        for label, count in votes[:3]:
            bar = "█" * max(1, round(BAR * count / sum(answer.votes.values())))
            console.print(f"    {label[:14]:14} {bar} {count}", markup=False)


def write_page(path: Path, runs: Sequence[Compared], source: str, drawn: int, questions: int) -> None:
    """The same as HTML."""
    ours, theirs = runs
    compared = [ComparedRun(r.policy, len(r.curve), r.consistency, r.accuracy, r.points) for r in runs]
    voted = [
        VotedQuestion(
            _short(one.id), one.answer, tuple(one.votes.items()), one.certificate, ours.population[one.id], one.gold
        )
        for one in ours.least_certain()
    ]
    notes = [
        f"{questions} questions; {drawn:,} traces were drawn in all, those that both policies asked for once.",
        "Self-consistency: the share of questions whose vote is the vote of 128 recorded traces. Accuracy: is right.",
        "On so few questions one vote is points of self-consistency: run `pets replay starter` for the averages.",
    ]
    lead = f"Traces from {source}. {saved(ours, theirs)}"
    try:
        path.write_text(comparison_page("PETS: where the budget went", lead, compared, voted, notes), "utf-8")
    except OSError as error:
        raise InputError(f'the report "{path}" cannot be written ({error.strerror}). Name another: --report.') from None


def _plot(runs: Sequence[Compared]) -> None:
    plotext.clear_figure()
    for run in runs:
        across, up = zip(*run.points, strict=True)
        plotext.plot(list(across), list(up), label=run.policy)
    plotext.title("self-consistency against mean traces a question")
    plotext.plot_size(width=min(90, plotext.terminal_width() or 90), height=18)
    click.echo(plotext.build())  # click drops the colours where stdout is no terminal


def _short(id: str) -> str:
    """The question itself, without the examples before it."""
    prompts = {problem.id: problem.prompt.content for problem in question_set("starter").problems}
    return str(prompts[id]).rsplit("Question: ", 1)[1].removesuffix("\nAnswer:")
