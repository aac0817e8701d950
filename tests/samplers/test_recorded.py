"""Recorded traces come back whole, in an order that the seeds walk along."""

import asyncio
from collections import Counter

import pytest

from pets.errors import RefusedError
from pets.samplers import Completion, Prompt, Sampling
from pets.samplers.recorded import RecordedSampler

PROMPT = Prompt("2 + 2 =")


def texts(sampler, n, seed, prompt=PROMPT):
    return [trace.text for trace in asyncio.run(sampler.sample(prompt, n, seed, Sampling()))]


@pytest.mark.parametrize("seed", [0, 3, 1000])
def test_recorded_traces_come_once_in_as_many_seeds_as_there_are(seed):
    kept = [Completion(str(at), "stop", 1) for at in range(7)]
    sampler = RecordedSampler({PROMPT: kept}, shuffle=1)
    assert Counter(texts(sampler, 7, seed)) == Counter(trace.text for trace in kept)
    assert texts(sampler, 3, seed) == texts(sampler, 7, seed)[:3]
    with pytest.raises(RefusedError, match="nothing was recorded"):
        texts(sampler, 1, 0, prompt=Prompt("other"))
