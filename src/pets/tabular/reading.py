"""Reads records from files of every format, streamed and bounded; what is wrong with a row is told with its place."""

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, runtime_checkable

from pets._extras import require
from pets.errors import InputError, PetsError

Record = dict[str, Any]

SUFFIXES = (".jsonl.gz", ".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet")
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
SEPARATORS = (",", ";", "\t", "|")
LINE_COLUMN = "question"  # what a line of plain text holds
PARQUET_BATCH_ROWS = 1_000
MIN_CELL_BYTES = 8  # that a cell counts for, however it is packed
PREFIXED = "DELTA_BYTE_ARRAY"
SNIFFED_BYTES = 1 << 16
MAX_CELL_CHARS = 2**31 - 1  # of a CSV file; the library's own limit, 131,072, is less than a long prompt
MAX_UNPACKED_RATIO = 100  # of unpacked to packed bytes; recorded pools reach 5 to 20
MIN_UNPACKED_LIMIT = 64 << 20  # bytes; below, the ratio does not matter
REPAIR = "Repair the line or drop it."


class FileRow(NamedTuple):
    """A row of a file: its place ("line 3") and its value, or the problem that it cannot be read for."""

    place: str
    value: Any
    problem: str = ""


def suffix_of(path: Path, suffixes: Sequence[str] = SUFFIXES) -> str:
    """The suffix of a file, of those given; "" for none.

    >>> suffix_of(Path("mine.v2.jsonl.gz")), suffix_of(Path("README"))
    ('.jsonl.gz', '')
    """
    return next(filter(path.name.lower().endswith, suffixes), "")


def read_rows(
    path: Path, *, noun: str, error: type[PetsError] = InputError, max_unpacked_bytes: int | None = None
) -> Iterator[FileRow]:
    """The rows of a file, in the format of its suffix, else in the one that its content shows.

    ``noun`` is what messages call the file ('questions "mine.csv": ...'), ``error`` what is raised where the whole file
    cannot be read. A compressed file may unpack to ``max_unpacked_bytes``; if not given, to 64 MB or a hundred times
    its size, whichever is more.
    """
    title = f'{noun} "{path.name}"'
    if path.is_dir():
        raise error(f'"{path}" is a folder; name a file in it.')
    if path.suffix.lower() in SPREADSHEETS:
        raise error(f"{title}: spreadsheets are not read. Save it as CSV.")
    if suffix_of(path) == ".parquet":
        require("pyarrow", "parquet")  # before anything about the file
    try:
        limit = max_unpacked(path, max_unpacked_bytes)
        with path.open("rb") as file:
            yield from rows_of(file, suffix_of(path), title, error, limit)
    except FileNotFoundError:
        raise error(f'{title}: there is no file "{path}". Check the path.') from None
    except (OSError, EOFError, zlib.error) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise error(f"{title} cannot be read ({reason}). Check the file or copy it again.") from None


def rows_of(
    file: io.BufferedReader, suffix: str, title: str, error: type[PetsError] = InputError, limit: int = 1 << 62
) -> Iterator[FileRow]:
    """The rows of an open file; without a ``suffix``, its beginning shows the format."""
    try:
        form = suffix or sniffed_suffix(file.peek(SNIFFED_BYTES)[:SNIFFED_BYTES])
        if form == ".parquet":
            yield from _parquet(file, limit)
        elif form == ".json":
            yield from _json(file.read())
        elif form == ".jsonl":
            yield from json_lines(file)
        elif form == ".jsonl.gz":
            yield from json_lines(unpacked_lines(file, limit))
        else:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            try:
                lines = ((number, line.strip()) for number, line in enumerate(text, 1))
                plain = (FileRow(f"line {number}", {LINE_COLUMN: line}) for number, line in lines if line)
                yield from plain if form == ".txt" else separated_rows(text)
            finally:
                text.detach()  # the caller closes the file
    except UnicodeDecodeError as failure:
        raise error(f"{title}: byte {failure.start + 1} is not UTF-8. Save it as UTF-8.") from None
    except UnreadableRowsError as failure:
        raise error(f"{title}: {failure}") from None


class UnreadableRowsError(Exception):
    """The file as a whole is not what it seems to be."""


def sniffed_suffix(head: bytes) -> str:
    """The format of a file without a known suffix: JSON, CSV under a head of several short names, or plain lines."""
    if head.startswith(b"PAR1"):
        return ".parquet"
    if head.startswith(b"\x1f\x8b"):
        return ".jsonl.gz"
    text = head.decode("utf-8-sig", "replace").lstrip()
    if text.startswith("["):
        return ".json"
    if text.startswith("{"):
        return ".jsonl"
    first = text.partition("\n")[0].strip()
    cells = first.split(_separator(first))
    is_head = len(cells) > 1 and all(cell.strip().strip('"').replace("_", "").isidentifier() for cell in cells)
    return ".csv" if is_head else ".txt"


