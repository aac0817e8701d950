"""A run as files: its traces as records, and as a pool that policies can be replayed on."""

import gzip
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from pets._extras import require
from pets.confidence import KINDS
from pets.errors import InputError
from pets.pools import PooledQuestion
from pets.store.records import StoredTrace
from pets.store.run import RunView

__all__ = ["RECORD_SUFFIXES", "pooled_questions", "trace_records", "write_records"]

RECORD_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")
PARQUET_BATCH_ROWS = 5_000
INTEGER_COLUMNS = ("number", "traces", "no_answer", "failed", "tokens", "prompt_tokens", "endpoint", "tries", "wasted")
REAL_COLUMNS = ("certificate", "cost", "seconds")
BOOLEAN_COLUMNS = ("complete",)


def trace_records(view: RunView) -> Iterator[dict[str, Any]]:
    """Every trace as plain data, question by question in launch order."""
    for trace in view.traces():
        record = asdict(trace)
        measured = record.pop("confidences")
        yield record | {"confidences": None if measured is None else {kind: measured[kind] for kind in KINDS}}


def pooled_questions(view: RunView) -> Iterator[PooledQuestion]:
    """Every question that got a vote, its answers in launch order; one without votes cannot be replayed."""
    problems = view.problems()
    for id, group in groupby(view.traces(texts=False), key=lambda trace: trace.question):
        traces = list(group)
        gold = next(problem.gold for problem in problems if problem.id == id)  # both come in one order
        if any(trace.answer is not None for trace in traces):
            yield _pooled(id, gold, traces, view.settings.confidence or "tail")


def _pooled(id: str, gold: str | None, traces: list[StoredTrace], kind: str) -> PooledQuestion:
    answers = tuple(trace.answer for trace in traces)
    tokens = tuple(trace.tokens for trace in traces)
    if all(trace.confidences is None for trace in traces):
        return PooledQuestion(id, answers, gold, tokens)
    kinds: dict[str, tuple[float | None, ...]] = {
        kind: tuple(None if t.confidences is None else round(getattr(t.confidences, kind), 3) for t in traces)
        for kind in KINDS
    }
    return PooledQuestion(id, answers, gold, tokens, kinds[kind], kinds)


def write_records(records: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write records in the format of the suffix, streamed, and say how many; the file appears whole or not at all."""
    name = path.name.lower()
    if not name.endswith(RECORD_SUFFIXES):
        raise InputError(f'"{path}" ends in none of {", ".join(RECORD_SUFFIXES)}. Rename it.')
    with atomic_write(path) as draft:
        if name.endswith(".parquet"):
            return _parquet(records, draft)
        with gzip.open(draft, "wb") if name.endswith(".gz") else draft.open("wb") as file:
            return _lines(records, file.write)


def _lines(records: Iterable[Mapping[str, Any]], write: Callable[[bytes], object]) -> int:
    number = 0
    for number, record in enumerate(records, 1):  # noqa: B007 (the last number is how many there were)
        write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    return number


def _parquet(records: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write a Parquet file; what has no column type of its own, such as votes, is JSON text in it."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    remaining, number, writer = iter(records), 0, None
    try:
        while rows := list(islice(remaining, PARQUET_BATCH_ROWS)):
            if writer is None:
                keys = dict.fromkeys(key for row in rows for key in row)  # not every row has a gold or an error
                schema = arrow.schema([(key, _type(arrow, key)) for key in keys])
                writer = parquet.ParquetWriter(path, schema)
            plain = [{key: _cell(key, value) for key, value in row.items()} for row in rows]
            writer.write_table(arrow.Table.from_pylist(plain, schema=schema))
            number += len(rows)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise InputError("there is nothing to write yet: no column is known. Write .jsonl, or wait for a trace.")
    return number


def _type(arrow: Any, key: str) -> Any:
    if key == "confidences":
        return arrow.struct([(kind, arrow.float64()) for kind in KINDS])
    if key in BOOLEAN_COLUMNS:
        return arrow.bool_()
    return arrow.int64() if key in INTEGER_COLUMNS else arrow.float64() if key in REAL_COLUMNS else arrow.string()


def _cell(key: str, value: Any) -> Any:
    plain = key == "confidences" or not isinstance(value, dict | list)
    return value if plain else json.dumps(value, ensure_ascii=False)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A draft to write to, which takes the place of ``path`` when all went well and is removed when not."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        raise InputError(f'"{path}" cannot be written ({error.strerror or error}). Choose another path.') from None
    finally:
        draft.unlink(missing_ok=True)
