"""The driver's loop over a batch: when it runs, how long its waves take, and what a race cancels."""

import asyncio
import gc

import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.assemble import assemble
from pets.engine.driver import collected_apart
from pets.engine.fetch import Fetcher
from pets.engine.ledger import Ledger
from pets.engine.pacing import Pace, pace_of
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.errors import BusyError, StateError
from pets.policies.lead import Lead
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.types import Question

from ..simulated_time import run_simulated
from .conftest import GoesOn, Paced, Written, asked


def batch_driver(allocator, sampler, problems, pace, ledger=None, spec=None, **options):
    parts = {"fetcher": Fetcher([sampler], patience_s=None, max_n=1, **options), "pace": pace, "ledger": ledger}
    spec = (spec or RunSpec()).with_options(keep_going=True)
    return assemble(spec, allocator, Sources(), problems, keep="totals", **parts)


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


def timed_batch(policy, sampler, questions=10, mean=6, concurrency=64, hurry=None, spec=None):
    """The driver and the seconds of a batch."""
    problems, total = asked([f"q{i}" for i in range(questions)]), mean * questions
    pace = pace_of(policy, total, questions, concurrency)
    numbered = [Question(problem.id, options=4) for problem in problems]
    allocator = Allocator(policy, Budget(total, 64), numbered, hurry=hurry)
    driver = batch_driver(allocator, sampler, problems, pace, spec=spec)

    async def timed():
        await driver.run()
        return asyncio.get_running_loop().time()

    return driver, run_simulated(timed())


@pytest.mark.parametrize("waves", [2, 4])
def test_a_small_batch_takes_a_trace_s_time_for_each_of_its_waves(waves):
    driver, seconds = timed_batch(OKG(waves=waves), Paced(letters="AAB"))
    assert seconds == waves
    assert driver.allocator.told == driver.allocator.budget.spent == 60


def spent_tokens(driver):
    return sum(totals.tokens + totals.cancelled_tokens for totals in driver.questions.totals.values())


@pytest.mark.parametrize(("ends", "least", "most"), [(True, 0, 0), (False, 1, 11)])  # 0.1 s of decoding
def test_in_a_race_what_is_settled_is_cancelled_and_charged_as_told_or_with_a_margin(ends, least, most):
    sampler = Written(ends=ends)
    driver, seconds = timed_batch(Lead(votes=3), sampler, mean=20, hurry=1.0)
    totals = driver.questions.totals.values()
    assert sampler.cancelled == sum(total.cancelled for total in totals) > 5
    assert least * sampler.cancelled <= spent_tokens(driver) - sampler.generated <= most * sampler.cancelled
    assert len(set(sampler.launched)) == len(sampler.launched)
    budget = driver.allocator.budget
    assert budget.reserved == 0 and driver.allocator.told < budget.spent < driver.allocator.told + sampler.cancelled
    assert seconds < timed_batch(Lead(votes=3), Written(), mean=20, hurry=0.0)[1]


def test_what_a_server_does_not_tell_is_charged_with_a_second_of_decoding_more():
    sampler = Written(told=False)
    driver, _ = timed_batch(Lead(votes=3), sampler, mean=20, hurry=1.0)
    assert (
        sampler.generated + 50 * sampler.cancelled < spent_tokens(driver) <= sampler.generated + 150 * sampler.cancelled
    )


def test_where_a_server_is_not_known_to_stop_a_cancelled_trace_is_charged_whole():
    sampler = Written()
    sampler.stops = False
    driver, _ = timed_batch(Lead(votes=3), sampler, mean=20, hurry=1.0)
    assert sampler.cancelled > 5
    assert driver.allocator.budget.spent == driver.allocator.told + sampler.cancelled


@pytest.mark.parametrize(("spec", "hurry"), [(RunSpec(), 0.0), (RunSpec().with_options(hurry=1.0), 1.0)])
def test_a_batch_goes_on_without_hurry_once_its_server_goes_on_unless_the_user_wants_it(spec, hurry):
    sampler = GoesOn()
    driver, _ = timed_batch(Lead(votes=3), sampler, questions=40, mean=20, concurrency=32, hurry=1.0, spec=spec)
    said, _ = timed_batch(Lead(votes=3), Written(), questions=40, mean=20, concurrency=32, hurry=1.0)
    assert driver.allocator.hurry == hurry
    cancelled, by_all = (sum(t.cancelled for t in d.questions.totals.values()) for d in (driver, said))
    assert cancelled > 0 and (cancelled < 0.8 * by_all or hurry)
    assert driver.allocator.budget.spent == driver.allocator.told + cancelled


class SlowLedger(Ledger):
    """Takes its time to write a trace that failed."""

    def __init__(self):
        self.written = []

    async def given_up(self, traces):
        self.written += traces
        await asyncio.sleep(10)


class FailsFirst(Paced):
    """Breaks off its first trace, which may have been sampled."""

    failed = False

    async def sample_streamed(self, prompt, seed, sampling, written):
        if not self.failed:
            self.failed = True
            raise BusyError("no answer in time")
        return await super().sample_streamed(prompt, seed, sampling, written)


def test_a_trace_that_failed_is_charged_where_its_race_is_settled_while_it_is_written():
    problems, policy, ledger = asked("a"), Lead(votes=2), SlowLedger()
    allocator = Allocator(policy, Budget(8, 8), [Question("a", options=4)], hurry=1.0)
    driver = batch_driver(allocator, FailsFirst(), problems, pace_of(policy, 8, 1, 64), ledger, tries=1)
    run_simulated(driver.run())
    assert [(trace.number, trace.error) for trace in ledger.written] == [(0, "no answer in time")]
    votes, failed, cancelled = 2, 1, driver.questions.totals["a"].cancelled
    assert cancelled and allocator.budget.spent == votes + failed + cancelled


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
