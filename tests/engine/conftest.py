"""Models that need no GPU: a mock behind real HTTP, and a scripted sampler."""

import asyncio
import contextlib
from collections import Counter

import pytest

import pets
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler
from pets.samplers.openai import OpenAISampler

from ..plans.conftest import plan, pool, toys  # noqa: F401 (fixtures of streams)


def solve(questions, **options):
    """``pets.solve`` without a word, which keeps nothing and cancels nothing unless a test says so."""
    return pets.solve(questions, **{"store": None, "progress": False, "hurry": 0.0} | options)


def asked(ids):
    """A choice among four for each id."""
    return [Problem(id, Prompt.chat(f"Question {id}"), "choice:options=4") for id in ids]


class Scripted(Sampler):
    """``answer(prompt, seed)`` says a trace's text, or raises; counts what it is asked, waits for ``gate`` alone."""

    def __init__(self, answer=lambda prompt, seed: "The answer is A.", most=None, tokens=10):
        self.answer, self.most, self.tokens = answer, most, tokens
        self.requests, self.seeds, self.in_flight, self.widest = 0, Counter(), 0, 0
        self.gate = None

    async def sample(self, prompt, n, seed, sampling):
        self.requests += 1
        n = min(n, self.most or n)
        self.in_flight += n
        self.widest = max(self.widest, self.in_flight)
        try:
            await (asyncio.sleep(0) if self.gate is None else self.gate.wait())
            texts = [self.answer(prompt, seed + at) for at in range(n)]
        finally:
            self.in_flight -= n
        self.seeds.update(range(seed, seed + n))
        return [Completion(text, "stop", self.tokens, 5) for text in texts]


@pytest.fixture
def serve():
    """``serve(questions, **settings)``: a mock of made-up questions, its problems, and samplers for it."""
    with contextlib.ExitStack() as stack:

        def start(questions=20, timeout=20.0, kind=MockModel, **settings):
            book = synthetic(questions, strength=0.3)
            mock = kind(book, **settings)
            url = stack.enter_context(running(mock))
            return mock, url, asked(book.ids()), OpenAISampler(url, "mock", timeout=timeout, loopback=True)

        yield start


class Paced(Sampler):
    """Trace i of a request takes ``seconds(seed + i)``; a request takes as long as its slowest."""

    def __init__(self, seconds=lambda seed: 1.0, letters="A"):
        self.seconds, self.letters, self.sizes = seconds, letters, []

    async def sample(self, prompt, n, seed, sampling):
        self.sizes.append(n)
        await asyncio.sleep(max(self.seconds(seed + i) for i in range(n)))
        texts = [f"The answer is {self.letters[(seed + i) % len(self.letters)]}." for i in range(n)]
        return [Completion(text, "stop", 10, 5, raw={"text": text}) for text in texts]


class Written(Paced):
    """Streams a token every hundredth of a second, counts what it generates, and stops where it is cancelled, which it
    confirms if it ``ends`` the stream then."""

    stops = True

    def __init__(self, letters="AAB", told=True, ends=True):
        super().__init__(lambda seed: 0.2 + (seed * 0.618) % 1.0, letters)
        self.generated = self.cancelled = 0
        self.told, self.ends, self.launched = told, ends, []

    async def sample_streamed(self, prompt, seed, sampling, written):
        self.launched.append((prompt, seed))
        clock, tokens = asyncio.get_running_loop().time, round(100 * self.seconds(seed))
        written.seen, written.told, written.prompt_tokens = True, self.told, 5
        for number in range(1, tokens + 1):
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled += 1
                written.ended = self.ends
                raise
            self.generated += 1
            written.tokens, written.seen_at = number, clock()
            written.begun_at = clock() if written.begun_at is None else written.begun_at
        return Completion(f"The answer is {self.letters[seed % len(self.letters)]}.", "stop", tokens, 5)


class GoesOn(Written):
    """Tells of more requests than are in flight: what was cancelled goes on there."""

    stops = False

    async def requests_running(self):
        return 1000
