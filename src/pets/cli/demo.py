"""``pets demo``: the main job on a small real model, okg beside uniform under one budget."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pets.cli._output import SafeConsole, check_output
from pets.cli.demo_report import POLICIES, PolicyRun, averaged, print_report, write_page
from pets.core.tally import majority
from pets.engine import Answer, Engine
from pets.engine.budget import Amount
from pets.errors import LocalModelError
from pets.pools import Pool, load
from pets.questions import Problem, QuestionSet, question_set
from pets.registry import make_answer_type
from pets.samplers import Completion, Sampler
from pets.samplers.cached import CachedSampler
from pets.samplers.local import LocalSampler
from pets.samplers.recorded import RecordedSampler
from pets.store import StoredTrace

__all__ = ["demo", "run_demo"]

IN_FLIGHT = 16
SEED = 1  # the shipped pool was recorded with 0: a live demo draws other traces than those it is judged by


@dataclass(frozen=True, slots=True)
class ReferenceAnswers:
    """The vote of all recorded traces and the gold answer of each question, as answers are written."""

    population: dict[str, str | None]
    gold: dict[str, str | None]

    @classmethod
    def of(cls, problems: Iterable[Problem], pool: Pool) -> "ReferenceAnswers":
        """Read from the pool."""
        recorded = {question.id: question for question in pool.questions}
        gold = {p.id: None if p.gold is None else make_answer_type(p.answer_type).canonical(p.gold) for p in problems}
        return cls({id: majority(recorded[id].answers) for id in gold}, gold)

    def judged(self, policy: str, answers: Sequence[Answer], curve: Sequence[float]) -> PolicyRun:
        """A policy's run with the shares of its answers that are the population's, and right."""
        same = sum(row.answer is not None and row.answer == self.population[row.id] for row in answers)
        right = sum(row.answer is not None and row.answer == self.gold[row.id] for row in answers)
        return PolicyRun(
            policy, tuple(answers), same / len(answers), right / len(answers), tuple(curve), self.population
        )


@click.command()
@click.option("--questions", default=20, show_default=True, type=click.IntRange(2), help="How many starter questions.")
@click.option("--budget", default="8x", show_default=True, help="Traces per question on average (8x), or in all (160).")
@click.option("--replay", is_flag=True, help="Draw from the recorded traces; no model runs.")
@click.option(
    "--report",
    default="pets-demo.html",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the page is written.",
)
def demo(questions: int, budget: str, replay: bool, report: Path) -> None:
    """Answer short questions with a small real model, okg and uniform under the same budget.

    SmolLM2 (135M parameters) runs on this machine. Both policies are told the same traces, each sampled once. Answers
    are held against the vote of 128 recorded traces of each question. Where the model cannot run, recorded traces
    stand in for it, and the report says so.
    """
    run_demo(questions, budget, replay=replay, report=report)


def run_demo(questions: int, budget: str, *, replay: bool, report: Path, pool: Pool | None = None) -> None:
    """Compare both policies, print the result and write the page; a wrong argument is refused before anything runs.

    ``pool`` holds the recorded traces of starter questions that answers are judged by, that stand in for the model,
    and that the averages are taken over; the whole shipped pool unless given.
    """
    check_output(report)
    Amount.parse(budget)
    pool = load("starter") if pool is None else pool
    recorded = {question.id for question in pool.questions}
    starter = question_set("starter")
    problems = tuple(problem for problem in starter.problems if problem.id in recorded)[:questions]
    console = SafeConsole(stderr=True, highlight=False)
    console.print(f"{len(problems)} starter questions, budget {budget}")
    runs, source, sampled = asyncio.run(_compare(replace(starter, problems=problems), pool, replay, budget, console))
    averages = averaged(pool)
    print_report(runs, averages, SafeConsole(highlight=False))
    write_page(report, runs, averages, source, sampled)
    console.print(f"Report: {report}", soft_wrap=True, markup=False)  # a path stays in one piece


async def _open_sampler(
    stack: AsyncExitStack, questions: QuestionSet, pool: Pool, replay: bool, console: Console
) -> tuple[Sampler, str]:
    """The model, or what stands in for it where it cannot run."""
    if not replay:
        try:
            with console.status("loading the model"):
                model = await stack.enter_async_context(LocalSampler(slots=IN_FLIGHT, context=512))
            return model, "SmolLM2-135M-Instruct, sampled live"
        except LocalModelError as error:
            console.print(f"No model can run here: {error}", markup=False)
    recorded = {question.id: question for question in pool.questions}
    traces = {
        problem.prompt: [
            Completion(f"The answer is {answer}." if answer else "", "stop", tokens)
            for answer, tokens in zip(recorded[problem.id].answers, recorded[problem.id].tokens or (), strict=True)
        ]
        for problem in questions.problems
    }
    return RecordedSampler(traces, SEED), "the recorded starter pool (replayed, no model runs)"


async def _compare(
    questions: QuestionSet, pool: Pool, replay: bool, budget: str, console: Console
) -> tuple[list[PolicyRun], str, int]:
    """Both policies on the same traces; where these came from, and how many were really sampled."""
    reference = ReferenceAnswers.of(questions.problems, pool)
    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), TextColumn("traces"))
    async with AsyncExitStack() as stack:
        sampler, source = await _open_sampler(stack, questions, pool, replay, console)
        console.print(f"Traces from {source}.")
        shared = CachedSampler(sampler)
        with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
            runs = []
            for policy in POLICIES:
                bar = progress.add_task(policy, total=None)
                runs.append(await _run(questions, shared, policy, budget, reference, progress, bar))
            return runs, source, shared.misses


async def _run(
    questions: QuestionSet,
    sampler: Sampler,
    policy: str,
    budget: str,
    reference: ReferenceAnswers,
    progress: Progress,
    bar: TaskID,
) -> PolicyRun:
    """One policy's run, its self-consistency noted after every trace."""
    consistent: set[str] = set()
    curve: list[float] = []

    def on_trace(trace: StoredTrace) -> None:
        verdict = engine.allocator.verdict(trace.question)
        agrees = verdict.answer is not None and verdict.answer == reference.population[trace.question]
        (consistent.add if agrees else consistent.discard)(trace.question)
        curve.append(len(consistent) / len(questions.problems))
        progress.advance(bar)

    engine = Engine(
        questions,
        sampler=sampler,
        policy=policy,
        budget=budget,
        concurrency=IN_FLIGHT,
        seed=SEED,
        on_trace=on_trace,
    )
    async with engine:
        progress.update(bar, total=engine.settings.total)
        await engine.run()
        return reference.judged(policy, list(engine.answers()), curve)
