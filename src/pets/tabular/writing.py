"""Writes records to files: JSONL, JSON, CSV or Parquet by the suffix, streamed; a file appears whole or not at all."""

import csv
import gzip
import io
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from pets._extras import require
from pets.errors import InputError, PetsError

Row = Mapping[str, Any]

OUTPUT_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".tsv", ".parquet")
TABLES = (".csv", ".tsv", ".parquet")  # which have the same columns in all rows
BATCH_ROWS = 5_000  # held in memory: from the first of them come a table's columns and their types
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")  # of a cell that a spreadsheet may compute
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
REAL_COLUMNS = ("certificate", "cost", "seconds")
INTEGER_COLUMNS = ("traces", "tokens", "prompt_tokens", "line")


def check_suffix(path: Path) -> None:
    """Refuse a file in whose format nothing can be written: before anything is paid for."""
    if not path.name.lower().endswith(OUTPUT_SUFFIXES):
        raise InputError(f'"{path}" ends in none of {", ".join(OUTPUT_SUFFIXES)}. Rename it.')
    if path.suffix.lower() == ".parquet":
        require("pyarrow", "parquet")


def write_rows(rows: Iterable[Row], path: Path, columns: Sequence[str] | None = None) -> int:
    """Write records in the format of the suffix, and say how many; the file appears whole or not at all.

    A table's ``columns`` are those of the first 5,000 rows if not given. What is nested, such as votes, is JSON text in
    a table. What is no plain file, such as ``/dev/stdout``, gets JSONL.
    """
    name = path.name if path.is_file() or not path.exists() else ".jsonl"
    check_suffix(Path(name))
    with atomic_write(path) as file:
        return write_all(rows, file, name, columns)


def write_all(rows: Iterable[Row], file: BinaryIO, name: str, columns: Sequence[str] | None = None) -> int:
    """Write records to an open file in the format of ``name``, and say how many."""
    rows, first = iter(rows), list[Row]()
    if columns is None and name.lower().endswith(TABLES):
        first = list(islice(rows, BATCH_ROWS))
        columns = tuple(dict.fromkeys(key for row in first for key in row))
    with open_rows(file, name, columns or ()) as writer:
        for row in chain(first, rows):
            writer.write(row)
    return writer.count


@contextmanager
def open_rows(file: BinaryIO, name: str, columns: Sequence[str]) -> "Iterator[RowFile]":
    """A writer of rows to an open file, in the format of ``name``; the last of them are there when the block ends.

    The ``columns`` are a table's; JSON has the fields of each row.
    """
    suffix = f".{name.lower().rpartition('.')[2]}"
    if suffix == ".gz":
        with gzip.open(file, "wb") as packed, open_rows(packed, name[:-3], columns) as writer:  # type: ignore[arg-type]
            yield writer
        return
    with closing(FORMATS[suffix](file, columns)) as writer:
        yield writer


class RowFile:
    """An open file of rows; this one is of JSON lines."""

    def __init__(self, file: BinaryIO, columns: Sequence[str]) -> None:
        self.file, self.columns, self.count = file, columns, 0

    def write(self, row: Row) -> None:
        """Add a row."""
        self.file.write(_json(row) + b"\n")
        self.count += 1

    def close(self) -> None:
        """Write what is left; the file itself stays open."""


class _JsonList(RowFile):
    def write(self, row: Row) -> None:
        self.file.write((b",\n" if self.count else b"[\n") + _json(row))
        self.count += 1

    def close(self) -> None:
        self.file.write(b"\n]\n" if self.count else b"[]\n")


class _Separated(RowFile):
    def __init__(self, file: BinaryIO, columns: Sequence[str], separator: str = ",") -> None:
        super().__init__(file, columns)
        self._separator = separator
        if columns:
            self._write_line(columns)

    def write(self, row: Row) -> None:
        self._write_line([row.get(column) for column in self.columns])
        self.count += 1

    def _write_line(self, cells: Sequence[Any]) -> None:
        text = io.StringIO()  # a cell with either of the line ends is quoted, else it would end the row
        csv.writer(text, delimiter=self._separator, lineterminator="\r\n").writerow(map(_cell, cells))
        self.file.write(text.getvalue().removesuffix("\r\n").encode(errors="replace") + b"\n")


