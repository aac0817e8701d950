"""Rows in every format: what is read back is what was written, and a file is whole or not there."""

import csv
import gc
import json
import os
import sys
from pathlib import Path

import pytest

from pets.errors import InputError
from pets.tabular import OUTPUT_SUFFIXES, open_rows, read_rows, write_rows, writing

ROWS = [
    {"id": "a", "votes": {"4": 3, "5": 1}, "text": 'so, "4";\nnaïve ☃', "complete": True, "traces": 4, "cost": None},
    {"id": "b", "votes": {}, "text": None, "complete": False, "traces": 0, "cost": 0.5, "error": "too long"},
]


def values(path):
    return [row.value for row in read_rows(path, noun="rows")]


@pytest.mark.parametrize("suffix", OUTPUT_SUFFIXES)
def test_what_is_written_is_read_back(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    assert write_rows(iter(ROWS), path) == 2
    rows = values(path)
    if suffix in (".csv", ".tsv"):
        assert rows == [
            {"id": "a", "votes": '{"4": 3, "5": 1}', "text": 'so, "4";\nnaïve ☃', "complete": "true", "traces": "4",
             "cost": None, "error": None},
            {"id": "b", "votes": "{}", "text": None, "complete": "false", "traces": "0", "cost": "0.5",
             "error": "too long"},
        ]  # fmt: skip
    elif suffix == ".parquet":
        assert rows == [{**row, "votes": json.dumps(row["votes"]), "error": row.get("error")} for row in ROWS]
    else:
        assert rows == ROWS


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_that_comes_late_is_kept_where_it_was_named(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(writing, "BATCH_ROWS", 1)
    write_rows(ROWS, tmp_path / f"rows{suffix}", ["id", "cost", "error"])
    assert [row["error"] for row in values(tmp_path / f"rows{suffix}")] == [None, "too long"]


@pytest.mark.parametrize("suffix", OUTPUT_SUFFIXES)
def test_no_rows_are_an_empty_file_of_the_format(tmp_path, suffix):
    write_rows([], tmp_path / f"rows{suffix}", ["id"])
    assert values(tmp_path / f"rows{suffix}") == []


def test_a_parquet_file_whose_rows_break_off_is_closed_in_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "BATCH_ROWS", 1)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: unraisable.append(str(failure.exc_value)))
    for last in (1, "no number"):
        rows = ({"n": 1 / (3 - n) if last == 1 else last if n == 3 else 1} for n in range(1, 4))
        with pytest.raises((ZeroDivisionError, ValueError)):
            write_rows(rows, tmp_path / "rows.parquet")
        gc.collect()
    assert unraisable == [] and list(tmp_path.iterdir()) == []


def test_half_a_character_does_not_stop_a_file(tmp_path):
    for suffix in (".jsonl", ".csv", ".parquet"):
        write_rows([{"text": "half: \ud83d"}], tmp_path / f"rows{suffix}")
    assert values(tmp_path / "rows.jsonl") == [{"text": "half: \ud83d"}]
    assert values(tmp_path / "rows.parquet") == values(tmp_path / "rows.csv") == [{"text": "half: ?"}]


FORMULAS = ["=1+1", "=HYPERLINK(1)", "+1+1", "-2+3|cmd", "@sum(1)", "\t=1", "\r=1", "\n=1", "-", "+"]
BROKEN = ["a\r=1", "a\r\n=1", "a\n=1"]  # within one cell
NUMBERS = ["-4", "+4.5", "-.5", "-1e-9", "4", -4, -4.5, 0]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_no_cell_of_a_table_is_a_formula_and_numbers_stay_numbers(tmp_path, suffix):
    write_rows([{"=id": cell} for cell in [*FORMULAS, *NUMBERS, *BROKEN, [-1]]], tmp_path / f"rows{suffix}")
    with (tmp_path / f"rows{suffix}").open(newline="") as file:
        cells = [cell for (cell,) in csv.reader(file, delimiter="," if suffix == ".csv" else "\t")]
    assert cells == ["'=id", *(f"'{cell}" for cell in FORMULAS), *map(str, NUMBERS), *BROKEN, "[-1]"]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_what_no_spreadsheet_reads_has_texts_as_they_are(tmp_path, suffix):
    write_rows([{"id": cell} for cell in FORMULAS], tmp_path / f"rows{suffix}")
    assert [row["id"] for row in values(tmp_path / f"rows{suffix}")] == FORMULAS


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def breaks():
        yield {"id": "a"}
        raise InputError("it broke")

    (tmp_path / "rows.jsonl").write_text("as before")
    for name in ("rows.jsonl", "rows.csv", "rows.parquet"):
        with pytest.raises(InputError, match="it broke"):
            write_rows(breaks(), tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("rows.jsonl", "as before")]


@pytest.mark.parametrize(
    ("name", "message"),
    [("rows.txt", "ends in none of"), ("no/rows.jsonl", "cannot be written"), ("rows.parquet", "nothing to write")],
)
def test_what_cannot_be_written_is_one_line(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        write_rows([], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_whoever_watches_a_table_sees_every_row(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("wb", buffering=0) as file, open_rows(file, path.name, ["id"]) as writer:
        writer.write({"id": "a"})
        assert path.read_text() == "id\na\n"


def test_a_device_is_not_replaced_by_a_file():
    assert write_rows([{"id": "q1"}, {"id": "q2"}], Path(os.devnull)) == 2  # lines of JSON: it has no suffix
    with writing.atomic_write(Path(os.devnull)) as file:
        assert file.name == os.devnull
    assert not Path(os.devnull).is_file()


def test_no_link_that_waits_where_a_draft_will_be_is_followed(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("as before")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".guessed.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match=r"cannot be written \(File exists\)"), writing.atomic_write(tmp_path / "rows"):
        pass
    assert (tmp_path / "victim").read_text() == "as before" and (tmp_path / ".guessed.tmp").is_symlink()


def test_the_names_of_drafts_differ(tmp_path):
    with writing.atomic_write(tmp_path / "a") as first, writing.atomic_write(tmp_path / "a") as second:
        assert first.name != second.name and "a" not in (Path(first.name).stem, Path(second.name).stem)
