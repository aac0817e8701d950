"""Fitted grids against the pools they come from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pets.core.consistency import SC_curve
from pets.core.grid import Grid, fit_grid, fit_oracle, one_shot, plan_for, pool_curve
from pets.core.policy import View
from pets.core.probit import Probit, smooth_theta
from pets.core.tally import K0, Tally, bin_of, bins, pattern, soft_assignment
from pets.errors import BudgetError, InputError

from .test_probit import l1_loss

small_pools = st.tuples(st.lists(st.integers(0, 6), max_size=5).map(tuple), st.integers(0, 4)).filter(
    lambda pool: K0 <= sum(pool[0]) + pool[1] <= 16
)


def synthetic_pools(N=60, n=64, seed=0):
    """Pools of n traces: three in five nearly unanimous, then two-horse races, then scattered answers."""
    rng = np.random.default_rng(seed)
    thetas = [(0.98, 0.02, 0, 0, 0)] * 3 + [(0.65, 0.35, 0, 0, 0)] + [(0.35, 0.25, 0.2, 0.1, 0.1)]
    return [(tuple(int(c) for c in rng.multinomial(n, thetas[i % 5])), 0) for i in range(N)]


def ease_at_K0(probit):
    return 2 * probit.a + probit.b


def test_a_curve_without_nulls_is_the_exact_one():
    np.testing.assert_array_equal(pool_curve((12, 4), 0, 20), SC_curve(smooth_theta([12, 4]), 20))


@given(small_pools)
def test_a_curve_with_nulls_stays_in_0_1_under_the_one_without(pool):
    counts, nulls = pool
    thinned, full = pool_curve(counts, nulls, 40), pool_curve(counts, 0, 40)
    assert thinned.min() >= 0 and thinned.max() <= 1 and np.all(thinned <= full.max() + 1e-12)


def test_nulls_thin_the_votes():
    B_max, v = 12, 16 / 40
    SC = SC_curve(smooth_theta([12, 4]), B_max)
    rng = np.random.default_rng(1)
    votes = rng.binomial(B_max, v, size=200_000)
    simulated = np.where(votes > 0, SC[votes], 0)
    thinned = pool_curve((12, 4), 24, B_max)
    assert thinned[B_max] == pytest.approx(simulated.mean(), abs=5 * simulated.std() / 200_000**0.5)
    assert thinned[1] == pytest.approx(v * SC[1]) and thinned[0] == SC[0]
    assert not pool_curve((), 40, B_max).any()


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_votes_cast_are_binomial(votes, nulls):
    B_max, v = 64, votes / (votes + nulls)
    B = np.arange(1, B_max + 1)
    SC = SC_curve(smooth_theta([votes]), B_max)
    expected = binom.pmf(B, B[:, None], v) @ SC[1:]
    np.testing.assert_allclose(pool_curve((votes,), nulls, B_max)[1:], np.minimum(expected, 1.0), rtol=1e-12)


@pytest.mark.parametrize("aggregation", ["average", "loss"])
@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_fitted_grids_are_ordered_and_their_shares_sum_to_one(K, aggregation):
    pools = synthetic_pools()
    grid = fit_grid(pools, K, aggregation)
    assert grid.K == len(grid.curves) == K
    assert sum(grid.shares) == pytest.approx(1, abs=1e-12)
    assert grid.shares == pytest.approx(np.mean([soft_assignment(*pool) @ bins(K) for pool in pools], axis=0))
    assert grid.voting == pytest.approx([1.0] * K)
    assert ease_at_K0(grid.curves[0]) == max(map(ease_at_K0, grid.curves))
    assert ease_at_K0(grid.curves[-1]) == min(map(ease_at_K0, grid.curves))


def test_average_is_the_weighted_mean_and_loss_is_no_worse_than_it():
    pools = synthetic_pools(20)
    average, loss = fit_grid(pools, 3, "average"), fit_grid(pools, 3, "loss")
    weights = np.array([soft_assignment(*pool) @ bins(3) for pool in pools])
    single = [fit_grid([pool], 2, "average").curves[0] for pool in pools]
    np.testing.assert_allclose(
        [(c.a, c.b) for c in average.curves],
        [np.average([(s.a, s.b) for s in single], axis=0, weights=weights[:, j]) for j in range(3)],
        rtol=1e-9,
    )
    curves = [pool_curve(*pool) for pool in pools]
    for j in range(3):
        assert l1_loss(loss.curves[j], curves, weights[:, j]) <= l1_loss(average.curves[j], curves, weights[:, j])


def test_easy_pools_whose_weights_round_over_one_are_fitted_by_loss():
    grid = fit_grid([((80,), 0)] * 9 + [((79, 1), 0), ((77, 3), 0)], 5, "loss")
    assert sum(grid.shares) == pytest.approx(1.0)


def test_answer_labels_do_not_matter():
    assert fit_grid([((3, 40), 1), ((20, 0, 25), 0)], 5) == fit_grid([((40, 3), 1), ((25, 20), 0)], 5)


def test_a_grid_without_mass_borrows_the_nearest_harder_curve_and_keeps_share_0():
    scattered = fit_grid([((1,) * 9, 0)], 5)
    assert scattered.shares == (0, 0, 0, 0, 1) and len(set(scattered.curves)) == 1
    unanimous = fit_grid([((40,), 0)], 5)
    assert unanimous.shares == (1, 0, 0, 0, 0) and len(set(unanimous.curves)) == 1
    both = fit_grid([((40,), 0), ((1,) * 9, 0)], 5)
    assert both.curves[1] == both.curves[2] == both.curves[3] == scattered.curves[0] != both.curves[0]
    assert both.shares == (0.5, 0, 0, 0, 0.5)


def test_questions_that_never_vote_do_not_attract_budget():
    pools = [((40,), 0)] * 30 + [((24, 16), 0)] * 10
    silent = fit_grid([*pools, *[((), 40)] * 10], 5)
    assert silent.shares[4] == pytest.approx(0.2) and silent.voting[4] == 0
    assert silent.voting[:4] == pytest.approx([1.0] * 4)
    assert plan_for(silent, 12, 4, 64).low[4] == plan_for(silent, 12, 4, 64).high[4] == 4
    mixed = fit_grid([((40,), 0)] * 30 + [((8, 7, 6, 6, 5, 4, 4), 0)] * 2 + [((), 40)] * 10, 5)
    assert 0 < mixed.voting[4] < 0.2
    all_vote = Grid(mixed.shares, mixed.curves, (1.0,) * 5)
    assert plan_for(mixed, 8, 4, 200).low[4] < plan_for(all_vote, 8, 4, 200).low[4]


def test_a_grid_of_share_0_gets_a_finite_budget_at_the_marginal_price():
    curves = (Probit(1.2, 0.5), Probit(0.3, 0.0), Probit(0.3, 0.0))
    plan = plan_for(Grid((0.5, 0.5, 0.0), curves, (1.0,) * 3), 12, 4, 10_000)
    assert 4 < plan.low[2] < 100 and abs(plan.low[2] - plan.low[1]) <= 1
    assert plan.mean([0.5, 0.5, 0]) == pytest.approx(12)


@pytest.mark.parametrize("B_bar", [4, 4.5, 9.3, 20, 63.9, 64, 1000])
def test_plans_keep_floor_cap_and_mean(B_bar):
    grid = fit_grid(synthetic_pools(), 5)
    plan = plan_for(grid, B_bar, floor=4, cap=64)
    assert all(4 <= low <= high <= 64 for low, high in zip(plan.low, plan.high, strict=True))
    assert plan.mean(grid.shares) == pytest.approx(min(B_bar, 64), rel=1e-12)
    with pytest.raises(BudgetError, match="floor of 4"):
        plan_for(grid, 3.99, floor=4, cap=64)


def test_oracle_is_deterministic_under_a_seed_and_ordered():
    pools = synthetic_pools(50)
    grid, labels = fit_oracle(pools, 3, np.random.default_rng(7))
    again, same = fit_oracle(pools, 3, np.random.default_rng(7))
    assert grid == again and labels.tolist() == same.tolist() and labels.shape == (50,)
    ease = [ease_at_K0(curve) for curve in grid.curves]
    assert ease == sorted(ease, reverse=True) and grid.K == 3
    np.testing.assert_allclose(grid.shares, np.bincount(labels) / 50)
    leader = np.array([max(counts) / 64 for counts, _ in pools])
    assert leader[labels == 0].min() > leader[labels == 2].max()


def test_oracle_has_fewer_clusters_than_asked_where_points_coincide():
    pools = [((40,), 0)] * 5 + [((25, 15), 0)] * 5
    grid, labels = fit_oracle(pools, 5, np.random.default_rng(0))
    assert grid.K == 2 and labels.tolist() == [0] * 5 + [1] * 5
    grid, label = fit_oracle(pools[:1], 3, np.random.default_rng(0))
    assert grid.K == 1 and label.tolist() == [0]


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_oracle_labels_use_every_cluster(seed, K):
    rng = np.random.default_rng(seed)
    pools = [(tuple(int(c) for c in rng.multinomial(12, rng.dirichlet([0.5, 0.5]))), 0) for _ in range(10)]
    grid, labels = fit_oracle(pools, K, rng)
    assert set(labels.tolist()) == set(range(grid.K)) and grid.K <= K


def test_an_arriving_question_goes_to_the_nearest_training_centre():
    pools = [((40,), 0)] * 3 + [((22, 18), 0)] * 3
    grid, labels = fit_oracle(pools, 2, np.random.default_rng(0), [((21, 19), 0), ((39, 1), 0), ((), 4)])
    assert labels.tolist() == [1, 0, 2] and grid.shares == (0.5, 0.5, 0.0) and grid.voting == (1.0, 1.0, 0.0)


def test_oracle_sets_silent_questions_apart_at_the_floor():
    pools = [((40,), 0), ((24, 16), 0), ((), 40), ((40,), 0)]
    grid, labels = fit_oracle(pools, 2, np.random.default_rng(0))
    assert labels.tolist() == [0, 1, 2, 0] and grid.voting == (1, 1, 0) and grid.shares == (0.5, 0.25, 0.25)
    assert plan_for(grid, 10, 4, 64).high[2] == 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pattern((3,)), "exactly 4"),
        (lambda: pattern((3, 1), nulls=1), "exactly 4"),
        (lambda: pattern((5, -1)), "0 or more"),
        (lambda: pattern((3,), nulls=-1), "0 or more"),
        (lambda: pattern((2.5, 1.5)), "whole numbers"),
        (lambda: bin_of(5, 5), "pattern 5"),
        (lambda: bin_of(0, 6), "K = 6"),
        (lambda: bin_of(0, 1), "K = 1"),
        (lambda: soft_assignment((2, 1)), "pool of 3"),
        (lambda: fit_grid([], 5), "0 pools, none with a vote"),
        (lambda: fit_grid([((4,), 0)], 5, "median"), "median"),
        (lambda: fit_grid([((), 9)], 5), "1 pools, none with a vote"),
        (lambda: fit_oracle([((), 9)], 2, np.random.default_rng(0)), "0 pools with votes"),
        (lambda: fit_oracle([((9,), 0)], 0, np.random.default_rng(0)), "K = 0"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_question_that_has_shown_more_than_its_warm_up_keeps_what_it_has():
    grid = Grid(shares=(0.8, 0.2), curves=(Probit(1.0, 0.5), Probit(0.2, 0.0)), voting=(1.0, 1.0))
    view = View(budget_left=100, questions_left=10, cap=64)
    assert [one_shot(grid, Tally(counts), view) for counts in ((4,), (3, 1), (5, 1))] == [4, 34, 6]


def test_the_consistency_of_a_grid_is_that_of_its_curve_where_a_vote_is_cast():
    grid = Grid(shares=(0.8, 0.2), curves=(Probit(1.0, 0.5), Probit(0.2, 0.0)), voting=(1.0, 0.5))
    assert grid.K == 2 and grid.SC([4, 16]).round(3).tolist() == [[0.994, 1.0], [0.328, 0.394]]
