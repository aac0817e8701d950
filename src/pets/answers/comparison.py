"""Compares formulas in a worker process: ask, wait no longer than agreed, go on.

One worker serves the process, from the first question to the end; while it is busy, a second one does.
It limits itself by processor time (so that what merges does not depend on the machine's load), answers the next
question at once when it ran out, and is killed when the clock runs far past that. A worker that dies is replaced and
asked once more. When this process ends, however it ends, the worker reads the end of its pipe and leaves; on Linux the
kernel ends it even while it computes.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from pets._extras import check_installed
from pets.errors import PetsError

OUT_OF_TIME = ""
"""The reply that a worker had no time for."""

CLOCK_PER_CPU = 5.0  # wall-clock seconds per second of processor time; beyond, the machine or the worker hangs
LEAST_CLOCK_S = 2.0
STARTUP_TIMEOUT_S = 60.0
CACHED_REPLIES = 1 << 13  # replies; what is compared has at most 400 characters, so the caches stay within about 40 MB

Process = subprocess.Popen[bytes]


class ComparisonWorker:
    """One worker process, started at the first question; threads take turns."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._lock = threading.Lock()
        # Linux ends a worker with the thread that started it: that one stays.
        self._starter: ThreadPoolExecutor | None = None

    @property
    def pid(self) -> int | None:
        """The worker's process id, while there is one."""
        return self._process.pid if self._process else None

    @property
    def busy(self) -> bool:
        """Whether a thread waits for its reply."""
        return self._lock.locked()

    def ask(self, verb: str, *texts: str, seconds: float) -> str | None:
        """The worker's reply; ``None`` if it has none or died of the question twice."""
        request = json.dumps([verb, seconds, *texts]).encode() + b"\n"
        with self._lock:
            for _ in range(2):
                process = self._process or self._start()
                reply, killed = self._exchange(process, request, max(LEAST_CLOCK_S, CLOCK_PER_CPU * seconds))
                value, used = json.loads(reply) if reply else (None, None)
                _THREAD.seconds = worker_seconds() + (seconds if used is None else used)
                if killed or (reply and used is None):
                    return OUT_OF_TIME
                if reply:
                    return value if isinstance(value, str) else None
        return None

    def close(self) -> None:
        """End the worker, if there is one."""
        with self._lock:
            self._discard()

    def forget(self) -> None:
        """Give up the worker in a forked child, since it is the parent's."""
        self._lock, self._starter = threading.Lock(), None
        if self._process is not None:
            self._process.returncode = 0  # not this process's child: nothing to kill or to wait for
        self._discard()

    def _start(self) -> Process:
        check_installed("math_verify", "math", "math-verify, which compares formulas,")
        # By path, not by -m: the worker needs nothing of pets. -P keeps math.py beside it from shadowing Python's.
        command = [sys.executable, "-P", str(Path(__file__).with_name("_comparison_worker.py")), str(os.getpid())]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        starter = self._starter = self._starter or ThreadPoolExecutor(1, "pets-worker")
        # In a process group of its own, with its child that computes: one signal kills both.
        group = 0 if hasattr(os, "killpg") else None
        process = starter.submit(
            subprocess.Popen, command, stdin=pipe, stdout=pipe, stderr=null, bufsize=0, process_group=group
        ).result()
        self._process = process
        ready, _ = self._exchange(process, b"", STARTUP_TIMEOUT_S)
        if not ready:
            raise PetsError(
                "the worker that compares formulas did not start. See what `python -c 'import math_verify'` says, and"
                " try: pip install --upgrade 'pets-llm[math]'"
            )
        return process

    def _exchange(self, process: Process, request: bytes, seconds: float) -> tuple[bytes, bool]:
        """The reply, empty when the worker died, and whether the clock killed it."""
        assert process.stdin is not None and process.stdout is not None
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            _kill(process)

        clock = threading.Timer(seconds, kill)
        clock.daemon = True
        clock.start()
        try:
            process.stdin.write(request)
            reply = process.stdout.readline()
        except BrokenPipeError:
            reply = b""
        except BaseException:  # Ctrl-C: the reply would be taken for the next question's
            self._discard()
            raise
        finally:
            clock.cancel()
            clock.join()
        if not reply.endswith(b"\n") or killed.is_set():
            self._discard()
        return reply if reply.endswith(b"\n") else b"", killed.is_set()

    def _discard(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process:  # which closes its pipes and waits
                _kill(process)


def _kill(process: Process) -> None:
    """Kill a worker and its child; as long as it was not waited for, no other process has its id."""
    if process.returncode is not None:
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


WORKER, SECOND_WORKER = ComparisonWorker(), ComparisonWorker()
for _worker in (WORKER, SECOND_WORKER):
    atexit.register(_worker.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_worker.forget)


def _idle_worker() -> ComparisonWorker:
    return SECOND_WORKER if WORKER.busy else WORKER


_THREAD = threading.local()


def worker_seconds() -> float:
    """Processor seconds that workers have spent on this thread's questions."""
    return getattr(_THREAD, "seconds", 0.0)


@lru_cache(maxsize=CACHED_REPLIES)
def fingerprint(text: str, seconds: float) -> str | None:
    """A digest of the formula's structure and values; ``None`` if it does not parse, or ``OUT_OF_TIME``."""
    return _idle_worker().ask("fingerprint", text, seconds=seconds)


@lru_cache(maxsize=CACHED_REPLIES)
def agree(first: str, second: str, seconds: float) -> str | None:
    """``"yes"`` if math-verify takes each for the other, else ``"no"``; ``None`` if neither, or ``OUT_OF_TIME``."""
    return _idle_worker().ask("agree", first, second, seconds=seconds)
