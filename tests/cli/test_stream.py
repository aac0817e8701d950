"""``pets stream`` from the shell: lines in, lines out, within the budget."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import PetsError
from pets.mock import MockModel, running, synthetic
from pets.plans import fit_plan, write_plan
from pets.pools import read_pool

from ..waiting import PATIENCE_S


def pets(*args, lines=None):
    text = None if lines is None else "".join(json.dumps(line) + "\n" for line in lines)
    return CliRunner().invoke(cli, ["stream", *map(str, args)], input=text)


def rows(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(*args):
    result = pets(*args)
    assert isinstance(result.exception, PetsError), result.output
    return str(result.exception)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("pool") / "toy.jsonl"
    thetas = rng.dirichlet([0.3] * 4, 30)
    answers = [rng.choice(list("ABCD"), size=32, p=theta).tolist() for theta in thetas]
    lines = (json.dumps({"id": f"q{i}", "gold": None, "answers": one}) for i, one in enumerate(answers))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def plan(pool, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    write_plan(fit_plan(read_pool(pool), 8, rounds=2, cap=32, answer="choice"), path)
    return path


def test_a_pool_replayed_as_a_stream_keeps_to_the_plan(plan, pool):
    result = pets("--plan", plan, "--pool", pool)
    found = rows(result)
    assert sorted(row["id"] for row in found) == sorted(f"q{i}" for i in range(30))
    assert 0.98 * 240 <= sum(row["traces"] for row in found) <= 240
    assert "traces of 240" in result.stderr
    assert "Self-consistency" in result.stderr
    assert "Drift from the plan: none" in result.stderr


def test_ids_on_stdin_choose_from_the_pool_and_a_bad_line_does_no_harm(plan, pool):
    lines = [{"id": "q3"}, {"id": "nobody"}, {}, ["q4"], {"id": "q5"}]
    result = pets("--plan", plan, "--pool", pool, "-", "--horizon", 5, lines=lines)
    found = rows(result)
    assert {row["id"] for row in found if "error" not in row} == {"q3", "q5"}
    assert {row.get("id", row.get("line")) for row in found if "error" in row} == {"nobody", 3, 4}
    assert all(row["answer"] is None and row["traces"] == 0 for row in found if row.get("id") == "nobody")
    assert '\n3 not answered; a line with "error" says why of each.\n' in result.stderr


def test_questions_on_stdin_are_asked_and_answered(plan):
    mock = MockModel(synthetic(10, strength=0.3))
    lines = [
        {"id": f"q{i}", "question": f"Question q{i}", "answer": "choice:options=4", "gold": "A"} for i in range(10)
    ]
    with running(mock) as url:
        result = pets("--plan", plan, "--endpoint", url, "--model", "mock", "--budget-window", 5, lines=lines)
    found = rows(result)
    assert sorted(row["id"] for row in found) == sorted(line["id"] for line in lines)
    assert sum(row["traces"] for row in found) == mock.stats.traces <= 80
    assert all(row["text"] and row["complete"] and row["gold"] == "A" for row in found)


def test_a_file_of_questions_sets_the_horizon(plan, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"id": f"q{i}", "question": f"Question q{i}"}) + "\n" for i in range(6)))
    with running(MockModel(synthetic(6, strength=0.3))) as url:
        result = pets("--plan", plan, "--endpoint", url, "--model", "mock", file, "--budget", "6x",
                      "--answer", "choice:options=4")  # fmt: skip
    assert 35 <= sum(row["traces"] for row in rows(result)) <= 36


def test_a_stored_stream_goes_on_by_its_own_settings(plan, tmp_path):
    mock, store = MockModel(synthetic(8, strength=0.3)), tmp_path / "runs.db"
    lines = [{"id": f"q{i}", "question": f"Question q{i}"} for i in range(8)]  # read by the plan's answer type
    with running(mock) as url:
        first = pets("--plan", plan, "--endpoint", url, "--model", "mock", "--budget-window", 4, "--store", store,
                     lines=lines[:4])  # fmt: skip
        bought = mock.stats.traces
        again = pets("--store", store, "--resume", lines=lines)
    assert {row["id"] for row in rows(first)} == {"q0", "q1", "q2", "q3"} and "Run 1." in first.stderr
    assert {row["id"] for row in rows(again)} == {"q4", "q5", "q6", "q7"}
    assert all(set(row["votes"]) <= set("ABCD") and row["traces"] for row in rows(first) + rows(again))
    assert mock.stats.traces == bought + sum(row["traces"] for row in rows(again)) <= 64


def test_a_stream_that_goes_on_takes_no_other_settings(tmp_path):
    assert "--store FILE" in refused("--resume")
    told = refused("--resume", "--store", tmp_path / "runs.db", "--budget", "9x", "--open-questions", 2)
    assert "leave out --budget, --open-questions" in told


def test_a_cold_stream_needs_no_plan(pool):
    result = pets("--cold", "--pool", pool, "--budget", "8x", "--rounds", 2, "--answer", "choice")
    assert 0.98 * 240 <= sum(row["traces"] for row in rows(result)) <= 240
    assert "Drift" not in result.stderr


def test_a_stream_of_other_questions_raises_the_alarm(plan, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(
        "".join(json.dumps({"id": f"q{i}", "gold": None, "answers": list("ABCD") * 8}) + "\n" for i in range(60))
    )
    result = pets("--plan", plan, "--pool", other, "--answer", "choice")
    assert "no longer fit the plan" in result.stderr
    assert "ALARM" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--plan FILE"),
        (["--cold", "--plan", "x.json"], "either --plan"),
        (["--plan", "none.json"], "none.json"),
        (["--cold", "--horizon", 5, "--budget-window", 5], "Take one"),
        (["--cold", "--budget", "5usd"], "needs a price"),
        (["--cold", "--budget", "3x", "--budget-window", 10], "warm-up"),
        (["--cold", "--endpoint", "http://localhost:1/v1"], "--model"),
        (["--cold", "--answer", "poem"], "poem"),
        (["--cold", "--pool", "none.jsonl"], "none.jsonl"),
        (["--cold", "--pool", "starter", "--model", "m"], "leave out"),
        (["--cold", "--pool", "starter", "starter"], "the pool's own"),
    ],
)
def test_a_mistake_is_one_line(options, said):
    line = refused(*options)
    assert said in line
    assert "\n" not in line


def begun(popen, plan, url):
    command = [sys.executable, "-c", "from pets.cli.main import main; main()"]
    options = ["stream", "--plan", str(plan), "--endpoint", url, "--model", "mock", "--open-questions", "2"]
    return popen([*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_verdicts_come_while_stdin_is_open_and_ctrl_c_ends_it(popen, plan):
    with running(MockModel(synthetic(4, strength=0.3))) as url:
        process = begun(popen, plan, url)
        process.stdin.write(json.dumps({"id": "q1", "question": "Question q1", "answer": "choice:options=4"}) + "\n")
        process.stdin.flush()
        first = json.loads(process.stdout.readline())  # stdin is still open
        os.kill(process.pid, signal.SIGINT)
        rest, words = process.communicate(timeout=PATIENCE_S)
    assert (first["id"], first["complete"], rest) == ("q1", True, "")
    assert process.returncode == 130
    assert "Stopped before the end" in words
    assert "Traceback" not in words
