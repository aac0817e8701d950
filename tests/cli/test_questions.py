"""``pets questions`` from the shell."""

import json
import sys

from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import InputError
from pets.questions import named_sets

ROW = {"question": "Two pens and two?", "answer": "So 4.\n#### 4"}


def run(*args):
    return CliRunner().invoke(cli, ["questions", *map(str, args)])


def test_the_sets_are_listed_without_asking_the_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    lines = run().stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == named_sets() and "(openai/gsm8k)" in run().stdout


def test_a_copy_is_printed_as_lines(tmp_path):
    (tmp_path / "test.jsonl").write_text(json.dumps(ROW) + "\n")
    result = run("gsm8k", "--from", tmp_path / "test.jsonl")
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["gold"] == "4" and result.exit_code == 0


def test_a_missing_copy_is_a_users_mistake(tmp_path):
    result = run("gsm8k", "--from", tmp_path / "none.jsonl")
    assert result.exit_code == 2 and "does not exist" in result.stderr and result.stdout == ""


def test_a_file_of_ones_own_is_printed_as_it_is_read(tmp_path):
    (tmp_path / "exam.csv").write_text("body;answer\n2 + 2?;4\n3 + 3?;6\n")
    result = run(tmp_path / "exam.csv", "--field", "question=body", "--first", 1)
    assert result.exit_code == 0, result.stderr
    (row,) = map(json.loads, result.stdout.splitlines())
    assert row["prompt"] == [{"role": "user", "content": "2 + 2?"}] and row["gold"] == "4"
    wrong = run(tmp_path / "exam.csv", "--from", tmp_path / "exam.csv")
    assert isinstance(wrong.exception, InputError) and "is a copy of a named set" in str(wrong.exception)


def test_questions_come_through_a_pipe():
    result = CliRunner().invoke(cli, ["questions", "-"], input="What is 2 + 2?\n")
    assert json.loads(result.stdout)["prompt"][0]["content"] == "What is 2 + 2?"
