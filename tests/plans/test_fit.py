"""Fitting a plan: what it takes from a training pool, and which pools it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from pets.core.grid import plan_for
from pets.core.patterns import soft_assignment
from pets.core.policy import Training
from pets.errors import InputError
from pets.plans import fit_plan
from pets.policies.price import Price
from pets.pools import Pool, PooledQuestion


def test_shares_are_the_mean_chance_of_each_warmup_pattern(pool, plan):
    chances = [soft_assignment([q.answers.count(a) for a in "ABCD"]) for q in pool.questions]
    assert plan.grid.shares == pytest.approx(np.mean(chances, axis=0))


def test_budgets_spend_the_mean_budget_on_the_shares(plan):
    assert plan.budgets.mean(plan.grid.shares) == pytest.approx(12.0)
    assert plan.budgets == plan_for(plan.grid, 12.0, 4, 64)
    assert plan.budget_of(0) < plan.budget_of(3)


def test_the_policy_is_the_price_rule_fitted_to_the_same_answers(pool, plan):
    labels = [question.answers for question in pool.questions]
    assert plan.policy() == Price(rounds=3).fit(Training(labels, options=4))


def test_prices_are_fitted_with_the_zone_that_they_are_used_with(pool, plan):
    labels = [question.answers for question in pool.questions]
    zoned = fit_plan(pool, 12.0, rounds=3, zone=0.1)
    assert zoned.policy() == Price(rounds=3, zone=0.1).fit(Training(labels, options=4))
    assert zoned.prices != plan.prices
    with pytest.raises(InputError, match="a zone needs rounds=2 or more"):
        fit_plan(pool, 12.0, rounds=1, zone=0.1)


def test_provenance_tells_the_pool_and_its_answers(pool, plan):
    source = plan.provenance
    assert (source.pool, source.questions, source.traces, source.answer) == ("toy", 40, 2560, "choice")
    assert source.options == 4
    other = replace(pool, questions=pool.questions[1:])
    assert fit_plan(other, 12, 1).provenance.digest != source.digest


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mean_budget": 3}, "mean budget of 3"),
        ({"mean_budget": 65}, "the cap is 64"),
        ({"mean_budget": float("nan")}, "mean budget of nan"),
        ({"mean_budget": 16, "rounds": -1}, "rounds"),
    ],
)
def test_what_cannot_be_planned_is_refused(pool, settings, message):
    with pytest.raises(InputError, match=message):
        fit_plan(pool, **settings)


def test_a_question_too_short_for_a_pattern_is_refused():
    with pytest.raises(InputError, match="a question of 3 traces"):
        fit_plan(Pool("short", (PooledQuestion("q", ("A", "B", "A")),)), 8)


def test_a_pool_without_any_vote_is_refused():
    with pytest.raises(InputError, match="no trace gave an answer"):
        fit_plan(Pool("mute", (PooledQuestion("q", (None,) * 8),)), 8)
