"""Rows of every format with their places; what is wrong is told of the row, or of the file."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest

from pets.errors import InputError
from pets.tabular import read_rows


def rows(path, **options):
    return [tuple(row) for row in read_rows(path, noun="rows", **options)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.parquet", "unknown"])
def test_every_format_gives_the_same_records(tmp_path, name):
    records = [{"id": "1", "text": 'a; b, "c"\nd'}, {"id": "2", "text": None}]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(lines.encode()))
    elif name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    elif name.endswith(".csv"):
        path.write_text('id;text\n1;"a; b, ""c""\nd"\n2\n')
    else:
        path.write_text(json.dumps(records) if name.endswith(".json") else lines)
    assert [value for _, value, problem in rows(path) if not problem] == records


def test_a_bad_line_is_told_and_the_next_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{oops\n\n{"a": 2}\n')
    first, bad, last = rows(tmp_path / "a.jsonl")
    assert (first, last) == (("line 1", {"a": 1}, ""), ("line 4", {"a": 2}, ""))
    assert bad[0] == "line 2" and bad[2].startswith("this is not JSON")


def test_json_in_lines_is_read_as_lines(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1}\n{"a": 2}\n')
    assert [value for _, value, _ in rows(tmp_path / "a.json")] == [{"a": 1}, {"a": 2}]


def test_what_unpacks_to_too_much_is_refused(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 100))
    with pytest.raises(InputError, match=r'rows "a\.jsonl\.gz" cannot be read \(it unpacks to over 100 bytes'):
        rows(tmp_path / "a.jsonl.gz", max_unpacked_bytes=100)
    pyarrow.parquet.write_table(pyarrow.table({"a": ["x" * 100] * 10_000}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"unpacks to over 5000 bytes"):
        rows(tmp_path / "a.parquet", max_unpacked_bytes=5_000)


TEXT = "a" * (1 << 20)
USUAL = pyarrow.default_memory_pool()
MEASURED = pyarrow.proxy_memory_pool(USUAL)  # it outlives what is read by it


def repeated(count):
    """One text in so many cells."""
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * count, "int32"), [TEXT])


BOMBS = {
    "a text in every cell": lambda: repeated(1_000),
    "a text in every cell of a list": lambda: pyarrow.ListArray.from_arrays([0, 1_000], repeated(1_000)),
    "a text in every cell of a struct": lambda: pyarrow.StructArray.from_arrays([repeated(1_000)], names=["b"]),
    "cells without a value": lambda: pyarrow.nulls(10_000_000),
    "a long list without a value": lambda: pyarrow.ListArray.from_arrays([0, 9_000_000], pyarrow.nulls(9_000_000)),
    "bytes of one length": lambda: pyarrow.array([TEXT.encode()] * 100, pyarrow.binary(1 << 20)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_parquet_file_of_much_is_refused_before_it_is_unpacked(tmp_path, name):
    path, options = tmp_path / "bomb.parquet", {"compression": "zstd", "compression_level": 19, "store_schema": False}
    table = pyarrow.table({"a": BOMBS[name]()})
    pyarrow.parquet.write_table(table, path, dictionary_pagesize_limit=1 << 30, **options)
    assert path.stat().st_size < 100_000
    pyarrow.set_memory_pool(MEASURED)
    try:
        with pytest.raises(InputError, match=r"unpacks to over 67108864 bytes"):
            rows(path)
    finally:
        pyarrow.set_memory_pool(USUAL)
    assert MEASURED.max_memory() < 64 << 20


def test_texts_that_begin_alike_are_not_unpacked(tmp_path):
    table = pyarrow.table({"a": [TEXT] * 100})
    options = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", **options)
    with pytest.raises(InputError, match="is encoded as DELTA_BYTE_ARRAY, which is not read"):
        rows(tmp_path / "a.parquet")


def test_parquet_of_every_shape_is_read_as_it_is(tmp_path):
    pairs = pyarrow.array([[("k", "v")], None], pyarrow.map_(pyarrow.string(), pyarrow.string()))
    records = [
        {"id": "a", "n": 1, "x": 0.5, "ok": True, "many": ["p", None], "deep": {"b": ["q"]}},
        {"id": "a", "n": None, "x": None, "ok": None, "many": [], "deep": None},
    ]
    table = pyarrow.Table.from_pylist(records).append_column("pairs", pairs)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    read = [value for _, value, _ in rows(tmp_path / "a.parquet")]
    assert read == [{**records[0], "pairs": [("k", "v")]}, {**records[1], "pairs": None}]


def test_a_folder_and_a_missing_file_say_so(tmp_path):
    with pytest.raises(InputError, match="is a folder; name a file in it"):
        rows(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        rows(tmp_path / "none.csv")
