"""What every sampler has without writing it."""

import asyncio
import contextlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.errors import InputError
from pets.samplers import Completion, Prompt, Sampler, Sampling, Seeds


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


RUNS = st.integers(0, 2**40)


@given(RUNS, st.integers(1, 40), st.integers(6, 12))
def test_every_seed_of_a_small_run_is_its_own(run, cap, bits):
    seeds = Seeds(run, cap, bits)
    given_out = {seeds.at(question, launch) for question in range(seeds.questions) for launch in range(cap)}
    assert len(given_out) == seeds.questions * cap
    assert min(given_out) >= 0
    assert max(given_out) < 2**bits - 1  # the last one means "random" to llama.cpp


@given(RUNS, st.lists(st.tuples(st.integers(0, 10**6 - 1), st.integers(0, 4095)), min_size=2, unique=True))
def test_a_million_questions_of_4096_traces_have_32_bit_seeds(run, launches):
    seeds = Seeds(run)
    given_out = {seeds.at(*launch) for launch in launches}
    assert len(given_out) == len(launches)
    assert all(0 <= seed < 2**32 - 1 for seed in given_out)


def test_blocks_do_not_overlap_at_a_million_questions():
    seeds = Seeds(run=1)
    starts = sorted(seeds.at(question, 0) for question in range(10**6))
    assert min(b - a for a, b in pairwise(starts)) >= seeds.cap
    assert starts[-1] + seeds.cap - 1 < 2**32 - 1


@given(RUNS, st.integers(0, 10**6 - 1), st.integers(0, 4095))
def test_launches_of_a_question_are_consecutive(run, question, launch):
    seeds = Seeds(run)
    assert seeds.at(question, launch) == seeds.at(question, 0) + launch


def test_runs_differ():
    assert Seeds(0).at(0, 0) != Seeds(1).at(0, 0)
    assert Seeds(3).at(17, 2) == Seeds(3).at(17, 2)


@pytest.mark.parametrize(("question", "launch"), [(1_048_575, 0), (-1, 0), (0, 4096), (0, -1)])
def test_beyond_the_promise_it_raises(question, launch):
    with pytest.raises(InputError, match="has no seed of its own"):
        Seeds().at(question, launch)


def test_63_bits_reach_further():
    assert Seeds(bits=63).at(10**12, 4095) < 2**63


@pytest.mark.parametrize("wrong", [{"run": -1}, {"cap": 0}, {"bits": 64}, {"cap": 2**32}])
def test_impossible_settings(wrong):
    with pytest.raises(InputError, match="no seeds for"):
        Seeds(**wrong)
