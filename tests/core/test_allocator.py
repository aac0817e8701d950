"""ask and tell: never over budget or cap, never a trace lost or doubled, the best question first."""

import math
import random
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pets.core.allocator import MAX_DEBT, Allocator
from pets.core.budget import Budget
from pets.core.money import Currency
from pets.core.policy import IndexPolicy, QuotaPolicy, View
from pets.core.queues import ReplicaTotals
from pets.core.soft import SoftVoteCount
from pets.core.tally import Tally, majority
from pets.errors import BudgetError, InputError, StateError
from pets.policies.okg import OKG
from pets.policies.okg_weighted import OKGWeighted
from pets.policies.online_grid import OnlineGrid
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform
from pets.registry import make_policy
from pets.types import Launch, Question, SoftVote, Trace


def questions(n, options=4):
    return [Question(f"q{i}", options=options) for i in range(n)]


def in_flight(allocator):
    """Launches that have neither been told nor cancelled."""
    return [launch for verdict in allocator.verdicts() for launch in allocator.pending(verdict.question)]


def visible(allocator, ids):
    """All that the outside can see of an allocator."""
    return repr((allocator.budget, allocator.told, allocator.verdicts(), [allocator.view(id) for id in ids]))


def drive(allocator, rng, width=1, theta=None):
    """Run to the end with ``width`` in flight; returns the launches in order."""
    log = []
    while launches := allocator.ask(width):
        for launch in launches:
            log.append(launch)
            p = None if theta is None else theta[launch.question]
            allocator.tell(Trace(launch.question, launch.number, "ABCD"[rng.choice(4, p=p)], 5.0, tokens=10))
    return log


class Ledger:
    """What an honest outsider knows: every launch, what became of it, and the order."""

    def __init__(self):
        self.open, self.told, self.cancelled, self.withdrawn = {}, {}, set(), set()

    def check(self, allocator, cap):
        budget = allocator.budget
        assert budget.spent + budget.reserved <= budget.total
        assert budget.settled == len(self.told)
        assert budget.reserved == len(self.open) * budget.currency.hold
        spent = Counter(launch.question for launch in [*self.open, *self.told])
        assert all(count <= cap for count in spent.values())
        assert sorted(in_flight(allocator)) == sorted(self.open)

    def check_votes(self, allocator):
        """Every told trace is in the tally once, in launch order, as far as the prefix has come back."""
        verdicts = allocator.verdicts()
        flying = {launch.question for launch in self.open}
        assert {verdict.question for verdict in verdicts}.isdisjoint(self.withdrawn - flying)
        for verdict in verdicts:
            mine = sorted(launch.number for launch in self.told if launch.question == verdict.question)
            flying = [launch.number for launch in self.open if launch.question == verdict.question]
            prefix = [number for number in mine if number < min(flying, default=math.inf)]
            path = [self.told[Launch(verdict.question, number)] for number in prefix]
            assert verdict.traces == len(path)
            assert dict(verdict.votes) == Counter(answer for answer in path if answer is not None)
            if allocator.policy.sees == "counts":
                assert verdict.answer == majority(path)


