"""``pets solve`` and ``top-up`` from the shell: data on stdout, words on stderr, exit 2 for a mistake."""

import contextlib
import gzip
import json
import re
import signal
import sqlite3
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from pets.cli._run import kept_words_said, run_engine
from pets.cli.main import cli
from pets.engine import Engine
from pets.engine.progress import wilson
from pets.errors import FirstTracesError, PetsError
from pets.mock import Faults, MockModel, running, synthetic
from pets.openai.refusals import FieldsRefusedError
from pets.samplers import Completion, Sampler
from pets.samplers.openai import OpenAISampler
from pets.store import Store

from ..waiting import PATIENCE_S, wait_until


def pets(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


def refused(*args):
    """The one line that a user's mistake gets."""
    result = pets(*args)
    if isinstance(result.exception, PetsError):  # main() makes it a line and exit 2
        assert not result.stdout
        line = str(result.exception)
        assert "\n" not in line
        return line
    assert result.exit_code == 2
    return result.stderr


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4"} for i in range(10))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(**settings):
            mock = MockModel(synthetic(10, strength=0.3, tokens=settings.pop("tokens", 64)), **settings)
            return mock, ("--endpoint", stack.enter_context(running(mock)), "--model", settings.get("model", "mock"))

        yield start


def test_answers_are_lines_of_json_with_certificates(questions, serve):
    mock, at = serve()
    result = pets("solve", questions, *at, "--budget", "4x", "--price", "in=1,out=2")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["id"] for row in rows] == [f"q{i}" for i in range(10)]
    assert sum(row["traces"] for row in rows) == mock.stats.traces == 40
    wanted = {"answer", "votes", "certificate", "traces", "tokens", "cost", "text"}
    assert all(wanted <= set(row) and 0 < row["certificate"] <= 1 and row["cost"] > 0 for row in rows)
    assert "Spent 40 traces of 40 traces." in result.stderr and "Expected self-consistency" in result.stderr


@pytest.mark.parametrize("answer", ["json:ignore=reason", "number"])
def test_tool_calls_vote_on_the_function_and_its_arguments(questions, serve, answer):
    _, at = serve()
    body = json.dumps({"tools": [{"type": "function", "function": {"name": "pick", "parameters": {}}}]})
    result = pets("solve", questions, *at, "--budget", "8x", "--answer", answer, "--extra-body", body)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(row["answer"].startswith('call pick({"answer":') for row in rows)
    assert all(("reason" in row["answer"]) == (answer == "number") for row in rows)  # the mock's reasons vary
    assert any(max(row["votes"].values()) > 1 for row in rows) == (answer != "number")


