"""The probit curve against mpmath, its fits on curves with a known answer and on the paper's panels."""

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import differential_evolution
from scripts.paper.panels import PANELS

from pets.core.consistency import SC_curve
from pets.core.probit import (
    Probit,
    fit_probit_l1,
    fit_probit_regression,
    smooth_theta,
    sup_error,
)
from pets.errors import InputError


def l1_loss(probit, curves, weights=None):
    """sum_q w_q mean_{B >= 1} |SC_q(B) - Phi(a sqrt(B) + b)|, the weights scaled to sum 1."""
    SC = np.atleast_2d(curves)
    errors = np.abs(SC[:, 1:] - probit.curve(range(1, SC.shape[1]))).mean(axis=1)
    return float(np.average(errors, weights=weights))


B = np.arange(65)

# max_{B>=1} |SC - fit| at B_max = 64, rounded up from what was measured: (regression, L1). The worst point is
# at B = 1 to 3, because SC(theta; 2) = SC(theta; 1) for every theta and no probit with a > 0 stands still.
SUP_ERRORS = {
    (2, "dominate"): (0.034, 0.050),
    (2, "head-heavy"): (0.038, 0.058),
    (2, "linear"): (0.033, 0.043),
    (2, "flat"): (0.019, 0.023),
    (2, "uniform"): (1e-9, 1e-9),
    (4, "dominate"): (0.053, 0.063),
    (4, "head-heavy"): (0.055, 0.064),
    (4, "linear"): (0.048, 0.062),
    (4, "flat"): (0.009, 0.011),
    (4, "uniform"): (1e-9, 1e-9),
    (10, "dominate"): (0.049, 0.063),
    (10, "head-heavy"): (0.042, 0.047),
    (10, "linear"): (0.023, 0.033),
    (10, "flat"): (0.008, 0.011),
    (10, "uniform"): (1e-9, 1e-9),
}


def exact_log_gain(a, b, budget):
    with mpmath.workdps(80):
        z0, z1 = (mpmath.mpf(a) * mpmath.sqrt(n) + mpmath.mpf(b) for n in (budget, budget + 1))
        if z0 + z1 < 0:
            z0, z1 = -z1, -z0
        return float(mpmath.log((mpmath.erfc(z0 / mpmath.sqrt(2)) - mpmath.erfc(z1 / mpmath.sqrt(2))) / 2))


@pytest.mark.parametrize("a", [1e-9, 1e-4, 0.01, 0.5, 3.0, 90.0])
def test_log_gain_equals_mpmath_at_any_depth(a):
    for b, budget in product([-40.0, -1.0, 0.0, 0.3, 12.0], [0, 1, 100, 100_000]):
        exact = exact_log_gain(a, b, budget)
        assert float(Probit(a, b).log_gain(budget)) == pytest.approx(exact, rel=1e-14, abs=1e-12), (b, budget)


@given(st.floats(0, 2), st.floats(-3, 3))
def test_gain_is_the_difference_of_the_curve(a, b):
    probit = Probit(a, b)
    np.testing.assert_allclose(probit.gain(B[:-1]), np.diff(probit.curve(B)), rtol=0, atol=1e-15)


def test_flat_curve_gains_nothing():
    assert np.all(Probit(0, 0.3).log_gain(B) == -np.inf)
    assert Probit(0, 0.3).gain(7) == 0


@given(st.floats(0, 1.5), st.floats(-2, 1))
def test_regression_recovers_a_probit_curve(a, b):
    fit = fit_probit_regression(Probit(a, b).curve(B))
    assert (fit.a, fit.b) == pytest.approx((a, b), abs=1e-6)


@given(st.floats(0, 1.5), st.floats(-2, 1))
@settings(deadline=None, max_examples=20)
def test_l1_recovers_a_probit_curve(a, b):
    curve = Probit(a, b).curve(B)
    assert l1_loss(fit_probit_l1(curve), curve) < 1e-7


def test_saturated_points_neither_crash_nor_dominate():
    curve = SC_curve([0.97, 0.03], 64)
    assert np.any(curve == 1)
    assert sup_error(fit_probit_regression(curve), curve) < 0.02


def test_falling_curve_is_fitted_flat():
    fit = fit_probit_regression(np.linspace(0.6, 0.4, 65))
    assert fit.a == 0
    assert fit.b == pytest.approx(0, abs=0.05)