SCHEDULED = {
    "okg": (OKG(), 100),
    "okg:waves=3": (OKG(waves=3), 50),
    "okg:prior=1": (OKG(prior=1.0), 100),
    "okg:prior=0.3": (OKG(prior=0.3, unseen=2), 100),
    "uniform": (Uniform(), 100),
    "online_grid": (OnlineGrid(), 100),
    "price": (PriceRule(rounds=2), 100),
    "okg_weighted": (OKGWeighted(), 25),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_random_schedules_keep_every_law(name):
    """Asks of any size, tells late, lost, twice and out of order, cancels, merges, goings."""
    policy, schedules = SCHEDULED[name]
    for seed in range(schedules):
        random_schedule(policy, np.random.default_rng([seed, 7]))


EVENTS = ["ask"] * 4 + ["tell"] * 8 + ["lost", "again", "cancel", "add"] * 2 + ["merge", "withdraw", "wave"]


def random_allocator(policy, rng):
    """A batch, a stream of known length or an endless one, with a budget in traces or in tokens."""
    N, cap = int(rng.integers(1, 6)), int(rng.integers(4, 9))
    kind = rng.choice(["batch", "late"] if policy.waves else ["batch", "horizon", "window"])
    hold = int(rng.choice([1, 7]))
    currency = Currency() if hold == 1 else Currency.tokens(hold=hold)
    total = hold * int(rng.integers(policy.warmup * N, 7 * N + 1))
    asked = [Question(f"q{i}", options=[None, 2, 4][int(rng.integers(3))]) for i in range(N)]
    if kind == "window":
        budget = Budget.per_window(2, max(total, 2 * policy.warmup * hold), cap=cap, currency=currency)
        return Allocator(policy, budget, asked[:1], seed=int(rng.integers(100))), asked[1:]
    budget = Budget(total, cap=cap, currency=currency)
    if kind in ("horizon", "late"):
        horizon = N if kind == "horizon" else None
        return Allocator(policy, budget, asked[:1], horizon=horizon, seed=int(rng.integers(100))), asked[1:]
    return Allocator(policy, budget, asked, seed=int(rng.integers(100))), []


def random_schedule(policy, rng):
    allocator, coming = random_allocator(policy, rng)
    ledger, cap = Ledger(), allocator.budget.cap
    for event in rng.choice(EVENTS, size=int(rng.integers(5, 45))):
        pick = list(ledger.open)[int(rng.integers(len(ledger.open)))] if ledger.open else None
        if event == "ask":
            for launch in allocator.ask(int(rng.integers(1, 9))):
                assert launch not in ledger.open and launch not in ledger.told and launch not in ledger.cancelled
                assert launch.question not in ledger.withdrawn
                ledger.open[launch] = None
        elif event in ("tell", "lost") and pick:
            answer = None if event == "lost" else "ABC"[int(rng.integers(3))]
            confidence = None if event == "lost" else float(rng.integers(3, 9))
            trace = Trace(*pick, answer, confidence, tokens=int(rng.integers(8)))
            assert allocator.tell(trace)
            del ledger.open[pick]
            ledger.told[pick] = answer
        elif event == "again":
            for launch in [*list(ledger.told)[:2], *list(ledger.cancelled)[:2]]:
                if launch.question in ledger.withdrawn:
                    continue
                assert not allocator.tell(Trace(*launch, "Z", 4.0)) and not allocator.take_back(launch)
        elif event == "cancel" and pick:
            assert allocator.take_back(pick)
            del ledger.open[pick]
            ledger.cancelled.add(pick)
        elif event == "merge" and pick:
            allocator.merge(pick.question, "A", into="B")
            merged = {
                launch for launch, said in ledger.told.items() if launch.question == pick.question and said == "A"
            }
            ledger.told.update(dict.fromkeys(merged, "B"))
        elif event == "withdraw" and pick:
            allocator.withdraw(pick.question)
            ledger.withdrawn.add(pick.question)
        elif event == "wave":
            before = allocator.waves_left
            assert allocator.next_wave() == (before > 0) or isinstance(policy, QuotaPolicy)
        elif event == "add" and coming:
            question = coming.pop()
            try:
                allocator.add(question)
            except BudgetError:  # an index policy makes no promises to questions that come later
                assert isinstance(policy, IndexPolicy) and policy.warmup
        ledger.check(allocator, cap)
    ledger.check_votes(allocator)


def test_okg_serves_the_highest_index_with_traces_in_flight():
    """Against a plain scan of every question, at every step of a run with up to 6 traces in flight."""
    rng, policy = np.random.default_rng(0), OKG(prior=1.0)
    asked = [*questions(8), *(Question(f"open{i}") for i in range(4))]
    allocator = Allocator(policy, Budget(120, cap=14), asked)
    flying = []
    for _ in range(400):
        indices = {
            q.id: policy.index(allocator.tally(q.id), View()) for q in asked if allocator.tally(q.id).launched < 14
        }
        launches = allocator.ask(1) if len(flying) < 6 else []
        if launches:
            assert indices[launches[0].question] == max(indices.values())
        flying += launches
        if flying and (len(flying) == 6 or not launches):
            launch = flying.pop(int(rng.integers(len(flying))))
            answer = None if rng.random() < 0.1 else "ABCD"[rng.choice(4, p=[0.5, 0.3, 0.1, 0.1])]
            allocator.tell(Trace(*launch, answer))
    assert allocator.budget.spent == 120


@pytest.mark.parametrize("policy", [OKG(), OKG(prior=0.1), Uniform(), OnlineGrid(), PriceRule()])
def test_asking_for_many_is_asking_one_by_one(policy):
    def launches(width):
        allocator = Allocator(policy, Budget(60, cap=9), questions(7))
        log = []
        for _ in range(30):
            while (more := allocator.ask(width)) and len(log) % 30 + len(more) <= 30:
                log += more
                if len(log) % 6 == 0:
                    break
            for launch in in_flight(allocator):
                allocator.tell(Trace(*launch, "AB"[launch.number % 2]))
        return log

    assert launches(1) == launches(3)[: len(launches(1))]


def test_beliefs_see_the_launch_order_prefix_only():
    allocator = Allocator(OKG(), Budget(10), questions(1))
    first, second, third = allocator.ask(3)
    allocator.tell(Trace(*third, "B"))
    allocator.tell(Trace(*second, "B"))
    assert allocator.tally("q0") == Tally((), 0, 3, 4, question="q0")
    assert allocator.verdict("q0").answer is None
    allocator.tell(Trace(*first, "A"))
    assert allocator.tally("q0").counts == (2, 1)
    assert allocator.verdict("q0").answer == "B"


def test_a_tie_goes_to_the_answer_launched_first_not_to_the_first_to_finish():
    allocator = Allocator(OKG(), Budget(2), questions(1))
    first, second = allocator.ask(2)
    allocator.tell(Trace(*second, "B"))
    allocator.tell(Trace(*first, "A"))
    assert allocator.verdict("q0").answer == "A"
    assert allocator.verdict("q0").agreement == 0.5


def test_a_cancelled_launch_is_refunded_and_leaves_a_gap():
    allocator = Allocator(Uniform(), Budget(3), questions(1))
    first, second, third = allocator.ask(3)
    assert allocator.take_back(second)
    allocator.tell(Trace(*third, "B"))
    allocator.tell(Trace(*first, "A"))
    assert (allocator.verdict("q0").traces, allocator.budget.free) == (2, 1)
    assert allocator.ask(5) == [Launch("q0", 3)]


def test_merged_answers_vote_together_from_the_place_of_the_first():
    allocator = Allocator(OKG(prior=1.0), Budget(9), questions(1, options=None))
    launches = allocator.ask(5)
    for launch, answer in zip(launches[:4], ["1/2", "2", "2", "0.5"], strict=True):
        allocator.tell(Trace(*launch, answer))
    assert allocator.verdict("q0").answer == "2"
    allocator.merge("q0", "1/2", into="0.5")
    assert allocator.verdict("q0").votes == (("0.5", 2.0), ("2", 2.0))
    assert allocator.verdict("q0").answer == "0.5"  # tied, and launched first
    assert allocator.tally("q0").counts == (2, 2)
    alike = Allocator(OKG(prior=1.0), Budget(9), questions(1, options=None))
    for launch, answer in zip(alike.ask(5)[:4], ["0.5", "2", "2", "0.5"], strict=True):
        alike.tell(Trace(*launch, answer))
    assert visible(allocator, ["q0"]) == visible(alike, ["q0"]) and allocator.ask(9) == alike.ask(9)


def test_a_merge_reaches_traces_that_wait_for_their_turn_and_those_that_a_policy_sees():
    allocator = Allocator(OKGWeighted(), Budget(9), questions(1, options=None))
    first, second, third = allocator.ask(3)
    allocator.tell(Trace(*first, "1/2", 5.0))
    allocator.tell(Trace(*third, "1/2", 5.0))
    allocator.merge("q0", "1/2", into="0.5")
    allocator.tell(Trace(*second, "0.5", 5.0))
    assert allocator.verdict("q0").votes == (("0.5", 3.0),)
    assert allocator.tally("q0").answers == ("0.5",) * 3


@pytest.mark.parametrize("policy", [OKG(), OKGWeighted(), OnlineGrid(), PriceRule()])
def test_a_withdrawn_question_is_forgotten_with_its_last_trace_and_stays_paid_for(policy):
    allocator = Allocator(policy, Budget(40, cap=9), questions(2))
    asked = allocator.ask(8)
    launches = [launch for launch in asked if launch.question == "q0"]
    allocator.withdraw("q0")
    for launch in asked:
        if launch.question == "q1":
            allocator.tell(Trace(*launch, "A", 5.0))
    for launch in launches[:-1]:
        assert allocator.tell(Trace(*launch, "A", 5.0))
    assert allocator.verdict("q0").traces == len(launches) - 1 and allocator.stopped("q0")
    assert allocator.take_back(launches[-1])
    with pytest.raises(InputError, match="no question 'q0'"):
        allocator.verdict("q0")
    assert allocator.budget.spent == len(asked) - 1
    drive(allocator, np.random.default_rng(0), 4)
    assert allocator.verdict("q1").traces == 9  # what q0 was promised is free for others


@pytest.mark.parametrize("policy", [OKG(), OnlineGrid(), PriceRule()])
def test_an_endless_stream_that_withdraws_keeps_its_budget_and_no_memory(policy):
    allocator = Allocator(policy, Budget.per_window(20, 160, cap=32))
    rng = np.random.default_rng(0)
    for i in range(100):
        allocator.add(Question(f"q{i}", options=4))
        drive(allocator, rng, 8)
        assert allocator.budget.total == 160 * (i // 20 + 1)
        allocator.withdraw(f"q{i}")
        assert not allocator.verdicts()
    assert 0.9 * 800 < allocator.budget.spent <= 800


def test_a_policy_goes_on_learning_from_questions_that_were_withdrawn():
    allocator = Allocator(Pupil(), Budget(64), questions(4))
    for launch in allocator.ask(7):
        allocator.tell(Trace(*launch, "A"))
    for question in questions(4)[:3]:
        allocator.withdraw(question.id)
    for launch in allocator.ask(3):
        allocator.tell(Trace(*launch, "A"))
    assert allocator.policy.seen == 4


def test_no_answers_cost_and_do_not_vote_and_do_not_sink_the_budget():
    allocator = Allocator(OKG(prior=1.0), Budget(60), questions(3))
    while launches := allocator.ask():
        answer = None if launches[0].question == "q0" else "AB"[launches[0].number % 2]
        allocator.tell(Trace(*launches[0], answer))
    empty = allocator.verdict("q0")
    assert (empty.answer, empty.agreement, empty.votes) == (None, None, ())
    assert empty.traces == empty.no_answer < 20


def test_uniform_uses_up_a_budget_that_does_not_divide():
    allocator = Allocator(Uniform(), Budget(50), questions(3))
    counts = Counter(launch.question for launch in drive(allocator, np.random.default_rng(0)))
    assert sorted(counts.values()) == [16, 17, 17]


def test_quotas_are_served_fewest_launched_first():
    log = drive(Allocator(Uniform(), Budget(12), questions(4)), np.random.default_rng(0))
    assert [launch.number for launch in log] == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize(
    "policy", [OnlineGrid(), OnlineGrid(K=2), PriceRule(), PriceRule(rounds=1), PriceRule(rounds=3)]
)
@pytest.mark.parametrize("mean", [5, 12])
def test_a_stream_of_known_length_keeps_its_budget_and_uses_it(policy, mean):
    """Questions arrive one by one; each is answered before the next comes."""
    N, spends, rng = 150, [], np.random.default_rng(3)
    theta = {f"q{i}": rng.dirichlet([0.4] * 4) for i in range(N)}
    for seed in range(3):
        allocator = Allocator(policy, Budget(mean * N, cap=40), horizon=N, seed=seed)
        for question in questions(N):
            allocator.add(question)
            assert len(drive(allocator, rng, 8, theta)) >= 4
            assert allocator.stopped(question.id)
        spends.append(allocator.budget.spent / (mean * N))
    assert max(spends) <= 1.0
    assert np.mean(spends) > 0.95


def test_an_endless_stream_has_a_budget_per_window_and_carries_over_what_is_left():
    allocator = Allocator(OnlineGrid(), Budget.per_window(20, 160, cap=32))
    rng = np.random.default_rng(0)
    for i in range(100):
        allocator.add(Question(f"q{i}", options=4))
        drive(allocator, rng, 8)
        assert allocator.budget.total == 160 * (i // 20 + 1)
        assert allocator.budget.spent <= allocator.budget.total - 4 * (20 - i % 20 - 1)  # warm-ups to come are kept
    assert allocator.budget.spent > 0.9 * 800


def test_learning_waits_for_the_warm_up_and_then_fixes_the_scale():
    rng = np.random.default_rng(0)
    allocator = Allocator(OKGWeighted(), Budget(80, cap=12), questions(6))
    first = allocator.ask(50)
    assert len(first) == 18 and not allocator.ask(1)
    for launch in first:
        allocator.tell(Trace(*launch, "AB"[launch.number % 2], float(rng.normal(12.0, 1.5))))
    learned = allocator.policy
    assert 0.8 < learned.scale < 2.2 and learned.beta_0 == pytest.approx(12.0 / learned.scale, rel=0.15)
    drive(allocator, rng)
    assert allocator.policy == learned


@dataclass(frozen=True, slots=True)
class Pupil(IndexPolicy):
    """Counts its lessons."""

    lessons: int = 0
    seen: int = 0  # questions in the last one

    @property
    def learns(self):
        return True

    def refit(self, batch):
        return replace(self, lessons=self.lessons + 1, seen=sum(batch.values()))

    def index(self, tally, view):
        return -tally.launched


def test_a_policy_learns_again_at_each_doubling_also_from_traces_that_come_out_of_order():
    allocator = Allocator(Pupil(), Budget(64), questions(2))
    lessons = {}
    for _ in range(16):
        launches = allocator.ask(4)
        for launch in reversed(launches):
            allocator.tell(Trace(*launch, "A"))
            lessons[allocator.told] = allocator.policy.lessons
    changes = [told for told in lessons if lessons[told] != lessons.get(told - 1, 0)]
    assert changes == [4, 8, 16, 32, 64]


def test_other_currencies_reserve_the_hold_and_settle_the_cost():
    allocator = Allocator(OKG(), Budget(1000, currency=Currency.tokens(hold=200)), questions(2))
    launches = allocator.ask(99)
    assert len(launches) == 5 and allocator.budget.free == 0
    for launch in launches:
        allocator.tell(Trace(*launch, "A", tokens=50))
    assert (allocator.budget.spent, len(allocator.ask(99))) == (250, 3)


def test_bad_tells_are_refused_and_change_nothing():
    allocator = Allocator(OKG(), Budget(5), questions(2))
    (launch,) = allocator.ask()
    before = visible(allocator, ["q0", "q1"])
    for trace, message in [
        (Trace("nope", 0, "A"), "there is no question 'nope'"),
        (Trace("q1", 0, "A"), "never launched"),
        (Trace(launch.question, -1, "A"), "never launched"),
        (Trace(*launch, ""), "answer=None"),
        (Trace(*launch, "A", float("nan")), "confidence nan"),
        (Trace(*launch, "A", -1.0), "confidence -1.0"),
        (Trace(*launch, "A", tokens=-5), "negative number of tokens"),
    ]:
        with pytest.raises(InputError, match=message):
            allocator.tell(trace)
    with pytest.raises(InputError, match="never launched"):
        allocator.take_back(Launch("q1", 3))
    assert visible(allocator, ["q0", "q1"]) == before


def test_a_budget_below_the_warm_up_is_refused():
    with pytest.raises(BudgetError, match="a warm-up of 4 traces for 30 questions needs 120 traces, there are 100"):
        Allocator(OnlineGrid(), Budget(100), questions(30))
    with pytest.raises(BudgetError, match="needs 120"):
        Allocator(OnlineGrid(), Budget(100), horizon=30)
    with pytest.raises(BudgetError, match="for 10 questions needs 40 traces, there are 30"):
        Allocator(OnlineGrid(), Budget.per_window(10, 30))
    allocator = Allocator(OnlineGrid(), Budget(40, cap=38), questions(1))
    drive(allocator, np.random.default_rng(0), 8)
    with pytest.raises(BudgetError, match="declare the horizon"):
        allocator.add(Question("late"))


def test_a_refused_add_changes_nothing():
    for policy in (OKG(), Uniform(), OnlineGrid()):
        allocator = Allocator(policy, Budget(12), questions(2))
        before = visible(allocator, ["q0", "q1"])
        for bad in ([Question("new"), Question("q0")], [Question("new"), Question("x", options=1)]):
            with pytest.raises(InputError):
                allocator.add(*bad)
        assert visible(allocator, ["q0", "q1"]) == before
        allocator.add(Question("new"))
        assert {launch.question for launch in drive(allocator, np.random.default_rng(0))} == {"q0", "q1", "new"}


@pytest.mark.parametrize("policy", [OKG(), OKG(waves=1), Uniform()])
def test_after_an_overrun_nothing_more_is_asked_for(policy):
    allocator = Allocator(policy, Budget(20, currency=Currency.tokens(hold=10)), questions(3))
    for launch in allocator.ask(9):
        allocator.tell(Trace(*launch, "A", tokens=11))
    assert allocator.ask(1) == [] and allocator.budget.free == -2


@pytest.mark.parametrize("policy", [Uniform(), OnlineGrid(), PriceRule(), OKG(), OKG(waves=4)])
def test_a_token_budget_is_used_though_traces_cost_less_than_their_hold(policy):
    allocator = Allocator(policy, Budget(400_000, cap=64, currency=Currency.tokens(hold=2000)), questions(20))
    rng = np.random.default_rng(0)
    while launches := allocator.ask(8):
        for launch in launches:
            allocator.tell(
                Trace(*launch, "ABCD"[rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])], tokens=int(rng.integers(300, 900)))
            )
    assert 0.9 < allocator.budget.spent / allocator.budget.total <= 1.0


def test_two_questions_cannot_share_an_id():
    with pytest.raises(InputError, match="id of its own"):
        Allocator(OKG(), Budget(5), [Question("a"), Question("a")])


def test_a_question_needs_two_options():
    with pytest.raises(InputError, match="has 1 options"):
        Allocator(OKG(), Budget(5), [Question("a", options=1)])


def test_a_seed_is_no_negative_number():
    with pytest.raises(InputError, match="the seed is 0 or more"):
        Allocator(OKG(), Budget(5), seed=-1)


def test_an_index_that_is_no_number_and_a_policy_of_no_kind_are_refused():
    class Broken(IndexPolicy):
        def index(self, tally, view):
            return math.nan

    class Greedy(QuotaPolicy):
        def quota(self, tally, view):
            return 10**9

    with pytest.raises(InputError, match="NaN"):
        Allocator(Broken(), Budget(5), questions(1)).ask()
    with pytest.raises(InputError, match="neither an index nor a quota"):
        Allocator(object.__new__(type("Neither", (OKG.__mro__[2],), {})), Budget(5))
    assert len(Allocator(Greedy(), Budget(5, cap=3), questions(1)).ask(9)) == 3


@pytest.mark.parametrize(
    "spec", ["okg", "okg:waves=3", "okg:prior=1", "uniform", "asc", "esc", "its_adaptive", "boinf", "okg_weighted"]
)
def test_adopted_traces_count_as_told_and_the_rest_of_the_budget_is_kept(spec):
    questions = [Question(f"q{i}") for i in range(6)]

    def trace(launch):
        answer = "AB"[(launch.number * 7 + int(launch.question[1:])) % 3 % 2]
        return Trace(launch.question, launch.number, answer, confidence=1.0 + launch.number % 3, tokens=5)

    first = Allocator(make_policy(spec), Budget(total=40, cap=12), questions)
    while first.budget.settled < 23 and (launches := first.ask(3)):
        for launch in launches:
            first.tell(trace(launch))
    kept = [trace(Launch(v.question, number)) for v in first.verdicts() for number in range(v.traces)]
    again = Allocator(make_policy(spec), Budget(total=40, cap=12), questions)
    again.adopt(kept)
    assert again.verdicts() == first.verdicts() and again.budget.spent == first.budget.spent == len(kept)
    asked = []
    while launches := again.ask(5):
        asked += launches
        for launch in launches:
            again.tell(trace(launch))
    assert len({*asked}) == len(asked) and not {*asked} & {Launch(t.question, t.number) for t in kept}
    assert again.budget.spent <= 40 and all(verdict.traces <= 12 for verdict in again.verdicts())
    if spec.startswith(("okg", "uniform")):
        assert again.budget.spent == 40


def test_adopted_traces_come_in_launch_order_and_before_the_first_launch():
    allocator = Allocator(make_policy("okg"), Budget(total=4), [Question("q")])
    with pytest.raises(InputError, match="number 2 is next"):
        allocator.adopt([Trace("q", 1, "A"), Trace("q", 0, "A")])
    allocator = Allocator(make_policy("okg"), Budget(total=4), [Question("q")])
    allocator.ask(1)
    with pytest.raises(StateError, match="has begun"):
        allocator.adopt([Trace("q", 1, "A")])


@pytest.mark.parametrize("policy", [OKG(prior=1.0), OKG(waves=2), Uniform(), PriceRule(rounds=3), OKGWeighted()])
def test_a_launch_that_is_given_up_is_free_and_its_question_asked_no_more(policy):
    allocator = Allocator(policy, Budget(total=24, cap=8), [Question("q1", options=2), Question("q2", options=2)])
    launches = allocator.ask(24)
    first = [launch for launch in launches if launch.question == "q1"]
    for launch in launches:
        if launch.question == "q2":
            allocator.tell(Trace(*launch, answer="A", confidence=1.0))
    allocator.tell(Trace(*first[1], answer="B", confidence=1.0))
    assert allocator.give_up(first[0]) and not allocator.give_up(first[0])
    for launch in first[2:]:
        allocator.give_up(launch)
    assert allocator.stopped("q1") and allocator.budget.reserved == 0
    while launches := allocator.ask(9):
        assert {launch.question for launch in launches} == {"q2"}
        for launch in launches:
            allocator.tell(Trace(*launch, answer="A", confidence=1.0))
    assert allocator.verdict("q1").votes == (("B", 1.0),) and allocator.verdict("q1").no_answer == 0
    assert allocator.budget.spent == allocator.told == 1 + allocator.verdict("q2").traces


def test_attempts_that_were_charged_before_a_launch_is_given_up_count_as_a_trace_without_an_answer():
    allocator = Allocator(OKG(prior=1.0), Budget(total=6), [Question("q1")])
    launches = allocator.ask(2)
    assert allocator.charge([Trace(*launch) for launch in launches])
    assert all(allocator.give_up(launch, paid=True) for launch in launches)
    verdict = allocator.verdict("q1")
    assert (verdict.traces, verdict.no_answer) == (2, 2) == (allocator.budget.spent, allocator.told)
    assert allocator.budget.reserved == 0 and not allocator.give_up(launches[0], paid=True)


@pytest.mark.parametrize("policy", [OKG(prior=1.0), Uniform()], ids=repr)
def test_a_launch_that_was_charged_and_given_up_counts_against_the_cap(policy):
    allocator = Allocator(policy, Budget(total=9, cap=2), [Question("q1")])
    first, second = allocator.ask(9)
    assert allocator.give_up(first, paid=True, for_good=False) and allocator.tell(Trace(*second, "A"))
    assert allocator.ask(9) == [] and allocator.verdict("q1").no_answer == 1


def test_a_question_that_was_given_up_stays_so_and_can_be_withdrawn():
    allocator = Allocator(OKG(prior=1.0), Budget(total=9), [Question("q1"), Question("q2")])
    (launch,) = allocator.ask()
    allocator.give_up(launch)
    assert allocator.stopped(launch.question)
    assert {other.question for other in allocator.ask(9)} == {"q1", "q2"} - {launch.question}
    allocator.withdraw(launch.question)
    assert len(allocator.verdicts()) == 1


def test_traces_paid_for_beside_the_plan_never_touch_what_was_promised():
    allocator = Allocator(PriceRule(rounds=2), Budget(total=10, cap=8), horizon=2)
    allocator.add(Question("q1", options=2))
    assert len(allocator.ask(99)) == 4
    assert not allocator.charge([Trace("q1", 0)] * 3)  # 4 of the 6 that are left are the next question's warm-up
    assert allocator.charge([Trace("q1", 0)] * 2) and allocator.budget.spent == 2 and allocator.spare == 0


def test_with_windows_such_traces_are_made_up_for_as_soon_as_that_is_possible():
    allocator = Allocator(PriceRule(rounds=1), Budget.per_window(2, 9, cap=8))
    allocator.add(Question("q1", options=2))
    allocator.ask(99)
    assert allocator.charge([Trace("q1", 0)] * 3) and allocator.budget.spent == 0
    allocator.ask()
    assert allocator.budget.spent == 1
    allocator.add(Question("q2", options=2), Question("q3", options=2))
    allocator.ask()
    assert allocator.budget.spent == 2


def test_adopted_numbers_may_have_gaps():
    allocator = Allocator(OKG(prior=1.0), Budget(total=4), [Question("q1")])
    allocator.adopt([Trace("q1", 1, "A"), Trace("q1", 4, "A")])
    assert allocator.budget.spent == 2 and allocator.verdict("q1").votes == (("A", 2.0),)
    assert allocator.ask(9) == [Launch("q1", 5), Launch("q1", 6)]


def told(allocator, launches, rng):
    for launch in launches:
        allocator.tell(Trace(launch.question, launch.number, rng.choice("AAB")))


def leave(allocator, question):
    """Its answer has been taken, or its reader has gone: what was not sent is free again."""
    pending = allocator.pending(question)
    allocator.withdraw(question)
    for launch in pending:
        allocator.take_back(launch)


def test_a_windows_budget_is_kept_while_questions_come_go_and_break_off():
    rng = random.Random(0)
    allocator = Allocator(OnlineGrid(), Budget.per_window(20, 160, cap=64))
    paid, lost, open_ids = 0, 0, []
    for number in range(200):
        allocator.add(Question(f"q{number}"))
        open_ids.append(f"q{number}")
        launches = allocator.ask(1000)
        if rng.random() < 0.2:  # its reader goes: nothing was sent
            leave(allocator, open_ids.pop())
            launches = [launch for launch in launches if launch.question != f"q{number}"]
        if rng.random() < 0.1:  # a reply breaks off, is paid for, and asked for again
            allocator.charge([Trace("q", 0)] * 4)
            lost += 4
        told(allocator, launches, rng)
        paid += len(launches)
        while more := allocator.ask(1000):
            told(allocator, more, rng)
            paid += len(more)
        for id in [id for id in open_ids if allocator.stopped(id)]:
            leave(allocator, id)
            open_ids.remove(id)
        spent, total = allocator.budget.spent, allocator.budget.total
        assert spent <= total and spent <= paid + lost
    assert 0.95 * 8 * 200 - 8 * 20 < paid + lost <= 8 * 200  # what a question that broke off leaves is used by others
    assert lost > 40 and spent == paid + lost and not allocator.verdicts()  # memory is bounded


def test_what_breaks_off_does_not_take_the_warm_up_of_questions_to_come():
    allocator, rng = Allocator(OnlineGrid(), Budget.per_window(4, 16, cap=64)), random.Random(0)
    allocator.charge([Trace("q", 0)] * 100)
    for number in range(8):
        allocator.add(Question(f"q{number}"))
        launches = allocator.ask(1000)
        assert len(launches) == 4
        told(allocator, launches, rng)
        leave(allocator, f"q{number}")
    assert (allocator.budget.spent, allocator.budget.total) == (32, 32)


@pytest.mark.parametrize(("open_at_once", "room"), [(8, 64), (64, 16)])
def test_what_breaks_off_is_made_up_for_under_any_load(open_at_once, room):
    """A fifth of all requests is lost and paid for; with little room, granted traces always wait."""
    rng, allocator = random.Random(1), Allocator(OnlineGrid(), Budget.per_window(50, 400, cap=64))
    paid, number, flying, waiting = 0, 0, [], []
    while number < 400 or waiting:
        while number < 400 and len(waiting) < open_at_once:
            allocator.add(Question(f"q{number}"))
            waiting.append(f"q{number}")
            number += 1
        flying += allocator.ask(room - len(flying))
        rng.shuffle(flying)
        some, flying = flying[:8], flying[8:]
        for launch in some:
            paid += 1
            if rng.random() < 0.2:
                allocator.charge([Trace("q", 0)])
                flying.append(launch)
            else:
                told(allocator, [launch], rng)
        busy = {launch.question for launch in flying}
        for id in [id for id in waiting if allocator.stopped(id) and id not in busy]:
            leave(allocator, id)
            waiting.remove(id)
    assert paid <= 1.02 * allocator.budget.total


def test_what_a_server_that_only_times_out_costs_is_not_remembered_for_ever():
    allocator = Allocator(Uniform(), Budget.per_window(1, 3 * MAX_DEBT))
    for number in range(3):
        assert allocator.charge([Trace("q", number)] * MAX_DEBT)
    allocator.add(Question("q"))
    allocator.ask()
    assert allocator.budget.spent == MAX_DEBT


class TestSharedStream:
    """Several allocators of one stream that tell each other what they took plan as one."""

    @staticmethod
    def allocators(count=2, **options):
        return [Allocator(PriceRule(rounds=3), Budget.per_window(10, 80, cap=32), **options) for _ in range(count)]

    @staticmethod
    def exchange(allocators):
        shares = [allocator.totals for allocator in allocators]
        for own, allocator in enumerate(allocators):
            others = (share for place, share in enumerate(shares) if place != own)
            allocator.sync_replicas(sum(others, ReplicaTotals()))

    def play(self, allocators, questions, rng, *, every=1):
        """Questions go to the allocators in turn; each is told at once what was asked."""
        for number in range(questions):
            allocator = allocators[number % len(allocators)]
            id, theta = f"q{number}", rng.dirichlet([0.5] * 4)
            allocator.add(Question(id, options=4))
            while launches := allocator.ask(64):
                for launch in launches:
                    allocator.tell(Trace(*launch, "ABCD"[rng.choice(4, p=theta)]))
            allocator.withdraw(id)
            if number % every == 0:
                self.exchange(allocators)

    def test_they_have_one_price(self):
        allocators = self.allocators(3)
        self.play(allocators, 45, np.random.default_rng(1))
        for place, allocator in enumerate(allocators):
            allocator.add(Question(f"last{place}", options=4))
        self.exchange(allocators)
        views = [allocator.view(f"last{place}") for place, allocator in enumerate(allocators)]
        assert len({(view.budget_left, view.questions_left) for view in views}) == 1
        assert len({allocator.budget.spent for allocator in allocators}) == 1

    def test_together_they_spend_as_one(self):
        one, three = self.allocators(1), self.allocators(3)
        self.play(one, 300, np.random.default_rng(2))
        self.play(three, 300, np.random.default_rng(2))
        assert abs(three[0].budget.spent - one[0].budget.spent) <= 0.05 * one[0].budget.spent

    def test_a_question_is_warmed_up_though_others_have_overspent(self):
        (first,) = self.allocators(1)
        first.add(Question("q"))
        first.sync_replicas(ReplicaTotals(arrived=5, finals=5, spent=500, settled=500))
        assert first.budget.affordable == 4 and len(first.ask(9)) == 4
        first.add(Question("r"))
        assert {launch.question for launch in first.ask(9)} == {"r"}

    def test_a_batch_is_not_shared(self):
        with pytest.raises(StateError, match="compares questions"):
            Allocator(OKG(), Budget(9), [Question("q")]).totals  # noqa: B018
        with pytest.raises(StateError, match="by windows"):
            Allocator(PriceRule(), Budget(99), horizon=4).sync_replicas(ReplicaTotals(arrived=1))


def soft_trace(launch, rng):
    """A trace of a question whose token tells the distribution that it is drawn from."""
    share = 0.9 if int(launch.question[1:]) % 2 else 0.55
    answer = "A" if rng.random() < share else "B"
    return Trace(*launch, answer, soft=SoftVote(answer, (("A", share), ("B", 1.0 - share))))


def test_soft_votes_cost_one_trace_each_and_survive_adoption():
    questions = [Question(f"q{i}", options=2) for i in range(20)]
    allocator, rng = Allocator(OKG(), Budget(80, cap=8), questions, votes=SoftVoteCount()), np.random.default_rng(0)
    traces = []
    for _ in range(50):
        [launch] = allocator.ask()
        traces.append(soft_trace(launch, rng))
        allocator.tell(traces[-1])
    assert allocator.budget.spent == 50 and allocator.votes_per_trace > 1.5
    assert all(allocator.tally(q.id).launched <= 8 for q in questions)
    adopted = Allocator(OKG(), Budget(80, cap=8), questions, votes=SoftVoteCount())
    adopted.adopt(sorted(traces, key=lambda trace: (int(trace.question[1:]), trace.number)))
    allocator.learn_worth()
    assert adopted.verdicts() == allocator.verdicts()


def test_soft_votes_told_late_and_out_of_order_count_as_in_order():
    questions = [Question(f"q{i}", options=2) for i in range(12)]
    results = []
    for order in (1, -1):
        allocator, rng = Allocator(OKG(), Budget(48), questions, votes=SoftVoteCount()), np.random.default_rng(0)
        launches = allocator.ask(48)
        traces = [soft_trace(launch, rng) for launch in sorted(launches)]
        for trace in traces[::order]:
            allocator.tell(trace)
        allocator.learn_worth()
        results.append(allocator.verdicts())
    assert results[0] == results[1]


def test_soft_votes_need_a_policy_of_votes():
    with pytest.raises(InputError, match="such as okg"):
        Allocator(OKGWeighted(), Budget(8), votes=SoftVoteCount())


@dataclass(frozen=True, slots=True)
class Five(QuotaPolicy):
    """Wants five traces of each question, whatever they say."""

    solitary = True

    def quota(self, tally, view):
        return 5


def spend(policy, budget, names=("q0", "q1"), cap=None):
    allocator = Allocator(policy, Budget(budget, cap=cap), [Question(name, options=4) for name in names])
    while launches := allocator.ask(9):
        for launch in launches:
            allocator.tell(Trace(*launch, "A"))
    return allocator


@pytest.mark.parametrize(
    ("budget", "cap", "complete"), [(10, None, [True, True]), (7, None, [True, False]), (99, 3, [True, True])]
)
def test_a_question_is_complete_where_a_rule_of_its_own_had_enough(budget, cap, complete):
    allocator = spend(Five(), budget, cap=cap)
    for over in (False, True):  # a budget that ends too early makes nothing complete
        assert [allocator.complete(id, over=over) for id in ("q0", "q1")] == complete


@pytest.mark.parametrize("policy", [OKG(), Uniform(), Five()])
def test_a_question_without_a_trace_or_with_one_missing_is_not_complete(policy):
    allocator = Allocator(policy, Budget(10), questions(2))
    assert not any(allocator.complete(id, over=True) for id in ("q0", "q1"))
    first, *others = allocator.ask(10)
    for launch in others:
        allocator.tell(Trace(*launch, "A"))
    assert not allocator.complete(first.question, over=True)  # in flight
    allocator.give_up(first)
    assert not allocator.complete(first.question, over=True)  # never came


def test_what_the_budget_is_planned_for_is_complete_when_the_run_is_over():
    for policy in (OKG(), Uniform()):
        allocator = spend(policy, 10)
        assert all(allocator.complete(id, over=True) for id in ("q0", "q1"))
    assert not spend(OKG(), 10).complete("q0")  # an index has never had enough
    assert spend(OKG(), 99, cap=4).complete("q0")  # but for the cap


def test_an_adopted_run_is_as_complete_as_it_was():
    allocator = Allocator(Five(), Budget(12), questions(2))
    allocator.adopt(Trace(id, number, "A") for id, many in (("q0", 5), ("q1", 2)) for number in range(many))
    assert [allocator.complete(id) for id in ("q0", "q1")] == [True, False]


def test_those_served_so_far_are_spread_over_the_file():
    """Files are sorted by subject or difficulty; the prior is learned from the questions that were served."""
    allocator = Allocator(OKG(), Budget(150), questions(100))
    log = drive(allocator, np.random.default_rng(1), theta={f"q{i}": [1.0, 0, 0, 0] for i in range(100)})
    for round_number in (0, 1):
        half = [int(launch.question[1:]) for launch in log if launch.number == round_number][:50]
        assert [len([i for i in half if i // 20 == fifth]) for fifth in range(5)] == pytest.approx([10] * 5, abs=2)


def test_launches_of_an_earlier_run_that_are_still_on_their_way_are_adopted():
    allocator = Allocator(OKG(), Budget(total=3), [Question("q1", options=2), Question("q2", options=2)])
    allocator.adopt([Trace("q1", 1, "A")], pending=[Launch("q1", 0)])
    assert allocator.ask(9) == [Launch("q2", 0)]
    assert allocator.tell(Trace("q1", 0, "A")) and allocator.verdict("q1").traces == 2


def test_the_expected_consistency_is_the_mean_certificate():
    allocator = Allocator(OKG(), Budget(total=3), [Question("q1", options=2)])
    for launch in allocator.ask(3):
        allocator.tell(Trace(*launch, "A"))
    assert allocator.certificate("q1") == allocator.expected_consistency()[0] > 0.8
