"""The driver's third way in: one question submitted, answered, cut short or abandoned, under one plan."""

import asyncio
import threading
from dataclasses import replace

import pytest

from pets.answers.base import AnswerType
from pets.answers.math import Math
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.driver import Driver, DriverConfig, Submission
from pets.engine.fetch import Fetcher
from pets.engine.ledger import Ledger
from pets.engine.pacing import pace_of
from pets.errors import BudgetError, InputError, RefusedError, ReplyError, SamplerError, StateError
from pets.policies.okg import OKG
from pets.policies.price import Price
from pets.policies.uniform import Uniform
from pets.samplers import Completion, Sampler, Sampling, Seeds
from pets.types import Question

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S
from .conftest import Scripted, asked


class Paced(Sampler):
    """Trace i of a request takes ``seconds(seed + i)``; a request takes as long as its slowest."""

    def __init__(self, seconds=lambda seed: 1.0, letters="A"):
        self.seconds, self.letters, self.sizes = seconds, letters, []

    async def sample(self, prompt, n, seed, sampling):
        self.sizes.append(n)
        await asyncio.sleep(max(self.seconds(seed + i) for i in range(n)))
        texts = [f"The answer is {self.letters[(seed + i) % len(self.letters)]}." for i in range(n)]
        return [Completion(text, "stop", 10, 5, raw={"text": text}) for text in texts]


class Accounts(Ledger):
    """Notes what is charged; pays for ``limit`` traces."""

    def __init__(self, limit=1000):
        self.left, self.charged, self.abandoned = limit, 0, 0

    async def open(self, batch):
        if batch.size > self.left:
            raise BudgetError("the key's budget is used up.")
        self.left -= batch.size
        batch.entry = batch.size

    async def close(self, batch, traces=(), charged=()):
        spent = len(traces) or len(charged)
        self.charged += spent
        self.left += (batch.entry or 0) - spent
        batch.entry = None

    def abandon(self, batch, traces=()):
        self.abandoned += batch.size
        batch.entry = None


def make(sampler, ledger=None, policy=None, mean=8, max_n=16):
    allocator = Allocator(policy or Price(rounds=2), Budget.per_window(4, 4 * mean, cap=32))
    fetcher = Fetcher([sampler], patience_s=None, max_n=max_n)
    return Driver(allocator, fetcher, DriverConfig(Sampling(), Seeds(0), concurrency=64), ledger)


def submission(id="q", deadline=100.0, max_traces=32, **options):
    (problem,) = asked([id])
    return Submission(problem, Sampling(), 0, max_traces, deadline, **options)


def submit(driver, one):
    return run_simulated(driver.submit(one))


def test_an_answer_comes_with_its_certificate_and_the_choice_as_the_server_gave_it():
    ledger = Accounts()
    driver, one = make(Paced(), ledger), submission()
    answer = submit(driver, one)
    assert (answer.answer, answer.votes, answer.warmup, answer.complete) == ("A", {"A": 4}, "4", True)
    assert 0.5 < answer.certificate < 1 and answer.traces == ledger.charged == 4
    assert one.stopped == "policy" and one.mean_left is not None
    assert one.question.raw[one.question.best("A").number] == {"text": "The answer is A."}
    assert driver.allocator.verdicts() == [] and driver.in_flight == 0 and not driver.submissions


def test_the_requests_own_limits_end_it():
    few = submission(max_traces=2)
    assert submit(make(Paced()), few).traces == 2 and few.stopped == "max_traces"
    once = submission(rounds=0)
    answer = submit(make(Paced(letters="AB"), mean=20), once)
    assert answer.traces == 4 and once.stopped == "rounds" and not answer.complete


class Cut(Paced):
    """Traces are cut at their limit, but for those of ``whole`` launches."""

    def __init__(self, whole=()):
        super().__init__(letters="AB")
        self.whole = whole

    async def sample(self, prompt, n, seed, sampling):
        traces = await super().sample(prompt, n, seed, sampling)
        return [
            trace if seed + at in self.whole else replace(trace, finish="length") for at, trace in enumerate(traces)
        ]