class _Parquet(RowFile):
    """Rows in batches, of the first of which come the types of the columns."""

    def __init__(self, file: BinaryIO, columns: Sequence[str]) -> None:
        super().__init__(file, columns)
        self._waiting: list[Row] = []
        self._writer: Any = None

    def write(self, row: Row) -> None:
        self._waiting.append(row)
        self.count += 1
        if len(self._waiting) >= BATCH_ROWS:
            self._write_batch()

    def close(self) -> None:
        if self._waiting or self._writer is None:
            self._write_batch()
        self._writer.close()

    def _write_batch(self) -> None:
        arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        rows, self._waiting = self._waiting, []
        cells = {column: [row.get(column) for row in rows] for column in self.columns}
        if self._writer is None:
            if not cells:
                raise InputError("there is nothing to write yet: no column is known. Write .jsonl, or wait for a row.")
            self._schema = arrow.schema([(column, _type(arrow, column, values)) for column, values in cells.items()])
            self._writer = parquet.ParquetWriter(self.file, self._schema)
        plain = {column: [_plain(value) for value in values] for column, values in cells.items()}
        self._writer.write_table(arrow.Table.from_pydict(plain, schema=self._schema))


FORMATS: Mapping[str, Callable[[BinaryIO, Sequence[str]], RowFile]] = {
    ".jsonl": RowFile,
    ".json": _JsonList,
    ".csv": _Separated,
    ".tsv": partial(_Separated, separator="\t"),
    ".parquet": _Parquet,
}


def _json(row: Row) -> bytes:
    """A row in UTF-8; half of a surrogate pair, which a model cut within a character leaves, stays an escape."""
    return json.dumps(row, ensure_ascii=False).encode(errors="backslashreplace")


def _cell(value: Any) -> Any:
    """A cell of CSV: nested values as JSON, and no text that a spreadsheet takes for a formula: it gets an apostrophe.

    >>> [_cell(value) for value in ("=1+1", "-x", "-4.5", -4.5, None, True, ["a"])]
    ["'=1+1", "'-x", '-4.5', -4.5, '', 'true', '["a"]']
    """
    if isinstance(value, bool | dict | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    risky = isinstance(value, str) and value.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(value)
    return f"'{value}" if risky else "" if value is None else value


def _plain(value: Any) -> Any:
    """A cell of Parquet: nested values as JSON, texts as UTF-8."""
    if isinstance(value, dict | list | tuple):
        value = json.dumps(value, ensure_ascii=False)
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _type(arrow: Any, column: str, values: Sequence[Any]) -> Any:
    """A column's type by what it holds, else by its name."""
    kinds = {type(value) for value in values if value is not None}
    if column in REAL_COLUMNS or (kinds and kinds <= {int, float} and float in kinds):
        return arrow.float64()
    if kinds == {bool}:
        return arrow.bool_()
    if kinds == {int} or (not kinds and column in INTEGER_COLUMNS):
        return arrow.int64()
    return arrow.string()


@contextmanager
def atomic_write(path: Path, error: type[PetsError] = InputError, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A draft, open to write to, which takes the place of ``path`` when all went well and is removed when not.

    Its name cannot be guessed: in a folder of many users, no link of another's is followed. What is no plain file,
    such as ``/dev/null``, is written to as it is.
    """
    draft: Path | None = None
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        fresh = path.with_name(f".{secrets.token_hex(16)}.tmp")
        with open(fresh, "xb", opener=partial(os.open, mode=mode)) as file:
            draft = fresh
            yield file
        fresh.replace(path)
    except OSError as failure:
        raise error(f'"{path}" cannot be written ({failure.strerror or failure}). Choose another path.') from None
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)  # it is no longer there where it took its place
