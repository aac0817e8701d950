"""``pets demo``: what okg saves on recorded traces, then okg on a small real model; printed, and as a page."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
from rich.console import Console

from pets.cli._chart import draw_chart
from pets.cli._groups import option, verb
from pets.cli._output import SafeConsole, check_output, print_table, progress_bar, write_page
from pets.cli._terminal import echo_drawing
from pets.core.tally import majority
from pets.engine import Answer, Engine
from pets.engine.budget import Amount
from pets.errors import InputError, LocalModelError
from pets.lab import read_answers, replay, traces_at_mean
from pets.lab.labelled import leader_share
from pets.pools import Pool, load
from pets.questions import question_set
from pets.report import charts_library
from pets.report.charts import Series, curve_panel, series
from pets.report.page import Page, Tile, VotedQuestion
from pets.report.style import colour_of, line_styles
from pets.report.tables import make_table
from pets.samplers.local import LocalSampler

OURS, THEIRS = POLICIES = ("okg", "uniform")
REPETITIONS = 5
LEVEL = 0.95
MEAN_BUDGET = 8  # traces per question at which the two are compared
CLASSES = (
    ("nearly all agree (over 90 %)", 0.9),
    ("most agree (60 to 90 %)", 0.6),
    ("an answer leads (33 to 60 %)", 1 / 3),
    ("no answer has a third", 0.0),
)
"""How difficult a question is, by the share of its recorded votes that the leading answer has at least."""
MODEL = "SmolLM2-135M-Instruct"
IN_FLIGHT = 16
SEED = 1  # the shipped pool was recorded with 0: a live demo draws other traces than those it is judged by
LIVE_LIMIT_S = 45.0  # after which no further trace is launched: a slow machine shows fewer


@dataclass(frozen=True, slots=True)
class DifficultyClass:
    """Questions of one difficulty, and the traces per question that each policy gave them."""

    label: str
    questions: int
    traces: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """Both policies on the same recorded traces: self-consistency against traces per question, and after a mean budget.

    ``crossings`` are the traces at which a policy's mean curve reaches the level, ``None`` where it never does.
    """

    questions: int
    size: int
    mean_budget: int
    curves: Mapping[str, Series]
    crossings: Mapping[str, float | None]
    consistency: Mapping[str, float]
    gain: tuple[float, float]
    classes: tuple[DifficultyClass, ...]

    @property
    def title(self) -> str:
        """The headline: the share of uniform's traces that okg needs, where it needs fewer."""
        ours, theirs = (self.crossings[policy] for policy in POLICIES)
        if ours is None or theirs is None or ours >= theirs:
            return f"{OURS} and {THEIRS} on {self.questions} recorded questions"
        return f"The same vote for {ours / theirs:.0%} of the traces"

    @property
    def allocation(self) -> str:
        """The caption of the traces per class of questions."""
        return f"Traces per question, {self.mean_budget} on average, by how much the recorded traces agree."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The results in whole sentences; the first defines what is counted."""
        ends = (
            f"{'never' if traces is None else f'after {traces:.1f} traces per question'} with {policy}"
            for policy, traces in self.crossings.items()
        )
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
    """The live model's answers beside the vote of all recorded traces; ``words`` say what was asked, or why not."""

    words: str
    answers: tuple[Answer, ...] = ()
    population: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The sentence that counts the answers equal to the recorded vote."""
        same = sum(
            answer.canonical is not None and answer.canonical == self.population[answer.id] for answer in self.answers
        )
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


@verb()
def demo(
    first: int = option("How many starter questions the live model answers, from the first on.", 8, at_least=1),
    budget: str = option("The live model's traces per question on average (8x), or in all (64).", "8x"),
    live: bool = option("Let the live model answer, after the recorded comparison.", True),
    report: Path = option("The page to write.", Path("pets-demo.html")),
) -> None:
    """Compare okg with uniform on 300 recorded questions, then watch okg spend a budget on a small real model.

    The recorded part draws 64 of 128 traces of each question that SmolLM2 (135M parameters) gave earlier, and shows how
    many of them each policy needs for the vote of all. The live part runs that model on this machine, on the first
    questions of the same set, for 45 seconds at most. Where it cannot run, the recorded part stands alone.
    """
    check_output(report)
    Amount.parse(budget)
    pool = load("starter")
    words, data = SafeConsole(stderr=True, highlight=False), SafeConsole(highlight=False)
    with words.status(f"replaying {len(pool.questions)} recorded questions"):
        recorded = compare_recorded(pool)
    print_recorded(recorded, data)
    answered = asyncio.run(_live(first, budget, pool)) if live else LivePart("Left out: --no-live was given.")
    print_live(answered, data)
    try:
        charts_library()
    except InputError as error:  # all of it was shown: the page is an extra, as what draws it is
        words.print(f"No page was written: {error}", soft_wrap=True, markup=False)
        return
    write_page(report, demo_page(recorded, answered), "--report")
    words.print(f"Page with all of this: {report}", soft_wrap=True, markup=False)  # a path stays in one piece


async def _live(first: int, budget: str, pool: Pool) -> LivePart:
    """Ask the local model the first questions; where it cannot run, say why."""
    population = {question.id: majority(question.answers) for question in pool.questions}
    starter = question_set("starter")
    problems = tuple(problem for problem in starter.problems if problem.id in population)[:first]
    traces = count(1)
    with progress_bar("live model", "loading the model") as progress:
        try:
            engine = Engine(
                replace(starter, problems=problems),
                sampler=LocalSampler(slots=IN_FLIGHT, context=512),
                policy=OURS,
                budget=budget,
                concurrency=IN_FLIGHT,
                seed=SEED,
                hurry=0.0,  # the slots share one processor: to speculate brings nothing
                keep_going=True,  # a demo shows what comes
                on_trace=lambda trace: progress(next(traces), engine.record.total),
            )
            async with engine:
                asyncio.get_running_loop().call_later(LIVE_LIMIT_S, engine.drain)
                solution = await engine.run()
                answers = tuple(engine.answers())
        except LocalModelError as error:
            return LivePart(f"No model can run here: {error}")
    spent = f"{solution.traces} traces"
    cut = "" if solution.complete else f", cut short after {LIVE_LIMIT_S:.0f} seconds"
    words = f"{MODEL} on this machine, the first {len(problems)} questions of the set, {spent} as okg decides{cut}."
    return LivePart(words, answers, population)


def compare_recorded(pool: Pool) -> RecordedPart:
    """Replay both policies on the same draws of the pool, a few times."""
    (replayed,) = replay([pool], [*POLICIES], repetitions=REPETITIONS, answer="raw")
    results = {policy: replayed.result(policy) for policy in POLICIES}
    crossings = {policy: traces_at_mean(result, LEVEL) for policy, result in results.items()}
    mean_budget = min(MEAN_BUDGET, replayed.size)
    at = mean_budget * replayed.questions
    shares = np.array([leader_share(question.labels) for question in read_answers(pool, "raw").questions])
    means = {
        policy: np.mean([allocation.at(at) for allocation in result.allocations], axis=0)
        for policy, result in results.items()
    }
    classes, above = [], 1.1
    for label, least in CLASSES:
        members = (shares >= least) & (shares < above)
        above = least
        if members.any():
            given = {policy: float(mean[members].mean()) for policy, mean in means.items()}
            classes.append(DifficultyClass(label, int(members.sum()), given))
    gain = 100 * (results[OURS].consistency[:, at] - results[THEIRS].consistency[:, at])
    return RecordedPart(
        replayed.questions,
        replayed.size,
        mean_budget,
        {policy: series(result, result.consistency) for policy, result in results.items()},
        {policy: traces if np.isfinite(traces) else None for policy, traces in crossings.items()},
        {policy: float(result.consistency[:, at].mean()) for policy, result in results.items()},
        (float(gain.mean()), float(gain.std(ddof=1))),
        tuple(classes),
    )


def print_recorded(recorded: RecordedPart, console: Console) -> None:
    console.print(f"{recorded.title}\n", style="bold", markup=False)
    for sentence in recorded.sentences:
        console.print(sentence, markup=False)
    curves = {policy: (line.traces.tolist(), line.mean.tolist()) for policy, line in recorded.curves.items()}
    title = "\nquestions with the vote of all traces, against traces per question"
    echo_drawing(draw_chart(title, curves, console.width, colour=console.is_terminal))
    rows = [
        [group.label, str(group.questions), *(f"{traces:.1f}" for traces in group.traces.values())]
        for group in recorded.classes
    ]
    print_table(make_table(["agreement"], ["questions", *POLICIES], rows, title=recorded.allocation), console)


def print_live(live: LivePart, console: Console) -> None:
    console.print(f"\nLive: {live.words}", markup=False)
    for question in live.questions():
        answer = "no answer" if question.answer is None else question.answer
        chance = f"certain {question.certificate or 0.0:.0%}"
        console.print(f"  {question.text} {answer} ({chance}): {question.counts()}", markup=False)
    if live.answers:
        console.print(live.verdict, markup=False)


def demo_page(recorded: RecordedPart, live: LivePart) -> str:
    recorded_note = f"Recorded part: {REPETITIONS} draws; bands are one standard deviation over them"
    notes = (
        f"{recorded_note}. Both policies see the same traces.",
        "The model has 135 million parameters and is often wrong: more traces show what it thinks, not what is right.",
        "The live questions are the first of the set, none left out.",
        "Certificate: the probability that the answer is the vote over infinitely many traces.",
        "Recorded vote: that of 128 traces.",
    )
    page = Page(recorded.title, " ".join(recorded.sentences))
    note = f"traces per question for {LEVEL:.0%} of the answers"
    page.tiles([
        Tile(policy, "never" if traces is None else f"{traces:.1f}", note, headline=policy == OURS)
        for policy, traces in recorded.crossings.items()
    ])  # fmt: skip
    styles = line_styles(POLICIES)
    curves, name = [*recorded.curves.values()], "questions with the answer of all traces"
    panel = curve_panel(curves, styles, name, recorded.size, [("level", LEVEL)])
    page.charts([panel], " ".join(recorded.sentences))
    page.section("Where the traces went", recorded.allocation)
    most = max((traces for group in recorded.classes for traces in group.traces.values()), default=1.0)
    for group in recorded.classes:
        bars = [(policy, colour_of(policy), traces) for policy, traces in group.traces.items()]
        page.bars(group.label, f"{group.questions} questions", bars, most)
    page.section("Live, on this machine", f"{live.words} {live.verdict}" if live.answers else live.words)
    page.questions(live.questions())
    page.section("What this is")
    page.notes(notes)
    return page.html()
