"""Races over real HTTP against a mock with a pace of tokens: how long they take, and what the ledger says.

    python -m benchmarks.race_live [--questions 10] [--traces 6] [--places 64] [--runs 3] [--requests 60]
    python -m benchmarks.race_live --questions 198 --traces 16 --places 256 --tokens 20 --pace 4 --runs 1 --requests 0

Batch: `okg` at hurry 0, 0.25 and 1 (`--hurry`) against `uniform`, 6 traces per question, 64 in flight, made-up
questions of four answers; a mean trace has 100 tokens, a hundred of them come a second. Many streams at once need a
slower pace, so that it is the mock that takes time and not the processor. Seconds as multiples of uniform's, medians
of the runs; self-consistency is agreement with the likeliest answer; tokens of the ledger over those that the mock
has written. Gateway: requests one after the other, voted on at hurry 1 and plain; the mean seconds of a vote as a
multiple of a plain request's. JSON on stdout.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from statistics import mean, median

import httpx

import pets
from pets.gateway import Settings, build_gateway
from pets.gateway import running as serving
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Prompt

PACE, TOKENS = 100.0, 100


def batches(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Seconds, those over uniform's, self-consistency, tokens per question, and tokens charged over those written."""
    contenders = {"uniform": ("uniform", 0.0), **{f"okg hurry {h:g}": ("okg", h) for h in args.hurry}}
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in contenders}
    for run in range(args.runs):
        book = synthetic(args.questions, strength=0.4, tokens=args.tokens, seed=run)
        mock = MockModel(book, tokens_per_second=args.pace)
        problems = [Problem(id, Prompt.chat(f"Question {id}"), "choice:options=4") for id in book.ids()]
        with running(mock) as url:
            for name, (policy, hurry) in contenders.items():
                before, begun = mock.stats.completion_tokens, time.perf_counter()
                solution = pets.solve(
                    problems, endpoint=url, model="mock", store=None, progress=False, keep_going=True,
                    budget=f"{args.traces}x", policy=policy, hurry=hurry, concurrency=args.places, seed=run,
                )  # fmt: skip
                seconds = time.perf_counter() - begun
                right = mean(answer.answer == book.greedy(answer.id).answer for answer in solution.answers)
                written = mock.stats.completion_tokens - before
                rows[name].append((seconds, right, solution.tokens / args.questions, solution.tokens / written))
    uniform = median(row[0] for row in rows["uniform"])
    return {
        name: {
            "seconds": round(median(row[0] for row in own), 2),
            "time": round(median(row[0] for row in own) / uniform, 3),
            "consistency": round(mean(row[1] for row in own), 4),
            "tokens": round(mean(row[2] for row in own), 1),
            "charged": round(mean(row[3] for row in own), 4),
        }
        for name, own in rows.items()
    }


async def seconds_of(url: str, model: str, ids: Sequence[str], options: dict[str, object]) -> list[float]:
    """Seconds of one request after the other."""
    seconds = []
    async with httpx.AsyncClient(timeout=120) as client:
        for id in ids:
            begun = time.perf_counter()
            body = {"model": model, "messages": [{"role": "user", "content": f"Question {id}"}], **options}
            (await client.post(f"{url}/chat/completions", json=body)).raise_for_status()
            seconds.append(time.perf_counter() - begun)
    return seconds


def requests(number: int) -> dict[str, float]:
    """Mean seconds of voted and of plain requests to a gateway."""
    book = synthetic(number, strength=0.2, tokens=TOKENS)
    mock = MockModel(book, tokens_per_second=PACE)
    ids = list(book.ids())
    with (
        running(mock) as upstream,
        serving(build_gateway(upstream, Settings.of(answer="choice"), mean_budget=6)) as url,
    ):
        plain = mean(asyncio.run(seconds_of(f"{url}/v1", "mock", ids, {})))
        voted = mean(asyncio.run(seconds_of(f"{url}/v1", "pets/mock", ids, {"pets": {"hurry": 1}})))
    return {"plain_seconds": round(plain, 3), "voted_seconds": round(voted, 3), "ratio": round(voted / plain, 3)}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--traces", type=int, default=6, help="per question")
    parser.add_argument("--places", type=int, default=64, help="traces in flight")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of the mean trace of a batch")
    parser.add_argument("--pace", type=float, default=PACE, help="tokens per second of a batch's traces")
    parser.add_argument("--hurry", type=float, nargs="+", default=[0.0, 0.25, 1.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=60)
    args = parser.parse_args()
    results: dict[str, object] = {"batch": batches(args)}
    if args.requests:
        results["gateway"] = requests(args.requests)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
