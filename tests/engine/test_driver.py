"""The driver's loop over a batch: when it runs, and how long its waves take."""

import asyncio
import gc

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.assemble import assemble
from pets.engine.driver import collected_apart
from pets.engine.fetch import Fetcher
from pets.engine.pacing import Pace, pace_of
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.errors import StateError
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.types import Question

from ..simulated_time import run_simulated
from .conftest import Paced, asked


def batch_driver(allocator, sampler, problems, pace):
    fetcher = Fetcher([sampler], patience_s=None, max_n=1)
    return assemble(RunSpec(), allocator, Sources(), problems=problems, fetcher=fetcher, pace=pace)


def test_a_run_is_not_run_beside_itself_nor_after_it_was_broken_off():
    problems = asked("abc")
    allocator = Allocator(Uniform(), Budget(12), [Question(problem.id) for problem in problems])
    driver = batch_driver(allocator, Paced(), problems, Pace(64))

    async def twice():
        task = asyncio.create_task(driver.run())
        await asyncio.sleep(0.5)
        with pytest.raises(StateError, match="under way"):
            await driver.run()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StateError, match="broken off"):
            await driver.run()

    run_simulated(twice())


def timed_batch(policy, sampler, questions=10, mean=6, concurrency=64, **options):
    """The driver and the seconds of a batch at its pace."""
    problems = asked([f"q{i}" for i in range(questions)])
    total = mean * questions
    pace = pace_of(policy, total, questions, concurrency, **options)
    policy = policy.with_waves(pace.waves) if pace.waves else policy
    allocator = Allocator(policy, Budget(total, 64), [Question(problem.id, options=4) for problem in problems])
    driver = batch_driver(allocator, sampler, problems, pace)

    async def timed():
        await driver.run()
        return asyncio.get_running_loop().time()

    return driver, run_simulated(timed())


@pytest.mark.parametrize(("options", "waves"), [({}, 4), ({"waves": 2}, 2), ({"patience": 6}, 6)])
def test_a_small_batch_takes_a_trace_s_time_for_each_of_its_waves(options, waves):
    driver, seconds = timed_batch(OKG(), Paced(letters="AAB"), **options)
    assert seconds == waves == len(driver.pacing.clock.durations) + 1
    assert driver.allocator.told == driver.allocator.budget.spent == 60


def test_a_batch_takes_twice_as_long_as_uniform_at_most_unless_it_may_take_longer():
    uniform = timed_batch(Uniform(), Paced(letters="AAB"), questions=100)[1]
    usual = timed_batch(OKG(), Paced(letters="AAB"), questions=100)[1]
    assert uniform < usual <= 2 * uniform
    assert timed_batch(OKG(), Paced(letters="AAB"), questions=100, patience=1)[1] <= uniform + 1
    longer = timed_batch(OKG(), Paced(letters="AAB"), questions=100, patience=3)[1]
    assert usual < longer <= 3 * uniform


class FirstSlow(Paced):
    """The first trace of all takes ``first_s``, the others a second."""

    def __init__(self, first_s):
        super().__init__(lambda seed: first_s if len(self.sizes) == 1 else 1.0, letters="AAB")


def test_a_wave_goes_on_without_a_trace_that_takes_for_ever_and_its_vote_counts_when_it_comes():
    driver, seconds = timed_batch(OKG(), FirstSlow(50.0))
    assert seconds == 50 and sum(driver.pacing.clock.durations) < 5  # the other waves were over long before
    assert driver.allocator.told == 60 and sum(verdict.traces for verdict in driver.allocator.verdicts()) == 60


def test_a_wave_waits_for_a_trace_that_is_a_little_slower():
    assert timed_batch(OKG(), FirstSlow(1.02))[1] == pytest.approx(4.02)


def test_what_is_there_when_a_run_begins_is_frozen_until_it_ends_unless_the_caller_has_done_so():
    with collected_apart():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0
    gc.freeze()
    try:
        with collected_apart():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
