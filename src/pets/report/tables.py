"""Rows as CSV files and as tables for a terminal."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rich.table import Table

from pets.report.sweeps import SweepRow
from pets.report.wallclock import OFFLINE, ONLINE, UNIFORM, ClockRow

__all__ = ["Tabled", "clock_table", "sweep_table", "write_csv"]


class Tabled(Protocol):
    """Anything that is one row of a CSV file."""

    def row(self) -> Mapping[str, object]:
        """Column -> value."""
        ...


def write_csv(path: Path, rows: Sequence[Tabled]) -> Path:
    """One line a row under a line of names; hands back where."""
    cells = [row.row() for row in rows]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)
    return path


def sweep_table(rows: Sequence[SweepRow], policy: str, title: str) -> Table:
    """The paper's layout: a line a pool, a column a K; accuracy, and self-consistency behind the stroke."""
    chosen = {(row.pool, row.K): row for row in rows if row.policy == policy}
    sizes = list(dict.fromkeys(K for _, K in chosen))
    table = Table(title=title, caption="accuracy / self-consistency", title_justify="left", caption_justify="left")
    table.add_column("pool")
    for K in sizes:
        table.add_column(f"K = {K}", justify="right")
    for pool in dict.fromkeys(pool for pool, _ in chosen):
        table.add_row(pool, *(_sweep_cell(chosen[pool, K]) for K in sizes))
    return table


def clock_table(rows: Sequence[ClockRow], title: str) -> Table:
    """The paper's layout: a line a pool, a column a method."""
    found = {(row.pool, row.policy): row for row in rows}
    names = {ONLINE: "online grid, fit + assign", UNIFORM: "online uniform", OFFLINE: "offline okg:prior=1"}
    caption = "seconds, the model's own time left out"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column("pool")
    for name in names.values():
        table.add_column(name, justify="right")
    for pool in dict.fromkeys(pool for pool, _ in found):
        table.add_row(pool, *(_seconds(found[pool, policy].seconds) for policy in names))
    return table


def _sweep_cell(row: SweepRow) -> str:
    accuracy = "-" if row.accuracy is None else f"{row.accuracy:.4f}"
    return f"{accuracy} / {row.consistency:.4f}"


def _seconds(value: float) -> str:
    return "< 0.01" if value < 0.01 else f"{value:.2f}"
