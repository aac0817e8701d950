"""``pets next``: what is uncertain in a run and the command that goes on with it."""

import json
import shlex

import pytest
from click.testing import CliRunner

import pets
from pets.cli.main import cli
from pets.errors import PetsError


def run(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


@pytest.fixture
def store(tmp_path):
    """A run of four clear questions, two open races and one that never votes."""
    answers = {"split": "AB", "even": "AB", "mute": [""]}
    seen = dict.fromkeys([*(f"clear {i}" for i in range(4)), *answers], 0)

    def sample(question):
        name = question.splitlines()[0]
        seen[name] += 1
        choices = answers.get(name, ["A"])
        return f"The answer is {choices[seen[name] % len(choices)]}." if choices[0] else "I do not know"

    path = tmp_path / "runs.db"
    questions = [{"id": name, "question": name, "choices": ["A", "B"]} for name in seen]
    pets.solve(questions, sampler=sample, budget="6x", max_traces=6, store=path, answer="choice")
    return path


def test_it_says_what_is_uncertain_and_why_and_gives_the_line_to_paste(store):
    result = run("next", 1, "--store", store, "--format", "jsonl")
    assert result.exit_code == 0, result.output
    why = {row["id"]: row["why"] for row in map(json.loads, result.stdout.splitlines())}
    assert why["mute"] == "unreadable" and why["split"] == "cap" and not {"clear 0"} & set(why)
    assert "choose how answers are read with --answer" in result.stderr
    lines = [line.partition("pets ")[2] for line in result.stderr.splitlines() if "pets resume" in line]
    assert lines and all(shlex.split(line)[:2] == ["resume", "1"] and str(store) in line for line in lines)
    shown = run("next", "--store", store, "--format", "table").stdout
    assert "unreadable" in shown and "3 x A" in shown


def test_a_wrong_run_is_one_line(store, tmp_path):
    for args in (("next", 7, "--store", store), ("next", "--store", tmp_path / "none.db")):
        error = run(*args).exception
        assert isinstance(error, PetsError) and "\n" not in str(error)
