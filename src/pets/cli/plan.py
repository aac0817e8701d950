"""``pets plan``: look at a plan."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import plotext
from rich.console import Console
from rich.table import Table

from pets.core.patterns import K0, NAMES
from pets.core.prior import STRENGTHS
from pets.plans import StreamPlan, read_plan

__all__ = ["plan"]

WIDE = 100  # where stdout is no terminal
BAR = 20  # characters of a full bar
MARKS = "•x+o#"  # of the curves, where there is no colour
SHOWN = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # mean budgets whose price is shown


@click.group()
def plan() -> None:
    """Plans for streams, as `pets fit` makes them."""


@plan.command()
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path, dir_okay=False))
def show(path: Path) -> None:
    """Draw a plan: its grids, their shares, curves and budgets, the prices and the prior."""
    found = read_plan(path)
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else WIDE, markup=False, emoji=False, highlight=False)
    console.print(_title(found), soft_wrap=True)
    console.print(_grids(found))
    console.file.write(_curves(found, console.width, colour=terminal) + "\n")
    if found.prices is not None:
        console.print(_prices(found))
    console.print(_prior(found))


def _title(found: StreamPlan) -> str:
    source = found.provenance
    rounds = f"{found.rounds} rounds" if found.rounds else "one trace at a time"
    answers = source.answer if source.options is None else f"{source.answer}, {source.options} options"
    return (
        f"{found.mean_budget:g} traces a question on average, {found.cap} at most, {rounds}\n"
        f'from pool "{source.pool}": {source.questions:,} questions, {source.traces:,} traces ({answers}), '
        f"{source.digest}, pets {source.pets}, seed {source.seed}\n"
        f"one shot after the warm-up would reach self-consistency {found.expected:.3f}"
    )


def _grids(found: StreamPlan) -> Table:
    table = Table(title="grids: what four warm-up traces show")
    table.add_column("votes")
    table.add_column("share of the stream")
    for name in ("a", "b", "voting", "budget", "self-consistency"):
        table.add_column(name, justify="right")
    for j, name in enumerate(NAMES):
        share, a, b, voting = found.grid.rows[j]
        budget = found.budget_of(j)
        reached = voting * float(found.grid.curves[j].curve(budget))
        bar = "█" * round(BAR * share)
        cells = (f"{a:.3f}", f"{b:.3f}", f"{voting:.2f}", f"{budget:.1f}", f"{reached:.3f}")
        table.add_row(name, f"{bar:<{BAR}} {share:6.1%}", *cells)
    return table


def _curves(found: StreamPlan, width: int, colour: bool) -> str:
    """Self-consistency of every grid against its traces."""
    traces = np.arange(K0, found.cap + 1)
    plotext.clear_figure()
    for name, mark, curve in zip(NAMES, MARKS, found.grid.SC(traces), strict=True):
        plotext.plot(traces.tolist(), curve.tolist(), label=name, marker="hd" if colour else mark)
    plotext.title("self-consistency against traces")
    plotext.plot_size(width=min(90, width), height=18)
    drawn: str = plotext.build()
    return drawn if colour else plotext.uncolorize(drawn)


def _prices(found: StreamPlan) -> Table:
    table = Table(title="prices: a question stops when its gain a trace is under the price")
    table.add_column("mean traces left a question", justify="right")
    table.add_column("price", justify="right")
    for budget, log_price in _priced(found):
        table.add_row(f"{budget:g}", f"{math.exp(log_price):.2e}")
    return table


def _priced(found: StreamPlan) -> Iterator[tuple[float, float]]:
    assert found.prices is not None
    for budget in sorted({*(float(one) for one in SHOWN if one <= found.cap), found.mean_budget}):
        yield budget, found.prices.log_price(budget)


def _prior(found: StreamPlan) -> Table:
    table = Table(title="prior: shares of the strengths at which the model's answers scatter")
    table.add_column("mean tokens of a trace")
    for strength in STRENGTHS:
        table.add_column(f"{strength:g}", justify="right")
    edges = [0.0, *found.prior.edges, math.inf]
    for row, low, high in zip(found.prior.shares, edges, edges[1:], strict=False):
        whole = len(found.prior.shares) == 1
        name = "any" if whole else f"over {low:,.0f}" if high == math.inf else f"to {high:,.0f}"
        table.add_row(name, *(f"{share:.2f}" for share in row))
    return table
