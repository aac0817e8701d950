"""What every sampler has without writing it."""

import asyncio
import contextlib

import pytest

from pets.samplers import Completion, Prompt, Sampler, Sampling


class Echo(Sampler):
    closed = 0

    async def sample(self, prompt, n, seed, sampling):
        return [Completion(str(prompt.content), "stop", 1)] * n

    async def close(self):
        self.closed += 1


def test_a_block_closes_its_sampler_also_after_an_error():
    async def go(sampler, fail):
        async with sampler as entered:
            assert entered is sampler and entered.closed == 0
            await entered.sample(Prompt("hi"), 1, 0, Sampling())
            if fail:
                raise ZeroDivisionError

    for fail in (False, True):
        sampler = Echo()
        with pytest.raises(ZeroDivisionError) if fail else contextlib.nullcontext():
            asyncio.run(go(sampler, fail))
        assert sampler.closed == 1


def test_a_sampler_that_hears_of_no_rate_limits_has_none():
    assert Echo().rate_limits is None


def test_a_sampler_must_sample():
    with pytest.raises(TypeError, match="abstract"):
        Sampler()
