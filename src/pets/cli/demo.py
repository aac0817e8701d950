"""``pets demo``: what okg saves on recorded traces, then okg on a small real model."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pets.cli._groups import option, verb
from pets.cli._output import SafeConsole, check_output
from pets.cli.demo_report import OURS, LivePart, compare_recorded, print_live, print_recorded, write_page
from pets.cli.options import FILE
from pets.core.tally import majority
from pets.engine import Engine
from pets.engine.budget import Amount
from pets.errors import InputError, LocalModelError
from pets.pools import Pool, load
from pets.questions import question_set
from pets.report import charts_library
from pets.samplers.local import LocalSampler

__all__ = ["DemoOptions", "demo", "run_demo"]

MODEL = "SmolLM2-135M-Instruct"
IN_FLIGHT = 16
SEED = 1  # the shipped pool was recorded with 0: a live demo draws other traces than those it is judged by
LIVE_LIMIT_S = 45.0  # after which no further trace is launched: a slow machine shows fewer


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the live part does, and where the page goes."""

    title: ClassVar[str] = "Demo"

    first: int = option("How many starter questions the live model answers, from the first on.", 8, at_least=1)
    budget: str = option("The live model's traces per question on average (8x), or in all (64).", "8x")
    live: bool = option("Let the live model answer, after the recorded comparison.", True,
                         flags=("--live/--no-live",))  # fmt: skip
    report: Path = option("The page to write.", Path("pets-demo.html"), kind=FILE)


@verb(former={"--questions": "--first", "--replay": "--no-live"})
def demo(options: DemoOptions) -> None:
    """Compare okg with uniform on 300 recorded questions, then watch okg spend a budget on a small real model.

    The recorded part draws 64 of 128 traces of each question that SmolLM2 (135M parameters) gave earlier, and shows how
    many of them each policy needs for the vote of all. The live part runs that model on this machine, on the first
    questions of the same set, for 45 seconds at most. Where it cannot run, the recorded part stands alone.
    """
    run_demo(options)


def run_demo(options: DemoOptions, pool: Pool | None = None) -> None:
    """Compare, run, print and write the page; a wrong argument is refused before anything runs.

    ``pool`` holds recorded traces of starter questions; the whole shipped pool unless given.
    """
    check_output(options.report)
    Amount.parse(options.budget)
    pool = load("starter") if pool is None else pool
    words, data = SafeConsole(stderr=True, highlight=False), SafeConsole(highlight=False)
    with words.status(f"replaying {len(pool.questions)} recorded questions"):
        recorded = compare_recorded(pool)
    print_recorded(recorded, data)
    live = asyncio.run(_live(options, pool, words)) if options.live else LivePart("Left out: --no-live was given.")
    print_live(live, data)
    try:
        charts_library()
    except InputError as error:  # all of it was shown: the page is an extra, as what draws it is
        words.print(f"No page was written: {error}", soft_wrap=True, markup=False)
        return
    write_page(options.report, recorded, live)
    words.print(f"Page with all of this: {options.report}", soft_wrap=True, markup=False)  # a path stays in one piece


async def _live(options: DemoOptions, pool: Pool, console: Console) -> LivePart:
    """The model's answers to the first questions; where it cannot run, why."""
    population = {question.id: majority(question.answers) for question in pool.questions}
    starter = question_set("starter")
    problems = tuple(problem for problem in starter.problems if problem.id in population)[: options.first]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("traces"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("loading the model", total=None)
        try:
            engine = Engine(
                replace(starter, problems=problems),
                sampler=LocalSampler(slots=IN_FLIGHT, context=512),
                policy=OURS,
                budget=options.budget,
                concurrency=IN_FLIGHT,
                seed=SEED,
                keep_going=True,  # a demo shows what comes
                on_trace=lambda trace: progress.advance(bar),
            )
            async with engine:
                progress.update(bar, description="live model", total=engine.settings.total)
                asyncio.get_running_loop().call_later(LIVE_LIMIT_S, engine.drain)
                solution = await engine.run()
                answers = tuple(engine.answers())
        except LocalModelError as error:
            return LivePart(f"No model can run here: {error}")
    spent = f"{solution.traces} traces"
    cut = "" if solution.complete else f", cut short after {LIVE_LIMIT_S:.0f} seconds"
    words = f"{MODEL} on this machine, the first {len(problems)} questions of the set, {spent} as okg decides{cut}."
    return LivePart(words, answers, population)
