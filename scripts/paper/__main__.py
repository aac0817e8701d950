"""Write the paper's figures and tables: ``python -m scripts.paper -o FOLDER [POOLS ...]`` (``make paper``).

The voting curves and the budget plan need no pools. With pools also the tables: PETS-Offline and PETS-Online against
their baselines, with the (conf) rows where the pools have confidences, the sweeps over the number of difficulty grids,
and the seconds that deciding takes. What the pools do not allow is said.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pets.cli._output import print_table, progress_bar
from pets.cli._terminal import terminal_text
from pets.cli.pools import PoolOptions
from pets.errors import InputError, PetsError
from pets.lab import ReplayConfig, read_answers
from pets.pools import Pool, pool_files
from pets.report import charts_library, save
from scripts.paper.figures import budget_plan, draw_plan, draw_voting, voting_curves
from scripts.paper.layout import clock_table, result_table, sweep_table, write_csv
from scripts.paper.results import not_given, paper_results
from scripts.paper.tables import ORACLE, PREDICTOR, bin_sweep, wall_clock

CLOCK_DRAWS = 3


def main() -> int:
    """Write everything that the pools allow; a mistake is one line and exit code 2."""
    try:
        _write(_parser().parse_args())
    except PetsError as error:
        click.echo(f"pets: {terminal_text(str(error))}", err=True)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.paper", description=__doc__)
    parser.add_argument("pools", nargs="*", type=Path, help="Recorded pools, or folders of them.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="The folder to write to.")
    parser.add_argument("--batches", type=int, default=100, help="Batches that are simulated for the budget plan.")
    parser.add_argument("--seed", type=int, default=0, help="The same seed gives the same figures.")
    parser.add_argument("--mean-budget", type=float, default=16.0, help="Traces per question that the tables allow.")
    parser.add_argument("--repetitions", type=int, default=30, help="Random draws that the tables average.")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="Processes that replay.")
    parser.add_argument("--skip-bad", action="store_true", help="Pass over bad lines and say how many they were.")
    return parser


def _write(arguments: argparse.Namespace) -> None:
    charts_library()
    folder: Path = arguments.output
    files = pool_files(arguments.pools) if arguments.pools else []
    pools = [PoolOptions(skip_bad=arguments.skip_bad).read(path) for path in files]
    protocol = ReplayConfig(arguments.repetitions, budgets=(arguments.mean_budget,), seed=arguments.seed)
    pools = [pool for pool in pools if _fits(pool, protocol)]
    folder.mkdir(parents=True, exist_ok=True)
    curves, plan = voting_curves(), budget_plan(batches=arguments.batches, seed=arguments.seed)
    _print_written(*save(draw_voting(curves), folder / "voting_curves"))
    _print_written(write_csv(folder / "voting_curves.csv", curves))
    _print_written(*save(draw_plan(plan), folder / "budget_plan"))
    _print_written(write_csv(folder / "budget_plan.csv", plan))
    if pools:
        _tables(pools, protocol, folder, arguments.workers)
    elif not arguments.pools:
        click.echo("No pools: the result, sweep and wall-clock tables are left out. Name some.", err=True)


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


if __name__ == "__main__":
    sys.exit(main())
