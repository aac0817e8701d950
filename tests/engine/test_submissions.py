"""One question submitted, answered, cut short or abandoned, under one plan."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.answers.base import AnswerType
from pets.answers.math import Math
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.assemble import assemble_submissions
from pets.engine.fetch import Fetcher
from pets.engine.ledger import Ledger
from pets.engine.submissions import Places, VoteLimits
from pets.errors import BudgetError, InputError, RefusedError, ReplyError, SamplerError
from pets.policies.lead import Lead
from pets.policies.price import PriceRule
from pets.samplers import Completion, Sampler, Sampling

from ..simulated_time import run_simulated
from ..waiting import PATIENCE_S
from .conftest import GoesOn, Paced, Scripted, Written, asked


class Accounts(Ledger):
    """Notes what is charged; pays for ``limit`` traces."""

    def __init__(self, limit=1000):
        self.left, self.charged, self.left_behind = limit, 0, 0

    async def opened(self, request):
        if request.size > self.left:
            raise BudgetError("the key's budget is used up.")
        self.left -= request.size
        request.entry = request.size

    async def delivered(self, request, traces):
        self._end(request, len(traces))

    def lost(self, request, usage):
        self._end(request, request.size)

    def released(self, request):
        self._end(request, 0)

    def abandoned(self, request, traces):
        self.left_behind += request.size
        request.entry = None

    def _end(self, request, spent):
        self.charged += spent
        self.left += (request.entry or spent) - spent
        request.entry = None


class VotingDriver:
    """A driver, and what takes in its questions."""

    def __init__(self, sampler, ledger=None, mean=8, max_n=16, places=64, allocator=None):
        allocator = allocator or Allocator(PriceRule(rounds=2), Budget.per_window(4, 4 * mean, cap=32))
        fetcher = Fetcher([sampler], patience_s=None, max_n=max_n)
        self.driver, self.submissions = assemble_submissions(allocator, fetcher, Places(places), ledger)
        self.allocator = allocator

    async def submit(self, id="q", deadline=100.0, max_traces=32, answer_type=None, **options):
        (problem,) = asked([id])
        problem = problem if answer_type is None else replace(problem, answer_type=answer_type)
        return await self.submissions.submit(problem, VoteLimits(Sampling(), 0, max_traces, deadline, **options))

    def outcome(self, **options):
        return run_simulated(self.submit(**options))

    @property
    def is_at_rest(self):
        """Whether nothing is open, in flight or reserved."""
        return not (self.submissions.votes or self.driver.questions.in_flight or self.allocator.budget.reserved)


def test_an_answer_comes_with_its_certificate_and_the_choice_as_the_server_gave_it():
    ledger = Accounts()
    voting = VotingDriver(Paced(), ledger)
    outcome = voting.outcome()
    answer = outcome.result()
    assert (answer.answer, answer.votes, answer.warmup, answer.complete) == ("A", {"A": 4}, "4", True)
    assert 0.5 < answer.certificate < 1 and answer.traces == ledger.charged == 4
    assert outcome.stopped == "policy" and outcome.mean_left is not None
    assert outcome.question.raw[outcome.question.best("A").number] == {"text": "The answer is A."}
    assert voting.allocator.verdicts() == [] and voting.is_at_rest


def test_the_requests_own_limits_end_it():
    few = VotingDriver(Paced()).outcome(max_traces=2)
    assert few.result().traces == 2 and few.stopped == "max_traces"
    torn = VotingDriver(Paced(letters="AB"), mean=20).outcome(max_traces=4)
    assert torn.result().traces == 4 and torn.stopped == "max_traces" and not torn.result().complete


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
    sampler = Cut()
    outcome = VotingDriver(sampler, mean=20).outcome()
    answer = outcome.result()
    assert outcome.stopped == "cut" and answer.traces == answer.cut == 4 == sum(sampler.sizes)
    assert answer.answer is None and not answer.complete
    mostly = VotingDriver(Cut(whole=[3]), mean=20).outcome()
    assert mostly.stopped != "cut" and mostly.result().traces > 4


def test_an_answer_is_complete_only_where_the_policy_ended_the_question():
    class Failing(Paced):
        async def sample(self, prompt, n, seed, sampling):
            if seed >= 2:
                raise RefusedError("no.", status=400)
            return await super().sample(prompt, n, seed, sampling)

    outcome = VotingDriver(Failing(), max_n=1).outcome()
    assert outcome.result().votes == {"A": 2} and outcome.stopped == "failed" and not outcome.result().complete
    single = VotingDriver(Paced()).outcome(single=True)
    assert not single.result().complete and single.stopped == "single"


def test_a_round_that_would_not_be_back_in_time_is_not_begun():
    outcome = VotingDriver(Paced(letters="AB"), mean=20).outcome(deadline=1.5)
    assert outcome.result().traces == 4 and outcome.stopped == "deadline"


def test_cut_off_by_its_deadline_it_votes_on_the_launch_order_prefix_and_what_is_in_flight_is_charged():
    ledger = Accounts()
    slow = Paced(lambda seed: 9.0 if seed == 2 else 1.0, letters="BBAA")
    outcome = VotingDriver(slow, ledger, max_n=1).outcome(deadline=5.0)
    answer = outcome.result()
    assert answer.votes == {"B": 2} and outcome.stopped == "deadline" and not answer.complete  # 3 overtook 2
    assert ledger.charged == 3 and ledger.left_behind == 1


def test_who_leaves_is_charged_for_what_is_in_flight_and_the_plan_makes_up_for_it():
    ledger = Accounts()
    voting = VotingDriver(Paced(), ledger, mean=16)

    async def leave():
        task = asyncio.create_task(voting.submit())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ledger.left_behind == 4 and voting.is_at_rest
        assert voting.allocator.debt + voting.allocator.budget.spent == 4
        await voting.submit("other")

    run_simulated(leave())
    assert voting.allocator.debt == 0 and voting.allocator.budget.spent >= 8


def test_several_questions_share_one_plan_and_one_concurrency():
    voting = VotingDriver(Paced(letters="AB"))

    async def together():
        return await asyncio.gather(*(voting.submit(f"q{i}") for i in range(4)))

    traces = sum(outcome.result().traces for outcome in run_simulated(together()))
    assert voting.allocator.budget.spent == traces <= 32


def test_a_budget_that_runs_out_ends_the_vote_with_what_there_is():
    outcome = VotingDriver(Paced(letters="AB"), Accounts(limit=5), mean=20).outcome()
    assert outcome.result().traces == 5 and outcome.stopped == "budget"
    with pytest.raises(BudgetError, match="used up"):
        VotingDriver(Paced(), Accounts(limit=0)).outcome().result()


def test_a_single_trace_needs_no_plan_and_is_in_flight_as_any_other():
    ledger, in_flight = Accounts(), []
    voting = VotingDriver(Paced(), ledger)

    async def alone():
        task = asyncio.create_task(voting.submit(single=True))
        await asyncio.sleep(0.5)
        in_flight.append(voting.driver.questions.in_flight)
        return await task

    outcome = run_simulated(alone())
    assert outcome.result().traces == ledger.charged == 1 and outcome.stopped == "single"
    assert voting.allocator.budget.spent == 0 and in_flight == [1] and voting.is_at_rest


def test_where_nothing_comes_the_reason_is_raised():
    class Broken(Sampler):
        async def sample(self, prompt, n, seed, sampling):
            await asyncio.sleep(1.0)
            raise ReplyError("half a reply")

    outcome = VotingDriver(Broken()).outcome(deadline=10_000.0)
    with pytest.raises(SamplerError, match="half a reply"):
        outcome.result()
    assert outcome.retries and not outcome.timed_out
    late = VotingDriver(Paced(lambda seed: 99.0)).outcome(deadline=5.0)
    with pytest.raises(SamplerError, match="in time"):
        late.result()
    assert late.timed_out


def test_comparisons_end_with_the_deadline(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(Math, "same_soon", lambda *args: released.wait(PATIENCE_S))
    texts = Scripted(lambda prompt, seed: rf"\boxed{{x^{{{seed + 2}}}+1}}")
    voting = VotingDriver(texts, max_n=1)
    try:
        # The deadline comes as soon as nothing but the thread is busy.
        outcome = voting.outcome(answer_type="math", max_traces=8)
    finally:
        released.set()
    assert outcome.stopped == "deadline"
    assert outcome.result().traces == 1 and outcome.result().answer == "x^{2}+1"


def test_a_request_whose_own_limit_fills_the_whole_room_is_answered_at_once():
    voting = VotingDriver(Paced(letters="AB"), mean=20, places=4)

    async def timed():
        outcome = await voting.submit(max_traces=4)
        return outcome.result().traces, outcome.stopped, asyncio.get_running_loop().time()

    assert run_simulated(timed()) == (4, "max_traces", 1.0)


def test_a_trace_that_cannot_be_read_is_charged_and_nothing_stays_held():
    class Unreadable(AnswerType):
        def canonical(self, answer):
            return answer

        def extract(self, text):
            raise InputError("this text is too deep.")

    ledger = Accounts()
    voting = VotingDriver(Paced(), ledger, max_n=1)
    with pytest.raises(InputError, match="too deep"):
        voting.outcome(answer_type=Unreadable(), max_traces=4)
    assert ledger.charged + ledger.left_behind == 4 and voting.is_at_rest


def test_auto_chooses_by_the_first_traces_of_each_question():
    voting = VotingDriver(
        Scripted(lambda prompt, seed: ("The answer is $5.", "The answer is 5.00.")[seed % 2]), max_n=1
    )
    answer = voting.outcome(answer_type="auto", max_traces=4).result()
    assert (answer.read_as, len(answer.votes), answer.unreadable) == ("number", 1, 0)


def test_answers_are_read_as_the_limits_say_whatever_the_question_says():
    texts = Scripted(lambda prompt, seed: ("The answer is $5.", "The answer is 5.00.")[seed % 2])
    as_text, as_number = (
        VotingDriver(texts, max_n=1).outcome(answer_type="text", answer=answer, max_traces=4).result()
        for answer in (None, "number")
    )
    assert (len(as_text.votes), len(as_number.votes), as_number.read_as) == (2, 1, None)


def test_two_that_leave_together_do_not_disturb_each_other():
    voting = VotingDriver(Paced(letters="AB"), mean=16, max_n=1, places=6)  # four of the one, two of the other

    async def together():
        tasks = [asyncio.create_task(voting.submit(f"q{i}")) for i in range(2)]
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in run_simulated(together())] == [asyncio.CancelledError] * 2
    assert voting.is_at_rest


SIZES = st.integers(1, 40)


@given(SIZES, st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 1)), max_size=200))
def test_no_more_are_taken_than_there_are_and_one_payer_never_has_all(size, steps):
    places, held = Places(size, shared=lambda: True), Counter()
    for payer, number in steps:
        if number <= 0:
            number = max(number, -held[payer])
            places.give_back(payer, -number)
            held[payer] += number
        elif places.take(payer):
            held[payer] += 1
        assert places.taken == held.total() <= size
        assert all(places.taken_by(name) == held[name] for name in "abc")
        if size >= 2 and len(+held) == 1:
            assert places.room("another") >= 1


@pytest.mark.parametrize("size", [2, 3, 4, 8, 64, 256])
def test_one_payer_leaves_a_place_for_the_next_where_there_are_others_and_none_where_not(size):
    shared, alone = Places(size, shared=lambda: True), Places(size)
    while shared.take("alice"):
        pass
    while alone.take("alice"):
        pass
    assert size // 2 <= shared.taken < size and alone.taken == size
    assert shared.take("bob") and not alone.take("bob")


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([1, 2, 5, 16]), st.booleans(), st.randoms(use_true_random=False))
def test_whoever_waits_is_served_or_gone_and_nothing_stays_taken(size, shared, random):
    async def work():
        places, most, served = Places(size, lambda: shared), 0, 0

        async def one(payer, number):
            nonlocal most, served
            await asyncio.sleep(random.choice([0, 0, 1, 2]))
            number = await places.acquire(payer, number, rank=random.randrange(3))
            most = max(most, places.taken)
            try:
                await asyncio.sleep(random.choice([0, 1, 3]))
            finally:
                places.give_back(payer, number)
            served += 1

        tasks = [asyncio.create_task(one(random.choice("abc"), random.randint(1, 9))) for _ in range(40)]
        for task in random.sample(tasks, 10):
            asyncio.get_running_loop().call_later(random.choice([0, 1, 2, 3]), task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert places.taken == 0 and not any(map(places.taken_by, "abc"))
        assert served == sum(not task.cancelled() for task in tasks) >= 30
        return most

    assert 1 <= run_simulated(work()) <= size


def test_payers_that_all_want_more_end_up_with_as_many_each():
    async def work():
        places, counts = Places(16, shared=lambda: True), []

        async def one(payer, seconds):
            await places.acquire(payer, 1)
            await asyncio.sleep(seconds)
            if payer == "bob":
                counts.append((places.taken_by("alice"), places.taken_by("bob")))
            places.give_back(payer)

        flood = [asyncio.create_task(one("alice", 1.0 + place / 100)) for place in range(200)]
        await asyncio.sleep(0.5)
        late = [asyncio.create_task(one("bob", 1.0 + place / 100)) for place in range(60)]
        await asyncio.gather(*flood, *late)
        return counts[10:40]

    assert all(abs(alice - bob) <= 2 for alice, bob in run_simulated(work()))


def test_one_place_goes_round_and_the_least_rank_of_a_payer_goes_first():
    async def work():
        places, order = Places(1, shared=lambda: True), []

        async def one(payer, rank):
            await places.acquire(payer, 1, rank)
            order.append(f"{payer}{rank}")
            await asyncio.sleep(1)
            places.give_back(payer)

        await asyncio.gather(one("z", 0), *(one(payer, rank) for payer in "ab" for rank in (0, 2, 1)))
        return order

    assert run_simulated(work()) == ["z0", "a0", "b0", "a1", "b1", "a2", "b2"]


def test_requests_are_hurried_no_more_once_the_server_goes_on_but_for_those_that_ask_for_it():
    allocator = Allocator(Lead(votes=3), Budget.per_window(4, 80, cap=32), hurry=0.5)
    sampler = GoesOn()
    voting = VotingDriver(sampler, allocator=allocator)

    async def one_after_the_other():
        for number in range(12):
            await voting.submit(f"q{number}")
        before = sampler.cancelled
        await voting.submit("calm")
        calm = sampler.cancelled - before
        for number in range(12):
            await voting.submit(f"hurried {number}", hurry=2.0)
        return before, calm, sampler.cancelled - before

    before, calm, hurried = run_simulated(one_after_the_other())
    assert allocator.hurry == 0.0 and before > 0 == calm < hurried


def test_every_trace_that_is_held_votes_also_where_the_first_of_them_settle_the_race():
    allocator, sampler = Allocator(Lead(votes=3), Budget.per_window(4, 800, cap=32), hurry=2.0), Written()
    held = {number: Completion(f"The answer is {letter}.", "stop", 10, 5) for number, letter in enumerate("ABAAAAAAA")}
    voting = VotingDriver(sampler, allocator=allocator)
    answer = voting.outcome(hurry=4.0, held=held).result()
    assert (answer.votes, answer.cancelled, sampler.launched) == ({"A": 8, "B": 1}, 0, []) and voting.is_at_rest
