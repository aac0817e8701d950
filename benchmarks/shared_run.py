"""Three processes on one run, the one that allocates killed: is every question answered, and as well as by one process?

    python -m benchmarks.shared_run [QUESTIONS] [MEAN]

A mock answers from known distributions. First one process asks all QUESTIONS, with MEAN traces each on average, its run
in a file. Then three share a run of the same questions in a PostgreSQL: at a third of the budget the one that allocates
is killed with kill -9. Self-consistency is the share of questions whose answer is the distribution's own; both draw the
same traces, by their seeds. Right means: every question is answered, what is spent is the budget, of which no more
than was in flight is lost, and self-consistency differs by 0.2 points at most.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import httpx

from benchmarks._postgres import postgres
from benchmarks.gateway_load import started
from pets.store import Store

QUESTIONS, MEAN, WORKERS, CONCURRENCY = 10_000, 8, 3, 32
MOST_POINTS = 0.2
MAIN = [sys.executable, "-c", "from pets.cli.main import main; main()"]


def start(arguments: Iterable[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*MAIN, "solve", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def traces_in(url: str) -> int:
    """Traces that the mock gave out so far."""
    return int(httpx.get(f"{url}/mock/stats", trust_env=False, timeout=60).json()["traces"])


def consistency(path: Path, votes: dict[str, str]) -> tuple[float, int]:
    """The share of answers that are the population's vote, and how many questions were answered."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    answers = {row["id"]: row["answer"] for row in rows if row["answer"] is not None}
    return sum(answers.get(id) == vote for id, vote in votes.items()) / len(votes), len(answers)


def shared(command: list[str], url: str, mock: str, folder: Path, budget: int) -> Path:
    """The answers of a run that WORKERS processes share, of which the first is killed."""
    before = traces_in(mock)
    processes = [start([*command, "--join", "new", "--store", url, "-o", str(folder / "worker0.jsonl")])]
    while traces_in(mock) == before and processes[0].poll() is None:
        time.sleep(0.2)
    for number in range(1, WORKERS):
        output = str(folder / f"worker{number}.jsonl")
        join = ["--join", "last", "--store", url, "--concurrency", str(CONCURRENCY), "-o", output]
        processes.append(start(join))
    while traces_in(mock) - before < budget / 3 and processes[0].poll() is None:
        time.sleep(0.2)
    processes[0].kill()
    for process in processes:
        process.wait()
    (answers,) = folder.glob("worker*.jsonl")  # whoever allocated last
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=int, nargs="?", default=QUESTIONS)
    parser.add_argument("mean", type=int, nargs="?", default=MEAN)
    args = parser.parse_args()
    print(__doc__)
    budget = args.questions * args.mean
    mocking = [*MAIN, "mock", "--count", str(args.questions), "--port", "0", "--tokens", "8"]
    with tempfile.TemporaryDirectory() as name, postgres() as server, started(mocking, "the mock") as (upstream, _):
        folder, mock = Path(name), upstream.removesuffix("/v1")
        questions = folder / "questions.jsonl"
        questions.write_text(httpx.get(f"{mock}/mock/questions", trust_env=False, timeout=60).text)
        votes = {row["id"]: row["vote"] for row in map(json.loads, questions.read_text().splitlines())}
        command = [str(questions), "--endpoint", f"{mock}/v1", "--model", "mock", "--budget", f"{args.mean}x"]
        command += ["--answer", "choice", "--concurrency", str(CONCURRENCY)]
        begun = time.perf_counter()
        start([*command, "--store", str(folder / "runs.db"), "-o", str(folder / "alone.jsonl")]).wait()
        alone_s = time.perf_counter() - begun
        begun = time.perf_counter()
        answers = shared(command, server.url, mock, folder, budget)
        shared_s = time.perf_counter() - begun
        (alone, _), (together, answered) = consistency(folder / "alone.jsonl", votes), consistency(answers, votes)
        with Store.open(server.url, create=False) as store:
            summary = store.view().summary()
            lost = sum(trace.error is not None for trace in store.view().traces(texts=False))
    points = 100 * (together - alone)
    figures = {
        "benchmark": "shared_run",
        "questions": args.questions,
        "budget": budget,
        "alone_s": round(alone_s, 1),
        "shared_s": round(shared_s, 1),
        "consistency_alone": round(alone, 4),
        "consistency_shared": round(together, 4),
        "points": round(points, 2),
        "answered": answered,
        "spent": summary.spent,
        "lost": lost,
        "state": summary.state,
    }
    right = answered == args.questions and summary.spent == budget and abs(points) <= MOST_POINTS
    print(json.dumps(figures | {"right": right and lost <= 2 * WORKERS * CONCURRENCY}))


if __name__ == "__main__":
    main()