def unpacked_lines(packed: IO[bytes], limit: int) -> Iterator[bytes]:
    """The lines of a compressed file; one that unpacks to more than ``limit`` bytes raises ``OSError``."""
    left = limit
    with gzip.open(packed) as lines:
        while line := lines.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise OSError(too_large(limit))
            yield line


def max_unpacked(path: Path, max_unpacked_bytes: int | None = None) -> int:
    """The bytes that a compressed file may unpack to."""
    return max_unpacked_bytes or max(MIN_UNPACKED_LIMIT, MAX_UNPACKED_RATIO * path.stat().st_size)


def too_large(limit: int) -> str:
    """The problem of a file that unpacks to more."""
    return f"it unpacks to over {limit} bytes, far more than its size; unpack it yourself if that is right"


def json_lines(file: Iterable[bytes]) -> Iterator[FileRow]:
    """JSON line by line, split at newlines alone: a JSON string may hold any of Unicode's other line ends."""
    for number, line in enumerate(file, 1):
        if line.strip():
            value, problem = parse_json(line.rstrip(b"\r\n"))
            yield FileRow(f"line {number}", value, problem and f"{problem} {REPAIR}")


def parse_json(raw: bytes) -> tuple[Any, str]:
    """The value, and what is wrong where there is none.

    >>> parse_json(b'{"id": 1}')
    ({'id': 1}, '')
    >>> parse_json(b"{id")[1]
    'this is not JSON (Expecting property name enclosed in double quotes at column 2).'
    """
    try:
        return json.loads(raw.decode("utf-8-sig")), ""
    except UnicodeDecodeError as error:
        return None, f"byte {error.start + 1} is not UTF-8. Save the file as UTF-8."
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}" if b"\n" in raw.strip() else f"column {error.colno}"
        return None, f"this is not JSON ({error.msg} at {at})."
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, 100,000 brackets
        return None, f"this JSON cannot be read ({error})."


def listed(value: Any) -> Any:
    """A list that stands in a cell as its text; any other value as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        parsed, problem = parse_json(value.encode(errors="replace"))
        return value if problem else parsed
    return value


@runtime_checkable
class Table(Protocol):
    """A table of pandas, polars or pyarrow, which only its user imports."""

    @property
    def columns(self) -> Any:
        """Its columns, or their names."""


def table_records(table: Any) -> list[Record] | None:
    """The rows of a table of pandas, polars or pyarrow; ``None`` of anything else."""
    if hasattr(table, "convert_dtypes"):
        table = table.convert_dtypes()  # pandas keeps whole numbers as floats where one is missing: 4 would be 4.0
    for method, arguments in (("to_pylist", ()), ("to_dicts", ()), ("to_dict", ("records",))):
        if hasattr(table, method):
            return [plain_record(row) for row in getattr(table, method)(*arguments)]
    return None


def plain_record(record: Mapping[Any, Any]) -> Record:
    """The record with Python's own numbers and lists, and ``None`` for what is missing.

    >>> plain_record({"answer": float("nan"), 1: (2, 3)})
    {'answer': None, '1': [2, 3]}
    """
    return {str(key): _plain(value) for key, value in record.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return None
    return value


def columns_of(names: Iterable[str], usual: Mapping[str, Sequence[str]], fields: Mapping[str, str]) -> dict[str, str]:
    """The columns by what they hold: as ``fields`` say, else by the first ``usual`` name; case does not matter.

    >>> columns_of(["ID", "Problem", "body"], {"id": ["id"], "question": ["question", "problem"]}, {"gold": "body"})
    {'gold': 'body', 'id': 'ID', 'question': 'Problem'}
    """
    columns, taken = dict(fields), set(fields.values())
    lower: dict[str, str] = {}
    for name in names:
        if name not in taken:
            lower.setdefault(name.lower(), name)
    for ours, candidates in usual.items():
        usual_name = next(filter(lower.__contains__, candidates), None)
        if usual_name is not None:
            columns.setdefault(ours, lower[usual_name])
    return columns


def as_text(value: object, where: str, error: type[PetsError] = InputError) -> str | None:
    """A string as it stands, a number as Python writes it, ``None`` for nothing; any other value raises."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    raise error(f"{where} is {as_json(value)}; expected a string, a number or null. {REPAIR}")


