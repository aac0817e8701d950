"""The ledger: reserve, settle, refund, grow, in traces, tokens and money."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.budget import Budget, CostEstimator, Window
from pets.core.money import Currency
from pets.errors import BudgetError
from pets.types import Trace, Usage


@given(st.integers(0, 40), st.lists(st.sampled_from(["reserve", "settle", "refund", "grow"]), max_size=60))
def test_the_total_is_never_exceeded_while_no_trace_costs_more_than_its_hold(total, steps):
    budget = Budget(total, currency=Currency.tokens(hold=3))
    for number, step in enumerate(steps):
        before = (budget.total, budget.spent, budget.reserved)
        try:
            if step == "reserve":
                budget.reserve()
            elif step == "settle":
                budget.settle(Trace("q", number, tokens=number % 4))
            elif step == "refund":
                budget.refund()
            else:
                budget.grow(1)
        except BudgetError:
            assert (budget.total, budget.spent, budget.reserved) == before  # a refusal changes nothing
        assert 0 <= budget.spent + budget.reserved <= budget.total
        assert budget.affordable == budget.free // 3
        assert budget.free >= 0


def test_a_trace_that_costs_more_than_its_hold_is_charged_in_full_and_stops_the_rest():
    budget = Budget(10, currency=Currency.tokens(hold=5))
    budget.reserve(2)
    budget.settle(Trace("q", 0, tokens=9))
    budget.settle(Trace("q", 1, tokens=4))
    assert (budget.spent, budget.free, budget.affordable) == (13, -3, 0)


def test_plain_data_round_trips():
    budget = Budget.per_window(100, 1600, cap=64, currency=Currency.tokens(hold=9))
    budget.grow(1600)
    budget.reserve(3)
    assert Budget.from_plain(budget.to_plain()) == budget


@pytest.mark.parametrize(
    "make",
    [
        lambda: Budget(-1),
        lambda: Budget(5.0),
        lambda: Budget(float("nan")),
        lambda: Budget(5, cap=0),
        lambda: Budget(5).grow(-1),
        lambda: Budget(5).reserve(6),
        lambda: Budget(5).reserve(-1),
        lambda: Budget(5).refund(),
        lambda: Window(0, 5),
    ],
)
def test_what_cannot_be_kept_is_refused(make):
    with pytest.raises(BudgetError):
        make()


@given(st.lists(st.integers(0, 1000), max_size=60), st.integers(1, 60))
def test_cancelled_traces_never_exceed_a_budget_of_traces_and_count_in_thousandths(parts, total):
    budget = Budget(total)
    for part in parts:
        if not budget.affordable:
            break
        budget.reserve()
        budget.settle(Usage(part=part))
        assert budget.spent + budget.reserved <= budget.total
        assert 1000 * budget.spent - 999 <= budget.parts <= 1000 * budget.spent
    assert budget.settled == 0


def test_a_cancelled_trace_costs_the_tokens_that_were_written_and_is_no_sample_of_the_mean():
    budget = Budget(1000, currency=Currency.tokens(hold=100))
    budget.reserve(2)
    budget.settle(Usage(tokens=80, prompt_tokens=20))
    budget.settle(Usage(tokens=5, prompt_tokens=20, part=60))
    assert (budget.spent, budget.settled, budget.reserved) == (125, 1, 0)


def spend(budget, estimator, rng, most=40):
    """Traces of five questions, a few of which are very long, until nothing more is allowed."""
    in_flight, widest = [], 0
    while True:
        while len(in_flight) < most and estimator.can_launch():
            question = str(rng.integers(5))
            in_flight.append((question, estimator.reserve(question)))
        if not in_flight:
            return widest
        widest = max(widest, len(in_flight))
        question, held = in_flight.pop(int(rng.integers(len(in_flight))))
        cost = int(rng.choice([20, 40, 1000], p=[0.6, 0.38, 0.02]))
        estimator.settle(question, held, cost)
        budget.spent += cost


def test_the_estimate_meets_the_budget_keeps_to_its_bound_and_does_not_throttle():
    for seed in range(20):
        budget = Budget(40_000, currency=Currency.tokens(hold=1000))
        widest = spend(budget, CostEstimator(budget, worst=1000, bound=4000), np.random.default_rng(seed))
        assert 0.93 * 40_000 < budget.spent <= 44_000
        assert widest == 40


def test_the_estimator_learns_what_each_question_costs():
    estimator = CostEstimator(Budget(10**6, currency=Currency.tokens(hold=1000)), worst=1000, bound=0)
    for _ in range(20):
        for question, cost in (("short", 10), ("long", 500)):
            estimator.settle(question, estimator.reserve(question), cost)
    assert estimator.expected("short") < 60 < 400 < estimator.expected("long") < 500
    assert 100 < estimator.expected("new") < 400


def test_a_budget_that_cannot_pay_for_the_dearest_trace_is_refused():
    with pytest.raises(BudgetError, match="does not pay for one trace"):
        CostEstimator(Budget(500, currency=Currency.tokens(hold=1000)), worst=1000, bound=50)


def test_what_is_released_is_neither_held_nor_learned():
    estimator = CostEstimator(Budget(1000, currency=Currency.tokens(hold=400)), worst=400, bound=0)
    holds = [estimator.reserve("q"), estimator.reserve("q")]
    assert not estimator.can_launch()
    estimator.release(holds[0])
    assert estimator.can_launch() and estimator.expected("q") == 400


def test_a_question_that_is_forgotten_leaves_its_cost_among_the_batch_s():
    estimator = CostEstimator(Budget(10**6, currency=Currency.tokens(hold=1000)), worst=1000, bound=0)
    for _ in range(20):
        estimator.settle("q", estimator.reserve("q"), 10)
        estimator.settle("other", estimator.reserve("other"), 500)
    estimator.forget("q")
    assert estimator.expected("q") == estimator.expected("new") == 255


def test_a_new_hold_is_that_of_traces_in_flight_too():
    budget = Budget(total=1000, currency=Currency.tokens(hold=400))
    budget.reserve(2)
    budget.hold_at(100)
    assert (budget.reserved, budget.affordable) == (200, 8)
