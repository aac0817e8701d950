"""kill -9 at moments of one run by batch jobs, resumed each time: what is lost, what is paid twice, what is spent.

    python -m benchmarks.batch_crash [KILLS] [SEED]

``pets solve --batch-api`` runs in a process of its own, four waves against a mock whose jobs take their time. It is
killed by the mock in the middle of a request for files or jobs (before the mock has done anything, or after it has done
everything and before it answers), or by the clock, a random while after its start. It is resumed each time, KILLS
times, and at last it may finish. Checked at the end: the mock's own account of traces and tokens against the store,
every launch once, none charged without a trace, no job handed in twice, the spend is the budget, and the verdicts are
those of the same traces replayed one by one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pets.engine import restored, results
from pets.mock import Faults, MockModel, app, running, synthetic
from pets.questions import Problem, write_questions
from pets.samplers import Prompt
from pets.store import Store, StoredTrace

KILLS, QUESTIONS, MEAN = 20, 40, 10
MOST_REQUESTS = 5  # of a process before it is killed by one of them
MOST_SECONDS = 3.0  # of a process before it is killed by the clock; it takes one to start
MAIN = "from pets.cli.main import main; main()"


class DeadlyRequests:
    """The mock, which kills whoever makes a certain request of files and jobs: before it is served, or after."""

    def __init__(self, served: ASGIApp) -> None:
        self._served = served
        self.victim: subprocess.Popen[bytes] | None = None
        self.left, self.after = 0, False
        self.moments: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, unless it is the one."""
        path = str(scope.get("path", ""))
        deadly = False
        if path.startswith(("/v1/files", "/v1/batches")):
            self.left -= 1
            deadly = self.left == 0 and self.victim is not None
        if not deadly:
            await self._served(scope, receive, send)
            return
        if self.after:
            sent: list[MutableMapping[str, Any]] = []

            async def keep(message: Message) -> None:
                sent.append(message)

            await self._served(scope, receive, keep)
        assert self.victim is not None
        os.kill(self.victim.pid, signal.SIGKILL)
        kind = "/".join(path.split("/")[2:3] + path.split("/")[4:5])
        self.moments[f"{'after' if self.after else 'before'} {scope['method']} {kind}"] += 1


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MAIN, "solve", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def check(store: Store, mock: MockModel, jobs: list[dict[str, Any]], total: int) -> dict[str, object]:
    view = store.view()
    traces: list[StoredTrace] = list(view.traces())
    allocator = restored(view)
    votes: dict[str, Counter[str]] = {}
    for trace in traces:
        if trace.answer is not None:
            votes.setdefault(trace.question, Counter())[trace.answer] += 1
    rows = [answer.to_plain() for answer in results(view, allocator)]
    keys = Counter((job["metadata"] or {}).get("pets_job") for job in jobs)
    return {
        "waves": len({job.wave for job in view.jobs()}),
        "jobs": len(jobs),
        "traces": len(traces),
        "nothing lost, nothing paid twice": mock.stats.traces == len(traces) == total and mock.stats.lost == 0,
        "tokens as the mock counts them": mock.stats.completion_tokens == sum(trace.tokens for trace in traces),
        "prompt tokens as the mock counts them": mock.stats.prompt_tokens
        == sum(trace.prompt_tokens for trace in traces),
        "every launch once": len({trace.launch for trace in traces}) == len(traces) and not list(view.lost()),
        "none charged without a trace": not any(trace.error for trace in traces),
        "every job once": set(keys.values()) == {1} and set(keys) == {job.key for job in view.jobs()},
        "budget exact": allocator.budget.spent == total,
        "verdicts as replayed": all(
            row["answer"] is not None and votes[row["id"]][row["answer"]] == max(votes[row["id"]].values())
            for row in rows
        ),
    }


def run(
    kills: int, rng: random.Random, folder: Path, url: str, deadly: DeadlyRequests, ids: list[str]
) -> tuple[int, int]:
    """Kill and resume; how many were killed by a request and by the clock."""
    questions, store = folder / "questions.jsonl", folder / "runs.db"
    with questions.open("w") as file:
        write_questions((Problem(id, Prompt.chat(id), "choice:options=4") for id in ids), file)
    server = ["--endpoint", url, "--model", "mock", "--budget", f"{MEAN}x"]
    again = [str(questions), *server, "--batch-api", "--store", str(store)]
    by_request = by_clock = 0
    while by_request + by_clock < kills:
        deadly.left, deadly.after = rng.randint(1, MOST_REQUESTS), rng.random() < 0.5
        by_time = rng.random() < 0.3
        deadly.victim = None
        child = start(again)
        deadly.victim = None if by_time else child
        timer = threading.Timer(rng.uniform(0.5, MOST_SECONDS), child.kill)
        if by_time:
            timer.start()
        _, words = child.communicate()
        timer.cancel()
        if child.returncode != -signal.SIGKILL:
            print(words.decode().strip())
            return by_request, by_clock  # it had finished before it could be killed
        by_request, by_clock = by_request + (not by_time), by_clock + by_time
    deadly.victim = None
    child = start(again)
    _, words = child.communicate()
    print(words.decode().strip())
    return by_request, by_clock


def main() -> None:
    print(__doc__)
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    book = synthetic(QUESTIONS, strength=0.5)
    mock = MockModel(book, faults=Faults(batch_seconds=0.7))
    deadly = DeadlyRequests(app(mock))
    with tempfile.TemporaryDirectory() as folder, running(deadly) as url:
        rng = random.Random(seed)
        by_request, by_clock = run(kills, rng, Path(folder), url, deadly, list(book.ids()))
        jobs = httpx.get(f"{url}/batches?limit=100").json()["data"]
        with Store.open(Path(folder) / "runs.db") as store:
            figures = check(store, mock, jobs, MEAN * QUESTIONS)
    moments = {
        "kills": by_request + by_clock,
        "by a request": dict(sorted(deadly.moments.items())),
        "by time": by_clock,
    }
    print(json.dumps({"benchmark": "batch_crash", "seed": seed, **moments, **figures}))
    if not all(value for value in figures.values() if isinstance(value, bool)):
        raise SystemExit("something was lost or paid twice")


if __name__ == "__main__":
    main()