def as_json(value: object) -> str:
    """A value as JSON has it, cut to what fits in a message."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _json(raw: bytes) -> Iterator[FileRow]:
    """A list of records, one record, or (where the file as a whole is not JSON) one per line."""
    content, problem = parse_json(raw)
    if problem and (raw.lstrip().startswith(b"[") or raw.count(b"\n{") == 0):
        raise UnreadableRowsError(f"{problem} Repair it; or is it .jsonl?")
    if problem:
        yield from json_lines(raw.split(b"\n"))
    elif isinstance(content, list):
        yield from (FileRow(f"entry {number}", entry) for number, entry in enumerate(content, 1))
    elif isinstance(content, dict):
        yield FileRow("entry 1", content)
    else:
        raise UnreadableRowsError(f"it holds {raw.strip()[:40].decode(errors='replace')}, and no list of records.")


def _separator(head: str) -> str:
    """The one of :data:`SEPARATORS` that a head has most of, outside of quotes."""
    bare = "".join(head.split('"')[::2])
    return max(SEPARATORS, key=bare.count)


def separated_rows(file: Iterable[str], max_cell_chars: int = MAX_CELL_CHARS) -> Iterator[FileRow]:
    """The rows of a CSV file; an empty cell holds nothing. What is no CSV is told, and the next line begins a row."""
    csv.field_size_limit(max_cell_chars)
    lines, above, head, names = iter(file), 0, "", list[str]()
    for above, head in enumerate(lines):  # noqa: B007 (how many blank lines stand above the head)
        if head.strip():
            break
    lines = chain([head], lines)
    while True:
        reader = csv.reader(lines, delimiter=_separator(head), strict=True, skipinitialspace=True)
        try:
            names = names or [name.strip() for name in next(reader, [])]
            for cells in filter(any, reader):
                problem = f"it has more cells than the head ({len(names)}). Quote them."
                values = [cell or None for cell in cells] + [None] * (len(names) - len(cells))
                record = dict(zip(names, values, strict=False))
                yield FileRow(f"line {above + reader.line_num}", record, problem if len(cells) > len(names) else "")
            return
        except csv.Error as error:
            above += reader.line_num
            yield FileRow(f"line {above}", None, f"this is not CSV ({error}). Repair the line.")


def _parquet(file: IO[bytes], limit: int) -> Iterator[FileRow]:
    """The rows of a Parquet file. Texts come as dictionaries, so that a batch is measured before it is unpacked."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    try:
        metadata = parquet.read_metadata(file)
        texts = _check_declared(metadata, limit)
        with parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts) as table:
            number, size = 1, 0
            for batch in table.iter_batches(batch_size=PARQUET_BATCH_ROWS):
                size += sum(_unpacked_bytes(arrow, column) for column in batch.columns)
                if size > limit:
                    raise OSError(too_large(limit))
                yield from (FileRow(f"row {at}", record) for at, record in enumerate(batch.to_pylist(), number))
                number += len(batch)
    except arrow.ArrowException as error:
        raise UnreadableRowsError(f"this is not Parquet ({error}). Check the file or copy it again.") from None


def _check_declared(metadata: Any, limit: int) -> list[str]:
    """Refuse a file that says of itself that it unpacks to more than ``limit`` bytes; the paths of its texts."""
    columns = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        parts = [group.column(at) for at in range(len(columns))]
        cells = zip(parts, columns, strict=True)
        size += max(group.total_byte_size, sum(p.num_values * max(c.length, MIN_CELL_BYTES) for p, c in cells))
        if any(PREFIXED in part.encodings for part in parts):  # one long text could be the start of millions
            raise UnreadableRowsError(f"it is encoded as {PREFIXED}, which is not read. Write it with another.")
    if size > limit:
        raise OSError(too_large(limit))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _unpacked_bytes(arrow: Any, array: Any) -> int:
    """The bytes of a column of a batch, each text counted as often as it stands there."""
    kind = array.type
    if arrow.types.is_dictionary(kind):
        lengths = require("pyarrow.compute", "parquet").binary_length(array.dictionary).take(array.indices)
        return int(lengths.sum().as_py() or 0) + MIN_CELL_BYTES * len(array)
    if arrow.types.is_map(kind):
        return _unpacked_bytes(arrow, array.keys) + _unpacked_bytes(arrow, array.items)
    if arrow.types.is_struct(kind):
        return sum(_unpacked_bytes(arrow, part) for part in array.flatten())
    if arrow.types.is_nested(kind):  # lists of all kinds
        return _unpacked_bytes(arrow, array.flatten())
    return max(int(array.nbytes), MIN_CELL_BYTES * len(array))
