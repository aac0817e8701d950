"""``pets runs`` from the shell: data on stdout, words on stderr, exit 2 for a user's mistake."""

import json
import sqlite3
import subprocess
import sys

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.engine import RunConfig
from pets.engine.resume import run_settings
from pets.pools import read_pool
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Store, StoredTrace

PROBLEMS = [Problem(f"q{n}", Prompt(f"{n} ="), "number", str(n)) for n in range(4)]
ANSWERS = {"q0": ["0"] * 4, "q1": ["1", "7", "1", None], "q2": ["2", "3"]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "runs.db"
    settings = run_settings(RunConfig(budget="4x"), PROBLEMS, model="m[red]", name="mine", stored=True)
    traces = [
        StoredTrace(id, n, answer, f"So {answer}.", "stop", 9, 3)
        for id, answers in ANSWERS.items()
        for n, answer in enumerate(answers)
    ]
    with Store.open(path) as store:
        with store.create(settings, PROBLEMS) as run:
            run.write([trace.launch for trace in traces], traces)
            run.write([StoredTrace("q3", 0).launch], [])
            run.save("faults", {"busy": 3})
            run.finish()
        store.create(run_settings(RunConfig(budget="100ktok"), PROBLEMS, model="other", stored=True), PROBLEMS).close()
    return path


def run(*args):
    return CliRunner().invoke(cli, ["runs", *map(str, args)], catch_exceptions=False)


def pets(*args):
    code = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, check=False)


def test_the_list_has_a_row_a_run(path):
    result = run("--store", path)
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert [row[0] for row in cells] == ["1", "2"]
    assert cells[0][2:] == ["4", "11 traces / 16 traces", "finished", "okg", "m[red]", "mine"]
    assert cells[1][3:5] == ["0 tokens / 100,000 tokens", "stopped"]


def test_the_list_as_json_tells_the_same(path):
    first, second = (json.loads(line) for line in run("--store", path, "--format", "json").stdout.splitlines())
    assert (first["run"], first["state"], first["spent"], first["total"], first["lost"]) == (1, "finished", 11, 16, 1)
    assert (second["unit"], second["traces"]) == ("tokens", 0)


def test_show_tells_settings_progress_and_the_hardest(path):
    told = json.loads(run("show", 1, "--store", path, "--format", "json").stdout)
    assert told["traces"] == 10 and told["votes"] == 9 and told["budget"] == "4x" and told["faults"] == {"busy": 3}
    mean, low, high = told["expected_consistency"]
    assert 0.3 < mean < 0.75 and low <= mean <= high
    assert [one["id"] for one in told["hardest"]] == ["q3", "q2", "q1", "q0"]
    words = run("show", 1, "--store", path).stdout
    assert "hardest               0.000  q3" in words and "busy=3" in words and "max_tokens=" in words


def test_show_of_a_run_without_traces_expects_nothing(path):
    told = json.loads(run("--store", path, "show", "--format", "json").stdout)
    assert told["run"] == 2 and "expected_consistency" not in told


def test_results_are_those_of_solve(path, tmp_path):
    result = run("export", 1, "--store", path)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["id"], row["answer"], row["traces"]) for row in rows] == [
        ("q0", "0", 4),
        ("q1", "1", 4),
        ("q2", "2", 2),
        ("q3", None, 1),
    ]
    assert rows[0]["text"] == "So 0." and result.stderr == "stdout: 4 questions written.\n"
    run("export", 1, "--store", path, "-o", tmp_path / "r.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pylist()
    assert [json.loads(row["votes"]) for row in table] == [row["votes"] for row in rows]
    assert [row["certificate"] for row in table] == [row["certificate"] for row in rows]


def test_traces_and_the_pool_go_to_a_file(path, tmp_path):
    result = run("export", 1, "--store", path, "--as", "traces", "-o", tmp_path / "t.jsonl")
    assert result.stdout == "" and result.stderr == f"{tmp_path / 't.jsonl'}: 10 traces written.\n"
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 10
    result = run("export", 1, "--store", path, "--as", "pool", "-o", tmp_path / "p.jsonl")
    assert "3 questions written.\n1 without a vote left out." in result.stderr
    pool = read_pool(tmp_path / "p.jsonl")
    assert {question.id: list(question.answers) for question in pool.questions} == ANSWERS
    lines = run("export", 1, "--store", path, "--as", "pool").stdout
    assert lines == (tmp_path / "p.jsonl").read_text()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", "9"], "holds no run 9; the last is 2"),
        (["show", "best"], 'a run is a number or "last"'),
        (["export", "2", "--as", "pool"], "run 2 has no vote yet"),
        (["export", "1", "-o", "out.txt"], "ends in none of"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_2(path, args, said):
    result = pets("runs", *args, "--store", path)
    assert (result.returncode, result.stdout) == (2, "") and said in result.stderr
    assert result.stderr.startswith("pets: ") and result.stderr.count("\n") == 1


def test_a_missing_store_and_a_newer_one_are_refused_and_left_alone(path, tmp_path):
    gone = pets("runs", "--store", tmp_path / "gone.db")
    assert gone.returncode == 2 and "no such file" in gone.stderr and not (tmp_path / "gone.db").exists()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    result = pets("runs", "--store", path)
    assert result.returncode == 2 and "newer pets" in result.stderr and result.stderr.count("\n") == 1


def test_the_texts_of_a_run_are_deleted_and_its_answers_stay(path):
    before = run("export", 1, "--store", path).stdout.splitlines()
    result = run("delete", 1, "--texts", "--store", path)
    assert result.exit_code == 0 and "Run 1: texts, prompts and errors deleted." in result.stderr
    after = run("export", 1, "--store", path).stdout.splitlines()
    assert [json.loads(line)["answer"] for line in after] == [json.loads(line)["answer"] for line in before]
    traces = [json.loads(line) for line in run("export", 1, "--as", "traces", "--store", path).stdout.splitlines()]
    assert len(traces) == 10 and {trace["text"] for trace in traces} == {""}
    assert run("show", 1, "--store", path).exit_code == 0
    refused = pets("solve", "--store", path, "--resume", "--run", 1)
    assert refused.returncode == 2 and "prompts of run 1" in refused.stderr


def test_a_run_is_deleted(path):
    assert run("delete", "last", "--store", path).exit_code == 0
    assert [json.loads(line)["run"] for line in run("--format", "json", "--store", path).stdout.splitlines()] == [1]
    gone = pets("runs", "delete", 2, "--store", path)
    assert gone.returncode == 2 and "holds no run 2" in gone.stderr
