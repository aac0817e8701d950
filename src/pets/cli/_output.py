"""What verbs print beside their data: tables, progress, amounts, and a check that a file can be written at all."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from pets.cli._terminal import echo, json_line, terminal_text
from pets.errors import InputError
from pets.store.lock import locked_file
from pets.tabular import atomic_write, check_suffix, open_rows, write_rows

__all__ = [
    "SafeConsole",
    "check_output",
    "check_rows_output",
    "count",
    "growing_output",
    "print_rows",
    "progress_bar",
    "table_console",
    "write_output",
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


def check_output(path: Path | None, *sources: str | Path | None) -> None:
    """Refuse a file that cannot be written, or that is read too, before a whole run was paid for it."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f'there is no folder "{path.parent}" to write {path.name} to. Make it, or choose another.')
    try:
        exists = path.is_file()
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror}). Choose another file.') from None
    files = (Path(source) for source in sources if source is not None)
    if exists and any(file.is_file() and file.samefile(path) for file in files):
        raise InputError(f'"{path}" is what is read, and would be written over. Choose another file for -o.')


def check_rows_output(path: Path | None, *sources: str | Path | None) -> None:
    """Refuse a file of rows as :func:`check_output` does, without a known suffix, or Parquet without its library."""
    check_output(path, *sources)
    if path is not None and (path.is_file() or not path.exists()):  # /dev/stdout takes whatever comes
        check_suffix(path)


def print_rows(rows: Iterable[Mapping[str, Any]], form: Literal["json", "csv"]) -> None:
    """Print rows on stdout: a line of JSON each, or CSV."""
    if form == "json":
        write_output(rows, None)
        return
    table = io.BytesIO()
    with open_rows(table, ".csv") as writer:
        for row in rows:
            writer.write(row)
    echo(*table.getvalue().decode().rstrip("\n").split("\n"))


def write_output(rows: Iterable[Mapping[str, Any]], output: Path | None, columns: Sequence[str] | None = None) -> int:
    """Write rows to a file in the format of its suffix, or as JSONL to stdout; hands back how many."""
    if output is not None:
        return write_rows(rows, output, columns)
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007 (the last number is how many there were)
        echo(json_line(row))
    return number


@contextmanager
def growing_output(
    output: Path | None, columns: Sequence[str], *, resume: bool = False
) -> Iterator[Callable[[Mapping[str, Any]], object]]:
    """Call it with each row as it comes about; JSONL and CSV files, and stdout, have it at once.

    With ``resume`` the rows of a stream that goes on are added to those that a JSONL file holds.
    """
    if output is None:
        yield lambda row: echo(json_line(row))
        return
    grows = output.suffix.lower() in (".jsonl", ".csv", ".tsv")
    if resume and output.exists() and output.suffix.lower() != ".jsonl":
        raise InputError(f'"{output}" holds what came before, and only .jsonl is added to. Name another file.')
    if not grows:
        with atomic_write(output) as file, open_rows(file, output.name, columns) as writer:
            yield writer.write
        return
    with (
        locked_file(output),
        output.open("ab" if resume else "wb") as growing,
        open_rows(growing, output.name, columns) as writer,
    ):

        def write(row: Mapping[str, Any]) -> None:
            writer.write(row)
            growing.flush()

        yield write


def count(number: int, noun: str) -> str:
    """How many of something there are.

    >>> count(0, "problem"), count(1, "problem"), count(2000, "problem")
    ('no problems', '1 problem', '2,000 problems')
    """
    return f"{f'{number:,}' if number else 'no'} {noun}{'' if number == 1 else 's'}"


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr with the time that is left; call it with what is done and what there is to do."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    console = SafeConsole(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("reading answers", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, description="replaying", completed=done, total=total)

        yield progress
