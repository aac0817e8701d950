"""``pets plan``: look at a plan."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from rich.table import Table

from pets.cli._chart import ChartLine, draw_chart
from pets.cli._groups import verb_group
from pets.cli._output import table_console
from pets.cli._tables import print_table
from pets.cli._terminal import echo_drawing
from pets.core.patterns import K0, NAMES
from pets.core.prior import STRENGTHS
from pets.plans import StreamPlan, read_plan

__all__ = ["plan"]

PIPE_WIDTH = 100  # columns where stdout is no terminal
BAR_WIDTH = 20  # characters of a full bar
PRICED_MEAN_BUDGETS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@verb_group()
def plan() -> None:
    """Plans for streams, as `pets fit` makes them."""


@plan.verb()
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path, dir_okay=False))
def show(path: Path) -> None:
    """Draw a plan: its grids, their shares, curves and budgets, the prices and the prior."""
    fitted = read_plan(path)
    console = table_console(PIPE_WIDTH)
    console.print(_title(fitted), soft_wrap=True)
    print_table(_grids(fitted), console)
    echo_drawing(_curves(fitted, console.width, colour=sys.stdout.isatty()))
    if fitted.prices is not None:
        print_table(_prices(fitted), console)
    print_table(_prior(fitted), console)


def _title(fitted: StreamPlan) -> str:
    source = fitted.provenance
    rounds = f"{fitted.rounds} rounds" if fitted.rounds else "one trace at a time"
    answers = source.answer if source.options is None else f"{source.answer}, {source.options} options"
    zone = f", zone {fitted.zone:g}" if fitted.zone else ""
    return (
        f"{fitted.mean_budget:g} traces per question on average, {fitted.cap} at most, {rounds}{zone}\n"
        f'from pool "{source.pool}": {source.questions:,} questions, {source.traces:,} traces ({answers}), '
        f"{source.digest}, pets {source.pets}, seed {source.seed}\n"
        f"one shot after the warm-up would reach self-consistency {fitted.expected:.3f}"
    )


def _grids(fitted: StreamPlan) -> Table:
    table = Table(title="grids: what four warm-up traces show")
    table.add_column("votes")
    table.add_column("share of the stream")
    for name in ("a", "b", "voting", "budget", "self-consistency"):
        table.add_column(name, justify="right")
    for j, name in enumerate(NAMES):
        share, a, b, voting = fitted.grid.rows[j]
        budget = fitted.budget_of(j)
        reached = voting * float(fitted.grid.curves[j].curve(budget))
        bar = "█" * round(BAR_WIDTH * share)
        cells = (f"{a:.3f}", f"{b:.3f}", f"{voting:.2f}", f"{budget:.1f}", f"{reached:.3f}")
        table.add_row(name, f"{bar:<{BAR_WIDTH}} {share:6.1%}", *cells)
    return table


def _curves(fitted: StreamPlan, width: int, colour: bool) -> str:
    """Self-consistency of every grid against its traces."""
    traces = np.arange(K0, fitted.cap + 1).tolist()
    lines = [ChartLine(name, traces, curve.tolist()) for name, curve in zip(NAMES, fitted.grid.SC(traces), strict=True)]
    return draw_chart("self-consistency against traces, by the votes of the first four", lines, width, colour=colour)


def _prices(fitted: StreamPlan) -> Table:
    table = Table(title="prices: a question stops when its gain per trace is under the price")
    table.add_column("mean traces left per question", justify="right")
    table.add_column("price", justify="right")
    for budget, log_price in _priced(fitted):
        table.add_row(f"{budget:g}", f"{math.exp(log_price):.2e}")
    return table


def _priced(fitted: StreamPlan) -> Iterator[tuple[float, float]]:
    assert fitted.prices is not None
    within_cap = {float(budget) for budget in PRICED_MEAN_BUDGETS if budget <= fitted.cap}
    for budget in sorted(within_cap | {fitted.mean_budget}):
        yield budget, fitted.prices.log_price(budget)


def _prior(fitted: StreamPlan) -> Table:
    table = Table(title="prior: shares of the strengths at which the model's answers scatter")
    table.add_column("mean tokens of a trace")
    for strength in STRENGTHS:
        table.add_column(f"{strength:g}", justify="right")
    edges = [0.0, *fitted.prior.edges, math.inf]
    for row, low, high in zip(fitted.prior.shares, edges, edges[1:], strict=False):
        whole = len(fitted.prior.shares) == 1
        name = "any" if whole else f"over {low:,.0f}" if high == math.inf else f"to {high:,.0f}"
        table.add_row(name, *(f"{share:.2f}" for share in row))
    return table
