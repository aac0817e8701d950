"""What verbs print and write: rows, tables, progress, amounts, and a check that a file can be written at all.

Tables cut no number: what is too wide for a terminal goes into several blocks, one below the other.

table = Table("run", "questions", "spent")
print_table(table)              # the first column is repeated in every block; `keys=2` repeats two
"""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pets.cli._groups import option
from pets.cli._terminal import echo, terminal_text
from pets.errors import InputError
from pets.store.database import locked_file
from pets.tabular import atomic_write, check_suffix, open_rows, write_all, write_rows

Format = Literal["table", "jsonl", "json", "csv"]
FORMAT_HELP = (
    "What stdout gets: a table, a line of JSON each, one array of JSON, or CSV; if not given, a table on a terminal, "
    "else jsonl."
)
FORMAT: Any = option(FORMAT_HELP, flags=("--format",))
UNFOLDED_WIDTH = 240  # columns where stdout is no terminal: nothing is folded
FRAME_CHARACTERS = 3  # of each column: a line and a blank on either side
FOLDED_CHARACTERS = 16  # down to which a column of names (overflow="fold") is folded
_json = partial(json.dumps, ensure_ascii=False)


class SafeConsole(Console):
    """rich's console, on which no text steers the terminal: ids and answers come from files and servers."""

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich's, with control characters shown."""
        return super().render_str(terminal_text(text, keep="\n"), **options)


def table_console(width: int = UNFOLDED_WIDTH) -> Console:
    """A console for tables on stdout; where that is no terminal as wide as COLUMNS says, else ``width`` columns."""
    measured = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return SafeConsole(width=None if measured else width, markup=False, emoji=False, highlight=False)


def check_output(path: Path | None, *sources: str | Path | None, rows: bool = False) -> None:
    """Refuse a file that cannot be written, or that is read too, before a whole run was paid for it.

    One of ``rows`` has a known suffix and, where that is Parquet's, its library.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f'there is no folder "{path.parent}" to write {path.name} to. Make it, or choose another.')
    try:
        exists = path.is_file()
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror}). Choose another file.') from None
    for source in sources if exists else ():
        if source is not None and Path(source).is_file() and path.samefile(source):
            raise InputError(f'"{path}" is what is read, and would be written over. Choose another file for -o.')
    if rows and (exists or not path.exists()):  # /dev/stdout takes whatever comes
        check_suffix(path)


def is_for_people(form: Format | None) -> bool:
    """Whether stdout gets a table: where the user wants one, or says nothing and is at a terminal."""
    return form == "table" or (form is None and sys.stdout.isatty())


def print_rows(rows: Iterable[Mapping[str, Any]], form: Format | None, print_people: Callable[[], None]) -> None:
    """Print rows on stdout as the user wants them: for people, a line of JSON each, one array of JSON, or CSV."""
    if is_for_people(form):
        print_people()
    elif form == "csv":
        table = io.BytesIO()
        write_all(rows, table, ".csv")
        echo(*table.getvalue().decode().rstrip("\n").split("\n"))
    elif form == "json":
        echo(_json([*rows]))
    else:
        write_output(rows, None)


def write_output(rows: Iterable[Mapping[str, Any]], output: Path | None, columns: Sequence[str] | None = None) -> int:
    """Write rows to a file in the format of its suffix, or as JSONL to stdout; hands back how many."""
    if output is not None:
        return write_rows(rows, output, columns)
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007 (the last number is how many there were)
        echo(_json(row))
    return number


@contextmanager
def growing_output(
    output: Path | None, columns: Sequence[str], *, resume: bool = False
) -> Iterator[Callable[[Mapping[str, Any]], object]]:
    """Yield a function that writes one row; JSONL and CSV files, and stdout, have it at once.

    With ``resume`` the rows of a stream that goes on are added to those that a JSONL file holds.
    """
    if output is None:
        yield lambda row: echo(_json(row))
        return
    grows = output.suffix.lower() in (".jsonl", ".csv", ".tsv")
    if resume and output.exists() and output.suffix.lower() != ".jsonl":
        raise InputError(f'"{output}" holds what came before, and only .jsonl is added to. Name another file.')
    with ExitStack() as stack:
        if grows:
            stack.enter_context(locked_file(output))
        opened = output.open("ab" if resume else "wb") if grows else atomic_write(output)
        file = stack.enter_context(opened)
        writer = stack.enter_context(open_rows(file, output.name, columns))

        def write(row: Mapping[str, Any]) -> None:
            writer.write(row)
            file.flush()

        yield write


def write_page(path: Path, html: str, flag: str) -> None:
    """Write a page of HTML; ``flag`` names another file where that one cannot be written."""
    try:
        path.write_text(html, "utf-8")
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror}). Name another file: {flag}.') from None


def count(number: int, noun: str) -> str:
    """Number and noun, in the plural unless there is one.

    >>> count(0, "problem"), count(1, "problem"), count(2000, "problem")
    ('no problems', '1 problem', '2,000 problems')
    """
    return f"{f'{number:,}' if number else 'no'} {noun}{'' if number == 1 else 's'}"


def interval_words(mean: float, low: float, high: float) -> str:
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


@contextmanager
def progress_bar(doing: str = "replaying", first: str = "reading answers") -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr with the time that is left; yield a function of (done, total) that moves it.

    ``first`` are its words before that.
    """
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True) as bar:
        task = bar.add_task(first, total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total)

        yield progress


def print_table(table: Table, console: Console | None = None, *, keys: int = 1) -> None:
    """Print a table on stdout; in a narrow terminal its columns are folded, then spread over several blocks."""
    console = console or table_console()
    for block in table_blocks(table, console.width, keys):
        console.print(block)


def table_blocks(table: Table, width: int, keys: int = 1) -> Iterator[Table]:
    """Split a table into blocks of at most ``width`` characters that cut no cell; each begins with the key columns.

    Headings fold at their blanks, cells of names (``overflow="fold"``) anywhere, cells of numbers never.
    """
    least, natural = list[int](), list[int]()  # widths that cut nothing, and that fold nothing either
    for column in table.columns:
        heading = str(column.header)
        cells = max((cell_len(line) for cell in column.cells for line in str(cell).splitlines()), default=0)
        folded = min(cells, FOLDED_CHARACTERS) if column.overflow == "fold" else cells
        least.append(max([folded, *map(cell_len, heading.split())]))
        natural.append(max(cell_len(heading), cells))
    columns = range(len(least))
    if 1 + sum(own + FRAME_CHARACTERS for own in natural) <= width:
        yield table
        return
    blocks = [[*columns[:keys]]]
    for at in columns[keys:]:
        if len(blocks[-1]) > keys and 1 + sum(least[i] + FRAME_CHARACTERS for i in (*blocks[-1], at)) > width:
            blocks.append([*columns[:keys]])
        blocks[-1].append(at)
    for number, block in enumerate(blocks):
        part = Table(title_justify=table.title_justify, caption_justify=table.caption_justify, box=table.box)
        left = width - 1 - sum(least[i] + FRAME_CHARACTERS for i in block)
        for at in block:  # the least that it needs, and of what is left as much as it can use
            more = max(0, min(natural[at] - least[at], left))
            left -= more
            column = table.columns[at]
            part.add_column(column.header, justify=column.justify, overflow="fold", width=least[at] + more)
        for row in zip(*(table.columns[at].cells for at in block), strict=True):
            part.add_row(*row)
        part.title = table.title if number == 0 else None
        part.caption = table.caption if number == len(blocks) - 1 else None
        yield part
