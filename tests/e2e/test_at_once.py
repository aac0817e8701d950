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
AT_ONCE = 2
# Forks a command so many times for each line that it reads: they begin within milliseconds, and imports are paid once.
FORKS = """
import gc, json, os, sys
import aiohttp, psycopg
from pets.cli import sample, solve, stream
from pets.cli.main import main
from pets.registry import make_answer_type, policies
from pets.store import postgres

policies(), make_answer_type("choice").extract("The answer is A.")  # what is found and compiled once
gc.freeze()  # what was imported is nobody's garbage, and stays one copy

def command(stdin, words):
    told = os.open(f"words-{os.getpid()}", os.O_WRONLY | os.O_CREAT)
    for file, descriptor in enumerate((os.open(stdin, os.O_RDONLY), told, told)):
        os.dup2(descriptor, file)
    sys.stdin, sys.argv = os.fdopen(0), ["pets", *words]
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code)  # without the last collection of all that was imported

for line in sys.stdin:
    folder, ends, times, stdin, words = json.loads(line)
    if os.fork():
        continue
    os.chdir(folder)
    with open(ends, "w", buffering=1) as ends:
        for _ in range(times):
            if (pid := os.fork()) == 0:
                command(stdin, words)
            print(pid, file=ends)
        for _ in range(times):
            pid, status = os.wait()
            print(pid, os.waitstatus_to_exitcode(status), file=ends)
    os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
SOLVE = ("solve", "questions.jsonl", "--budget", f"{TRACES}x", "--policy", "uniform")
SAMPLE = ("sample", "questions.jsonl", "-o", "pool.jsonl", "--traces", TRACES)
STREAM = ("--budget", f"{TRACES}x", "--max-traces", TRACES, "--policy", "uniform", "--first", QUESTIONS)


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


@pytest.fixture(scope="module")
def forks():
    """A process that forks commands."""
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, bufsize=1) as parent:
        yield parent.stdin
        parent.stdin.close()


@pytest.fixture
def begin(tmp_path, forks):
    """``begin(times, *arguments, stdin=None)`` starts the command so many times, all at once."""
    rows = ({"id": f"q{n}", "question": f"Question q{n}", "answer_type": "choice:options=4"} for n in range(QUESTIONS))
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(times, *arguments, stdin=os.devnull):
        ends = tmp_path / f"ends-{len(started)}"
        os.mkfifo(ends)
        print(json.dumps([str(tmp_path), str(ends), times, stdin, [*map(str, arguments)]]), file=forks)
        lines = ends.open()
        started.append(Processes(lines, {int(lines.readline()) for _ in range(times)}, tmp_path))
        return started[-1]

    started = []
    yield start
    for processes in started:
        processes.kill()
        processes.lines.close()


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
    "stream of a file": (("stream", "questions.jsonl", *STREAM[:6]), os.devnull),
    "stream of stdin": (("stream", *STREAM), "questions.jsonl"),
}


@pytest.mark.parametrize(
    ("verb", "store"), [*((verb, "sqlite") for verb in VERBS), ("solve", "postgres")], indirect=["store"]
)
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
    write = (*SOLVE, "--model", "mock", "--batch-api", "--to", "wave.jsonl")
    processes = begin(AT_ONCE, *write, "--store", store)
    for code, words in [processes.end_of_one() for _ in range(AT_ONCE)]:
        assert code == 0 or (code == 2 and "another process" in words and "Traceback" not in words), words
    with Store.open(store) as opened:
        (run,) = opened.runs()
    asked = sum(json.loads(line)["body"].get("n", 1) for line in (tmp_path / "wave.jsonl").read_text().splitlines())
    assert asked == run.lost > 0
