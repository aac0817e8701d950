"""The worker is limited, replaced, and never left behind."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pets.answers import comparison
from pets.answers.comparison import OUT_OF_TIME, ComparisonWorker, fingerprint, worker_seconds
from pets.answers.math import Math
from pets.errors import PetsError

from ..waiting import PATIENCE_S, wait_until


@pytest.fixture
def worker():
    worker = ComparisonWorker()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def shared():
    """For questions that need no worker of their own: one takes a second to start."""
    worker = ComparisonWorker()
    yield worker
    worker.close()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_it_starts_at_the_first_question_and_ends_when_closed(worker):
    assert worker.pid is None
    assert worker.ask("agree", "x+1", "1+x", seconds=5) == "yes"
    pid = worker.pid
    assert worker.ask("agree", "x+1", "x+2", seconds=5) == "no" and worker.pid == pid
    worker.close()
    assert worker.pid is None and not alive(pid)


def computing(pid: int) -> int:
    """The child that answers for a worker."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def test_out_of_time_is_said_and_the_next_question_is_answered_by_the_same_worker(worker, monkeypatch):
    monkeypatch.setattr(comparison, "LEAST_CLOCK_S", PATIENCE_S)  # the processor's time alone counts
    assert worker.ask("fingerprint", "1", seconds=5)
    pid = worker.pid
    assert worker.ask("fingerprint", "10^{10^{10}}", seconds=0.3) == OUT_OF_TIME
    assert worker.ask("agree", "x+1", "1+x", seconds=5) == "yes" and worker.pid == pid


def test_a_worker_that_was_killed_is_replaced_within_the_question(worker):
    mark = worker.ask("fingerprint", "x+1", seconds=5)
    os.kill(worker.pid, signal.SIGKILL)
    assert worker.ask("fingerprint", "x+1", seconds=5) == mark is not None


def test_a_worker_killed_while_it_works_is_replaced(worker):
    """Stopped, the worker cannot answer; killed then, another one does."""
    worker.ask("fingerprint", "1", seconds=5)
    os.kill(computing(worker.pid), signal.SIGSTOP)
    killer = threading.Timer(0.2, os.kill, (worker.pid, signal.SIGKILL))
    killer.start()
    assert worker.ask("agree", "x+1", "1+x", seconds=20) == "yes"
    killer.join(PATIENCE_S)


def test_a_worker_that_hangs_without_using_the_processor_is_killed_by_the_clock(worker, monkeypatch):
    monkeypatch.setattr(comparison, "LEAST_CLOCK_S", 0.2)
    worker.ask("fingerprint", "1", seconds=5)
    pid, hung = worker.pid, computing(worker.pid)
    os.kill(hung, signal.SIGSTOP)
    assert worker.ask("fingerprint", "2", seconds=0.05) == OUT_OF_TIME
    assert worker.pid is None and not alive(pid)
    wait_until(lambda: not alive(hung))


def test_a_child_that_dies_of_something_else_is_replaced_within_the_question(worker):
    mark = worker.ask("fingerprint", "x+1", seconds=5)
    os.kill(computing(worker.pid), signal.SIGKILL)
    assert worker.ask("fingerprint", "x+1", seconds=5) == mark is not None


@pytest.mark.parametrize("text", ["", "{", "\\", "x" * 10_000, "\x00", "\n", "é", "}{", '"', r"\frac{1}{0}", "\ud800"])
def test_what_does_not_parse_is_no_answer(shared, text):
    assert not shared.ask("fingerprint", text, seconds=0.5)
    assert shared.ask("agree", "x+1", "1+x", seconds=5) == "yes"


