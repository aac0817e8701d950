"""Writes records to files: JSONL, JSON, CSV or Parquet by the suffix, streamed; a file appears whole or not at all."""

import csv
import gzip
import io
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from pets._extras import require
from pets.errors import InputError, PetsError

Row = Mapping[str, Any]

OUTPUT_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".tsv", ".parquet")
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
    with atomic_write(path) as file, open_rows(file, name, columns) as writer:
        for row in rows:
            writer.write(row)
    return writer.count


@contextmanager
def open_rows(file: BinaryIO, name: str, columns: Sequence[str] | None = None) -> "Iterator[RowFile]":
    """A writer of rows to an open file, in the format of ``name``; the last of them are there when the block ends."""
    suffix = f".{name.lower().rpartition('.')[2]}"
    if suffix == ".gz":
        with gzip.open(file, "wb") as packed, open_rows(packed, name[:-3], columns) as writer:  # type: ignore[arg-type]
            yield writer
        return
    writer = FORMATS[suffix](file, columns)
    yield writer
    writer.close()


class RowFile:
    """An open file of rows; this one is of JSON lines."""

    def __init__(self, file: BinaryIO, columns: Sequence[str] | None) -> None:
        self.file = file
        self.columns = None if columns is None else tuple(columns)
        self.count = 0

    def write(self, row: Row) -> None:
        """Add a row."""
        self.file.write(_json(row) + b"\n")
        self.count += 1

    def close(self) -> None:
        """Write what is left; the file itself stays open."""
        self.file.flush()


class _JsonList(RowFile):
    def write(self, row: Row) -> None:
        """Add a row."""
        self.file.write((b",\n" if self.count else b"[\n") + _json(row))
        self.count += 1

    def close(self) -> None:
        """The closing bracket."""
        self.file.write(b"\n]\n" if self.count else b"[]\n")


class _Table(RowFile):
    """Rows in batches: the first of them tells the columns where none are named."""

    batch_rows: ClassVar[int] = BATCH_ROWS  # once the columns are known

    def __init__(self, file: BinaryIO, columns: Sequence[str] | None) -> None:
        super().__init__(file, columns)
        self._waiting: list[Row] = []
        self._begun = False

    def write(self, row: Row) -> None:
        """Add a row to its batch."""
        self._waiting.append(row)
        self.count += 1
        if len(self._waiting) >= (self.batch_rows if self.columns else BATCH_ROWS):
            self._flush()

    def close(self) -> None:
        """The last batch."""
        if self._waiting or not self._begun:
            self._flush()

    def _flush(self) -> None:
        rows, self._waiting = self._waiting, []
        if self.columns is None:
            self.columns = tuple(dict.fromkeys(key for row in rows for key in row))
        self._write_batch(self.columns, [[row.get(column) for column in self.columns] for row in rows])
        self._begun = True

    def _write_batch(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        raise NotImplementedError


class _Separated(_Table):
    separator: ClassVar[str] = ","
    batch_rows = 1  # a reader of the growing file sees every row

    def _write_batch(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for row in rows if self._begun or not columns else (columns, *rows):
            text = io.StringIO()  # a cell with either of the line ends is quoted, else it would end the row
            writer = csv.writer(text, delimiter=self.separator, lineterminator="\r\n")
            writer.writerow(map(_cell, row))
            self.file.write(text.getvalue().removesuffix("\r\n").encode(errors="replace") + b"\n")


class _Tabs(_Separated):
    separator = "\t"


class _Parquet(_Table):
    _writer: Any = None

    def _write_batch(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        cells = [[row[at] for row in rows] for at in range(len(columns))]
        if self._writer is None:
            if not columns:
                raise InputError("there is nothing to write yet: no column is known. Write .jsonl, or wait for a row.")
            types = [_type(arrow, column, values) for column, values in zip(columns, cells, strict=True)]
            self._schema = arrow.schema(zip(columns, types, strict=True))
            self._writer = parquet.ParquetWriter(self.file, self._schema)
        arrays = [
            arrow.array([_plain(value) for value in values], type=field.type)
            for values, field in zip(cells, self._schema, strict=True)
        ]
        self._writer.write_table(arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """The last batch and the footer."""
        super().close()
        self._writer.close()


FORMATS: Mapping[str, type[RowFile]] = {
    ".jsonl": RowFile,
    ".json": _JsonList,
    ".csv": _Separated,
    ".tsv": _Tabs,
    ".parquet": _Parquet,
}


def _json(row: Row) -> bytes:
    """As UTF-8; half of a surrogate pair, which a model cut within a character leaves, stays an escape."""
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
    """A column's type by what it holds; by its name where it holds nothing yet."""
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

    It is a new file under a name that cannot be guessed: in a folder of many users, no link of another's is followed.
    What is no plain file, such as ``/dev/null``, is written to as it is.
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
