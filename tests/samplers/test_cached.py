"""Traces that were sampled once are given again."""

import asyncio

from pets.samplers import Completion, Prompt, RateLimits, Sampler, Sampling
from pets.samplers.cached import CachedSampler

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


def test_it_knows_the_rate_limits_of_the_other():
    other = Seeded()
    sampler = CachedSampler(other)
    other.rate_limits = RateLimits(limit_requests=60)
    texts(sampler, 1, 0)
    assert sampler.rate_limits == RateLimits(limit_requests=60)
