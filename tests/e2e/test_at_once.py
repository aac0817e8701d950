"""The same command, started several times at once: one process pays, the others are refused in one line."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from pets.mock import MockModel, running, synthetic
from pets.store import Store

from ..waiting import PATIENCE_S

QUESTIONS, TRACES = 5, 4
AT_ONCE = 4
# Forks the command so many times when all is imported: they begin within milliseconds, and imports are paid once.
FORKS = """
import os, sys
from pets.cli import batch, sample, solve, stream
from pets.cli.main import main
times, stdin = int(sys.argv[1]), sys.argv[2]
del sys.argv[1:3]
for _ in range(times):
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        words = os.open(f"words-{os.getpid()}", os.O_WRONLY | os.O_CREAT)
        os.dup2(words, 1)
        os.dup2(words, 2)
        sys.exit(main())
    print(pid, flush=True)
for _ in range(times):
    pid, status = os.wait()
    print(pid, os.waitstatus_to_exitcode(status), flush=True)
"""
SOLVE = ("solve", "questions.jsonl", "--budget", f"{TRACES}x")
SAMPLE = ("sample", "questions.jsonl", "-o", "pool.jsonl", "--traces", TRACES)
STREAM = ("--cold", "--budget", f"{TRACES}x", "--max-traces", TRACES, "--horizon", QUESTIONS, "--answer", "choice")


class GatedMock(MockModel):
    """Answers nobody before the gate is open."""

    def __init__(self):
        super().__init__(synthetic(QUESTIONS, tokens=8))
        self.gate = threading.Event()

    def seconds(self, choice):
        assert self.gate.wait(PATIENCE_S)
        return 0.0


@pytest.fixture
def mock():
    mock = GatedMock()
    with running(mock) as url:
        mock.at = ("--endpoint", url, "--model", "mock")
        yield mock
        mock.gate.set()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    return tmp_path / "runs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def begin(tmp_path, popen):
    """``begin(times, *arguments, stdin=None)`` starts the command so many times, all at once."""
    rows = ({"id": f"q{n}", "question": f"Question q{n}", "answer_type": "choice:options=4"} for n in range(QUESTIONS))
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(times, *arguments, stdin=os.devnull):
        parent = popen([sys.executable, "-c", FORKS, times, stdin, *arguments], cwd=tmp_path, stdout=subprocess.PIPE)
        started.append(Processes(parent.stdout, {int(parent.stdout.readline()) for _ in range(times)}, tmp_path))
        return started[-1]

    started = []
    yield start
    for processes in started:
        processes.kill()


@dataclass
class Processes:
    """Processes of one command: ``left`` have not ended, as far as the lines of their parent were read."""

    lines: IO[str]
    left: set[int]
    folder: Path

    def end_of_one(self):
        """The exit code and the words of the next that ends."""
        pid, code = map(int, self.lines.readline().split())
        self.left.remove(pid)
        return code, (self.folder / f"words-{pid}").read_text()

    def refuse_all_but_one(self):
        while len(self.left) > 1:
            code, words = self.end_of_one()
            *_, line = words.splitlines()
            assert code == 2 and line.startswith("pets: ") and "another process" in line

    def kill(self):
        """Kill -9 those that are left, and wait for their end."""
        for pid in self.left:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        while self.left:
            self.end_of_one()

    def finish(self, mock):
        mock.gate.set()
        while self.left:
            code, words = self.end_of_one()
            assert code == 0, words


VERBS = {
    "solve": (SOLVE, os.devnull),
    "stream of a file": (("stream", "questions.jsonl", *STREAM[:5]), os.devnull),
    "stream of stdin": (("stream", *STREAM), "questions.jsonl"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_is_begun_several_times_at_once_is_paid_for_once(begin, mock, store, verb):
    arguments, stdin = VERBS[verb]
    processes = begin(AT_ONCE, *arguments, *mock.at, "--store", store, stdin=stdin)
    processes.refuse_all_but_one()
    processes.finish(mock)
    assert mock.stats.traces == QUESTIONS * TRACES
    with Store.open(store) as opened:
        (run,) = opened.runs()
        assert (run.state, run.spent) == ("finished", QUESTIONS * TRACES)


def test_kill_9_frees_a_run(begin, mock, store):
    processes = begin(2, *SOLVE, *mock.at, "--store", store)
    processes.refuse_all_but_one()
    processes.kill()
    begin(1, *SOLVE, *mock.at, "--store", store).finish(mock)
    with Store.open(store) as opened:
        assert [run.state for run in opened.runs()] == ["finished"]


def test_a_stream_whose_output_another_writes_is_refused_and_leaves_it(begin, mock, tmp_path):
    processes = begin(AT_ONCE, "stream", *STREAM, *mock.at, "-o", "answers.jsonl", stdin="questions.jsonl")
    processes.refuse_all_but_one()
    processes.finish(mock)
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == [f"q{n}" for n in range(QUESTIONS)]
    assert mock.stats.traces == QUESTIONS * TRACES and not list(tmp_path.glob("*.lock"))


def test_streams_of_different_questions_share_a_store(begin, mock, tmp_path):
    (tmp_path / "others.jsonl").write_text((tmp_path / "questions.jsonl").read_text())
    at = (*mock.at, "--store", "runs.db")
    both = [begin(1, "stream", *STREAM, *at, stdin=f"{name}.jsonl") for name in ("questions", "others")]
    for processes in both:
        processes.finish(mock)
    assert mock.stats.traces == 2 * QUESTIONS * TRACES


def test_a_pool_that_is_recorded_several_times_at_once_is_paid_for_once(begin, mock, tmp_path):
    processes = begin(AT_ONCE, *SAMPLE, *mock.at)
    processes.refuse_all_but_one()
    processes.finish(mock)
    ids = [json.loads(line)["id"] for line in (tmp_path / "pool.jsonl").read_text().splitlines()]
    assert sorted(ids) == [f"q{n}" for n in range(QUESTIONS)]
    assert mock.stats.traces == QUESTIONS * TRACES and not list(tmp_path.glob("*.lock"))


def test_kill_9_frees_a_pool(begin, mock, tmp_path):
    processes = begin(2, *SAMPLE, *mock.at)
    processes.refuse_all_but_one()
    processes.kill()
    begin(1, *SAMPLE, *mock.at).finish(mock)
    assert len((tmp_path / "pool.jsonl").read_text().splitlines()) == QUESTIONS


def test_a_wave_that_is_written_several_times_at_once_belongs_to_one_run(begin, store, tmp_path):
    write = ("batch", "write", "questions.jsonl", "--model", "mock", "--budget", f"{TRACES}x", "-o", "wave.jsonl")
    processes = begin(AT_ONCE, *write, "--store", store)
    for code, words in [processes.end_of_one() for _ in range(AT_ONCE)]:
        assert code == 0 or (code == 2 and "another process" in words and "Traceback" not in words), words
    with Store.open(store) as opened:
        (run,) = opened.runs()
    asked = sum(json.loads(line)["body"].get("n", 1) for line in (tmp_path / "wave.jsonl").read_text().splitlines())
    assert asked == run.lost > 0
