"""``pets figures``: the figures and tables of the paper, drawn anew."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from pets.cli._groups import option, verb
from pets.cli._output import progress_bar
from pets.cli._pools import PoolOptions
from pets.cli._tables import print_table
from pets.cli._terminal import terminal_text
from pets.errors import InputError
from pets.pools import Pool, pool_files
from pets.replay import ReplayConfig, read_answers
from pets.report import (
    ORACLE,
    PREDICTOR,
    bin_sweep,
    budget_plan,
    charts_library,
    clock_table,
    draw_plan,
    draw_voting,
    not_given,
    paper_results,
    result_table,
    save,
    sweep_table,
    voting_curves,
    wall_clock,
    write_csv,
)

__all__ = ["figures"]

CLOCK_DRAWS = 3


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """Where the figures go, and from what they are drawn."""

    title: ClassVar[str] = "Figures"

    output: Path = option(
        "The folder to write to.",
        flags=("-o", "--output"),
        kind=click.Path(path_type=Path, file_okay=False),
        replaces=("--out",),
        required=True,
    )
    batches: int = option("How many batches are simulated for the budget plan.", 100, at_least=1)
    seed: int = option("The same seed gives the same figures.", 0, at_least=0)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What the tables need: recorded pools."""

    title: ClassVar[str] = "Tables"

    pools: tuple[Path, ...] = option("A recorded pool, or a folder of them; give it again for more.", ())
    mean_budget: float = option("How many traces per question the tables allow.", 16.0, kind=click.FloatRange(4, 64))
    repetitions: int = option("How many random draws the sweeps average.", 30, at_least=1)
    workers: int | None = option("How many processes replay; one per core if not given.", at_least=1)
    skip_bad: bool = option("Pass over bad lines and say how many they were.", False)


@verb()
def figures(drawing: FigureOptions, tables: TableOptions) -> None:
    """Write the paper's figures: the voting curves and the budget plan, as PNG, SVG, PDF and CSV.

    With --pools also its tables: PETS-Offline and PETS-Online against their baselines, with the (conf) rows where the
    pools have confidences, the sweeps over the number of difficulty grids, and the seconds that deciding takes. What
    the pools do not allow is said.
    """
    charts_library()
    folder = drawing.output
    files = pool_files(tables.pools) if tables.pools else []
    pools = [PoolOptions(skip_bad=tables.skip_bad).read(path) for path in files]
    protocol = ReplayConfig(tables.repetitions, budgets=(tables.mean_budget,), seed=drawing.seed)
    pools = [pool for pool in pools if _fits(pool, protocol)]
    folder.mkdir(parents=True, exist_ok=True)
    curves, plan = voting_curves(), budget_plan(batches=drawing.batches, seed=drawing.seed)
    _print_written(*save(draw_voting(curves), folder / "voting_curves"))
    _print_written(write_csv(folder / "voting_curves.csv", curves))
    _print_written(*save(draw_plan(plan), folder / "budget_plan"))
    _print_written(write_csv(folder / "budget_plan.csv", plan))
    if pools:
        _tables(pools, protocol, folder, tables.workers or os.cpu_count() or 1)
    elif not tables.pools:
        click.echo(
            "No pools: the result, sweep and wall-clock tables are left out. Give some with --pools.",
            err=True,
        )


def _fits(pool: Pool, protocol: ReplayConfig) -> bool:
    """Whether the pool has questions and traces enough; says why not."""
    shortest = min((len(question.answers) for question in pool.questions), default=0)
    mean = protocol.budgets[0]
    try:
        protocol.train_of(len(pool.questions))
    except InputError:
        why = f"{len(pool.questions)} questions are too few to train on some and replay the others"
    else:
        why = f"{shortest} traces per question are fewer than the mean budget of {mean:g}" if shortest < mean else ""
    if why:
        click.echo(terminal_text(f"{pool.name} is left out of the tables: {why}."), err=True)
    return not why


def _tables(pools: Sequence[Pool], protocol: ReplayConfig, folder: Path, workers: int) -> None:
    with progress_bar() as progress:
        results = paper_results(pools, protocol, workers=workers, progress=progress)
    print_table(result_table(results, "offline"), keys=2)
    print_table(result_table(results, "online"), keys=2)
    _print_written(write_csv(folder / "results.csv", results))
    for sentence in not_given(pools, protocol):
        click.echo(terminal_text(sentence), err=True)
    with progress_bar() as progress:
        sweeps = bin_sweep(pools, protocol, workers=workers, progress=progress)
    clocked = ReplayConfig(CLOCK_DRAWS, budgets=protocol.budgets, seed=protocol.seed)
    clocks = [row for pool in pools for row in wall_clock(read_answers(pool), clocked)]
    at = f"at mean budget {protocol.budgets[0]:g}"
    print_table(sweep_table(sweeps, ORACLE[0], f"Oracle: K clusters of the true curves, {at}"))
    print_table(sweep_table(sweeps, PREDICTOR[0], f"Predictor: K grids of four warm-up traces, {at}"))
    print_table(clock_table(clocks, f"Wall clock {at}"))
    _print_written(write_csv(folder / "bin_sweeps.csv", sweeps))
    _print_written(write_csv(folder / "wall_clock.csv", clocks))


def _print_written(*paths: Path) -> None:
    for path in paths:
        click.echo(f"{path} written.", err=True)
