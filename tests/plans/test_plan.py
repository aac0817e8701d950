"""A plan: what it takes from a training pool, the policy that it makes, what it refuses to be, and its file."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.grid import plan_for
from pets.core.policy import Training, View
from pets.core.price import log_price_at
from pets.core.tally import Tally, soft_assignment
from pets.errors import InputError, StateError
from pets.plans import fit_plan, plan_text, read_plan, write_plan
from pets.plans.plan import from_plain, price_rule, to_plain
from pets.policies.price import PriceRule
from pets.pools import Pool, PooledQuestion
from pets.types import Question, Trace


def test_the_expected_self_consistency_rises_with_the_budget(pool, one_shot):
    assert one_shot.expected < fit_plan(pool, mean_budget=24, rounds=1).expected <= 1.0


def test_one_round_plans_by_the_grids(one_shot):
    policy = one_shot.policy()
    view = View(budget_left=120, questions_left=10, cap=64)
    assert one_shot.prices is None
    assert policy.quota(Tally((4,), options=4), view) == one_shot.budgets.budget(0, view.coin)


def test_a_price_falls_as_the_mean_budget_rises(plan):
    spends = [log_price_at(plan.prices, mean) for mean in (5, 8, 16, 32)]
    assert spends == sorted(spends, reverse=True)


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


def test_a_plan_comes_back_as_it_was(plan, one_shot, tmp_path):
    for original in (plan, one_shot):
        write_plan(original, tmp_path / "plan.json")
        again = read_plan(tmp_path / "plan.json")
        assert again == original
        assert again.policy() == original.policy()


def test_the_file_is_readable_json_with_its_version(plan):
    text = plan_text(plan)
    data = json.loads(text)
    assert (data["format"], data["version"], data["mean_budget"], data["rounds"]) == ("pets-plan", 1, 12.0, 3)
    assert [grid["pattern"] for grid in data["grids"]] == ["4", "3-1", "2-2", "2-1-1", "1-1-1-1"]
    assert max(map(len, text.splitlines())) <= 170


def refused(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(StateError) as error:
        read_plan(path)
    line = str(error.value)
    assert "\n" not in line
    assert "plan.json" in line
    return line


def test_a_newer_version_asks_for_a_newer_pets(plan, tmp_path):
    assert "version 2, this pets reads 1. Update pets" in refused(tmp_path, to_plain(plan) | {"version": 2})


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"version": 1}', b"[" * 100_000])
def test_what_is_no_plan_is_one_line(tmp_path, content):
    refused(tmp_path, content)


def test_a_missing_part_is_named(plan, tmp_path):
    for key in ("grids", "prior", "prices", "mean_budget", "provenance", "cap"):
        data = to_plain(plan)
        del data[key]
        assert f"'{key}' is missing" in refused(tmp_path, data)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("mean_budget", "16"),
        ("mean_budget", True),
        ("rounds", 2.5),
        ("cap", 8),
        ("rho", 1.5),
        ("grids", []),
        ("grids", "none"),
        ("prices", [[1.0, 4.0], [2.0, 5.0]]),
        ("prices", [[-1.0, 9.0], [-2.0, 5.0]]),
        ("prices", []),
        ("prices", None),
        ("prior", {"strengths": [1.0], "shares": [[1.0]], "edges": []}),
        ("provenance", {}),
    ],
)
def test_a_damaged_part_is_one_line(plan, tmp_path, part, value):
    assert "damaged" in refused(tmp_path, to_plain(plan) | {part: value})


def test_numbers_that_are_none_are_refused(plan, tmp_path):
    text = plan_text(plan)
    assert "NaN is not a number" in refused(tmp_path, text.replace("12.0", "NaN", 1).encode())
    assert "damaged" in refused(tmp_path, text.replace("12.0", "1e999", 1).encode())


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path, plan):
    with pytest.raises(InputError, match="pets fit"):
        read_plan(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be written"):
        write_plan(plan, tmp_path / "no" / "plan.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_stands_in_a_part_a_plan_is_read_or_refused(plan, data):
    plain = to_plain(plan)
    where = data.draw(st.sampled_from([*plain, "grids.0.a", "prior.shares", "provenance.seed", "prices.1"]))
    value = data.draw(JSON)
    *outer, last = where.split(".")
    part = plain
    for key in outer:
        part = part[int(key) if isinstance(part, list) else key]
    part[int(last) if isinstance(part, list) else last] = value
    with contextlib.suppress(StateError):
        assert from_plain(plain).policy() is not None


def test_shares_are_the_mean_chance_of_each_warmup_pattern(pool, plan):
    chances = [soft_assignment([q.answers.count(a) for a in "ABCD"]) for q in pool.questions]
    assert plan.grid.shares == pytest.approx(np.mean(chances, axis=0))


def test_budgets_spend_the_mean_budget_on_the_shares(plan):
    assert plan.budgets.mean(plan.grid.shares) == pytest.approx(12.0)
    assert plan.budgets == plan_for(plan.grid, 12.0, 4, 64)
    assert plan.budget_of(0) < plan.budget_of(3)


def test_the_policy_is_the_price_rule_fitted_to_the_same_answers(pool, plan):
    labels = [question.answers for question in pool.questions]
    assert plan.policy() == PriceRule(rounds=3).fit(Training(labels, options=4))


def test_prices_are_fitted_with_the_zone_that_they_are_used_with(pool, plan):
    labels = [question.answers for question in pool.questions]
    zoned = fit_plan(pool, 12.0, rounds=3, zone=0.1)
    assert zoned.policy() == PriceRule(rounds=3, zone=0.1).fit(Training(labels, options=4))
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


@pytest.mark.parametrize("policy", ["okg", "price:prior=1", "price:rounds=2,use_up=true"])
def test_a_policy_of_which_a_plan_would_drop_a_part_is_refused(policy):
    with pytest.raises(InputError, match=f"fitted for price:rounds=N,zone=X, .*got {policy}"):
        price_rule(policy)
