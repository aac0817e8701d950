"""``pets sample`` from the shell: a pool from a server that misbehaves, and one line with exit 2 for a mistake."""

import json
import signal
import subprocess
import sys
import threading

import httpx
import pytest

from pets.mock import DistributionAnswers, Faults, MockModel, running
from pets.pools import read_pool

from ..command import pets
from ..waiting import PATIENCE_S

BOOK = DistributionAnswers({f"q{at}": {"A": 0.7, "B": 0.3} for at in range(6)}, tokens=12)


MAIN = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"
PETS = (sys.executable, "-c", MAIN, "sample")


def one_line(text):
    return " ".join(text.split())


def ids(path):
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_a_pool_from_a_server_that_misbehaves(monkeypatch, tmp_path):
    monkeypatch.setattr("pets.engine.fetch.MAX_BACKOFF_S", 0.01)
    faults = Faults(rate_limit=0.2, retry_after=0, wrong_json=0.1, one_choice=0.2)
    pool = tmp_path / "pool.jsonl"
    with running(MockModel(BOOK, faults=faults, n_limit=3)) as url:
        (tmp_path / "mine.jsonl").write_text(httpx.get(url.replace("/v1", "/mock/questions")).text)
        # The last request gets all the faults that are drawn while it is alone: six in a row are not rare.
        ask = ("mine.jsonl", "-o", pool, "--traces", "8", "--endpoint", url, "--model", "mock", "--tries", "50")
        first = pets("sample", *ask, "--first", "2")
        assert (first.returncode, first.stdout, sorted(ids(pool))) == (0, "", ["q0", "q1"]), first.stderr
        again = pets("sample", *ask)
        assert "4 questions sampled, 6 in all" in again.stderr and "No trace" not in again.stderr, again.stderr
        other = pets("sample", *ask, "--temperature", "0.3")
        bare = pets("sample", *ask, "--no-instruct")
        assert bare.returncode == 2 and "6 of these questions with another prompt" in one_line(bare.stderr)
        assert other.returncode == 2 and "was recorded with temperature 1.0; now it is 0.3" in one_line(other.stderr)
    assert sorted(ids(pool)) == [f"q{at}" for at in range(6)]
    for question in read_pool(pool).questions:
        assert len(question.answers) == 8 and set(question.answers) <= {"A", "B"} and question.confidences


def test_a_server_takes_over_where_another_cannot_be_reached(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"id":"q1","question":"Question q1"}\n')
    with running(MockModel(BOOK)) as url:
        servers = ("--endpoint", "http://127.0.0.1:1/v1", "--endpoint", url, "--model", "mock", "--rpm", "600")
        shown = pets("sample", "mine.jsonl", "-o", "pool.jsonl", "--traces", "4", *servers)
    assert shown.returncode == 0, shown.stderr
    assert len(read_pool(tmp_path / "pool.jsonl").questions[0].answers) == 4


def test_several_models_are_recorded_by_turns(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"id":"q1","question":"Question q1"}\n')
    a, b = (MockModel(DistributionAnswers({"q1": {name: 1.0}}), model=name) for name in "AB")
    with running(a) as first, running(b) as second:
        models = ("--model", "A=2", "--model", "B", "--endpoint", f"A={first}", "--endpoint", f"B={second}")
        shown = pets("sample", "mine.jsonl", "-o", "pool.jsonl", "--traces", "6", *models)
    assert shown.returncode == 0, shown.stderr
    assert (
        "".join(read_pool(tmp_path / "pool.jsonl").questions[0].answers) in "ABAABAABA"
    )  # which of them begins, the prompt decides


def test_the_answer_type_can_be_named_and_accuracy_is_told_where_there_is_gold(tmp_path):
    (tmp_path / "mine.csv").write_text("id;question;answer\nq1;Question q1;A\nq2;Question q2;A\n")
    with running(MockModel(BOOK)) as url:
        servers = ("--endpoint", url, "--model", "mock")
        shown = pets("sample", "mine.csv", "-o", "p.jsonl", "--traces", "8", "--answer", "choice", *servers)
    assert shown.returncode == 0, shown.stderr
    questions = read_pool(tmp_path / "p.jsonl").questions
    assert {answer for question in questions for answer in question.answers} <= {"A", "B"}
    right = sum(question.answers.count("A") for question in questions) / 16
    assert f"Accuracy of 2 questions with gold: pass@1 {right:.3f}, vote of 8 traces" in one_line(shown.stderr)


def test_questions_that_no_trace_answers_are_told(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"id":"q1","question":"Question q1"}\n{"id":"q2","question":"Question q2"}\n')
    with running(MockModel(BOOK)) as url:
        ask = ("mine.jsonl", "-o", "pool.jsonl", "--traces", "2", "--endpoint", url, "--model", "mock")
        shown = pets("sample", *ask, "--max-tokens", "3")  # each trace is cut
    assert shown.returncode == 0 and "No trace answers 2 questions." in one_line(shown.stderr), shown.stderr
    assert "4 traces were cut at their token limit and cast no vote: --max-tokens" in one_line(shown.stderr)


class Slow(MockModel):
    """Takes its time, and says when it was asked."""

    def __init__(self):
        super().__init__(BOOK, tokens_per_second=0.001)
        self.asked = threading.Event()

    def admit(self, ask):
        super().admit(ask)
        self.asked.set()


def test_ctrl_c_says_that_the_same_command_goes_on(popen, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"id":"q1","question":"Question q1"}\n')
    mock = Slow()
    with running(mock) as url:
        command = (*PETS, "mine.jsonl", "-o", "pool.jsonl", "--traces", "2", "--endpoint", url, "--model", "mock")
        process = popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
        assert mock.asked.wait(PATIENCE_S)
        process.send_signal(signal.SIGINT)
        words = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130
    assert words.endswith('Stopped. What "pool.jsonl" holds is kept; the same command goes on from there.\n')
    assert "Traceback" not in words and "Aborted" not in words


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("-o", "none/pool.jsonl"), "cannot be written"),
        (("-o", "mine.jsonl"), "was not recorded here"),
        (("-o", "pool.csv"), "must end in .jsonl"),
        (("-o", "pool.jsonl", "--shard", "3/2"), "part 3/2"),
        (("-o", "pool.jsonl", "--shard", "half"), "--shard is I/K"),
        (("-o", "pool.jsonl", "--model", "other"), "404"),
        (("-o", "pool.jsonl", "--model", "mock", "--model", "other"), "404"),
    ],
)
def test_a_mistake_is_a_line_and_exit_2(tmp_path, args, says):
    (tmp_path / "mine.jsonl").write_text('{"id":"q1","question":"Question q1"}')  # its end is missing
    with running(MockModel(BOOK)) as url:
        model = () if "--model" in args else ("--model", "mock")
        shown = pets("sample", "mine.jsonl", "--endpoint", url, *model, *args)
    assert shown.returncode == 2 and says in one_line(shown.stderr) and "Traceback" not in shown.stderr
    assert (tmp_path / "mine.jsonl").read_text() == '{"id":"q1","question":"Question q1"}'
