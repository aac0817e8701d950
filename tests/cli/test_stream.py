"""``pets stream`` from the shell: lines in, lines out, within the budget."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.errors import PetsError
from pets.mock import MockModel, running, synthetic
from pets.plans import fit_plan, write_plan
from pets.pools import read_pool
from pets.store import Store
from pets.tabular import read_rows

from ..waiting import PATIENCE_S, wait_until

MAIN = (sys.executable, "-c", "from pets.cli.main import main; main()")


def pets(*args, lines=None):
    text = None if lines is None else "".join(json.dumps(line) + "\n" for line in lines)
    verb = () if args and args[0] == "resume" else ("stream",)
    return CliRunner().invoke(cli, [*verb, *map(str, args)], input=text)


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


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_file_gets_every_answer_in_the_format_of_its_suffix(plan, pool, tmp_path, suffix):
    output = tmp_path / f"answers{suffix}"
    result = pets("--plan", plan, "--pool", pool, "-", "--first", 3, "-o", output, lines=[{"id": "q3"}, {}])
    assert result.exit_code == 0 and result.stdout == ""
    answers = [row.value for row in read_rows(output, noun="answers")]
    (bad,) = (row for row in answers if row.get("error"))
    (good,) = (row for row in answers if row.get("id") == "q3")
    assert bad["line"] in (2, "2") and "named by its" in bad["error"] and len(good["votes"]) > 0


def test_a_file_of_another_format_is_refused_at_once(plan, pool, tmp_path):
    assert "ends in none of" in refused("--plan", plan, "--pool", pool, "-o", tmp_path / "answers.xlsx")


def test_ids_on_stdin_choose_from_the_pool_and_a_bad_line_does_no_harm(plan, pool):
    lines = [{"id": "q3"}, {"id": "nobody"}, {}, ["q4"], {"id": "q5"}]
    result = pets("--plan", plan, "--pool", pool, "-", "--first", 5, lines=lines)
    found = rows(result)
    assert {row["id"] for row in found if "error" not in row} == {"q3", "q5"}
    assert {row.get("id", row.get("line")) for row in found if "error" in row} == {"nobody", 3, 4}
    assert all(row["answer"] is None and row["traces"] == 0 for row in found if row.get("id") == "nobody")
    assert '\nNot asked: 3; a line with "error" says why of each.\n' in result.stderr


def test_questions_on_stdin_are_asked_and_answered(plan):
    mock = MockModel(synthetic(10, strength=0.3))
    lines = [
        {"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4", "gold": "A"} for i in range(10)
    ]
    with running(mock) as url:
        result = pets("--plan", plan, "--endpoint", url, "--model", "mock", "--budget-window", 5, lines=lines)
    found = rows(result)
    assert sorted(row["id"] for row in found) == sorted(line["id"] for line in lines)
    assert sum(row["traces"] for row in found) == mock.stats.traces <= 80
    assert all(row["text"] and row["gold"] == "A" for row in found)
    assert any(row["complete"] for row in found)  # of others the policy wanted more than their window paid for


def test_questions_on_stdin_may_be_csv(plan):
    with running(MockModel(synthetic(4, strength=0.3))) as url:
        words = ["stream", "--plan", str(plan), "--endpoint", url, "--model", "mock"]
        text = "id,question,answer_type\n" + "".join(f"q{i},Question q{i},choice:options=4\n" for i in range(3))
        result = CliRunner().invoke(cli, words, input=text)
    assert sorted(row["id"] for row in rows(result)) == ["q0", "q1", "q2"]
    assert all(row["answer"] in "ABCD" for row in rows(result))


@pytest.mark.parametrize("text", ["", "\n\n", "no question\nno other\n", "id,question\n"])
def test_a_stream_that_reads_no_question_fails(plan, text):
    words = ["stream", "--plan", str(plan), "--endpoint", "http://127.0.0.1:9/v1", "--model", "mock"]
    result = CliRunner().invoke(cli, words, input=text)
    assert result.exit_code == 1 and "No question was read" in result.stderr


def test_a_file_of_questions_sets_the_horizon(plan, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"id": f"q{i}", "question": f"Question q{i}"}) + "\n" for i in range(6)))
    with running(MockModel(synthetic(6, strength=0.3))) as url:
        result = pets("--plan", plan, "--endpoint", url, "--model", "mock", file, "--budget", "6x",
                      "--answer", "choice:options=4")  # fmt: skip
    assert 35 <= sum(row["traces"] for row in rows(result)) <= 36


def test_a_file_with_answers_is_not_written_over_by_a_new_stream(plan, pool, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text('{"id": "q1", "answer": "A"}\n')
    assert "holds 1 answer" in refused("--plan", plan, "--pool", pool, "-o", out)
    assert out.read_text() == '{"id": "q1", "answer": "A"}\n'


def test_a_stored_stream_goes_on_by_its_own_settings(plan, tmp_path):
    mock, store = MockModel(synthetic(8, strength=0.3)), tmp_path / "runs.db"
    lines = [{"id": f"q{i}", "question": f"Question q{i}"} for i in range(8)]  # read by the plan's answer type
    with running(mock) as url:
        first = pets("--plan", plan, "--endpoint", url, "--model", "mock", "--budget-window", 4, "--store", store,
                     lines=lines[:4])  # fmt: skip
        bought = mock.stats.traces
        again = pets("resume", "last", "--store", store, lines=lines)
    assert {row["id"] for row in rows(first)} == {"q0", "q1", "q2", "q3"} and "Run 1 of" in first.stderr
    assert {row["id"] for row in rows(again)} == {"q4", "q5", "q6", "q7"}
    assert all(set(row["votes"]) <= set("ABCD") and row["traces"] for row in rows(first) + rows(again))
    assert mock.stats.traces == bought + sum(row["traces"] for row in rows(again)) <= 64


def test_a_stream_goes_on_where_there_is_its_store():
    assert 'store "runs.db": there is no such file' in refused("resume", "last")


def test_a_cold_stream_needs_no_plan(pool):
    result = pets("--pool", pool, "--budget", "8x", "--policy", "price:rounds=2", "--answer", "choice")
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
        (["--plan", "none.json"], "none.json"),
        (["--first", 5, "--budget-window", 5], "Take one"),
        (["--budget", "5usd"], "needs a price"),
        (["--budget", "1x", "--budget-window", 10], "warm-up"),
        (["--endpoint", "http://localhost:1/v1"], "--model"),
        (["--answer", "poem"], "poem"),
        (["--pool", "none.jsonl"], "none.jsonl"),
        (["--pool", "starter", "--model", "m"], "leave out"),
        (["--pool", "starter", "starter"], "the pool's own"),
    ],
)
def test_a_mistake_is_one_line(options, said):
    line = refused(*options)
    assert said in line
    assert "\n" not in line


def begun(popen, plan, url):
    options = ["--plan", plan, "--endpoint", url, "--model", "mock", "--open-questions", "2"]
    return popen([*MAIN, "stream", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_verdicts_come_while_stdin_is_open_and_ctrl_c_ends_it(popen, plan):
    with running(MockModel(synthetic(4, strength=0.3))) as url:
        process = begun(popen, plan, url)
        process.stdin.write(
            json.dumps({"id": "q1", "question": "Question q1", "answer_type": "choice:options=4"}) + "\n"
        )
        process.stdin.flush()
        first = json.loads(process.stdout.readline())  # stdin is still open
        os.kill(process.pid, signal.SIGINT)
        rest, words = process.communicate(timeout=PATIENCE_S)
    assert (first["id"], first["complete"], rest) == ("q1", True, "")
    assert process.returncode == 130
    assert "Stopped before the end" in words
    assert "Traceback" not in words


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4"} for i in range(20))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_stream_in_a_store_is_stopped_and_resumed(plan, questions, tmp_path):
    mock, store = MockModel(synthetic(20, strength=0.3)), tmp_path / "runs.db"
    lines = [json.loads(line) for line in questions.read_text().splitlines()]
    with running(mock) as url:
        begin = ("--plan", plan, "--endpoint", url, "--model", "mock", "--first", 20, "--store", store)
        first = pets(*begin, lines=lines[:8])
        again = pets("resume", "last", "--store", store, "--plan", plan, lines=lines)
    early, late = rows(first), rows(again)
    assert sorted(row["id"] for row in early) == sorted(line["id"] for line in lines[:8])
    assert sorted(row["id"] for row in late) == sorted(line["id"] for line in lines[8:])
    assert sum(row["traces"] for row in early + late) == mock.stats.traces == 160
    assert 'Run 1 of store "' in first.stderr and "160 traces of 160 traces" in again.stderr
    assert "20 warm-ups" in again.stderr  # the drift test goes on, too
    assert "Write +9x to add" in refused("resume", "last", "--store", store, "--budget", "9x")
    assert "run 1 is a stream, which keeps its --max-traces" in refused(
        "resume", "last", "--store", store, "--max-traces", 99
    )
    replied = refused("resume", "last", "--store", store, "--replies", questions)
    assert "run 1 is a stream: leave out --replies" in replied


def test_a_stream_takes_more_budget_for_the_questions_that_are_left(plan, questions, tmp_path):
    mock, store = MockModel(synthetic(20, strength=0.3)), tmp_path / "runs.db"
    lines = [json.loads(line) for line in questions.read_text().splitlines()]
    with running(mock) as url:
        begin = ("--plan", plan, "--endpoint", url, "--model", "mock", "--store", store, "--budget", "4x")
        pets(*begin, "--first", 20, lines=lines[:4])
        assert "has spent" in refused("resume", "last", "--store", store, "--budget", "=3")
        again = pets("resume", "last", "--store", store, "--budget", "=8x", lines=lines)
    assert len(rows(again)) == 16 and "160 traces of 160 traces" in again.stderr and mock.stats.traces == 160
    with Store.open(store) as opened:
        assert opened.view().settings.total == 160


def test_several_models_answer_a_stream_each_at_its_price_and_go_on_with_it(plan, questions, tmp_path):
    mocks, store = {name: MockModel(synthetic(20, strength=0.3), model=name) for name in "ab"}, tmp_path / "runs.db"
    lines = [json.loads(line) for line in questions.read_text().splitlines()]
    with ExitStack() as stack:
        urls = {name: stack.enter_context(running(mock)) for name, mock in mocks.items()}
        models = [word for name in urls for word in ("--model", name, "--endpoint", f"{name}={urls[name]}")]
        begin = ("--plan", plan, *models, "--first", 20, "--store", store, "--budget", "3usd", "--max-tokens", 500)
        first = pets(*begin, "--price", "a=in=1,out=2", "--price", "in=1,out=20", lines=lines[:8])
        again = pets("resume", "last", "--store", store, lines=lines)
    assert len(rows(first)) == 8 and len(rows(again)) == 12
    stats = [mock.stats for mock in mocks.values()]
    paid = sum(s.prompt_tokens + s.completion_tokens * price for s, price in zip(stats, (2, 20), strict=True)) / 1e6
    assert sum(row["cost"] for row in rows(first) + rows(again)) == pytest.approx(paid)
    assert abs(stats[0].traces - stats[1].traces) <= 20
    with Store.open(store) as opened:
        assert opened.view().summary().spent == pytest.approx(paid * 1e12) and opened.view().settings.model == "a, b"


def test_a_stream_that_ends_badly_names_the_command_that_goes_on_with_it(plan, questions, tmp_path):
    store = tmp_path / "runs.db"
    with running(MockModel(synthetic(20, strength=0.3, tokens=50))) as url:
        begin = ("--plan", plan, "--endpoint", url, "--model", "mock", "--store", store, "--max-tokens", 20)
        assert f'`pets resume 1 --store "{store}"` goes on with it.' in refused(questions, *begin)


def test_a_stream_that_ends_in_an_outage_names_the_command_that_goes_on_with_it(plan, questions, tmp_path):
    store = tmp_path / "runs.db"
    line = refused(questions, "--plan", plan, "--endpoint", "http://127.0.0.1:9/v1", "--model", "m", "--store", store)
    assert "cannot be reached" in line
    assert line.endswith(f'`pets resume 1 --store "{store}"` goes on with it.')


@pytest.mark.parametrize("budget", [("--first", 20), ("--budget-window", 10)])
def test_a_stream_in_a_store_is_a_run_like_others_but_for_its_resume(plan, questions, tmp_path, budget):
    store, lines = tmp_path / "runs.db", [json.loads(line) for line in questions.read_text().splitlines()]
    with running(MockModel(synthetic(20, strength=0.3))) as url:
        ask = ("--plan", plan, "--endpoint", url, "--model", "mock", "--budget", "9x", "--store", store)
        answers = {row["id"]: row for row in rows(pets(*ask, *budget, lines=lines))}

    def run(*args):
        return CliRunner().invoke(cli, [*map(str, args), "--store", str(store)])

    (listed,) = rows(run("runs", "--format", "jsonl"))
    assert (listed["set"], listed["questions"], listed["total"]) == ("stdin (stream)", 20, 180)
    assert listed["spent"] == sum(row["traces"] for row in answers.values())
    assert "budget                9x" in run("runs", "show", "last", "--format", "table").stdout
    for row in rows(run("runs", "export", "last")):
        assert (row["votes"], row["text"]) == (answers[row["id"]]["votes"], answers[row["id"]]["text"])
    if "--budget-window" in budget:
        assert "a budget per window and no total" in str(run("resume", "last", "--budget", "+9").exception)


def test_a_stream_may_count_tokens_and_keep_confidences(plan, questions, tmp_path):
    mock, store = MockModel(synthetic(20, strength=0.3)), tmp_path / "runs.db"
    with running(mock) as url:
        ask = ("--plan", plan, "--endpoint", url, "--model", "mock", questions, "--store", store, "--no-instruct")
        counted = ("--budget", "20ktok", "--max-tokens", "150", "--confidence", "tail", "--price", "in=1,out=2")
        result = pets(*ask, *counted)
    assert len(rows(result)) == 20 and all(row["cost"] > 0 for row in rows(result))
    with Store.open(store) as opened:
        assert 0.9 * 20_000 <= opened.runs()[0].spent <= 1.1 * 20_000
        assert all(trace.confidences is not None for trace in opened.view().traces(texts=False))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_any_moment_and_resumed_nothing_is_lost_or_paid_for_twice(popen, plan, questions, tmp_path, seed):
    mock, store = MockModel(synthetic(20, strength=0.3), tokens_per_second=2000), tmp_path / "runs.db"
    moments = sorted(random.Random(seed).sample(range(1, 95), 5))
    output, kills = tmp_path / "out.jsonl", 0
    with running(mock) as url, output.open("wb") as out:
        begin = ("--plan", plan, "--endpoint", url, "--model", "mock", questions,
                 "--open-questions", 4, "--concurrency", 12, "--store", store)  # fmt: skip
        resume = ("resume", "last", questions, "--store", store)
        for number, moment in enumerate(moments):
            words = resume if number else ("stream", *begin)
            child = popen([*MAIN, *words], stdout=out, stderr=subprocess.DEVNULL)
            wait_until(lambda: mock.stats.traces >= moment or child.poll() is not None)  # noqa: B023
            kills += child.poll() is None
            child.kill()
            child.wait(PATIENCE_S)
        mock.tokens_per_second = 0
        last = pets(*resume)
    assert kills == 5 and last.exit_code == 0, last.output
    printed = [json.loads(line) for line in output.read_text().splitlines() + last.stdout.splitlines()]
    answers = {row["id"]: row for row in printed}
    assert sorted(answers) == sorted(f"q{i}" for i in range(20))
    assert len(printed) <= 20 + 4 * kills  # handed over, and killed before that was written down
    with Store.open(store) as opened:
        view = opened.view()
        traces, summary = list(view.traces()), view.summary()
    assert (summary.spent, summary.lost, summary.state) == (160, 0, "finished")
    assert len({trace.launch for trace in traces}) == len(traces) == sum(row["traces"] for row in answers.values())
    lost = sum(trace.error is not None for trace in traces)
    assert lost <= 12 * kills and 160 - lost <= mock.stats.traces <= 160
    for id, row in answers.items():
        votes = Counter(trace.answer for trace in traces if trace.question == id and trace.answer is not None)
        assert row["votes"] == dict(votes)


def test_a_stream_without_texts_keeps_answers_alone(plan, tmp_path):
    store, lines = tmp_path / "runs.db", [{"id": f"q{i}", "question": f"Question q{i}"} for i in range(4)]
    with running(MockModel(synthetic(4, strength=0.3))) as url:
        at = ("--plan", plan, "--endpoint", url, "--model", "mock", "--first", 4, "--store", store)
        assert pets(*at, "--no-texts", lines=lines).exit_code == 0
    with Store.open(store) as opened:
        traces = list(opened.view().traces())
    assert traces and {trace.text for trace in traces} == {""} and any(trace.answer for trace in traces)
