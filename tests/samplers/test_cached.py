"""Traces that were sampled once are given again, and recorded ones come back whole."""

import asyncio
from collections import Counter

import pytest

from pets.errors import RefusedError
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.samplers.cached import CachedSampler
from pets.samplers.recorded import RecordedSampler

PROMPT = Prompt("2 + 2 =")


class Seeded(Sampler):
    """Says its seed, at most ``most`` a call."""

    def __init__(self, most=99):
        self.most, self.asked = most, []

    async def sample(self, prompt, n, seed, sampling):
        self.asked.append((seed, n))
        return [Completion(str(at), "stop", 1) for at in range(seed, seed + min(n, self.most))]


def texts(sampler, n, seed, sampling=Sampling(), prompt=PROMPT):  # noqa: B008
    return [trace.text for trace in asyncio.run(sampler.sample(prompt, n, seed, sampling))]


def test_only_what_is_missing_is_sampled():
    other = Seeded()
    sampler = CachedSampler(other)
    assert texts(sampler, 2, 12) == ["12", "13"]
    assert texts(sampler, 6, 10) == ["10", "11", "12", "13", "14", "15"]
    assert other.asked == [(12, 2), (10, 2), (14, 2)] and sampler.misses == 6
    assert texts(sampler, 6, 10) == ["10", "11", "12", "13", "14", "15"] and sampler.misses == 6


def test_another_prompt_or_sampling_is_another_trace():
    sampler = CachedSampler(Seeded())
    texts(sampler, 1, 0)
    texts(sampler, 1, 0, Sampling(temperature=0.5))
    texts(sampler, 1, 0, prompt=Prompt("3 + 3 ="))
    assert sampler.misses == 3


def test_fewer_choices_than_asked_leave_no_gap():
    sampler = CachedSampler(Seeded(most=2))
    assert texts(sampler, 1, 5) == ["5"]
    assert texts(sampler, 6, 2) == ["2", "3"]  # 4 is missing, so 5 is not given in its place


@pytest.mark.parametrize("seed", [0, 3, 1000])
def test_recorded_traces_come_once_in_as_many_seeds_as_there_are(seed):
    kept = [Completion(str(at), "stop", 1) for at in range(7)]
    sampler = RecordedSampler({PROMPT: kept}, shuffle=1)
    assert Counter(texts(sampler, 7, seed)) == Counter(trace.text for trace in kept)
    assert texts(sampler, 3, seed) == texts(sampler, 7, seed)[:3]
    with pytest.raises(RefusedError, match="nothing was recorded"):
        texts(sampler, 1, 0, prompt=Prompt("other"))
