"""Rows: one for each pool, policy and metric."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from pets.errors import InputError
from pets.lab import ReplayConfig, area, certificates, reached, replay, rows
from pets.lab.calibration import calibrate


@pytest.fixture(scope="module")
def results(build):
    return replay([build(questions=20)], ["uniform", "okg", "asc", "price"], repetitions=4, size=16, train=6)


def pick(table, policy, metric, setting=None):
    (row,) = [
        row
        for row in table
        if (row.policy, row.metric) == (policy, metric) and row.option is None and setting in (None, row.setting)
    ]
    return row


def test_a_metric_is_summed_up_over_repetitions(results):
    first = reached(results[0].result("okg"), 1.0).first
    row = pick(rows(results), "okg", "traces_first_1")
    assert row.mean == pytest.approx(first.mean()) and row.sd == pytest.approx(first.std(ddof=1))
    assert (row.median, row.reached, row.repetitions, row.questions) == (np.median(first), 4, 4, 20)


def test_differences_are_paired(results):
    row = pick(rows(results), "okg", "area")
    test = ttest_rel(area(results[0].result("okg")), area(results[0].result("uniform")))
    low, high = test.confidence_interval(0.95)
    assert (row.against, row.low, row.high) == ("uniform", pytest.approx(low), pytest.approx(high))
    assert pick(rows(results), "uniform", "area", "offline").against is None


def test_the_limit_and_each_policys_multiple_of_it(build):
    (pool,) = replay([build(nulls=0.0)], ["uniform", "asc"], repetitions=2, size=12)
    table = rows([pool])
    least = pick(table, "", "traces_limit_0.95").mean
    assert least == pytest.approx(pool.limit.traces_at(0.95)) and 0 < least < 12
    ratio = pick(table, "asc", "limit_ratio_0.95").mean
    assert ratio == pytest.approx(pick(table, "asc", "traces_at_mean_0.95").mean / least)


@pytest.mark.parametrize(
    ("nulls", "settings", "why"),
    [
        (0.0, {"reference": "disjoint"}, "unweighted vote of the whole pool"),
        (0.0, {"size": 70}, "ask for it with --attainable"),
    ],
)
def test_where_there_is_no_limit_it_is_said_why(build, nulls, settings, why):
    (pool,) = replay([build(nulls=nulls, traces=70)], ["uniform"], repetitions=1, **settings)
    assert pool.limit is None and why in pool.no_limit
    assert not any("limit" in row.metric for row in rows([pool]))


def test_rows_of_certificates_are_calibrated_over_all_budgets_and_pools(build):
    pools = [build("one"), build("two", seed=1)]
    results = replay(
        pools, ["uniform", "okg", "asc"], repetitions=2, size=16, certified=(2.0, 4.0, 99.0), tolerance=0.2
    )
    alone = [group for result in results for group in result.result("okg").certified]
    plain, zone = ([group for group in alone if group.zone == width] for width in (0.0, 0.2))
    table = rows(results)
    (together,) = [row for row in table if (row.pool, row.policy, row.metric) == ("", "okg", "certificate_error")]
    assert together.mean == pytest.approx(calibrate(plain).error)
    assert list(certificates(results)) == ["uniform", "uniform, zone 0.2", "okg", "okg, zone 0.2"]
    assert certificates(results)["okg, zone 0.2"].error == pytest.approx(calibrate(zone).error)
    (brier,) = [row for row in table if (row.pool, row.policy, row.metric) == ("one", "okg", "certificate_brier")]
    assert brier.mean == pytest.approx(calibrate(plain[:4]).brier)
    with pytest.raises(InputError, match="majority vote"):
        ReplayConfig(weighted=True, certified=(4.0,))


def test_the_matched_policy_is_at_one(results):
    table = rows(results)
    assert pick(table, "okg", "consistency_matched").mean == 1.0
    assert pick(table, "uniform", "consistency_matched", "offline").mean < 1.0
    assert not any(row.metric == "consistency_matched" for row in rows(results, matched="esc"))


def test_what_was_not_reached_is_counted(build):
    results = replay([build(questions=20)], ["its_adaptive:threshold=0.5"], repetitions=3, size=16)
    row = pick(rows(results), "its_adaptive:threshold=0.5", "traces_first_1")
    assert (row.mean, row.sd, row.reached, row.repetitions) == (None, None, 0, 3)


def test_sweeps_and_curves_are_rows_too(results):
    table = rows(results)
    swept = [row for row in table if row.policy == "price" and row.metric == "budget_used"]
    assert [row.value for row in swept] == list(results[0].result("price").values) and swept[0].option == "budget"
    curve = [row.mean for row in table if (row.policy, row.metric, row.option) == ("okg", "consistency", "budget")]
    assert len(curve) == 16 and curve[-1] == 1.0


def test_the_bounds_belong_to_the_pool(results):
    bounds = {row.metric: row.mean for row in rows(results) if not row.policy}
    limits = {f"traces_{kind}_{level}" for kind in ("limit", "zone_limit") for level in (0.95, 0.99)}
    assert set(bounds) == {"tied_targets", "ceiling", "pass_at_1", "vote_accuracy", *limits}
    assert bounds["ceiling"] == 1.0 and bounds["traces_zone_limit_0.99"] <= bounds["traces_limit_0.99"]


def test_an_unknown_reference_is_told(results):
    with pytest.raises(InputError, match="no result of 'esc'; it has uniform, okg, asc, price"):
        rows(results, against="esc")


def test_every_row_tells_the_seed_that_its_draws_came_from(build):
    pools = [build(), replace(build(), name="other")]
    results = replay(pools, ["uniform"], repetitions=2, size=8, seed=3, certified=(4,))
    table = rows(results)
    assert {row.seed for row in table} == {3} and {row.pool == "" for row in table} == {False, True}
