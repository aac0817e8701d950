"""Results: what points add up to, totals as means, budgets used, a policy found by the name it was replayed under."""

import numpy as np
import pytest

from pets.errors import InputError
from pets.lab import replay
from pets.lab.config import ReplayConfig
from pets.lab.draws import draw_traces
from pets.lab.labelled import read_answers
from pets.lab.results import Allocation
from pets.policies.okg import OKG


@pytest.fixture(scope="module")
def pool_result(build):
    (result,) = replay(
        [build(questions=15)], ["okg", "price", "uniform"], repetitions=2, size=16, train=4, budgets=(8.0,)
    )
    return result


def test_an_offline_curve_has_a_point_after_every_trace(pool_result):
    result = pool_result.result(OKG())
    assert result.traces.shape == (2, 15 * 16 + 1) and result.traces[0, -1] == 16
    assert result.budget_used is None


def test_an_online_result_says_how_much_of_its_budget_it_used(pool_result):
    result = pool_result.result("price")
    assert result.questions == 11
    assert np.array_equal(result.budget_used, result.spent / 88)
    assert result.budget_used.max() <= 1.0


def test_a_setting_tells_two_results_of_one_policy_apart(pool_result):
    assert pool_result.result("uniform").setting == "offline"
    assert pool_result.result("uniform", "online").questions == 11


def test_accuracy_counts_the_questions_whose_gold_is_known(pool_result):
    result = pool_result.result("okg")
    assert np.array_equal(result.accuracy, result.correct / result.judged[:, None])
    assert result.judged[0] == 11  # every fourth question of the pool has no gold


def test_a_policy_that_was_not_replayed_is_told_with_those_that_were(pool_result):
    with pytest.raises(InputError, match="no result of 'asc'; it has okg, price, uniform"):
        pool_result.result("asc")


@pytest.fixture
def draw(pool):
    return draw_traces(read_answers(pool), ReplayConfig(size=8), 1)


def test_a_run_that_ends_early_stays_where_it_is(draw):
    allocation = Allocation.of_order(np.array([3, 3, 0]), draw, draw.outcomes)
    (agree,) = allocation.totals(draw.outcomes.agree)
    assert agree.size == 12 * 8 + 1 and (agree[3:] == agree[3]).all()
    assert agree[3] == int(draw.outcomes.agree[3, 2]) + int(draw.outcomes.agree[0, 1])


def test_sizes_pick_the_prefixes(draw):
    allocation = Allocation.of_sizes(np.array([[1, 2], [8, 0]]), draw, [4, 7], draw.outcomes)
    assert allocation.rows.tolist() == [4, 7] and np.nansum(allocation.at(0)) == 3
    assert allocation.totals(draw.outcomes.agree).tolist() == [
        [
            int(draw.outcomes.agree[4, 1]) + int(draw.outcomes.agree[7, 2]),
            int(draw.outcomes.agree[4, 8]),
        ]
    ]
