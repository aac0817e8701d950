"""A plan: what it is fitted to, what it refuses, and the policy that it makes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.grid import plan_for
from pets.core.patterns import soft_assignment
from pets.core.policy import Training, View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.plans import fit_plan
from pets.policies.price import Price
from pets.pools import Pool, PooledQuestion
from pets.types import Question, Trace


def test_shares_are_the_mean_chance_of_each_warmup_pattern(pool, plan):
    chances = [soft_assignment([q.answers.count(a) for a in "ABCD"]) for q in pool.questions]
    assert plan.grid.shares == pytest.approx(np.mean(chances, axis=0))


def test_budgets_spend_the_mean_budget_on_the_shares(plan):
    assert plan.budgets.mean(plan.grid.shares) == pytest.approx(12.0)
    assert plan.budgets == plan_for(plan.grid, 12.0, 4, 64)
    assert plan.budget_of(0) < plan.budget_of(3)


def test_the_expected_self_consistency_rises_with_the_budget(pool, one_shot):
    assert one_shot.expected < fit_plan(pool, mean_budget=24, rounds=1).expected <= 1.0


def test_the_policy_is_the_price_rule_fitted_to_the_same_answers(pool, plan):
    labels = [question.answers for question in pool.questions]
    assert plan.policy() == Price(rounds=3).fit(Training(labels, options=4))


def test_one_round_plans_by_the_grids(one_shot):
    policy = one_shot.policy()
    view = View(budget_left=120, questions_left=10, cap=64)
    assert one_shot.prices is None
    assert policy.quota(Tally((4,), options=4), view) == one_shot.budgets.low[0]


def test_a_price_falls_as_the_mean_budget_rises(plan):
    spends = [plan.prices.log_price(mean) for mean in (5, 8, 16, 32)]
    assert spends == sorted(spends, reverse=True)


def test_provenance_tells_the_pool_and_its_answers(pool, plan):
    source = plan.provenance
    assert (source.pool, source.questions, source.traces, source.answer) == ("toy", 40, 2560, "choice")
    assert source.options == 4
    other = replace(pool, questions=pool.questions[1:])
    assert fit_plan(other, 12, 1).provenance.digest != source.digest


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"mean_budget": 3}, "mean budget of 3"),
        ({"mean_budget": 65}, "the cap is 64"),
        ({"mean_budget": float("nan")}, "mean budget of nan"),
        ({"mean_budget": 16, "rounds": -1}, "rounds"),
    ],
)
def test_what_cannot_be_planned_is_refused(pool, settings, found):
    with pytest.raises(InputError, match=found):
        fit_plan(pool, **settings)


def test_a_question_too_short_for_a_pattern_is_refused():
    with pytest.raises(InputError, match="a question of 3 traces"):
        fit_plan(Pool("short", (PooledQuestion("q", ("A", "B", "A")),)), 8)


def test_a_pool_without_any_vote_is_refused():
    with pytest.raises(InputError, match="none with a vote"):
        fit_plan(Pool("mute", (PooledQuestion("q", (None,) * 8),)), 8)


def test_a_plan_that_no_pool_can_have_made_is_refused(plan):
    with pytest.raises(InputError, match="rounds"):
        replace(plan, prices=None)
    with pytest.raises(InputError, match="add up to 1"):
        replace(plan, grid=replace(plan.grid, shares=(0.5,) * 5))
    with pytest.raises(InputError, match="budgets"):
        replace(plan, budgets=replace(plan.budgets, low=(1,) * 5))


@settings(max_examples=25)
@given(
    answers=st.lists(st.text("AB", min_size=24, max_size=24), min_size=1, max_size=8),
    mean=st.integers(4, 24),
    rounds=st.integers(1, 3),
)
def test_whatever_the_answers_the_budget_is_spent_to_the_last_trace(plan, one_shot, answers, mean, rounds):
    policy = (one_shot if rounds == 1 else plan).policy(use_up=True)
    total = mean * len(answers)
    allocator = Allocator(policy, Budget(total, 24), horizon=len(answers))
    for number, path in enumerate(answers):
        allocator.add(Question(str(number), options=4))
        while launches := allocator.ask(24):
            assert allocator.budget.spent + allocator.budget.reserved <= total
            for launch in launches:
                allocator.tell(Trace(launch.question, launch.number, path[launch.number]))
    assert allocator.budget.spent == total
