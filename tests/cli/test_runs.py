"""``pets runs`` from the shell: data on stdout, words on stderr, exit 2 for a user's mistake."""

import json
import sqlite3
import time

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.engine import RunSpec, TokenPrice
from pets.engine.resume import run_record
from pets.engine.sources import Sources
from pets.pools import read_pool
from pets.questions import Problem
from pets.samplers import Prompt, Sampling
from pets.store import Store, StoredTrace
from pets.store.cache import trace_keys

from ..command import pets

PROBLEMS = [Problem(f"q{n}", Prompt(f"{n} ="), "number", str(n)) for n in range(4)]
KEYS = trace_keys(PROBLEMS, Sampling(), None, 0)
TOKENS = RunSpec.of(budget="100ktok", sampling=Sampling(max_tokens=100))
ANSWERS = {"q0": ["0"] * 4, "q1": ["1", "7", "1", None], "q2": ["2", "3"]}


@pytest.fixture(autouse=True)
def _a_person_reads(monkeypatch):
    monkeypatch.setattr("pets.cli._output.is_for_people", lambda form: form in (None, "table"))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "runs.db"
    settings = run_record(RunSpec.of(budget="4x"), PROBLEMS, Sources(model="m[red]"), name="mine", stored=True)
    traces = [
        StoredTrace(id, n, answer, f"So {answer}.", "stop", tokens=9, prompt_tokens=3)
        for id, answers in ANSWERS.items()
        for n, answer in enumerate(answers)
    ]
    with Store.open(path) as store:
        with store.create(settings, PROBLEMS, keys=KEYS) as run:
            run.write([trace.launch for trace in traces], traces)
            run.write([StoredTrace("q3", 0).launch], [])
            run.save("faults", {"busy": 3})
            run.finish()
        store.create(run_record(TOKENS, PROBLEMS, Sources(model="other"), stored=True), PROBLEMS).close()
    return path


def run(*args):
    return CliRunner().invoke(cli, ["runs", *map(str, args)], catch_exceptions=False)


def test_the_list_has_a_row_a_run(path):
    result = run("--store", path)
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert [row[0] for row in cells] == ["1", "2"]
    assert cells[0][2:] == ["finished", "4", "11", "16 traces", "okg", "m[red]", "mine"]
    assert cells[1][2:6] == ["stopped", "4", "0", "100,000 tokens"]
    assert cells[0][1].endswith(time.tzname[0]) or cells[0][1].endswith(time.tzname[1])


def test_the_list_as_json_tells_the_same(path):
    first, second = (json.loads(line) for line in run("--store", path, "--format", "jsonl").stdout.splitlines())
    assert (first["run"], first["state"], first["spent"], first["total"], first["lost"]) == (1, "finished", 11, 16, 1)
    assert (second["unit"], second["traces"]) == ("tokens", 0)


def test_show_tells_settings_progress_and_the_hardest(path):
    told = json.loads(run("show", 1, "--store", path, "--format", "jsonl").stdout)
    assert told["traces"] == 10 and told["votes"] == 9 and told["budget"] == "4x" and told["faults"] == {"busy": 3}
    mean, low, high = told["expected_consistency"]
    assert 0.3 < mean < 0.75 and low <= mean <= high
    assert [one["id"] for one in told["hardest"]] == ["q2", "q1", "q0"]  # q3 has no trace: nothing is known of it
    assert told["accuracy"] == {"share": 0.75, "interval": [0.3006, 0.9544], "right": 3, "judged": 4}
    words = run("show", 1, "--store", path).stdout
    assert "busy=3" in words and "max_tokens=" in words
    assert "spent                 11 traces of 16 traces" in words
    assert "accuracy              0.750 (0.301 to 0.954; 3 right of 4 with gold)" in words
    assert f"expected consistency  {mean:.2f} ({low:.2f} to {high:.2f})" in words