def test_a_question_whose_first_four_traces_are_all_cut_is_stopped():
    one, sampler = submission(), Cut()
    answer = submit(make(sampler, mean=20), one)
    assert one.stopped == "cut" and answer.traces == answer.cut == 4 == sum(sampler.sizes)
    assert answer.answer is None and not answer.complete
    mostly = submission()
    answer = submit(make(Cut(whole=[3]), mean=20), mostly)
    assert mostly.stopped != "cut" and answer.traces > 4


def test_an_answer_is_complete_only_where_the_policy_ended_the_question():
    class Failing(Paced):
        async def sample(self, prompt, n, seed, sampling):
            if seed >= 2:
                raise RefusedError("no.", status=400)
            return await super().sample(prompt, n, seed, sampling)

    one = submission()
    answer = submit(make(Failing(), max_n=1), one)
    assert answer.votes == {"A": 2} and one.stopped == "failed" and not answer.complete
    single = submission(single=True)
    assert not submit(make(Paced()), single).complete and single.stopped == "single"


def test_a_round_that_would_not_be_back_in_time_is_not_begun():
    one = submission(deadline=1.5)
    answer = submit(make(Paced(letters="AB"), mean=20), one)
    assert answer.traces == 4 and one.stopped == "deadline"


def test_cut_off_by_its_deadline_it_votes_on_the_launch_order_prefix_and_what_is_out_is_charged():
    ledger = Accounts()
    slow = Paced(lambda seed: 9.0 if seed == 2 else 1.0, letters="BBAA")
    one = submission(deadline=5.0)
    answer = submit(make(slow, ledger, max_n=1), one)
    assert answer.votes == {"B": 2} and one.stopped == "deadline" and not answer.complete  # 3 overtook 2
    assert ledger.charged == 3 and ledger.abandoned == 1


def test_who_leaves_is_charged_for_what_is_out_and_the_plan_makes_up_for_it():
    ledger = Accounts()
    driver = make(Paced(), ledger, mean=16)

    async def leave():
        task = asyncio.create_task(driver.submit(submission()))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ledger.abandoned == 4 and driver.in_flight == 0 and driver.allocator.budget.reserved == 0
        assert driver.allocator.debt + driver.allocator.budget.spent == 4
        await driver.submit(submission("other"))

    run_simulated(leave())
    assert driver.allocator.debt == 0 and driver.allocator.budget.spent >= 8


def test_several_questions_share_one_plan_and_one_concurrency():
    sampler = Paced(letters="AB")
    driver = make(sampler)

    async def together():
        return await asyncio.gather(*(driver.submit(submission(f"q{i}")) for i in range(4)))

    answers = run_simulated(together())
    assert sum(answer.traces for answer in answers) <= 32
    assert driver.allocator.budget.spent == sum(answer.traces for answer in answers)


def test_a_budget_that_runs_out_ends_the_vote_with_what_there_is():
    one = submission()
    answer = submit(make(Paced(letters="AB"), Accounts(limit=5), mean=20), one)
    assert answer.traces == 5 and one.stopped == "budget"
    with pytest.raises(BudgetError, match="used up"):
        submit(make(Paced(), Accounts(limit=0)), submission())


def test_a_single_trace_needs_no_plan():
    driver, one = make(Paced(), ledger := Accounts()), submission(single=True)
    answer = submit(driver, one)
    assert answer.traces == ledger.charged == 1 and one.stopped == "single"
    assert driver.allocator.budget.spent == 0


def test_where_nothing_comes_the_reason_is_raised():
    class Broken(Sampler):
        async def sample(self, prompt, n, seed, sampling):
            await asyncio.sleep(1.0)
            raise ReplyError("half a reply")

    with pytest.raises(SamplerError, match="half a reply"):
        submit(make(Broken()), submission(deadline=10_000.0))


def test_at_least_one_trace_is_in_flight():
    with pytest.raises(InputError, match="at least 1"):
        DriverConfig(Sampling(), Seeds(0), concurrency=0)


def formulas(id, **options):
    one = submission(id, **options)
    one.problem = replace(one.problem, answer_type="math")
    return one


