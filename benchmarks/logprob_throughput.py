"""Tokens a second of streams with top-20 log-probabilities, read and measured, against bare decoding of the same lines.

    python -m benchmarks.logprob_throughput [STREAMS] [ROUNDS]

A stream has 2,048 tokens, one an event. Bare decoding is ``json.loads`` of every event's data; ours also checks, keeps
the text and works out the trace's confidence while it comes in. "lines": both read the same lines from memory. "http":
both read the same stream from a loopback server in a thread. They take turns within a round; medians.
"""

import asyncio
import json
import sys
import time
from statistics import median

import httpx
import numpy as np

from pets.mock import MockModel, running, synthetic
from pets.openai.request import DIALECTS, body_of
from pets.openai.response import ResponseReader
from pets.samplers import Prompt, Sampling
from pets.samplers.openai import OpenAISampler

TOKENS, TOP, STREAMS, ROUNDS = 2048, 20, 8, 5
SAMPLING = Sampling(max_tokens=TOKENS, top_logprobs=TOP)
PROMPT = Prompt.chat("Question q0")


def lines() -> list[str]:
    """The data of a stream's events."""
    rng = np.random.default_rng(0)
    chunks = []
    for number in range(TOKENS):
        tops = np.sort(-rng.exponential(3.0, TOP))[::-1].tolist()
        top = [{"token": f" w{k}", "logprob": value, "bytes": None} for k, value in enumerate(tops)]
        logprobs = {"content": [{"token": " w0", "logprob": tops[0], "bytes": None, "top_logprobs": top}]}
        finish = "stop" if number == TOKENS - 1 else None
        choice = {"index": 0, "delta": {"content": " w0"}, "logprobs": logprobs, "finish_reason": finish}
        chunks.append(json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
    return chunks


def from_memory(rounds: int, streams: int) -> list[float]:
    """Ours over bare, round by round."""
    events, ratios = lines(), []
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(streams):
            for line in events:
                json.loads(line)
        middle = time.perf_counter()
        for _ in range(streams):
            reply = ResponseReader(1, SAMPLING)
            for line in events:
                reply.read(line)
            (trace,) = reply.completions()
            assert trace.confidence is not None and trace.tokens == TOKENS
        ratios.append((middle - begun) / (time.perf_counter() - middle))
    return ratios


async def over_http(rounds: int, streams: int) -> list[float]:
    """The same through httpx."""
    ratios = []
    with running(MockModel(synthetic(1, tokens=4 * TOKENS))) as url:
        async with (
            OpenAISampler(url, "mock", stream=True, timeout=600) as sampler,
            httpx.AsyncClient(timeout=600, trust_env=False) as client,
        ):
            for _ in range(rounds):
                begun = time.perf_counter()
                for seed in range(streams):
                    await _bare(client, url, seed)
                middle = time.perf_counter()
                for seed in range(streams):
                    await sampler.sample(PROMPT, 1, seed, SAMPLING)
                ratios.append((middle - begun) / (time.perf_counter() - middle))
    return ratios


async def _bare(client: httpx.AsyncClient, url: str, seed: int) -> None:
    body = body_of("mock", PROMPT, 1, seed, SAMPLING, DIALECTS["vllm"]) | {"stream": True}
    async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                json.loads(line[6:])


def main() -> None:
    print(__doc__)
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else STREAMS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    figures = {"lines": from_memory(rounds, streams), "http": asyncio.run(over_http(rounds, streams))}
    for name, ratios in figures.items():
        print(f"{name}: ours over bare, median {median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    print(json.dumps({"benchmark": "logprob_throughput", **figures}))


if __name__ == "__main__":
    main()
