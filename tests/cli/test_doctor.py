"""``pets doctor`` from the shell: findings on stdout, the price before on stderr, exit 1 where a run would fail."""

import contextlib
import json

import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.mock import MockModel, running, synthetic


@pytest.fixture(autouse=True)
def _a_person_reads(monkeypatch):
    monkeypatch.setattr("pets.cli._output.is_for_people", lambda form: form in (None, "table"))


def pets(*args):
    return CliRunner().invoke(cli, [*map(str, args)])


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(tokens=64, **settings):
            mock = MockModel(synthetic(10, strength=0.3, tokens=tokens), **settings)
            return mock, ("--endpoint", stack.enter_context(running(mock)), "--model", "mock")

        yield start


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = ({"id": f"q{i}", "question": f"Question q{i}", "answer_type": "choice:options=4"} for i in range(10))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_report_says_what_was_read_and_what_a_budget_buys(questions, serve):
    mock, at = serve(max_model_len=4096)
    result = pets("doctor", questions, *at, "--price", "in=1,out=2", "--budget", "8x")
    assert result.exit_code == 0, result.output
    assert "Asking for 6 traces, 25,344 tokens at most, $0.05" in result.stderr
    for words in ("ok     reachable", "ok     seeds", "q0: read", "q9: read", "--budget 8x: 80 traces of 10 questions"):
        assert words in result.stdout
    assert mock.stats.traces == 6


def test_json_holds_the_same(questions, serve):
    _, at = serve()
    result = pets("doctor", questions, *at, "--format", "jsonl", "--first", 2)
    plain = json.loads(result.stdout)
    assert plain["model"] == "mock" and not plain["faulty"] and len(plain["traces"]) == 2
    assert plain["forecast"]["traces"] == 32 and plain["forecast"]["basis"] == "2 live traces"


def test_a_budget_in_money_without_a_limit_is_told_which_one_to_give(questions, serve):
    _, at = serve(tokens=3000)
    result = pets("doctor", questions, *at, "--price", "in=1,out=2", "--budget", "5usd")
    assert result.exit_code == 1 and "- Give --max-tokens " in result.stdout


def test_every_server_is_looked_at_and_one_fault_is_enough(serve):
    (_, well), (_, locked) = serve(), serve(api_key="sk-123456789")
    result = pets("doctor", *well, *locked[:2])
    assert result.exit_code == 1 and result.stdout.count("reachable") == 2 and "FAULT  key" in result.stdout


def test_a_mistake_is_no_finding():
    assert "neither a file nor" in str(pets("doctor", "none.jsonl").exception)


def test_the_local_model_is_looked_at_too(weights):
    result = pets("doctor", "starter", "--first", 1, "--local", "slots=2", "--local", "context=1024")
    assert result.exit_code == 0, result.output
    assert "local model" in result.stdout and "1,024 tokens of prompt and trace" in result.stdout
