"""Tables that cut no number: what is too wide for a terminal goes into several blocks, one below the other.

table = Table("run", "questions", "spent")
print_table(table)              # the first column is repeated in every block; `keys=2` repeats two
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

from pets.cli._output import table_console

__all__ = ["print_table", "table_blocks"]

FRAME_CHARACTERS = 3  # of each column: a line and a blank on either side
FOLDED_CHARACTERS = 16  # down to which a column of names (overflow="fold") is folded


@dataclass(frozen=True, slots=True)
class ColumnWidth:
    """The least width that cuts nothing, and the one that folds nothing either, headings included."""

    least: int
    natural: int

    @classmethod
    def of(cls, column: Column) -> "ColumnWidth":
        """Measured over the heading and all cells."""
        heading = str(column.header)
        cells = max((cell_len(line) for cell in column.cells for line in str(cell).splitlines()), default=0)
        words = max(map(cell_len, heading.split()), default=0)
        folded = min(cells, FOLDED_CHARACTERS) if column.overflow == "fold" else cells
        return cls(max(words, folded), max(cell_len(heading), cells))


def print_table(table: Table, console: Console | None = None, *, keys: int = 1) -> None:
    """Print a table on stdout; in a narrow terminal its columns are folded, then spread over several blocks."""
    console = console or table_console()
    for block in table_blocks(table, console.width, keys):
        console.print(block)


def table_blocks(table: Table, width: int, keys: int = 1) -> Iterator[Table]:
    """The table in as few blocks of at most ``width`` characters as need no cell cut; each begins with its key columns.

    Headings fold at their blanks, cells of names (``overflow="fold"``) anywhere, cells of numbers never.
    """
    widths = [ColumnWidth.of(column) for column in table.columns]
    columns = range(len(widths))
    if _total(width.natural for width in widths) <= width:
        yield table
        return
    blocks = [[*columns[:keys]]]
    for at in columns[keys:]:
        if len(blocks[-1]) > keys and _total(widths[i].least for i in (*blocks[-1], at)) > width:
            blocks.append([*columns[:keys]])
        blocks[-1].append(at)
    for number, block in enumerate(blocks):
        part = _part(table, block, _spread([widths[i] for i in block], width))
        part.title = table.title if number == 0 else None
        part.caption = table.caption if number == len(blocks) - 1 else None
        yield part


def _total(widths: "Iterator[int] | Sequence[int]") -> int:
    return 1 + sum(width + FRAME_CHARACTERS for width in widths)


def _spread(widths: Sequence[ColumnWidth], width: int) -> list[int]:
    """A width for each column: its least, and from the first on what is left of the block's."""
    left = width - _total([column.least for column in widths])
    spread = []
    for column in widths:
        more = max(0, min(column.natural - column.least, left))
        left -= more
        spread.append(column.least + more)
    return spread


def _part(table: Table, block: Sequence[int], widths: Sequence[int]) -> Table:
    part = Table(title_justify=table.title_justify, caption_justify=table.caption_justify, box=table.box)
    for at, width in zip(block, widths, strict=True):
        column = table.columns[at]
        part.add_column(column.header, justify=column.justify, overflow="fold", width=width)
    for row in zip(*(table.columns[at].cells for at in block), strict=True):
        part.add_row(*row)
    return part
