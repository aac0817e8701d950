"""What verbs print beside their data."""

import pytest

from pets.cli._output import check_output, read_pool_reporting_skips, table_console
from pets.errors import InputError


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    check_output(None)
    check_output(tmp_path / "new.jsonl")
    with pytest.raises(InputError, match=r"there is no folder .* to write x.jsonl to"):
        check_output(tmp_path / "none" / "x.jsonl")


def test_a_table_in_a_pipe_is_as_wide_as_columns_says_and_else_not_folded(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table_console().width == 240 and table_console(100).width == 100
    monkeypatch.setenv("COLUMNS", "80")
    assert table_console().width == 80 and table_console(100).width == 80


def test_skipped_lines_are_reported_on_stderr(tmp_path, capsys):
    pool = tmp_path / "p.jsonl"
    pool.write_text('{"id": "a", "gold": "B", "answers": ["B"]}\n{\n{\n')
    assert len(read_pool_reporting_skips(pool, skip_bad=True).questions) == 1
    assert capsys.readouterr().err == "p: skipped 2 bad lines.\n"
