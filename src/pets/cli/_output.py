"""What verbs print beside their data: tables, progress, amounts, and a check that a file can be written at all."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from pets.cli._terminal import terminal_text
from pets.errors import InputError
from pets.pools import Metric, Pool, read_pool

__all__ = [
    "SafeConsole",
    "check_output",
    "count",
    "format_amount",
    "progress_bar",
    "read_pool_reporting_skips",
    "table_console",
]

UNFOLDED_WIDTH = 240  # columns where stdout is no terminal: nothing is folded


class SafeConsole(Console):
    """rich's console, on which no text steers the terminal: ids and answers come from files and servers."""

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich's, with control characters shown."""
        return super().render_str(terminal_text(text, keep="\n"), **options)


def table_console(width: int = UNFOLDED_WIDTH) -> Console:
    """A console for tables on stdout; where that is no terminal as wide as COLUMNS says, else ``width`` columns."""
    measured = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return SafeConsole(width=None if measured else width, markup=False, emoji=False, highlight=False)


def check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written before a whole run was paid for it."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f'there is no folder "{path.parent}" to write {path.name} to. Make it, or choose another.')


def format_amount(number: int, unit: str) -> str:
    """An amount for people.

    >>> format_amount(2_500_000_000_000, "picodollars"), format_amount(1600, "traces")
    ('2.5000 usd', '1,600 traces')
    """
    return f"{number / 1e12:.4f} usd" if unit == "picodollars" else f"{number:,} {unit}"


def count(number: int, noun: str) -> str:
    """How many of something there are.

    >>> count(0, "problem"), count(1, "problem"), count(2000, "problem")
    ('no problems', '1 problem', '2,000 problems')
    """
    return f"{f'{number:,}' if number else 'no'} {noun}{'' if number == 1 else 's'}"


def read_pool_reporting_skips(path: Path, *, skip_bad: bool, confidence: Metric = "tail") -> Pool:
    """The pool at ``path``; how many of its lines were skipped goes to stderr."""
    pool = read_pool(path, confidence=confidence, skip_bad=skip_bad)
    if pool.skipped:
        click.echo(f"{terminal_text(pool.name)}: skipped {count(len(pool.skipped), 'bad line')}.", err=True)
    return pool


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr with the time that is left; call it with what is done and what there is to do."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("reading answers", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, description="replaying", completed=done, total=total)

        yield progress
