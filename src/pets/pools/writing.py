"""Writes recorded pools: a file appears whole or not at all, and what is read back is equal."""

import gzip
import json
import os
from pathlib import Path

from pets._extras import require
from pets.errors import PoolError
from pets.pools.question import Pool, PooledQuestion
from pets.pools.reading import SUFFIXES, pool_name, pool_suffix
from pets.tabular import atomic_write


def write_pool(pool: Pool, path: str | os.PathLike[str]) -> None:
    """Write the questions in the format of the suffix; the file appears whole or not at all.

    What is read back is equal; name and kind belong to the file's name and to its folder's manifest.
    """
    path = Path(path)
    suffix = pool_suffix(path)
    if suffix not in SUFFIXES:
        raise PoolError(f"{pool_name(path)}: pools are written as {', '.join(SUFFIXES)}. Rename it.")
    try:
        lines = [] if suffix == ".parquet" else [line_of(question) for question in pool.questions]
        text = "[\n" + ",\n".join(lines) + "\n]\n" if suffix == ".json" else "".join(f"{line}\n" for line in lines)
        content = _parquet_bytes(pool) if suffix == ".parquet" else text.encode()
        content = gzip.compress(content, mtime=0) if suffix == ".jsonl.gz" else content
    except UnicodeEncodeError as error:  # half a surrogate pair, which JSON can escape
        raise PoolError(f"{pool_name(path)}: Parquet cannot hold this pool ({error}). Write .jsonl instead.") from None
    with atomic_write(path, PoolError) as file:
        file.write(content)


def line_of(question: PooledQuestion) -> str:
    """A question as one line of JSON."""
    return json.dumps(_record(question), separators=(",", ":"))


def _parquet_bytes(pool: Pool) -> bytes:
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    text, list_of = arrow.string(), arrow.list_
    columns = {"id": text, "gold": text, "answers": list_of(text)}
    columns |= {"tokens": list_of(arrow.int64()), "confidence": list_of(arrow.float64())}
    if any(question.texts is not None for question in pool.questions):
        columns |= {"texts": list_of(text), "cut": list_of(arrow.bool_())}
    kinds = dict.fromkeys(kind for question in pool.questions for kind in question.confidences)
    if kinds:
        columns["confidences"] = arrow.struct([(kind, list_of(arrow.float64())) for kind in kinds])
    table = arrow.Table.from_pylist([_record(q) for q in pool.questions], schema=arrow.schema(columns.items()))
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def _record(question: PooledQuestion) -> dict[str, object]:
    kinds = dict(question.confidences)
    # The kind that was chosen on reading is one of them: written once, and chosen anew on the next reading.
    confidence = None if question.confidence in kinds.values() else question.confidence
    optional = {
        "answers": question.answers,
        "tokens": question.tokens,
        "confidence": confidence,
        "confidences": kinds or None,
        "texts": question.texts,
        "cut": question.cut,
    }
    return {"id": question.id, "gold": question.gold} | {k: v for k, v in optional.items() if v is not None}
