"""What the demo shows, printed and as a page: what okg saves on recorded traces, where they went, the live votes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from pets.cli._chart import ChartLine, draw_chart
from pets.cli._tables import print_table
from pets.cli._terminal import echo_drawing
from pets.engine import Answer
from pets.errors import InputError
from pets.lab import PoolResult, Result, read_answers, replay, traces_at_mean
from pets.pools import Pool
from pets.questions import question_set
from pets.report.curves import Bound, Series, curve_panel
from pets.report.difficulty import leader_share
from pets.report.page import Page, Tile, VotedQuestion
from pets.report.style import colour_of, line_styles

__all__ = ["OURS", "LivePart", "RecordedPart", "compare_recorded", "print_live", "print_recorded", "write_page"]

OURS, THEIRS = POLICIES = ("okg", "uniform")
REPETITIONS = 5
LEVEL = 0.95
MEAN_BUDGET = 8  # traces per question at which the two are compared
CURVE_POINTS = 80
CLASSES = (
    ("nearly all agree (over 90 %)", 0.9),
    ("most agree (60 to 90 %)", 0.6),
    ("an answer leads (33 to 60 %)", 1 / 3),
    ("no answer has a third", 0.0),
)
"""How difficult a question is, by the share of its recorded votes that the leading answer has at least."""


@dataclass(frozen=True, slots=True)
class BandedCurve:
    """A policy's self-consistency against mean traces per question: (traces, mean, deviation) at each point.

    ``crossing`` is where the mean curve reaches the page's level, ``None`` where it never does.
    """

    name: str
    points: tuple[tuple[float, float, float], ...]
    crossing: float | None

    def series(self) -> Series:
        """As a chart has it."""
        traces, mean, deviation = np.array(self.points).T
        return Series.about(self.name, False, traces, mean, deviation)


@dataclass(frozen=True, slots=True)
class DifficultyClass:
    """Questions of one difficulty, and the traces per question that each policy gave them."""

    label: str
    questions: int
    traces: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """Both policies on the same recorded traces."""

    questions: int
    size: int
    mean_budget: int
    curves: tuple[BandedCurve, ...]
    consistency: Mapping[str, float]
    gain: tuple[float, float]
    classes: tuple[DifficultyClass, ...]

    @property
    def title(self) -> str:
        """What is saved, where something is."""
        ours, theirs = (curve.crossing for curve in self.curves)
        if ours is None or theirs is None or ours >= theirs:
            return f"{OURS} and {THEIRS} on {self.questions} recorded questions"
        return f"The same vote for {ours / theirs:.0%} of the traces"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, in whole sentences; the first defines what is counted."""
        ends = (f"{_after(curve)} with {curve.name}" for curve in self.curves)
        shares = (f"{self.consistency[policy]:.1%} with {policy}" for policy in POLICIES)
        mean, deviation = self.gain
        question = f"How often does a vote over fewer of these traces give the same answer as all {self.size}?"
        points = f"{mean:+.1f} ± {deviation:.1f} points over {REPETITIONS} draws"
        return (
            f"{self.questions} questions, {self.size} recorded traces drawn of each. {question}",
            f"{LEVEL:.0%} of the answers are the same {', '.join(ends)}.",
            f"With {self.mean_budget} traces per question: {', '.join(shares)} ({points}).",
        )


@dataclass(frozen=True, slots=True)
class LivePart:
    """What the live model did, in words, and its answers beside the vote of all recorded traces."""

    words: str
    answers: tuple[Answer, ...] = ()
    population: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """How many of the answers are the recorded vote."""
        same = sum(answer.answer is not None and answer.answer == self.population[answer.id] for answer in self.answers)
        return f"{same} of {len(self.answers)} votes are those of the traces that were recorded earlier."

    def questions(self) -> tuple[VotedQuestion, ...]:
        """Every question, in the order of the set."""
        texts = {problem.id: str(problem.prompt.content) for problem in question_set("starter").problems}
        return tuple(
            VotedQuestion(
                row.id,
                texts[row.id].rsplit("Question: ", 1)[1].removesuffix("\nAnswer:"),
                row.answer,
                tuple(row.votes.items()),
                row.certificate,
                (f"recorded vote: {self.population[row.id] or 'none'}", f"right: {row.gold}"),
            )
            for row in self.answers
        )


def compare_recorded(pool: Pool) -> RecordedPart:
    """Both policies on the same draws of the pool, a few times."""
    (replayed,) = replay([pool], [*POLICIES], repetitions=REPETITIONS, answer="raw")
    results = {policy: replayed.result(policy) for policy in POLICIES}
    mean_budget = min(MEAN_BUDGET, replayed.size)
    at = mean_budget * replayed.questions
    gain = 100 * (results[OURS].consistency[:, at] - results[THEIRS].consistency[:, at])
    return RecordedPart(
        replayed.questions,
        replayed.size,
        mean_budget,
        tuple(_banded(result) for result in results.values()),
        {policy: float(result.consistency[:, at].mean()) for policy, result in results.items()},
        (float(gain.mean()), float(gain.std(ddof=1))),
        _classes(pool, replayed, at),
    )


