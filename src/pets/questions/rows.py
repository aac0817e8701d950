"""Files of records, whatever their format: JSONL, JSON, CSV, TSV or Parquet, one record after another."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pets.errors import InputError
from pets.pools.formats import pyarrow

__all__ = ["SUFFIXES", "Record", "read_rows"]

Record = dict[str, Any]
LONGEST = 2**31 - 1  # characters of a cell
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".tsv", ".parquet")


def read_rows(path: Path) -> Iterator[tuple[str, Record]]:
    """Where each record stands ("line 3") and what it holds; streamed. A file without a known suffix is JSONL."""
    suffix = next((known for known in sorted(SUFFIXES, key=len, reverse=True) if path.name.lower().endswith(known)), "")
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
        elif suffix in (".csv", ".tsv"):
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from _separated(path, file, "\t" if suffix == ".tsv" else ",")
        elif suffix == ".json":
            yield from _list(path)
        else:
            with gzip.open(path) if suffix == ".jsonl.gz" else path.open("rb") as file:
                yield from _lines(path, file)
    except (OSError, EOFError, zlib.error) as error:
        found = getattr(error, "strerror", None) or error
        raise InputError(f'questions "{path}" cannot be read ({found}). Check the path.') from None
    except UnicodeDecodeError as error:
        raise InputError(f'questions "{path.name}": byte {error.start + 1} is not UTF-8. Save it as UTF-8.') from None


def _lines(path: Path, file: Iterable[bytes]) -> Iterator[tuple[str, Record]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise _bad(path, f"line {number}", f"this is not JSON ({error}). Repair the line or drop it.") from None
        yield _checked(path, f"line {number}", record)


def _list(path: Path) -> Iterator[tuple[str, Record]]:
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f'questions "{path.name}": this is not JSON ({error}). Repair it; or is it .jsonl?') from None
    if not isinstance(content, list):
        raise InputError(f'questions "{path.name}": a .json file of questions is a list of objects.')
    yield from (_checked(path, f"entry {number}", record) for number, record in enumerate(content, 1))


def _separated(path: Path, file: Iterable[str], delimiter: str) -> Iterator[tuple[str, Record]]:
    """A cell that is empty says nothing."""
    csv.field_size_limit(LONGEST)  # the library's own limit, 131,072, is less than a long prompt
    reader = csv.DictReader(file, delimiter=delimiter, strict=True)
    try:
        for record in reader:
            place = f"line {reader.line_num}"
            if None in record:
                raise _bad(
                    path, place, f"it has more cells than the head ({len(reader.fieldnames or ())}). Quote them."
                )
            yield place, {key: value or None for key, value in record.items()}
    except csv.Error as error:
        raise _bad(path, f"line {reader.line_num}", f"this is not CSV ({error}). Repair the line.") from None


def _parquet(path: Path) -> Iterator[tuple[str, Record]]:
    arrow, parquet = pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=10_000):
                for record in batch.to_pylist():
                    number += 1
                    yield f"row {number}", record
    except arrow.ArrowException as error:
        raise InputError(f'questions "{path.name}": this is not Parquet ({error}). Check the file.') from None


def _checked(path: Path, place: str, record: object) -> tuple[str, Record]:
    if not isinstance(record, dict):
        raise _bad(path, place, "a question is an object with id and prompt. Repair it or drop it.")
    return place, record


def _bad(path: Path, place: str, what: str) -> InputError:
    return InputError(f'questions "{path.name}" {place}: {what}')
