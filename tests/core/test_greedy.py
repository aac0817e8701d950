"""The greedy against the linear program that it claims to solve, and against the paper's limits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from pets.core.consistency import SC_curve
from pets.core.greedy import Quotas, Steps, binary_steps, envelope, greedy, ladder, probit_steps
from pets.core.probit import Probit
from pets.errors import BudgetError, InputError

values = st.floats(0, 1, allow_nan=False).map(lambda x: round(x, 3))
curves = st.lists(values, min_size=2, max_size=30)


def linear_program(curves, p, B_bar, floor, cap):
    """max sum p_j x_jB SC_j(B): x_jB is the probability that a question of grid j gets B traces."""
    B = np.arange(floor, cap + 1)
    K = len(curves)
    gain = np.concatenate([q * curve[floor : cap + 1] for q, curve in zip(p, curves, strict=True)])
    tolerance = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(
        -gain,
        A_ub=np.concatenate([q * B for q in p])[None],
        b_ub=[B_bar],
        A_eq=np.kron(np.eye(K), np.ones(B.size)),
        b_eq=np.ones(K),
        method="highs",
        options=tolerance,
    )
    assert solution.status == 0, solution.message
    return -solution.fun


def value(plan, curves, p):
    """Expected objective of a plan on the curves themselves, not on their envelopes."""
    each = zip(p, curves, plan.low, plan.high, strict=True)
    return math.fsum(q * ((1 - plan.rho) * c[low] + plan.rho * c[high]) for q, c, low, high in each)


def random_curve(rng, cap):
    """Noise, saw-tooth, S-shaped, saturating, binary, falling or flat."""
    B = np.arange(cap + 1)
    shapes = [
        lambda: rng.random(cap + 1),
        lambda: np.cumsum(rng.normal(size=cap + 1)) / 10,
        lambda: Probit(rng.uniform(0.2, 2), rng.uniform(-6, 1)).curve(B),
        lambda: 1 - np.exp(-rng.uniform(0.01, 1) * B),
        lambda: SC_curve((theta := rng.uniform(0.5, 1), 1 - theta), cap),
        lambda: -rng.random() * B,
        lambda: np.full(cap + 1, rng.random()),
        lambda: np.round(np.sort(rng.random(cap + 1)), 1),
    ]
    return np.asarray(shapes[rng.integers(len(shapes))]())


def instance(seed):
    rng = np.random.default_rng(seed)
    K, floor = int(rng.integers(1, 6)), int(rng.integers(0, 5))
    cap = floor + int(rng.integers(0, 30))
    p = rng.dirichlet(np.full(K, rng.choice([0.2, 1, 10])))
    p[rng.random(K) < 0.1] = 0
    p = p / p.sum() if p.sum() else np.eye(K)[0]
    B_bar = rng.uniform(floor, cap + 2) if rng.random() < 0.9 else float(floor)
    return [random_curve(rng, cap) for _ in range(K)], p, B_bar, floor, cap


@pytest.mark.parametrize("block", range(10))
def test_greedy_is_the_linear_programs_optimum(block):
    for seed in range(50 * block, 50 * block + 50):
        curves, p, B_bar, floor, cap = instance(seed)
        steps = [envelope(curve, floor, cap) for curve in curves]
        plan = greedy(steps, p, B_bar, floor)
        optimum = linear_program(curves, p, B_bar, floor, cap)
        assert value(plan, curves, p) == pytest.approx(optimum, abs=1e-9), seed
        worthwhile = floor + sum(q * s.lengths.sum() for q, s in zip(p, steps, strict=True))
        assert plan.mean(p) == pytest.approx(min(B_bar, worthwhile), rel=1e-12), seed
        assert all(floor <= low <= high <= cap for low, high in zip(plan.low, plan.high, strict=True))
        assert sum(low != high for low, high in zip(plan.low, plan.high, strict=True)) <= 1
        assert 0 <= plan.rho < 1


def test_spend_sampled_over_coins_is_the_mean():
    steps = [binary_steps(theta, cap=51) for theta in (0.9, 0.7, 0.55)]
    p, B_bar = np.array([0.5, 0.3, 0.2]), 7.77
    plan = greedy(steps, p, B_bar, floor=0)
    assert 0 < plan.rho < 1
    rng = np.random.default_rng(0)
    draws = [plan.budget(j, coin) for j, coin in zip(rng.choice(3, 40_000, p=p), rng.random(40_000), strict=True)]
    assert np.mean(draws) == pytest.approx(B_bar, abs=5 * np.std(draws) / 200)
    assert set(draws) == set(plan.low) | set(plan.high)


def test_the_coin_alone_gives_the_mean():
    plan = Quotas(low=(4, 5), high=(4, 9), rho=0.25)
    coins = (np.arange(1000) + 0.5) / 1000
    sampled = np.mean([0.4 * plan.budget(0, c) + 0.6 * plan.budget(1, c) for c in coins])
    assert sampled == pytest.approx(plan.mean([0.4, 0.6]), rel=1e-12) == pytest.approx(5.2)


@given(curves, st.integers(0, 10))
def test_envelope_is_the_least_concave_majorant_up_to_the_top(curve, floor):
    curve, floor = np.array(curve), min(floor, len(curve) - 1)
    cap = len(curve) - 1
    steps = envelope(curve, floor, cap)
    vertices = floor + np.concatenate([[0], np.cumsum(steps.lengths)])
    hull = np.interp(np.arange(floor, cap + 1), vertices, curve[vertices])
    assert np.all(hull >= curve[floor:] - 1e-12)
    assert curve[vertices[-1]] == curve[floor:].max()
    heights = curve[floor] + np.concatenate([[0], np.cumsum(steps.lengths * np.exp(steps.log_slopes))])
    np.testing.assert_allclose(heights, curve[vertices], atol=1e-12)


@pytest.mark.parametrize("theta", [0.55, 0.7, 0.9])
def test_binary_envelope_is_the_papers_1_then_2_steps(theta):
    cap = 25
    hull, closed = envelope(SC_curve((theta, 1 - theta), cap), 0, cap), binary_steps(theta, cap)
    assert np.concatenate([[0], np.cumsum(closed.lengths)]).tolist() == [0, *range(1, cap + 1, 2)]
    assert hull.lengths.tolist() == closed.lengths.tolist()
    np.testing.assert_allclose(hull.log_slopes, closed.log_slopes, atol=1e-6)


def test_binary_steps_at_the_edges():
    assert binary_steps(0.5, 100).lengths.size == 0
    assert binary_steps(1.0, 100).lengths.tolist() == [1]
    assert binary_steps(0.7, 0).lengths.size == 0
    assert binary_steps(0.7, 4).lengths.tolist() == [1, 2]
    np.testing.assert_allclose(binary_steps(0.3, 99).log_slopes, binary_steps(0.7, 99).log_slopes, atol=1e-9)


def test_shares_converge_to_the_papers_limit():
    theta = np.array([0.55, 0.6, 0.7, 0.8, 0.9])
    plan = greedy([binary_steps(t, cap=100_000) for t in theta], np.full(5, 0.2), B_bar=20_000, floor=0)
    limit = 1 / -np.log(4 * theta * (1 - theta))
    np.testing.assert_allclose(np.array(plan.low) / sum(plan.low), limit / limit.sum(), rtol=0.03)


def test_probit_gains_are_accurate_in_both_tails():
    probit = Probit(1.3, -7.0)
    steps = probit_steps(probit, floor=0, cap=3000)
    ends = np.cumsum(steps.lengths)
    with mpmath.workdps(60):
        for i in (0, 1, len(ends) // 2, len(ends) - 1):
            start, end = int(ends[i] - steps.lengths[i]), int(ends[i])
            low, high = (mpmath.ncdf(probit.a * mpmath.sqrt(B) + probit.b) for B in (start, end))
            # 1 - Phi(40) needs more digits than 60: complement it
            if high > 0.5:
                low, high = (-mpmath.ncdf(-probit.a * mpmath.sqrt(B) - probit.b) for B in (start, end))
            assert steps.log_slopes[i] == pytest.approx(float(mpmath.log((high - low) / (end - start))), rel=1e-9)
    assert steps.log_slopes[-1] < -2000 and ends[-1] == 3000


@given(st.floats(0.05, 3), st.floats(-5, 3), st.integers(0, 9), st.integers(0, 40))
def test_probit_steps_are_the_envelope_of_the_curve(a, b, floor, more):
    cap = floor + more
    probit = Probit(a, b)
    curve = probit.curve(np.arange(cap + 1))
    steps = probit_steps(probit, floor, cap)
    vertices = floor + np.concatenate([[0], np.cumsum(steps.lengths)])
    hull = np.interp(np.arange(floor, cap + 1), vertices, curve[vertices])
    assert vertices[-1] == cap and np.all(hull >= curve[floor:] - 1e-12)
    if a * math.sqrt(floor) + b >= 0:
        assert np.sum(steps.lengths > 1) == 0


def test_a_curve_that_does_not_rise_gets_the_floor():
    assert probit_steps(Probit(0.0, 1.0), 4, 64).lengths.size == 0
    plan = greedy([probit_steps(Probit(0.0, 0.0), 4, 64), probit_steps(Probit(0.5, 0.0), 4, 64)], [0.5, 0.5], 9, 4)
    assert plan.low == (4, 14)


def test_a_grid_without_share_gets_what_the_marginal_price_buys():
    easy, hard = binary_steps(0.9, 999), binary_steps(0.6, 999)
    alone = greedy([hard], [1.0], 20, floor=0)
    both = greedy([easy, hard, hard], [0.0, 1.0, 0.0], 20, floor=0)
    assert both.low[1] == alone.low[0] and both.high[1] == alone.high[0] and both.rho == alone.rho
    assert abs(both.low[2] - both.low[1]) <= 2 and 1 < both.low[0] < both.low[1]
    assert both.mean([0, 1, 0]) == pytest.approx(20)


def test_ladder_plans_as_greedy_does_at_every_budget():
    steps, p = [binary_steps(theta, 31) for theta in (0.95, 0.8, 0.6)], [0.6, 0.3, 0.1]
    rungs = ladder(steps, p, floor=0)
    means = [rungs.plan(B_bar).mean(p) for B_bar in np.linspace(0, 31, 200)]
    np.testing.assert_allclose(means, np.linspace(0, 31, 200), atol=1e-12)
    assert rungs.plan(1e9) == rungs.plan(math.inf) == Quotas((31, 31, 31), (31, 31, 31), 0.0)


def test_a_budget_under_the_floor_says_what_to_do():
    steps = [probit_steps(Probit(0.5, 0.0), 4, 64)]
    assert greedy(steps, [1.0], 4, floor=4).low == (4,)
    with pytest.raises(BudgetError, match=r"3\.5 traces is under the floor of 4.*raise the budget"):
        greedy(steps, [1.0], 3.5, floor=4)
    with pytest.raises(BudgetError):
        greedy(steps, [1.0], math.nan, floor=4)


@pytest.mark.parametrize("p", [[0.5, 0.6], [1.5, -0.5], [1.0], [[0.5, 0.5]], [math.nan, 1.0]])
def test_shares_that_are_no_distribution_are_refused(p):
    with pytest.raises(InputError, match="share"):
        greedy([binary_steps(0.7, 9)] * 2, p, 4, floor=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: envelope([0.5, 0.6], 0, 2),
        lambda: envelope([0.5, math.nan], 0, 1),
        lambda: envelope([0.5, 0.6], 2, 1),
        lambda: binary_steps(0.7, -1),
        lambda: probit_steps(Probit(1.0, 0.0), -1, 4),
        lambda: greedy([], [], 4, 0),
        lambda: greedy([binary_steps(0.7, 9)], [1.0], 4, -1),
        lambda: Steps(np.array([1, 1]), np.array([-1.0, -1.0])),
        lambda: Steps(np.array([1, 0]), np.array([-1.0, -2.0])),
        lambda: Steps(np.array([1]), np.array([-1.0, -2.0])),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(InputError):
        call()
