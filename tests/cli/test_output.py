"""What verbs print and write; tables in terminals of every width: no number is cut."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from pets.cli._output import (
    check_output,
    growing_output,
    print_rows,
    print_table,
    table_blocks,
    table_console,
    write_output,
)
from pets.cli._terminal import echo
from pets.errors import InputError


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    check_output(None)
    check_output(tmp_path / "new.jsonl")
    with pytest.raises(InputError, match=r"there is no folder .* to write x.jsonl to"):
        check_output(tmp_path / "none" / "x.jsonl")
    with pytest.raises(InputError, match=r"cannot be written \(File name too long\)"):
        check_output(tmp_path / ("long" * 100))


def test_a_table_in_a_pipe_is_as_wide_as_columns_says_and_else_not_folded(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table_console().width == 240 and table_console(100).width == 100
    monkeypatch.setenv("COLUMNS", "80")
    assert table_console().width == 80 and table_console(100).width == 80


def test_rows_go_to_stdout_as_lines_or_csv_or_to_a_file_by_its_suffix(tmp_path, capsys):
    rows = [{"id": "a", "votes": {"4": 2}}]
    assert write_output(rows, None) == 1
    for form in (None, "csv", "jsonl", "json", "table"):
        print_rows(rows, form, lambda: echo("a table"))
    assert write_output(rows, tmp_path / "rows.csv") == 1
    line, table = '{"id": "a", "votes": {"4": 2}}', 'id,votes\na,"{""4"": 2}"\n'
    assert capsys.readouterr().out == f"{line}\n{line}\n{table}{line}\n[{line}]\na table\n"
    assert (tmp_path / "rows.csv").read_text() == table


def test_a_file_of_rows_has_a_known_suffix(tmp_path):
    check_output(tmp_path / "rows.CSV", rows=True)
    with pytest.raises(InputError, match="ends in none of"):
        check_output(tmp_path / "rows.xlsx", rows=True)


def test_a_stream_that_goes_on_adds_to_its_lines(tmp_path):
    for resume in (False, True):
        with growing_output(tmp_path / "rows.jsonl", ["id"], resume=resume) as write:
            write({"id": "a"})
            assert (tmp_path / "rows.jsonl").read_text().endswith('{"id": "a"}\n')  # at once
    assert (tmp_path / "rows.jsonl").read_text() == '{"id": "a"}\n' * 2
    (tmp_path / "rows.csv").write_text("id\na\n")
    with (
        pytest.raises(InputError, match=r"only \.jsonl is added to"),
        growing_output(tmp_path / "rows.csv", ["id"], resume=True),
    ):
        pass


def test_what_is_read_is_not_written_over(tmp_path):
    questions, link = tmp_path / "questions.jsonl", tmp_path / "link.jsonl"
    questions.write_text("{}\n")
    link.symlink_to(questions)
    for output in (questions, link):
        with pytest.raises(InputError, match="would be written over"):
            check_output(output, str(questions), rows=True)
    check_output(tmp_path / "answers.jsonl", str(questions), None, rows=True)
    check_output(questions, "starter", rows=True)


def make_table(columns=9, rows=3):
    table = Table(title="what it is", caption="what it means")
    table.add_column("policy", overflow="fold")
    for at in range(columns):
        table.add_column(f"self-consistency at {at}", justify="right")
    for row in range(rows):
        table.add_row(f"policy number {row} with a long name", *(f"{row}{at}.125 ± 0.{at}5" for at in range(columns)))
    return table


def text(table, width, **options):
    sink = io.StringIO()
    print_table(table, Console(file=sink, width=width), **options)
    return sink.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 240, 400])
def test_every_cell_is_there_whole_and_no_line_is_too_long(width):
    shown = text(make_table(), width)
    assert all(f"{row}{at}.125 ± 0.{at}5" in shown for row in range(3) for at in range(9))
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


def test_a_table_that_fits_is_left_as_it_is():
    table = make_table(2)
    assert list(table_blocks(table, 120)) == [table]


def test_blocks_repeat_the_key_and_share_one_title_and_caption():
    blocks = list(table_blocks(make_table(), 80))
    assert len(blocks) > 1
    assert all(block.columns[0].header == "policy" for block in blocks)
    assert [block.title for block in blocks] == ["what it is"] + [None] * (len(blocks) - 1)
    assert [block.caption for block in blocks] == [None] * (len(blocks) - 1) + ["what it means"]


def test_two_keys_are_repeated():
    blocks = list(table_blocks(make_table(), 80, keys=2))
    assert len(blocks) > 1
    assert all(
        [column.header for column in block.columns[:2]] == ["policy", "self-consistency at 0"] for block in blocks
    )


def test_a_heading_folds_before_the_table_is_spread():
    shown = text(make_table(2), 60)
    assert shown.count("policy number 0") == 1 and "self-consistency at 0" not in shown


@given(st.lists(st.lists(st.integers(0, 10**12), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(24, 100))
def test_numbers_survive_any_width(rows, width):
    table = Table("a", "b", "c")
    for row in rows:
        table.add_row(*map(str, row))
    shown = re.findall(r"\d+", text(table, width, keys=0))
    assert sorted(shown) == sorted(str(number) for row in rows for number in row)