@given(st.lists(st.lists(st.integers(1, 30), min_size=2, max_size=4), min_size=1, max_size=4), st.data())
@settings(deadline=None, max_examples=25)
def test_l1_is_never_worse_than_the_regression(votes, data):
    curves = np.array([SC_curve(smooth_theta(counts), 24) for counts in votes])
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(votes), max_size=len(votes)))
    regression = fit_probit_regression(np.average(curves, axis=0, weights=weights))
    assert l1_loss(fit_probit_l1(curves, weights), curves, weights) <= l1_loss(regression, curves, weights) + 1e-12


def test_l1_finds_what_a_global_search_finds():
    curves = np.array([SC_curve(PANELS[4][name], 64) for name in ("dominate", "linear", "flat")])
    weights = [0.2, 0.5, 0.3]
    loss = l1_loss(fit_probit_l1(curves, weights), curves, weights)
    bounds = [(0, 3), (-3, 3)]
    best = differential_evolution(lambda p: l1_loss(Probit(*p), curves, weights), bounds, rng=0, tol=1e-8)
    assert loss <= best.fun + 1e-7


@pytest.mark.parametrize(("M", "name"), SUP_ERRORS)
def test_fits_track_the_papers_panels(M, name):
    curve = SC_curve(PANELS[M][name], 64)
    regression, l1 = SUP_ERRORS[M, name]
    assert sup_error(fit_probit_regression(curve), curve) <= regression
    assert sup_error(fit_probit_l1(curve), curve) <= l1


def test_panels_are_the_captions():
    assert {(M, name) for M, panel in PANELS.items() for name in panel} == set(SUP_ERRORS)
    for M, panel in PANELS.items():
        for theta in panel.values():
            assert len(theta) == M
            assert sum(theta) == pytest.approx(1, abs=1e-12)
            assert list(theta) == sorted(theta, reverse=True)
    assert PANELS[10]["head-heavy"][3] == pytest.approx(0.0714, abs=5e-5)


def test_smoothing_makes_a_unanimous_pool_fittable():
    unanimous = SC_curve([1.0, 0.0], 64)
    for fit in (fit_probit_regression, fit_probit_l1):
        with pytest.raises(InputError, match="smooth_theta"):
            fit(unanimous)
    with pytest.raises(InputError, match="smooth_theta"):
        fit_probit_l1([SC_curve([0.6, 0.4], 64), unanimous])
    assert fit_probit_regression(SC_curve(smooth_theta([64]), 64)).a > 0


def test_smooth_theta_adds_unseen_slots():
    np.testing.assert_allclose(smooth_theta([6, 2]), [6.5 / 9.5, 2.5 / 9.5, 0.5 / 9.5])
    np.testing.assert_allclose(smooth_theta([6, 2], options=4), [0.65, 0.25, 0.05, 0.05])
    np.testing.assert_allclose(smooth_theta([6, 2], pseudo=1, options=2), [0.7, 0.3])


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Probit(-0.1, 0),
        lambda: Probit(float("inf"), 0),
        lambda: Probit(0.1, float("nan")),
        lambda: Probit(0.1, 0).curve(-1),
        lambda: Probit(0.1, 0).log_gain([1, np.nan]),
        lambda: fit_probit_regression([]),
        lambda: fit_probit_regression([0.5, 0.6]),
        lambda: fit_probit_regression([0.5, 0.6, np.nan]),
        lambda: fit_probit_regression([0.5, 0.6, 1.1]),
        lambda: fit_probit_regression([[0.5, 0.6, 0.7]]),
        lambda: fit_probit_l1([]),
        lambda: fit_probit_l1([[0.5, 0.6, 0.7], [0.5, 0.6]]),
        lambda: fit_probit_l1([0.5, 0.6, 0.7], weights=[1, 1]),
        lambda: fit_probit_l1([0.5, 0.6, 0.7], weights=[0]),
        lambda: fit_probit_l1([0.5, 0.6, 0.7], weights=[-1]),
        lambda: sup_error(Probit(0.1, 0), [0.5]),
        lambda: smooth_theta([]),
        lambda: smooth_theta([0, 0]),
        lambda: smooth_theta([3, -1]),
        lambda: smooth_theta([3], pseudo=0),
        lambda: smooth_theta([3, 1, 1], options=2),
    ],
)
def test_bad_inputs_are_refused(bad):
    with pytest.raises(InputError):
        bad()
