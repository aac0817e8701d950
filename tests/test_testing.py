"""The conformance suite of samplers finds each law that is broken. Those of policies and answer types are tested
beside their packages, in ``test_conformance.py``.
"""

import asyncio

import pytest

from pets.errors import RefusedError
from pets.mock import MockModel, running, synthetic
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers import Sampler
from pets.samplers.openai import OpenAISampler
from pets.samplers.recorded import RecordedSampler
from pets.testing import check_sampler

QUESTION = Prompt("q")


class Counting(Sampler):
    """A sampler that keeps the law: the trace of a seed is its number."""

    closed = 0

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        await asyncio.sleep(0)
        if prompt.content == "refused":
            raise RefusedError("no")
        return [self.trace(seed + i) for i in range(n)]

    def trace(self, seed: int) -> Completion:
        return Completion(str(seed), "stop", 1)

    async def close(self) -> None:
        self.closed += 1


class TooMany(Counting):
    async def sample(self, *args):
        return [*await super().sample(*args), self.trace(0)]


class NoneAtAll(Counting):
    async def sample(self, *args):
        return []


class Shuffled(Counting):
    async def sample(self, *args):
        return (await super().sample(*args))[::-1]


class SharedState(Counting):
    """Overlapping calls take each other's seed."""

    async def sample(self, prompt, n, seed, sampling):
        self.seed = seed
        await asyncio.sleep(0)
        return [self.trace(self.seed + i) for i in range(n)]


class PlainTexts(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return ["4"] * n


class KeyErrors(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return [{"q": self.trace(seed)}[prompt.content]]


class Indulgent(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return [self.trace(seed)]


class ClosesOnce(Counting):
    async def close(self):
        assert not self.closed, "closed twice"
        self.closed += 1


def test_samplers_that_keep_the_law_pass():
    sampler = Counting()
    check_sampler(sampler, QUESTION, refused=Prompt("refused"))
    assert sampler.closed >= 2
    traces = {QUESTION: [Completion(text, "stop", 1) for text in "abcdefgh"]}
    check_sampler(RecordedSampler(traces), QUESTION, refused=Prompt("unknown"))


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_of_a_server_passes(stream):
    with running(MockModel(synthetic(3))) as url:
        check_sampler(OpenAISampler(url, "mock", stream=stream), Prompt("q1"))


def test_one_that_gives_fewer_traces_passes():
    check_sampler(Indulgent(), QUESTION)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (TooMany, "1 traces were asked for, 2 came"),
        (NoneAtAll, "1 traces were asked for, 0 came"),
        (Shuffled, "trace i of a request is not the trace of seed"),
        (SharedState, "calls that overlap gave other traces"),
        (PlainTexts, "a trace is a Completion; got '4'"),
        (KeyErrors, "a failure is a SamplerError; got KeyError"),
        (Indulgent, "it should raise a SamplerError"),
        (ClosesOnce, "closed twice"),
    ],
)
def test_each_broken_law_is_named(broken, law):
    with pytest.raises(AssertionError, match=law):
        check_sampler(broken(), QUESTION, refused=Prompt("refused"))


def test_the_order_of_an_unseeded_model_is_not_checked():
    check_sampler(Shuffled(), QUESTION, seeded=False)