def test_threads_take_turns(shared):
    pairs = [("x+1", "1+x", "yes"), ("x+1", "x+2", "no"), ("2x", "x+x", "yes"), ("y", "x", "no")] * 3
    said = {}

    def ask(number: int) -> None:
        one, other, _ = pairs[number]
        said[number] = shared.ask("agree", one, other, seconds=5)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(pairs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [said[number] for number in range(len(pairs))] == [expected for *_, expected in pairs]


USE_IT = """
import os, sys
from pets.answers.math import Math
from pets.answers.comparison import WORKER
assert Math().same("x+1", "1+x")
print(WORKER.pid, flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["sys.stdin.read()", "", "os._exit(1)", "1/0"])
def test_no_worker_is_left_behind(then):
    """Killed, at its end, at an abrupt end, at an error."""
    command = [sys.executable, "-c", USE_IT.format(then=then)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        worker = int(parent.stdout.readline())
        if then == "sys.stdin.read()":
            assert alive(worker)
            parent.kill()
        parent.wait(PATIENCE_S)
    wait_until(lambda: not alive(worker))


BUSY = """
import threading, time
from pets.answers.comparison import WORKER
WORKER.ask("fingerprint", "1", seconds=5)
print(WORKER.pid, flush=True)
threading.Thread(target=WORKER.ask, args=("fingerprint", "10^{10^{10}}"), kwargs={"seconds": 3000}).start()
time.sleep(3000)
"""


def cpu_ticks(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux alone ends a busy child with its parent")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_ends_with_its_parent_while_it_computes(end):
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as parent:
        worker = computing(int(parent.stdout.readline()))
        ready = cpu_ticks(worker)
        wait_until(lambda: cpu_ticks(worker) > ready + 10)
        parent.send_signal(end)
        parent.wait(PATIENCE_S)
    wait_until(lambda: not alive(worker))


def test_who_would_wait_for_a_worker_takes_the_second(monkeypatch):
    first, second = ComparisonWorker(), ComparisonWorker()
    monkeypatch.setattr(comparison, "WORKER", first)
    monkeypatch.setattr(comparison, "SECOND_WORKER", second)
    first.ask("fingerprint", "1", seconds=5)
    os.kill(first.pid, signal.SIGSTOP)
    waiting = threading.Thread(target=first.ask, args=("fingerprint", "2"), kwargs={"seconds": 5})
    waiting.start()
    wait_until(lambda: first.busy)
    assert second.pid is None and fingerprint("x+17", 5.0) is not None and second.pid is not None
    os.kill(first.pid, signal.SIGCONT)
    waiting.join(PATIENCE_S)
    first.close()
    second.close()


def test_a_worker_outlives_the_thread_that_asked_first(worker):
    first = threading.Thread(target=worker.ask, args=("fingerprint", "1"), kwargs={"seconds": 5})
    first.start()
    first.join(PATIENCE_S)
    pid = worker.pid
    assert worker.ask("agree", "x+1", "1+x", seconds=5) == "yes" and worker.pid == pid


def test_what_a_comparison_took_is_charged_to_the_thread_that_asked(shared, monkeypatch):
    monkeypatch.setattr(comparison, "LEAST_CLOCK_S", PATIENCE_S)
    before = worker_seconds()
    shared.ask("fingerprint", "x+1", seconds=5)
    usual = worker_seconds() - before
    assert 0 <= usual < 5
    shared.ask("fingerprint", "10^{10^{10}}", seconds=0.3)
    assert worker_seconds() - before - usual == pytest.approx(0.3)


def test_a_forked_child_has_its_own_worker():
    then = """
child = os.fork()
if child == 0:
    assert WORKER.pid is None
    same = Math().same("x+y+1", "1+y+x")
    WORKER.close()
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0
assert Math().same("2x+y", "y+2x")
"""
    done = subprocess.run(
        [sys.executable, "-c", USE_IT.format(then=then)], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_without_math_verify_the_error_names_the_remedy(monkeypatch):
    formulas = Math()
    monkeypatch.setattr(comparison, "WORKER", ComparisonWorker())
    monkeypatch.setitem(sys.modules, "math_verify", None)
    for ask in (Math, lambda: formulas.same("q^{7}+1", "1+q^{7}")):
        with pytest.raises(PetsError, match=r'pip install "pets-llm\[math\]"'):
            ask()