def test_comparisons_end_with_the_deadline(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(Math, "same_soon", lambda *args: released.wait(PATIENCE_S))
    texts = Scripted(lambda prompt, seed: rf"\boxed{{x^{{{seed + 2}}}+1}}")
    one = formulas("q", max_traces=8)
    one.single = False
    driver = make(texts, max_n=1)
    try:
        answer = run_simulated(driver.submit(one))  # the deadline comes as soon as nothing but the thread is busy
    finally:
        released.set()
        driver.close()
    assert one.stopped == "deadline" and answer.traces == 1 and answer.answer == "x^{2}+1"


def test_a_request_whose_own_limit_fills_the_whole_room_is_answered_at_once():
    allocator = Allocator(Price(rounds=2), Budget.per_window(4, 80, cap=32))
    config = DriverConfig(Sampling(), Seeds(0), concurrency=4)
    driver, one = Driver(allocator, Fetcher([Paced(letters="AB")], patience_s=None), config), submission(rounds=0)

    async def timed():
        answer = await driver.submit(one)
        return answer.traces, one.stopped, asyncio.get_running_loop().time()

    assert run_simulated(timed()) == (4, "rounds", 1.0)


def test_a_trace_that_cannot_be_read_is_charged_and_nothing_stays_held():
    class Unreadable(AnswerType):
        def canonical(self, answer):
            return answer

        def extract(self, text):
            raise InputError("this text is too deep.")

    ledger = Accounts()
    driver = make(Paced(), ledger, max_n=1)
    (problem,) = asked(["q"])
    with pytest.raises(InputError, match="too deep"):
        submit(driver, Submission(replace(problem, answer_type=Unreadable()), Sampling(), 0, 4, 100.0))
    assert ledger.charged + ledger.abandoned == 4 and driver.in_flight == driver.allocator.budget.reserved == 0


def test_two_that_leave_together_do_not_disturb_each_other():
    driver = make(Paced(letters="AB"), mean=16, max_n=1)
    driver.config = DriverConfig(Sampling(), Seeds(0), concurrency=6)  # four of the one, two of the other

    async def together():
        tasks = [asyncio.create_task(driver.submit(submission(f"q{i}"))) for i in range(2)]
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in run_simulated(together())] == [asyncio.CancelledError] * 2
    assert driver.in_flight == driver.allocator.budget.reserved == 0


def test_a_run_is_not_run_beside_itself_nor_after_it_was_broken_off():
    problems = asked("abc")
    driver = Driver(
        Allocator(Uniform(), Budget(12), [Question(problem.id) for problem in problems]),
        Fetcher([Paced()]),
        DriverConfig(Sampling(), Seeds(0)),
    )

    async def twice():
        task = asyncio.create_task(driver.run(problems))
        await asyncio.sleep(0.5)
        with pytest.raises(StateError, match="under way"):
            await driver.run(problems)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StateError, match="broken off"):
            await driver.run(problems)

    run_simulated(twice())


def timed_batch(policy, sampler, questions=10, mean=6, concurrency=64, **options):
    """The driver and the seconds of a batch at its pace."""
    problems = asked([f"q{i}" for i in range(questions)])
    total = mean * questions
    pace = pace_of(policy, total, questions, concurrency, **options)
    policy = policy.with_waves(pace.waves) if pace.waves else policy
    allocator = Allocator(policy, Budget(total, 64), [Question(problem.id, options=4) for problem in problems])
    config = DriverConfig(Sampling(), Seeds(0, cap=64), concurrency=concurrency)
    driver = Driver(allocator, Fetcher([sampler], patience_s=None, max_n=1), config, pace=pace)

    async def timed():
        await driver.run(problems)
        return asyncio.get_running_loop().time()

    return driver, run_simulated(timed())


@pytest.mark.parametrize(("options", "waves"), [({}, 4), ({"waves": 2}, 2), ({"patience": 6}, 6)])
def test_a_small_batch_takes_a_trace_s_time_for_each_of_its_waves(options, waves):
    driver, seconds = timed_batch(OKG(), Paced(letters="AAB"), **options)
    assert seconds == waves == len(driver.clock.durations) + 1
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
    assert seconds == 50 and sum(driver.clock.durations) < 5  # the other waves were over long before
    assert driver.allocator.told == 60 and sum(verdict.traces for verdict in driver.allocator.verdicts()) == 60


def test_a_wave_waits_for_a_trace_that_is_a_little_slower():
    assert timed_batch(OKG(), FirstSlow(1.02))[1] == pytest.approx(4.02)
