"""What verbs print beside their data."""

import pytest

from pets.cli._output import (
    check_output,
    check_rows_output,
    growing_output,
    print_rows,
    table_console,
    write_output,
)
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
    print_rows(rows, "csv")
    assert write_output(rows, tmp_path / "rows.csv") == 1
    table = 'id,votes\na,"{""4"": 2}"\n'
    assert capsys.readouterr().out == '{"id": "a", "votes": {"4": 2}}\n' + table
    assert (tmp_path / "rows.csv").read_text() == table


def test_a_file_of_rows_has_a_known_suffix(tmp_path):
    check_rows_output(tmp_path / "rows.CSV")
    with pytest.raises(InputError, match="ends in none of"):
        check_rows_output(tmp_path / "rows.xlsx")


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
            check_rows_output(output, str(questions))
    check_rows_output(tmp_path / "answers.jsonl", str(questions), None)
    check_rows_output(questions, "starter")
