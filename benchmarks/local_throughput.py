"""Tokens a second of SmolLM2 through the local sampler, against a bare HTTP client of the same server.

    python -m benchmarks.local_throughput [ROUNDS]

Both send the same requests (4 few-shot questions, 16 traces each in one request, the same seeds, two requests in
flight), so the same traces come back; the bare client reads the bytes and throws them away, the sampler checks, counts
and measures confidences. They take turns within each round, and who begins alternates, so that neither has the
quieter machine; medians, with the spread over rounds. Without the model it says so and measures nothing.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

import httpx

from pets.errors import LocalModelError
from pets.openai.request import DIALECTS, body_of
from pets.samplers import Prompt, Sampling, Seeds
from pets.samplers.local import LocalSampler

QUESTIONS, N, IN_FLIGHT, ROUNDS = 4, 16, 2, 5
SHOTS = "Q: What is 3 + 4?\nA: We start at 3 and add 4. That makes 7. The answer is 7.\n" * 2
CASES = {"top-20 log-probabilities": 20, "no log-probabilities": None}

Request = Callable[[Prompt, int], Awaitable[int]]  # the tokens that came back, 0 where nobody counted


async def timed(request: Request) -> tuple[float, int]:
    """Seconds and tokens of all questions."""
    gate, seeds = asyncio.Semaphore(IN_FLIGHT), Seeds(0)

    async def tokens_of(number: int) -> int:
        async with gate:
            return await request(
                Prompt(f"{SHOTS}Q: What is {number + 13} + {2 * number + 5}?\nA:"), seeds.at(number, 0)
            )

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(tokens_of(number)) for number in range(QUESTIONS)]
    return time.perf_counter() - start, sum(task.result() for task in tasks)


async def measure(
    sampler: LocalSampler, client: httpx.AsyncClient, top_logprobs: int | None, rounds: int
) -> list[dict[str, float]]:
    """Tokens a second of both, round by round."""
    sampling = Sampling(max_tokens=24, stop=("\nQ:",), top_logprobs=top_logprobs, window=8)
    # What the sampler sends: without log-probabilities it asks for one, to count tokens.
    sent = Sampling(max_tokens=24, stop=("\nQ:",), top_logprobs=top_logprobs or 1)

    async def ours(prompt: Prompt, seed: int) -> int:
        return sum(trace.tokens or 0 for trace in await sampler.sample(prompt, N, seed, sampling))

    async def bare(prompt: Prompt, seed: int) -> int:
        body = body_of(sampler.weights.name, prompt, N, seed, sent, DIALECTS["llama.cpp"])
        (await client.post("/completions", json=body)).raise_for_status()
        return 0

    rates = []
    for turn in range(rounds):
        seconds, tokens = {}, 0
        for name, request in [("sampler", ours), ("bare", bare)][:: -1 if turn % 2 else 1]:
            seconds[name], counted = await timed(request)
            tokens = counted or tokens
        rates.append({name: tokens / took for name, took in seconds.items()})
    return rates


async def run(rounds: int) -> dict[str, object]:
    figures: dict[str, object] = {}
    async with LocalSampler(slots=N) as sampler:
        key = {"Authorization": f"Bearer {sampler.key}"}
        async with httpx.AsyncClient(base_url=sampler.url, headers=key, timeout=3600, trust_env=False) as client:
            for case, top_logprobs in CASES.items():
                rounds_rates = await measure(sampler, client, top_logprobs, rounds)
                ratios = sorted(rate["sampler"] / rate["bare"] for rate in rounds_rates)
                ours, bare = (median(rate[name] for rate in rounds_rates) for name in ("sampler", "bare"))
                print(f"{case}: sampler {ours:.0f} tokens/s, bare client {bare:.0f} tokens/s (medians of {rounds})")
                print(f"  ratio of a round: median {median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}")
                figures[case] = {"sampler": ours, "bare": bare, "ratio": median(ratios), "ratios": ratios}
        figures["plan"] = repr(sampler.config)
    return figures


def main() -> None:
    print(__doc__)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    try:
        figures = asyncio.run(run(rounds))
    except LocalModelError as error:
        print(f"no local model: {error}")
        figures = {}
    print(json.dumps({"benchmark": "local_throughput", "rounds": rounds, **figures}))


if __name__ == "__main__":
    main()
