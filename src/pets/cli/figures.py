"""``pets figures``: the figures and tables of the paper, drawn anew."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from pets.cli.replay import WIDE, progress_bar, read_pool_reporting_skips
from pets.errors import InputError
from pets.pools import Pool, pool_files
from pets.replay import Protocol, read_answers
from pets.report import (
    ORACLE,
    PREDICTOR,
    bin_sweep,
    budget_plan,
    check_matplotlib,
    clock_table,
    draw_plan,
    draw_voting,
    save,
    sweep_table,
    voting_curves,
    wall_clock,
    write_csv,
)

__all__ = ["figures"]

CLOCK_DRAWS = 3


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.")
@click.option("--pools", "paths", multiple=True, type=click.Path(path_type=Path), help="Recorded pools, or a folder.")
@click.option("--mean-budget", default=16.0, show_default=True, type=click.FloatRange(4, 64), help="Of the tables.")
@click.option("--repetitions", default=30, show_default=True, type=click.IntRange(1), help="Draws of the sweeps.")
@click.option("--batches", default=100, show_default=True, type=click.IntRange(1), help="Simulated, of the plan.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Same seed, same figures.")
@click.option("--workers", type=click.IntRange(1), help="Processes; default: one a core.")
@click.option("--skip-bad", is_flag=True, help="Pass over bad lines and say how many they were.")
def figures(
    out: Path,
    paths: tuple[Path, ...],
    mean_budget: float,
    repetitions: int,
    batches: int,
    seed: int,
    workers: int | None,
    skip_bad: bool,
) -> None:
    """Write the paper's figures: the voting curves and the budget plan, as PNG and as CSV.

    With --pools also its tables: the sweeps over the number of difficulty grids, and the seconds that deciding takes.
    """
    check_matplotlib()
    pools = [read_pool_reporting_skips(path, skip_bad) for path in pool_files(paths)] if paths else []
    protocol = Protocol(repetitions, budgets=(mean_budget,), seed=seed)
    pools = [pool for pool in pools if _fits(pool, protocol)]
    out.mkdir(parents=True, exist_ok=True)
    curves, plan = voting_curves(), budget_plan(batches=batches, seed=seed)
    _wrote(save(draw_voting(curves), out / "voting_curves.png"))
    _wrote(write_csv(out / "voting_curves.csv", curves))
    _wrote(save(draw_plan(plan), out / "budget_plan.png"))
    _wrote(write_csv(out / "budget_plan.csv", plan))
    if pools:
        _tables(pools, protocol, out, workers or os.cpu_count() or 1)
    elif not paths:
        click.echo("No pools: the bin sweeps and the wall-clock table are left out. Give some with --pools.", err=True)


def _fits(pool: Pool, protocol: Protocol) -> bool:
    """Whether the pool has questions and traces enough; says why not."""
    shortest = min((len(question.answers) for question in pool.questions), default=0)
    mean = protocol.budgets[0]
    try:
        protocol.train_of(len(pool.questions))
    except InputError:
        why = f"{len(pool.questions)} questions are too few to train on some and replay the others"
    else:
        why = f"{shortest} traces a question are fewer than the mean budget of {mean:g}" if shortest < mean else ""
    if why:
        click.echo(f"{pool.name} is left out of the tables: {why}.", err=True)
    return not why


def _tables(pools: Sequence[Pool], protocol: Protocol, out: Path, workers: int) -> None:
    with progress_bar() as progress:
        sweeps = bin_sweep(pools, protocol, workers=workers, progress=progress)
    clocked = Protocol(CLOCK_DRAWS, budgets=protocol.budgets, seed=protocol.seed)
    clocks = [row for pool in pools for row in wall_clock(read_answers(pool), clocked)]
    at = f"at mean budget {protocol.budgets[0]:g}"
    console = Console(width=None if sys.stdout.isatty() else WIDE, markup=False, emoji=False, highlight=False)
    console.print(sweep_table(sweeps, ORACLE[0], f"Oracle: K clusters of the true curves, {at}"))
    console.print(sweep_table(sweeps, PREDICTOR[0], f"Predictor: K grids of four warm-up traces, {at}"))
    console.print(clock_table(clocks, f"Wall clock {at}"))
    _wrote(write_csv(out / "bin_sweeps.csv", sweeps))
    _wrote(write_csv(out / "wall_clock.csv", clocks))


def _wrote(path: Path) -> None:
    click.echo(f"{path} written.", err=True)