def test_a_run_without_an_answer_says_so_shows_why_and_exits_non_zero(questions, serve, tmp_path):
    _, at = serve(tokens=50)
    out = tmp_path / "out.jsonl"
    result = pets("solve", questions, *at, "--budget", "2x", "--max-tokens", 20, "--keep-going", "-o", out)
    assert result.exit_code == 1
    assert f"{out}: 0 of 10 questions answered." in result.stderr and "written" not in result.stderr
    assert (
        "NOT ONE QUESTION WAS ANSWERED: 20 of 20 traces (100 %) cast no vote: cut at 20 tokens; raise --max-tokens."
        in result.stderr
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert all(row["answer"] is None and row["cut"] == row["no_answer"] >= 1 and row["text"] for row in rows)
    assert sum(row["cut"] for row in rows) == 20


def test_the_file_of_questions_is_not_written_over_by_its_answers(questions, serve):
    before = questions.read_text()
    _, at = serve()
    assert "would be written over" in refused("solve", questions, *at, "--store", "none", "-o", questions)
    assert questions.read_text() == before


def test_the_last_lines_count_every_trace_that_was_charged_as_the_rows_do(questions, serve):
    _, at = serve(faults=Faults(half_body=0.2))
    result = pets("solve", questions, *at, "--budget", "8x", "--policy", "uniform", "--store", "none", "--keep-going")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    failed = sum(row["failed"] for row in rows)
    assert failed and sum(row["traces"] for row in rows) == 80
    assert f"80 traces ({failed} failed)" in result.stderr and "Spent 80 traces of 80 traces." in result.stderr


def test_a_bad_start_is_told_in_one_line_with_one_of_its_traces(questions, serve):
    mock, at = serve(tokens=50)
    result = pets("solve", questions, *at, "--budget", "8x", "--max-tokens", 20)
    assert mock.stats.traces == 8 and isinstance(result.exception, FirstTracesError)
    assert str(result.exception).startswith("8 of 8 traces were cut at 20 tokens: raise --max-tokens")
    assert "One of the traces:\n" in result.stderr and not result.stdout


def test_a_run_that_its_own_command_would_pay_for_again_is_taken_up_by_its_number(questions, serve, tmp_path):
    (mock, at), store = serve(tokens=50), tmp_path / "runs.db"
    begin = ("solve", questions, *at, "--budget", "8x", "--max-tokens", 20, "--store", store)
    assert "the same command again goes on with it." in str(pets(*begin).exception)
    top_up = ("resume", 1, "--budget", "+8", "--store", store)
    assert f'`pets resume 1 --store "{store}"` goes on with it.' in str(pets(*top_up).exception)
    assert f'`pets resume 2 --store "{store}"` goes on with it.' in str(pets(*begin, "--new").exception)
    assert mock.stats.traces == 16
    assert "Spent 96 traces of 96 traces." in pets(*top_up, "--keep-going").stderr


def test_a_run_that_was_refused_before_its_first_trace_is_not_advertised(questions, serve):
    _, at = serve()
    line = refused("solve", questions, *at[:3], "other-model")
    assert "404" in line and "goes on with it" not in line
    assert line.endswith("Models there: mock.")


def test_an_error_with_a_constructor_of_its_own_ends_a_run_in_one_line(questions, tmp_path):
    class WithoutSystemRole(Sampler):
        async def sample(self, prompt, n, seed, sampling):
            raise FieldsRefusedError("no system role.", ["messages"], 400)

    engine = Engine(str(questions), sampler=WithoutSystemRole(), store=tmp_path / "runs.db", budget="4x")
    with pytest.raises(FieldsRefusedError, match=r"^no system role\.$") as caught:
        run_engine(engine, None)
    engine.allocator.budget.spent = 1  # as if it had come later
    with pytest.raises(FieldsRefusedError), kept_words_said(engine):
        raise caught.value
    assert str(caught.value).endswith("goes on with it.") and caught.value.names == {"messages"}


def test_votes_that_are_nearly_all_different_are_said_so():
    class Chatty(Sampler):
        async def sample(self, prompt, n, seed, sampling):
            return [Completion(f"It may be {seed + i}.", "stop", 5, 5) for i in range(n)]

    engine = Engine(["2 + 2?", "2 + 3?"], sampler=Chatty(), budget="8x", answer="number", policy="uniform")
    result = CliRunner().invoke(click.command()(lambda: run_engine(engine, None)))
    assert result.exit_code == 0
    assert "Votes are nearly all different: 16 answers among 16 votes. Choose how" in result.stderr


def test_a_zone_is_part_of_the_run_and_of_what_it_says(questions, serve, tmp_path):
    _, server = serve()
    store = tmp_path / "runs.db"
    result = pets("solve", questions, *server, "--budget", "3x", "--policy", "okg:zone=0.1", "--store", store)
    assert result.exit_code == 0 and "ahead of by more than 10 points" in result.stderr
    assert all(json.loads(line)["zone"] == 0.1 for line in result.stdout.splitlines())
    assert "zone=0.1" in pets("runs", "show", "last", "--store", store).stdout
    assert "there is no option 'zone=0.1'" in refused("solve", questions, *server, "--policy", "uniform:zone=0.1")


def test_ctrl_c_keeps_what_is_in_flight_and_the_same_command_goes_on_and_pays_nothing_twice(
    popen, questions, serve, tmp_path
):
    mock, at = serve(tokens_per_second=400)
    words = ["solve", questions, *at, "--budget", "20x", "--concurrency", "4", "-o", tmp_path / "out.jsonl"]
    child = popen([sys.executable, "-m", "pets", *words], stderr=subprocess.PIPE)
    wait_until(lambda: mock.stats.traces >= 8 or child.poll() is not None)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130 and "The run is kept in runs.db" in stderr
    assert "the same command again goes on with it" in stderr
    with Store.open(tmp_path / "runs.db") as store:
        assert not list(store.view().lost())
        assert store.runs()[0].traces == mock.stats.traces < 200
    mock.tokens_per_second = 0
    on = pets(*words)
    assert on.exit_code == 0 and mock.stats.traces == 200
    assert 'Run 1 of store "runs.db" asks the same and is unfinished: going on with it; --new starts anew.' in on.stderr
    again = pets(*words)
    assert again.exit_code == 0 and mock.stats.traces == 200
    assert "and is finished: its answers again, nothing is paid; --new starts anew" in again.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 10
    more = pets(*words[:4], "--model", "mock", "--budget", "21x")
    assert "runs.db holds 200 traces of 10 of these 10 questions; at most " in more.stderr
    assert "more to pay, 10 traces if all of these are taken." in more.stderr
    assert "reused from run 1" in more.stderr and 210 <= mock.stats.traces < 260


def test_fewer_answers_are_written_beside_a_compressed_file_that_holds_more(questions, serve, tmp_path):
    _, at = serve()
    out = tmp_path / "out.jsonl.gz"
    rows = "".join(json.dumps({"id": f"q{i}", "answer": "A"}) + "\n" for i in range(11))
    out.write_bytes(gzip.compress(rows.encode()))
    assert pets("solve", questions, *at, "--budget", "4x", "-o", out).exit_code == 0
    assert len(gzip.decompress((tmp_path / "out.2.jsonl.gz").read_bytes()).splitlines()) == 10


def test_fewer_answers_are_written_beside_a_file_that_holds_more(questions, serve, tmp_path):
    _, at = serve()
    out = tmp_path / "out.jsonl"
    before = "".join(json.dumps({"id": f"q{i}", "answer": "A"}) + "\n" for i in range(11))
    out.write_text(before)
    result = pets("solve", questions, *at, "--budget", "4x", "-o", out)
    assert result.exit_code == 0 and out.read_text() == before
    assert f"{out} holds 11 answers, more than the 10 of this run: it stays as it is." in result.stderr
    assert len((tmp_path / "out.2.jsonl").read_text().splitlines()) == 10
    out.write_text(before[: before.index("\n") + 1])
    assert pets("solve", questions, *at, "--budget", "4x", "-o", out).exit_code == 0
    assert len(out.read_text().splitlines()) == 10


def test_another_seed_model_or_a_word_of_the_user_makes_another_run(questions, serve):
    mock, at = serve()
    ask = ("solve", questions, *at, "--budget", "1x")
    paid = {(): 10, ("--seed", 1): 20, ("--answer", "text"): 20, ("--new",): 30, ("--rpm", 9999): 30}
    for others, traces in paid.items():
        assert pets(*ask, *others).exit_code == 0
        assert mock.stats.traces == traces
    assert pets(*ask, "--store", "none").exit_code == 0 and mock.stats.traces == 40
    with Store.open("runs.db") as store:
        assert len(store.runs()) == 4


def test_the_list_of_runs_names_the_question_set(questions, serve, tmp_path):
    _, at = serve()
    store = tmp_path / "runs.db"
    for name in (questions.rename(tmp_path / "exam.jsonl"), "starter"):
        pets("solve", name, *at, "--first", 2, "--budget", "1x", "--store", store)
    rows = [json.loads(line) for line in pets("runs", "--store", store, "--format", "jsonl").stdout.splitlines()]
    assert {row["run"]: row["set"] for row in rows} == {1: "exam", 2: "starter"}


def test_a_resumed_run_asks_its_servers_as_before(questions, serve, tmp_path, monkeypatch):
    _, at = serve()
    store = tmp_path / "runs.db"
    pets("solve", questions, *at, "--budget", "1x", "--store", store, "--timeout", 77,
         "--header", "X-Team: blue")  # fmt: skip
    calls = []
    monkeypatch.setattr(
        "pets.engine.sources.OpenAISampler",
        lambda *args, **options: calls.append(options) or OpenAISampler(*args, **options),
    )
    assert "X-Team" in refused("resume", "last", "--budget", "+1x", "--store", store)
    again = pets("resume", "last", "--budget", "+1x", "--store", store, "--header", "X-Team: blue")
    assert again.exit_code == 0
    assert [(call["headers"], call["timeout"]) for call in calls] == [({"X-Team": "blue"}, 77.0)]


def test_two_servers_share_a_run_within_the_limits_named(questions, serve):
    (one, first), (other, second) = serve(), serve()
    result = pets("solve", questions, *first, *second[:2], "--budget", "4x", "--rpm", 6000, "--tpm", 10_000_000,
                  "--key-env", "NO_SUCH_VARIABLE")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert one.stats.traces + other.stats.traces == 40 and one.stats.traces and other.stats.traces


def test_several_models_vote_together_and_their_shares_are_said(questions, serve, tmp_path):
    mocks, at = zip(*(serve(model=name) for name in ("alpha", "beta")), strict=True)
    endpoints = [word for name, (_, url, *_) in zip(("alpha", "beta"), at, strict=True)
                 for word in ("--endpoint", f"{name}={url}")]  # fmt: skip
    models, store = ("--model", "alpha=3", "--model", "beta"), tmp_path / "runs.db"
    dry = pets("solve", questions, *models, *endpoints, "--budget", "1usd", "--price", "alpha=in=1,out=2", "--price",
               "in=1,out=4", "--dry-run", "tokens=500,seconds=1", "--max-tokens", 1000,
               "--max-traces", 1000)  # fmt: skip
    assert json.loads(dry.stdout)["cost"] == pytest.approx(1.0, rel=0.02)
    assert not sum(mock.stats.requests for mock in mocks)
    result = pets("solve", questions, *models, *endpoints, "--budget", "8x", "--store", store)
    assert result.exit_code == 0, result.output
    given = [mock.stats.traces for mock in mocks]
    assert sum(given) == 80 and abs(given[1] - 20) <= 10
    assert f"alpha {given[0]} (" in result.stderr and "its weight: 25.0%" in result.stderr
    shown = json.loads(pets("runs", "show", "last", "--store", store, "--format", "jsonl").stdout)
    assert [(row["model"], row["weight"], row["traces"]) for row in shown["models"]] == [
        ("alpha", 3, given[0]), ("beta", 1, given[1])]  # fmt: skip
    assert "alpha (weight 3)" in pets("runs", "show", "last", "--store", store, "--format", "table").stdout
    question = json.loads(pets("runs", "show", "--question", "q0", "--store", store, "--format", "jsonl").stdout)
    assert {trace["model"] for trace in question["sampled"]} <= {"alpha", "beta"}
    assert pets("resume", "last", "--budget", "+20", "--store", store).exit_code == 0
    assert sum(mock.stats.traces for mock in mocks) == 100
    assert "named twice" in refused("solve", questions, *models, "--model", "beta", *endpoints)


def test_a_run_is_resumed_topped_up_and_forecast(questions, serve, tmp_path):
    mock, at = serve()
    store, out = tmp_path / "runs.db", tmp_path / "out.jsonl"
    assert pets("solve", questions, *at, "--budget", "2x", "--store", store, "-o", out).exit_code == 0
    again = pets("resume", "last", "--store", store)
    assert again.stdout == out.read_text() and mock.stats.traces == 20
    assert pets("resume", "last", "--budget", "+15", "--store", store).exit_code == 0
    assert mock.stats.traces == 35
    found = pets("forecast", 1, "--store", store, "--max-budget", "8x", "--target-consistency", 0.5)
    assert "10 questions played on" in found.stderr
    plain = json.loads(found.stdout)
    total = round(10 * plain["mean_budget_for"]["0.5"])
    way_on = "the run is there already" if total <= 35 else f"pets resume 1 --budget ={total} --store {store}"
    assert way_on in found.stderr
    assert plain["questions"] == 10 and plain["curve"][0][0] == 3.5 and plain["mean_budget_for"]["0.5"] >= 3.5


def test_a_run_at_its_cap_keeps_the_rest_says_which_target_it_missed_and_goes_on_with_a_higher_cap(
    questions, serve, tmp_path
):
    mock, at = serve()
    store = tmp_path / "runs.db"
    solved = pets(
        "solve", questions, *at, "--budget", "6x", "--max-traces", 3, "--target-consistency", 0.9999, "--store", store
    )
    assert "Every question has the 3 traces that --max-traces allows: the rest of the budget was kept." in solved.stderr
    assert "The target of 0.9999 was not reached with at most 3 per question" in solved.stderr
    assert "pets resume 1 --max-traces 6" in solved.stderr and mock.stats.traces == 30
    found = pets("forecast", 1, "--store", store, "--target-consistency", 0.9999)
    assert "self-consistency 0.9999: not reached with at most 3 per question" in found.stderr
    assert "can only raise that" in refused("resume", 1, "--max-traces", 2, "--store", store)
    assert pets("resume", 1, "--max-traces", 6, "--store", store).exit_code == 0
    assert mock.stats.traces == 60
    assert "not reached with at most 6" in pets("forecast", 1, "--store", store, "--target-consistency", 0.9999).stderr


def test_a_top_up_that_is_refused_adds_nothing_to_the_budget(questions, serve, tmp_path):
    mock, at = serve()
    store = tmp_path / "runs.db"
    command = ("solve", questions, *at, "--budget", "2x", "--policy", "uniform", "--store", store)
    assert pets(*command).exit_code == 0
    for _ in range(2):
        words = refused("resume", "last", "--budget", "+8", "--max-traces", 3, "--store", store)
        assert "can only raise that" in words
    assert "Spent 20 traces of 20 traces." in pets(*command).stderr and mock.stats.traces == 20


def test_a_run_that_goes_on_names_the_servers_that_it_asks_now(questions, serve, tmp_path):
    (_, at), (_, elsewhere) = serve(), serve()
    store = tmp_path / "runs.db"
    assert pets("solve", questions, *at, "--budget", "2x", "--store", store).exit_code == 0
    again = pets("resume", "last", "--budget", "+5", "--store", store, *elsewhere[:2])
    assert again.exit_code == 0 and f" at {elsewhere[1]};" in again.stderr and at[1] not in again.stderr
    same = pets("solve", questions, *elsewhere, "--budget", "2x", "--store", store)
    assert f" at {elsewhere[1]};" in same.stderr and at[1] not in same.stderr


def test_former_words_for_the_time_of_a_run_are_answered_with_hurry(questions, serve):
    _, at = serve()
    for option in ("--patience", "--waves"):
        assert "--hurry" in refused("solve", questions, *at, option, 3)


def test_a_budget_that_is_none_is_refused_as_such(questions, serve):
    _, at = serve()
    assert pets("solve", questions, *at, "--budget", "4x").exit_code == 0
    assert refused("solve", questions, *at, "--budget", "-5").startswith("'-5' is no budget.")


def test_what_a_store_holds_is_said_before_and_after(questions, serve, tmp_path):
    mock, at = serve()
    assert pets("solve", questions, *at, "--budget", "2x", "--no-texts").exit_code == 0
    again = pets("solve", questions, *at, "--budget", "2x", "--answer", "text", "--policy", "uniform")
    assert "20 traces of these questions cannot be read again: their run kept no texts (--no-texts)." in again.stderr
    third = pets("solve", questions, *at, "--budget", "2x", "--policy", "uniform")
    assert "runs.db holds 20 traces of 10 of these 10 questions; at most 0 traces more to pay." in third.stderr
    assert "20 of them were asked under: End with" in third.stderr
    assert "20 traces reused from run 2 (20), which had cost" in third.stderr and mock.stats.traces == 40


def test_a_top_up_fills_no_terminal_with_rows(questions, serve, monkeypatch):
    _, at = serve()
    assert pets("solve", questions, *at, "--budget", "2x").exit_code == 0
    assert len(pets("resume", "last", "--budget", "+5").stdout.splitlines()) == 10
    monkeypatch.setattr("pets.cli.resume.is_for_people", lambda form: True)
    result = pets("resume", "last", "--budget", "+5")
    assert result.exit_code == 0 and not result.stdout
    assert "`pets runs export 1 -o FILE` writes the answers." in result.stderr
    assert "10 of 10 questions answered" in result.stderr


def test_a_dry_run_asks_nothing(questions, serve, tmp_path):
    mock, at = serve(max_model_len=4096)
    instructed = pets("solve", questions, *at, "--dry-run")
    told = json.loads(instructed.stdout)
    assert told["instructions"] == ['End with "The answer is (X).", where X is the letter of your choice.']
    assert (told["policy"], told["budget"], told["unit"]) == ("okg", 160, "traces") and not instructed.stderr
    result = pets("solve", questions, *at, "--budget", "1usd", "--price", "in=1,out=2", "--no-instruct",
                  "--dry-run", "tokens=500,seconds=2", "--max-traces", 1000)  # fmt: skip
    plain = json.loads(result.stdout)
    assert not result.stderr and (plain["budget"], plain["unit"]) == (1.0, "usd")
    assert mock.stats.requests == 0 and 980 < plain["traces"] <= 1000 and plain["tokens"] == 500 * plain["traces"]
    assert plain["cost"] == pytest.approx(1.0, rel=0.02) and plain["times_as_long"] <= 2
    assert plain["seconds"] == pytest.approx(2 * plain["traces"] / 64 * plain["times_as_long"], rel=0.05)
    pets("solve", questions, *at, "--budget", "2x", "--store", tmp_path / "runs.db")
    result = pets("solve", questions, *at, "--budget", "4x", "--store", tmp_path / "runs.db", "--dry-run")
    assert json.loads(result.stdout)["basis"] == "the traces of run 1"


def test_a_dry_run_is_a_table_for_a_person_in_dollars(questions, serve):
    _, at = serve(max_model_len=4096)
    result = pets("solve", questions, *at, "--budget", "5usd", "--price", "in=1,out=2", "--format", "table",
                  "--dry-run", "tokens=500,seconds=2", "--max-tokens", 1000)  # fmt: skip
    rows = {line[:12].strip(): line[13:] for line in result.stdout.splitlines()}
    assert (rows["questions"], rows["budget"], rows["policy"]) == ("10", "$5", "okg")
    assert rows["traces"] == "640, about 64.0 per question" and rows["cost"].startswith("$0.6")
    assert rows["per trace"] == "1,000 tokens at most" and "picodollar" not in result.output
    assert "--target-consistency 0.99 would stop earlier." in result.stderr
    assert "--format is read with --dry-run alone" in str(pets("solve", questions, *at, "--format", "csv").exception)


def test_accuracy_is_told_where_there_is_gold(tmp_path, serve):
    _, at = serve()
    path = tmp_path / "gold.jsonl"
    rows = (
        {"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4", "gold": "B"} for i in range(10)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = pets("solve", path, *at, "--budget", "4x")
    right = [json.loads(line)["right"] for line in result.stdout.splitlines()]
    share = sum(right) / 10
    low, high = wilson(share, 10)
    assert f"Accuracy {share:.3f} ({low:.3f} to {high:.3f}) over 10 questions with gold." in result.stderr


def test_a_model_that_thinks_for_long_is_not_cut_unless_the_user_says_so(questions, serve):
    mock, at = serve(tokens=3000)
    result = pets("solve", questions, *at, "--budget", "2x")
    assert "10 questions to mock at http://" in result.stderr
    assert "; 20 traces in all, traces as long as the server allows." in result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and all(row["answer"] is not None for row in rows)
    assert mock.stats.completion_tokens > 20 * 1500


def test_a_budget_in_tokens_holds_the_servers_context_or_asks_for_a_limit(questions, serve):
    _, at = serve()
    assert "--max-tokens" in refused("solve", questions, *at, "--budget", "1Mtok")
    mock, at = serve(max_model_len=900)
    result = pets("solve", questions, *at, "--budget", "30ktok", "--dry-run")
    limit = json.loads(result.stdout)["max_tokens"]
    assert 700 < limit < 900 - 4  # the context, less what the longest prompt may have
    result = pets("solve", questions, *at, "--budget", "30ktok")
    figures = r"\), ([\d,]+) tokens and ([\d,]+) of prompts\.\nSpent ([\d,]+) tokens of 30,000 tokens"
    ((tokens, of_prompts, spent),) = re.findall(figures, result.stderr)
    assert result.exit_code == 0 and sum(int(n.replace(",", "")) for n in (tokens, of_prompts)) == int(
        spent.replace(",", "")
    )
    assert mock.stats.refused == 0 and mock.stats.completion_tokens + mock.stats.prompt_tokens <= 33_000


def test_confidences_are_asked_for_and_their_lack_is_said(questions, serve):
    _, at = serve()
    heard = pets("solve", questions, *at, "--budget", "4x", "--policy", "okg_weighted")
    assert heard.exit_code == 0 and "no log-probabilities" not in heard.stderr
    _, at = serve(faults=Faults(no_logprobs=1.0))
    deaf = pets("solve", questions, *at, "--budget", "2x", "--confidence", "tail")
    assert deaf.exit_code == 0 and "The server gave no log-probabilities" in deaf.stderr
    assert "confidence" in refused("solve", questions, *at, "--budget", "4x", "--policy", "okg_weighted", "--new")


def test_mistakes_get_one_line(questions, serve, tmp_path):
    _, at = serve()
    store = tmp_path / "runs.db"
    assert "neither a file nor a question set" in refused("solve", tmp_path / "none.jsonl", *at)
    assert "which questions" in refused("solve", *at)
    (tmp_path / "bad.jsonl").write_text('{"id": "x", "text": "?"}\n')
    assert 'bad.jsonl" line 1' in refused("solve", tmp_path / "bad.jsonl", *at)
    assert "is no budget" in refused("solve", questions, *at, "--budget", "many")
    assert "without one" in refused("solve", questions, *at, "--budget", "5")
    assert "needs a price" in refused("solve", questions, *at, "--budget", "5usd")
    assert "there is no policy" in refused("solve", questions, *at, "--policy", "oracular")
    assert "404" in refused("solve", questions, *at[:3], "other-model", "--store", store)
    assert "cannot be reached" in refused("solve", questions, "--endpoint", "http://127.0.0.1:9/v1", "--model", "m")
    assert "--model NAME" in refused("solve", questions, *at[:2])
    several = ("--endpoint", f"nope={at[1]}", "--model", "mock", "--model", "other")
    assert "--endpoint names nope" in refused("solve", questions, *several)
    assert "there is no folder" in refused("solve", questions, *at, "-o", tmp_path / "no" / "out.jsonl")
    assert 'holds its questions: leave "starter" out' in refused("resume", "last", "starter", "--store", store)
    assert "run 1 is no stream: leave out --plan." in refused("resume", 1, "--plan", "plan.json", "--store", store)
    assert "counts traces" in refused("resume", "last", "--budget", "+5usd", "--store", store)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 999")
    assert "newer" in refused("resume", "last", "--store", store)


def test_a_bad_key_is_refused(questions, serve):
    _, at = serve(api_key="secret")
    assert "401" in refused("solve", questions, *at)


def test_a_run_without_texts_keeps_answers_alone(questions, serve, tmp_path):
    (_, at), store = serve(), tmp_path / "runs.db"
    assert pets("solve", questions, *at, "--budget", "2x", "--store", store, "--no-texts").exit_code == 0
    with Store.open(store) as opened:
        traces = list(opened.view().traces())
    assert traces and {trace.text for trace in traces} == {""} and any(trace.answer for trace in traces)


def test_a_dry_run_of_a_run_that_is_finished_says_that_nothing_would_be_paid(questions, serve):
    mock, at = serve()
    ask = ("solve", questions, *at, "--budget", "2x")
    assert json.loads(pets(*ask, "--dry-run").stdout)["traces"] == 20 and mock.stats.traces == 0
    pets(*ask)
    again = pets(*ask, "--dry-run")
    assert again.exit_code == 0 and not again.stdout
    assert "is finished: its answers again, nothing is paid" in again.stderr
    assert json.loads(pets(*ask, "--new", "--dry-run").stdout)["traces"] == 20 and mock.stats.traces == 20
