"""``pets report``: a page of a run or of rows, or one line and exit 2."""

import json

from click.testing import CliRunner

from pets.cli.main import cli


def run(*args):
    return CliRunner().invoke(cli, ["report", *map(str, args)])


def test_rows_of_a_replay_become_a_page(tmp_path):
    pool = [{"id": f"q{q}", "answers": list("ABAA" * 4)} for q in range(12)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pool))
    few = ("--policy", "uniform", "--policy", "okg", "--repetitions", "1", "--workers", "1", "-o", "rows.jsonl")
    assert CliRunner().invoke(cli, ["replay", str(tmp_path / "p.jsonl"), *few]).exit_code == 0
    result = run("rows.jsonl", "-o", tmp_path / "page.html")
    assert result.exit_code == 0 and result.stdout == "" and "page.html written" in result.stderr
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_run_or_a_folder_that_is_not_there_is_said(tmp_path):
    for args, words in (
        (("last",), "no such file"),
        (("rows.jsonl",), "there is no file"),
        (("1", "-o", "x/y.html"), "folder"),
    ):
        result = run(*args)
        assert result.exception is not None and words in str(result.exception), (args, result.exception)
    assert not list(tmp_path.iterdir())
