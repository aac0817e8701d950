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


def test_a_folder_and_a_missing_file_say_so(tmp_path):
    with pytest.raises(InputError, match="is a folder; name a file in it"):
        rows(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        rows(tmp_path / "none.csv")