def _banded(result: Result) -> BandedCurve:
    """Mean and deviation over the draws, from one trace per question on."""
    last = result.consistency.shape[1] - 1
    at = np.unique(np.linspace(min(result.questions, last), last, CURVE_POINTS).round().astype(int))
    values = result.consistency[:, at]
    rows = zip(at / result.questions, values.mean(axis=0), values.std(axis=0, ddof=1), strict=True)
    crossing = traces_at_mean(result, LEVEL)
    points = tuple((float(traces), float(mean), float(deviation)) for traces, mean, deviation in rows)
    return BandedCurve(result.policy, points, crossing if np.isfinite(crossing) else None)


def _classes(pool: Pool, replayed: PoolResult, at: int) -> tuple[DifficultyClass, ...]:
    """What each policy gave to questions of each difficulty after ``at`` traces."""
    shares = np.array([leader_share(question) for question in read_answers(pool, "raw").questions])
    means = {
        policy: np.mean([allocation.at(at) for allocation in replayed.result(policy).allocations], axis=0)
        for policy in POLICIES
    }
    classes, above = [], 1.1
    for label, least in CLASSES:
        members = (shares >= least) & (shares < above)
        above = least
        if members.any():
            traces = tuple((policy, float(means[policy][members].mean())) for policy in POLICIES)
            classes.append(DifficultyClass(label, int(members.sum()), traces))
    return tuple(classes)


def print_recorded(recorded: RecordedPart, console: Console) -> None:
    """Print the sentences, the curves, and where the traces went."""
    console.print(f"{recorded.title}\n", style="bold", markup=False)
    for sentence in recorded.sentences:
        console.print(sentence, markup=False)
    lines = [
        ChartLine(curve.name, [x for x, _, _ in curve.points], [y for _, y, _ in curve.points])
        for curve in recorded.curves
    ]
    title = "\nquestions with the vote of all traces, against traces per question"
    echo_drawing(draw_chart(title, lines, console.width, colour=console.is_terminal))
    table = Table(title=_given(recorded), title_justify="left")
    table.add_column("agreement", overflow="fold")
    for name in ("questions", *POLICIES):
        table.add_column(name, justify="right")
    for group in recorded.classes:
        table.add_row(group.label, str(group.questions), *(f"{traces:.1f}" for _, traces in group.traces))
    print_table(table, console)


def print_live(live: LivePart, console: Console) -> None:
    """Print every question with its votes."""
    console.print(f"\nLive: {live.words}", markup=False)
    for question in live.questions():
        answer = "no answer" if question.answer is None else question.answer
        votes = ", ".join(f"{label} ×{number:g}" for label, number in question.shown()) or "no votes"
        console.print(f"  {question.text} {answer} (certain {question.certificate or 0.0:.0%}): {votes}", markup=False)
    if live.answers:
        console.print(live.verdict, markup=False)


def write_page(path: Path, recorded: RecordedPart, live: LivePart) -> None:
    """Write the same as a page of HTML."""
    recorded_note = f"Recorded part: {REPETITIONS} draws; bands are one standard deviation over them"
    notes = (
        f"{recorded_note}. Both policies see the same traces.",
        "The model has 135 million parameters and is often wrong: more traces show what it thinks, not what is right.",
        "The live questions are the first of the set, none left out.",
        "Certificate: the probability that the answer is the vote over infinitely many traces.",
        "Recorded vote: that of 128 traces.",
    )
    page = Page(recorded.title, " ".join(recorded.sentences))
    page.tiles(_tiles(recorded))
    styles = line_styles(POLICIES)
    curves, bound = [curve.series() for curve in recorded.curves], Bound(LEVEL, "level")
    panel = curve_panel(curves, styles, "questions with the answer of all traces", recorded.size, [bound])
    page.charts([panel], " ".join(recorded.sentences))
    page.section("Where the traces went", _given(recorded))
    most = max((traces for group in recorded.classes for _, traces in group.traces), default=1.0)
    for group in recorded.classes:
        bars = [(policy, colour_of(policy), traces) for policy, traces in group.traces]
        page.bars(group.label, f"{group.questions} questions", bars, most)
    page.section("Live, on this machine", f"{live.words} {live.verdict}" if live.answers else live.words)
    page.questions(live.questions())
    page.section("What this is")
    page.notes(notes)
    text = page.html()
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f'the report "{path}" cannot be written ({error.strerror}). Name another: --report.') from None


def _tiles(recorded: RecordedPart) -> list[Tile]:
    tiles = []
    for curve in recorded.curves:
        number = "never" if curve.crossing is None else f"{curve.crossing:.1f}"
        note = f"traces per question for {LEVEL:.0%} of the answers"
        tiles.append(Tile(curve.name, number, note, headline=curve.name == OURS))
    return tiles


def _after(curve: BandedCurve) -> str:
    return "never" if curve.crossing is None else f"after {curve.crossing:.1f} traces per question"


def _given(recorded: RecordedPart) -> str:
    return f"Traces per question, {recorded.mean_budget} on average, by how much the recorded traces agree."
