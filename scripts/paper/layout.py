"""The paper's tables in a terminal and as CSV files: results of one setting, sweeps over K, seconds of deciding."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rich.table import Table

from pets.tabular import write_rows
from scripts.paper.results import ResultRow
from scripts.paper.tables import OFFLINE, ONLINE, UNIFORM, ClockRow, SweepRow


class Tabled(Protocol):
    """Anything that is one row of a CSV file."""

    def row(self) -> Mapping[str, object]:
        """The row's values by their columns."""


def write_csv(path: Path, rows: Sequence[Tabled]) -> Path:
    """Write a line for each row under the names of the columns; returns the path."""
    write_rows((row.row() for row in rows), path)
    return path


def sweep_table(rows: Sequence[SweepRow], policy: str, title: str) -> Table:
    """The paper's layout: a line per pool, a column per K; accuracy, and self-consistency behind the stroke."""
    cells = {(row.pool, row.K): row for row in rows if row.policy == policy}
    sizes = list(dict.fromkeys(K for _, K in cells))
    table = Table(title=title, caption="accuracy / self-consistency", title_justify="left", caption_justify="left")
    table.add_column("pool")
    for K in sizes:
        table.add_column(f"K = {K}", justify="right")
    for pool in dict.fromkeys(pool for pool, _ in cells):
        table.add_row(pool, *(_sweep_cell(cells[pool, K]) for K in sizes))
    return table


def result_table(rows: Sequence[ResultRow], setting: str) -> Table:
    """The paper's layout of one setting: traces at the first self-consistency of 1, the rest at PETS's spend."""
    pets = "PETS-Online" if setting == "online" else "PETS-Offline"
    caption = f"mean ± deviation over draws; total traces; consistency and accuracy where {pets} first reaches 1"
    title = f"PETS-{setting.capitalize()}: total traces at the first self-consistency of 1"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column("pool")
    table.add_column("method", overflow="fold")
    for name in ("traces", "consistency", "accuracy"):
        table.add_column(name, justify="right")
    for row in (row for row in rows if row.setting == setting):
        missed = "" if row.reached == row.repetitions else f" ({row.reached}/{row.repetitions})"
        traces = _spread_text(row.traces, row.traces_sd, 0) + missed
        cells = ((row.consistency, row.consistency_sd), (row.accuracy, row.accuracy_sd))
        table.add_row(row.pool, row.method, traces, *(_spread_text(*cell, 3) for cell in cells))
    return table


def _spread_text(mean: float | None, deviation: float | None, digits: int) -> str:
    return "-" if mean is None else f"{mean:.{digits}f} ± {deviation or 0.0:.{digits}f}"


def clock_table(rows: Sequence[ClockRow], title: str) -> Table:
    """The paper's layout: a line for each pool, a column for each method."""
    cells = {(row.pool, row.policy): row for row in rows}
    names = {ONLINE: "online grid, fit + assign", UNIFORM: "online uniform", OFFLINE: "offline okg:prior=1"}
    caption = "seconds, the model's own time left out"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column("pool")
    for name in names.values():
        table.add_column(name, justify="right")
    for pool in dict.fromkeys(pool for pool, _ in cells):
        table.add_row(pool, *(_seconds(cells[pool, policy].seconds) for policy in names))
    return table


def _sweep_cell(row: SweepRow) -> str:
    accuracy = "-" if row.accuracy is None else f"{row.accuracy:.4f}"
    return f"{accuracy} / {row.consistency:.4f}"


def _seconds(value: float) -> str:
    return "< 0.01" if value < 0.01 else f"{value:.2f}"
