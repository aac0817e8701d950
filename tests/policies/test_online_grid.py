"""The one-shot grid on what it is shown, and the price rule of one round, its twin."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.core.grid import cold_rows
from pets.core.policy import Training, View
from pets.core.tally import Tally
from pets.errors import InputError
from pets.policies.online_grid import OnlineGrid
from pets.policies.price import PriceRule

VIEW = View(budget_left=1200, questions_left=100, cap=64)
PATHS = ["A" * 60 + "B" * 4, "A" * 64, "A" * 63 + "B", "A" * 36 + "B" * 28, "A" * 30 + "B" * 20 + "C" * 14]
PATHS += ["A" * 50 + "B" * 14]


@cache
def twins():
    """Grids and the price rules of one round that are the same."""
    return [
        (OnlineGrid(grids=cold_rows(5)), PriceRule(rounds=1)),
        (OnlineGrid().fit(Training(PATHS)), PriceRule(rounds=1).fit(Training(PATHS, options=3))),
    ]


def test_a_grid_gives_harder_patterns_more_and_meets_the_mean():
    policy = OnlineGrid(K=2).fit(Training(PATHS))
    coins = np.linspace(0, 0.999, 200)
    shares, budgets = policy.grid.shares, []
    for counts in ((4,), (2, 1, 1)):
        views = [View(1200, 100, 64, coin=float(c)) for c in coins]
        budgets.append(np.mean([policy.quota(Tally(counts), view) for view in views]))
    assert 4 <= budgets[0] < budgets[1] <= 64
    assert np.dot(shares, budgets) == pytest.approx(12, rel=0.02)


def test_a_grid_decides_once_and_nulls_are_singletons():
    policy = OnlineGrid()
    assert policy.quota(Tally((5, 1)), VIEW) == 6
    assert policy.quota(Tally((2,), nulls=2), VIEW) == policy.quota(Tally((2, 1, 1)), VIEW)


def test_fit_returns_a_new_policy_and_leaves_the_old():
    cold = OnlineGrid(K=3)
    fitted = cold.fit(Training(PATHS))
    assert cold.grids is None and len(fitted.grids) == 3 and fitted != cold


@given(
    st.sampled_from([(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1), (3,), ()]),
    st.floats(0, 0.999),
    st.integers(300, 6000),
)
def test_one_round_is_the_one_shot_plan(counts, coin, budget):
    tally, view = Tally(counts, nulls=4 - sum(counts), options=4), View(budget, 100, 64, coin)
    for grid, price in twins():
        assert price.quota(tally, view) == grid.quota(tally, view)
        assert price.quota(Tally((5, 1)), view) == 6


@pytest.mark.parametrize("options", [{"K": 6}, {"K": 3, "grids": ((1.0, 1.0, 0.0, 1.0),)}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        OnlineGrid(**options)
