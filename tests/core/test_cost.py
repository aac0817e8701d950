"""Admission under uncertain cost: the budget is met on average, its bound is kept, nothing is throttled."""

import numpy as np
import pytest

from pets.core.budget import Budget
from pets.core.cost import CostEstimator
from pets.core.money import Currency
from pets.errors import BudgetError


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