def test_the_list_cuts_no_number_in_80_columns(path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--store", path).stdout.splitlines()
    assert max(map(len, lines)) <= 80 and "100,000 tokens" in " ".join(lines) and "…" not in " ".join(lines)


def test_one_question_is_shown_with_its_votes_and_texts(path):
    words = run("show", 1, "--question", "q1", "--store", path).stdout
    assert "1 =" in words and "votes                 1 2, 7 1" in words
    assert "gold                  1 (right)" in words
    assert "trace 1: answer 7, 9 tokens, stop\n    So 7." in words and "trace 3: no answer" in words
    told = json.loads(run("show", 1, "--question", "q1", "--store", path, "--format", "jsonl").stdout)
    assert told["votes"] == {"1": 2, "7": 1} and [one["text"] for one in told["sampled"]][1] == "So 7."
    assert (
        "asks no question 'q9'; its first is 'q0'"
        in pets("runs", "show", 1, "--question", "q9", "--store", path).stderr
    )


def test_what_a_trace_says_does_not_steer_the_terminal(tmp_path):
    problem = Problem("q", Prompt.chat("2 + 2?\x1b[2J"), "number")
    settings = run_record(RunSpec.of(budget="4x"), [problem], Sources(model="m"), stored=True)
    trace = StoredTrace("q", 0, "4", "So\x1b]0;title\x07 it is 4.\nReally.", "stop", tokens=3, prompt_tokens=3)
    with Store.open(tmp_path / "runs.db") as store, store.create(settings, [problem]) as stored:
        stored.write([trace.launch], [trace])
    words = run("show", "last", "--question", "q", "--store", tmp_path / "runs.db").stdout
    assert "\x1b" not in words and "\x07" not in words
    assert "user: 2 + 2?\\u001b[2J" in words and "    Really." in words


@pytest.fixture
def two(path):
    """A second run, which is right about q2 too and asks q4 instead of q3."""
    problems = [*PROBLEMS[:3], Problem("q4", Prompt("4 ="), "number", "4")]
    settings = run_record(RunSpec.of(budget="4x", policy="uniform"), problems, Sources(model="better"), stored=True)
    traces = [
        StoredTrace("q0", 0, "0", "0", "stop", tokens=5, prompt_tokens=3),
        StoredTrace("q1", 0, "7", "7", "stop", tokens=5, prompt_tokens=3),
    ]
    traces += [
        StoredTrace("q2", 0, "2", "2", "stop", tokens=5, prompt_tokens=3),
        StoredTrace("q4", 0, "4", "4", "stop", tokens=5, prompt_tokens=3),
    ]
    with Store.open(path) as store, store.create(settings, problems) as stored:
        stored.write([trace.launch for trace in traces], traces)
        return path, stored.id


def test_two_runs_are_compared_over_the_questions_that_both_ask(two):
    path, other = two
    told = json.loads(run("compare", 1, other, "--store", path, "--format", "jsonl").stdout)
    assert (told["shared"], told["first_only"], told["second_only"]) == (3, 1, 1)
    assert told["differences"] == [{"id": "q1", "first": "1", "second": "7", "gold": "1"}]
    paired = told["paired_accuracy"]
    assert (paired["judged"], paired["first_right"], paired["second_right"]) == (3, 3, 2)
    assert paired["difference"] == -0.3333 and paired["interval"][0] < -0.3333 < paired["interval"][1]
    assert paired["p_value"] == 1.0
    assert [side["traces"] for side in told["runs"]] == [11, 4] and [side["accuracy"] for side in told["runs"]] == [
        0.75,
        0.75,
    ]
    words = run("compare", 1, other, "--store", path).stdout
    assert "3 questions in both; 1 answer differs." in words and "-0.333" in words and "better" in words


def test_a_run_is_read_anew_from_its_texts_and_shares_its_traces_with_the_first(path):
    told = run("reread", 1, "--answer", "text", "--store", path)
    votes = [json.loads(row)["votes"] for row in told.stdout.splitlines()]
    assert votes[:2] == [{"0": 4}, {"1": 2, "7": 1, "None": 1}]  # a number could not be read from the last
    assert "Run 3 of" in told.stderr and "10 of run 1, read as text; nothing was paid. 3 of 4" in told.stderr
    words = run("compare", 1, 3, "--store", path).stdout
    assert "10 traces are in both, paid for once: the two runs are no independent samples." in words
    assert "are in both" not in run("compare", 1, 2, "--store", path).stdout
    assert json.loads(run("show", 3, "--store", path, "--format", "jsonl").stdout)["reused"] == {"run 1": 10}


@pytest.mark.parametrize("options", [("--answer", "judge"), ()])
def test_what_cannot_be_read_anew_is_refused_in_one_line(path, options):
    told = pets("runs", "reread", 1, *options, "--store", path)
    assert told.returncode == 2 and "--answer" in told.stderr and not told.stdout
    assert len(Store.open(path).runs()) == 2


def test_a_run_without_texts_says_so_when_it_is_to_be_read_anew(path):
    with Store.open(path) as store:
        store.delete(1, texts=True)
    told = pets("runs", "reread", 1, "--answer", "text", "--store", path)
    assert told.returncode == 2 and "kept no texts (--no-texts), or they were deleted" in told.stderr


def test_the_cost_of_compared_runs_is_in_dollars(tmp_path):
    spec = RunSpec.of(budget="4x", price=TokenPrice(1.0, 2.0))
    settings, trace = (
        run_record(spec, PROBLEMS[:1], Sources(model="m"), stored=True),
        StoredTrace("q0", 0, "0", "0", "stop", tokens=5, prompt_tokens=3),
    )
    with Store.open(tmp_path / "runs.db") as store:
        for _ in range(2):
            with store.create(settings, PROBLEMS[:1]) as stored:
                stored.write([trace.launch], [trace])
    words = run("compare", 1, 2, "--store", tmp_path / "runs.db").stdout
    assert words.count("$0.000013") == 2 and "usd" not in words


def test_runs_that_share_no_question_are_not_compared(path):
    problem = Problem("alone", Prompt("?"), "number")
    settings = run_record(RunSpec.of(budget="4x"), [problem], Sources(model="m"), stored=True)
    with Store.open(path) as store:
        store.create(settings, [problem]).close()
    result = pets("runs", "compare", 1, "last", "--store", path)
    assert result.returncode == 2 and "share no question" in result.stderr


def test_show_of_a_run_without_traces_expects_nothing(path):
    told = json.loads(run("--store", path, "show", "--format", "jsonl").stdout)
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
    result = run("export", 1, "--store", path, "--what", "traces", "-o", tmp_path / "t.jsonl")
    assert result.stdout == "" and result.stderr == f"{tmp_path / 't.jsonl'}: 10 traces written.\n"
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 10
    result = run("export", 1, "--store", path, "--what", "pool", "-o", tmp_path / "p.jsonl")
    assert "3 questions written.\n1 without a vote left out." in result.stderr
    pool = read_pool(tmp_path / "p.jsonl")
    assert {question.id: list(question.answers) for question in pool.questions} == ANSWERS
    assert pool.questions[1].texts == ("So 1.", "So 7.", "So 1.", "So None.")
    run("export", 1, "--store", path, "--what", "pool", "--no-texts", "-o", tmp_path / "bare.jsonl")
    assert read_pool(tmp_path / "bare.jsonl").questions[1].texts is None
    lines = run("export", 1, "--store", path, "--what", "pool").stdout
    assert lines == (tmp_path / "p.jsonl").read_text()


def test_a_pool_counts_the_answers_right_that_the_run_did(tmp_path):
    path, pool = tmp_path / "runs.db", tmp_path / "p.jsonl"
    golds = ["1,000.0", "48 + 24 = 72\n#### 72", "5", "see below"]
    problems = [Problem(f"q{n}", Prompt(f"{n} ="), "text", gold) for n, gold in enumerate(golds)]
    settings = run_record(RunSpec.of(budget="1x", answer="number"), problems, Sources(model="m"), stored=True)
    traces = [StoredTrace(f"q{n}", 0, answer) for n, answer in enumerate(["1000", "72", "6", "7"])]
    with Store.open(path) as store, store.create(settings, problems) as stored:
        stored.write([trace.launch for trace in traces], traces)
        stored.finish()
    run("export", 1, "--store", path, "--what", "pool", "-o", pool)
    facts = json.loads(run("show", 1, "--store", path, "--format", "jsonl").stdout)
    summary = json.loads(CliRunner().invoke(cli, ["pools", "show", str(pool), "--format", "jsonl"]).stdout)
    right, judged = facts["accuracy"]["right"], facts["accuracy"]["judged"]
    assert summary["vote_accuracy"] == right / judged == 2 / 3


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show", "9"], "holds no run 9; the last is 2"),
        (["show", "best"], 'a run is a number or "last"'),
        (["export", "2", "--what", "pool"], "run 2 has no vote yet"),
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
    result = run("delete", 1, "--texts-only", "--store", path)
    assert result.exit_code == 0 and "Run 1: texts, prompts and errors deleted." in result.stderr
    after = run("export", 1, "--store", path).stdout.splitlines()
    assert [json.loads(line)["answer"] for line in after] == [json.loads(line)["answer"] for line in before]
    traces = [json.loads(line) for line in run("export", 1, "--what", "traces", "--store", path).stdout.splitlines()]
    assert len(traces) == 10 and {trace["text"] for trace in traces} == {""}
    assert run("show", 1, "--store", path).exit_code == 0
    refused = pets("resume", 1, "--store", path)
    assert refused.returncode == 2 and "prompts of run 1" in refused.stderr


def test_a_run_is_deleted(path):
    assert run("delete", "last", "--store", path).exit_code == 0
    assert [json.loads(line)["run"] for line in run("--format", "jsonl", "--store", path).stdout.splitlines()] == [1]
    gone = pets("runs", "delete", 2, "--store", path)
    assert gone.returncode == 2 and "holds no run 2" in gone.stderr
