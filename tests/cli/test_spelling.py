"""Old and mistyped words: each is answered with the line to type, exit 2, and nothing is run."""

import pytest
from click.testing import CliRunner

from pets.cli.main import COMMANDS, OPTIONS, VERBS, cli

from ..command import pets

COMMAND_LINES = [
    ("top-up last --budget 12.5x", "pets resume last --budget +12.5x"),
    ("top-up 3 --budget +2000 --store a.db", "pets resume 3 --budget +2000 --store a.db"),
    ("plan show plan.json", "pets fit --show plan.json"),
    ("questions gpqa --first 3", "pets pools questions gpqa --first 3"),
    ("batch write mine.jsonl -o wave.jsonl", "pets solve QUESTIONS --model NAME --batch-api --to FILE"),
    ("batch read replies.jsonl", "pets resume RUN --replies FILE"),
    ("batch cancel 3", "pets runs cancel 3"),
]


@pytest.mark.parametrize(("line", "successor"), COMMAND_LINES)
def test_a_former_command_prints_the_new_line_and_exits_2(line, successor):
    out = pets(*line.split())
    assert out.returncode == 2 and out.stderr.endswith(f" is now: {successor}\n") and out.stderr.count("\n") == 1


@pytest.mark.parametrize("former", COMMANDS)
def test_no_former_command_is_a_verb(former):
    assert former not in VERBS


@pytest.mark.parametrize("key", [key for key in OPTIONS if not key.startswith("--")])
def test_a_former_option_names_its_successor(key):
    words = key.split()
    out = pets(*words[:-1], "x", f"{words[-1]}=1")
    assert out.returncode == 2 and f"{words[-1]} is now {OPTIONS[key]}." in out.stderr, out.stderr


@pytest.mark.parametrize("line", ["fit --max-per-question 1", "sample --at-once 1", "solve --dialect vllm"])
def test_an_option_that_several_verbs_had_names_its_successor(line):
    out = pets(*line.split())
    assert out.returncode == 2 and f"{line.split()[1]} is now {OPTIONS[line.split()[1]]}." in out.stderr


def test_a_mistyped_word_is_answered_with_what_was_meant():
    result = CliRunner().invoke(cli, ["solv", "x"])
    assert result.exit_code == 2 and "No such command 'solv'. Did you mean solve?" in result.stderr
    assert "Did you mean" not in CliRunner().invoke(cli, ["zzz"]).stderr
    assert "Did you mean show?" in pets("runs", "shwo").stderr
    assert "Did you mean" in pets("solve", "q.jsonl", "--budjet", "3x").stderr
