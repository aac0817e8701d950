"""kill -9 at random moments of two runs, resumed each time: what is lost, what is kept, what is paid for twice.

    python -m benchmarks.crash_resume [KILLS] [SEED] [--races 1000]

``pets solve`` runs in a process of its own against a mock that takes its time; it is killed a random while after traces
have begun to come, then resumed, KILLS times; the last time it may finish. Checked at the end: every trace that came is
in the store once, at most ``concurrency`` launches a kill are charged as unknown, the spend is the budget, and the
verdicts are those of the same traces replayed one by one. Then the same with another run over the edited file (rows
turned round, one inserted), another policy and a larger budget: what the first run has of a question is not paid for
again.

Then races at hurry 1, 20 side by side on a budget of tokens, killed all the way to the end. The mock streams at a pace,
tells its usage in every chunk and counts what it has generated of each launch. Checked: no launch reached it twice;
every trace that was delivered or cancelled is in the store at exactly the tokens that were generated of it; those that
were in flight at a kill are charged at what was held for them, in all no less than was generated of them.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks._counting_mock import CountingMock
from pets.engine import restored, results
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem, write_questions
from pets.samplers import Prompt
from pets.store import RunView, Store, StoredTrace

KILLS, QUESTIONS, MEAN, IN_FLIGHT = 20, 40, 40, 32
MAIN = "from pets.cli.main import main; main()"
LOST = "in flight when the run was broken off"
TOKENS, MOST_TOKENS, PACE, PLACES, SIDE_BY_SIDE = 40, 200, 25.0, 160, 20  # of races


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def killed(child: subprocess.Popen[bytes], mock: MockModel, wait: float) -> bool:
    """Kill it ``wait`` seconds after its first trace; False where it ended by itself."""
    before = mock.stats.traces
    while mock.stats.traces == before and child.poll() is None:
        time.sleep(0.005)
    try:
        child.wait(wait)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return True
    return False


def check(view: RunView, kills: int, total: int, earlier: RunView | None = None) -> dict[str, object]:
    traces: list[StoredTrace] = list(view.traces())
    lost = sum(trace.error is not None and trace.error.startswith(LOST) for trace in traces)
    allocator = restored(view)
    rows = [answer.to_plain() for answer in results(view, allocator)]
    votes: dict[str, dict[str, int]] = {}
    for trace in traces:
        if trace.answer is not None:
            mine = votes.setdefault(trace.question, {})
            mine[trace.answer] = mine.get(trace.answer, 0) + 1
    replayed = {id: max(mine, key=mine.__getitem__) for id, mine in votes.items()}
    held = set() if earlier is None else set(launches(earlier, reused=True))
    again = held.intersection(launches(view, reused=False))
    return {
        "kills": kills,
        "traces": len(traces),
        "every launch once": len({trace.launch for trace in traces}) == len(traces) and not list(view.lost()),
        "reused": view.summary().reused,
        "nothing paid twice": not again and (earlier is None or view.summary().reused > 0),
        "lost": lost,
        "lost at most in flight x kills": lost <= IN_FLIGHT * kills,
        "spent": allocator.budget.spent,
        "budget kept": allocator.budget.spent == total,
        "verdicts as replayed": all(row["answer"] == replayed.get(row["id"]) for row in rows),
    }


def launches(view: RunView, *, reused: bool) -> Iterator[tuple[str, int]]:
    """What tells the traces that came from all others; those of other runs too if ``reused``.

    Of a question they end before the first launch that was cancelled: behind it nothing is reused.
    """
    keys, traces = view.keys(), list(view.traces(texts=False))
    ends: dict[str, int] = {}
    for trace in traces:
        if trace.part is not None:
            ends[trace.question] = min(trace.number, ends.get(trace.question, trace.number))
    for trace in traces:
        before_its_end = trace.number < ends.get(trace.question, trace.number + 1)
        if trace.error is None and before_its_end and (reused or trace.reused_from is None):
            yield keys[trace.question], trace.number


def race(races: int, seed: int, folder: str) -> dict[str, object]:
    """Races that are killed at random moments until the last of them is settled; the figures and what was checked."""
    rng, book, kills, spent = random.Random(seed), synthetic(races, strength=0.4, tokens=TOKENS, seed=seed), 0, 0
    mock, store, questions = CountingMock(book, tokens_per_second=PACE), Path(folder) / "r.db", Path(folder) / "r.jsonl"
    ids, differences = list(book.ids()), {"delivered": list[int](), "cancelled": [], "lost": []}
    budget = ["--budget", f"{40 * MOST_TOKENS * SIDE_BY_SIDE}tok", "--max-tokens", str(MOST_TOKENS)]
    paced = ["--policy", "asc", "--hurry", "1", "--concurrency", str(PLACES), "--store", str(store)]
    with running(mock) as url:
        for first in range(0, races, SIDE_BY_SIDE):
            rows = (Problem(id, Prompt.chat(id), "choice:options=4") for id in ids[first : first + SIDE_BY_SIDE])
            with questions.open("w") as file:
                write_questions(rows, file)
            child = start(["solve", str(questions), "--endpoint", url, "--model", "mock", *budget, *paced])
            while killed(child, mock, rng.uniform(0.0, 3.0)):
                kills += 1
                child = start(["resume", "last", "--store", str(store)])
            child.communicate()
    with Store.open(store) as opened:
        for run in opened.runs():
            spent += run.spent
            for trace in opened.view(run.id).traces(texts=False):
                kind = "cancelled" if trace.part is not None else "delivered" if trace.error is None else "lost"
                generated = sum(mock.generated[trace.question].pop(trace.number, ()))
                differences[kind].append(trace.tokens - generated)
    stats = mock.stats
    return {
        "races": races,
        "kills": kills,
        **{kind: len(of_kind) for kind, of_kind in differences.items()},
        "lost launches, charged beyond what was generated": sum(differences["lost"]),
        "spent": spent,
        "generated": stats.completion_tokens + stats.prompt_tokens,
        "no launch sent twice": not mock.twice,
        "every launch that was sent is stored": not any(mock.generated.values()),
        "equal to the token": not any(differences["delivered"]) and not any(differences["cancelled"]),
        "never below": sum(differences["lost"]) >= 0 and spent >= stats.completion_tokens + stats.prompt_tokens,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=KILLS)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--races", type=int, default=100)
    args = parser.parse_args()
    kills, seed = args.kills, args.seed
    print(__doc__)
    rng, book = random.Random(seed), synthetic(QUESTIONS, strength=0.5)
    mock = MockModel(book, tokens_per_second=200)
    failed = False
    with tempfile.TemporaryDirectory() as folder, running(mock) as url:
        store = Path(folder) / "runs.db"
        ids = list(book.ids())
        files = (ids[1:], MEAN, "okg"), ([ids[0], *reversed(ids[1:])], MEAN + 10, "uniform")
        for number, (rows, mean, policy) in enumerate(files, 1):
            questions, served = Path(folder) / f"{number}.jsonl", mock.stats.traces
            with questions.open("w") as file:
                write_questions((Problem(id, Prompt.chat(id), "choice:options=4") for id in rows), file)
            server, kept = ["--endpoint", url, "--model", "mock"], ["--store", str(store)]
            spent = ["--budget", f"{mean}x", "--policy", policy, "--concurrency", str(IN_FLIGHT)]
            child, done = start(["solve", str(questions), *server, *spent, *kept]), 0
            while done < kills and killed(child, mock, rng.uniform(0.0, 1.0)):
                done += 1
                child = start(["resume", "last", *kept])
            _, words = child.communicate()
            print(words.decode().strip())
            with Store.open(store) as opened:
                earlier = None if number == 1 else opened.view(1)
                figures = check(opened.view(), done, mean * len(rows), earlier)
            figures["served by the mock"] = mock.stats.traces - served
            print(json.dumps({"benchmark": "crash_resume", "run": number, "seed": seed, **figures}))
            failed |= not all(value for value in figures.values() if isinstance(value, bool))
        raced = race(args.races, seed, folder)
        print(json.dumps({"benchmark": "crash_resume", "run": "races", "seed": seed, **raced}))
        failed |= not all(value for value in raced.values() if isinstance(value, bool))
    if failed:
        raise SystemExit("something was lost, or paid for twice")


if __name__ == "__main__":
    main()
