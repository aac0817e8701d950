"""The paper's figures and tables: the numbers behind them."""

import csv

import numpy as np
import pytest

from pets.core.consistency import SC_curve
from pets.core.probit import sup_error
from pets.replay import Protocol, read_answers, replay
from pets.report.plan import MEANS, THETAS, budget_plan, draw_plan
from pets.report.sweeps import bin_sweep
from pets.report.tables import clock_table, sweep_table, write_csv
from pets.report.voting import draw_voting, voting_curves
from pets.report.wallclock import wall_clock


def test_both_plans_spend_the_mean_and_ease_ranks_the_large_ones():
    rows = budget_plan((4, 64), batches=20)
    for mean in (4, 64):
        chosen = [row for row in rows if row.mean_budget == mean]
        assert [row.theta for row in chosen] == list(THETAS)
        assert np.mean([row.offline for row in chosen]) == pytest.approx(mean)
        assert np.mean([row.online for row in chosen]) == pytest.approx(mean)
    online = [row.online for row in rows if row.mean_budget == 64]
    assert sorted(online, reverse=True) == online
    assert rows == budget_plan((4, 64), batches=20)


def test_the_plans_grow_alike():
    rows = budget_plan((4, 256), batches=20)
    shares = {mean: np.array([[r.offline, r.online] for r in rows if r.mean_budget == mean]) for mean in (4, 256)}
    gaps = {mean: np.abs(np.subtract(*(table / table.sum(axis=0)).T)).sum() / 2 for mean, table in shares.items()}
    assert gaps[256] < 0.1 < gaps[4]


def test_the_plan_has_a_panel_a_mean_budget():
    figure = draw_plan(budget_plan((2, 4), batches=2))
    assert [axes.get_title() for axes in figure.axes] == ["mean budget 2", "mean budget 4"] and len(MEANS) == 4
    assert [bar.get_height() for bar in figure.axes[0].patches][9:] == [
        row.online for row in budget_plan((2,), batches=1)
    ]


def test_voting_panels_show_exact_curves_and_both_fits():
    curves = voting_curves()
    assert [curve.options for curve in curves] == [2] * 5 + [4] * 5 + [10] * 5
    linear = next(curve for curve in curves if (curve.options, curve.name) == (4, "linear"))
    assert np.array_equal(linear.exact, SC_curve([0.4, 0.3, 0.2, 0.1], 64))
    assert linear.row()["l1_sup_error"] == sup_error(linear.l1, linear.exact) < 0.1
    figure = draw_voting(curves)
    assert [axes.get_title() for axes in figure.axes] == ["M = 2 options", "M = 4 options", "M = 10 options"]
    assert np.array_equal(figure.axes[1].lines[6].get_ydata(), linear.exact[1:])


def test_the_sweep_says_what_replay_found(pool, tmp_path):
    protocol = Protocol(2, 16, budgets=(8.0,))
    rows = bin_sweep([pool], protocol)
    assert [(row.policy, row.K) for row in rows] == [
        *(("oracle", K) for K in (2, 3, 5, 8)),
        *(("online_grid", K) for K in (2, 3, 4, 5)),
    ]
    (found,) = replay([pool], ["oracle:K=3"], protocol=protocol)
    (result,) = found.results
    assert (rows[1].consistency, rows[1].accuracy) == (result.consistency.mean(), result.accuracy.mean())
    written = list(csv.DictReader(write_csv(tmp_path / "sweep.csv", rows).read_text().splitlines()))
    assert [float(line["consistency"]) for line in written] == [row.consistency for row in rows]
    table = sweep_table(rows, "oracle", "Oracle")
    assert [column.header for column in table.columns] == ["pool", "K = 2", "K = 3", "K = 5", "K = 8"]
    assert list(table.columns[2].cells) == [f"{rows[1].accuracy:.4f} / {rows[1].consistency:.4f}"]


def test_the_clock_runs_on_whole_budgets(pool):
    rows = wall_clock(read_answers(pool), Protocol(2, 16, budgets=(8.0,)))
    by_policy = {row.policy: row for row in rows}
    assert by_policy["okg:prior=1"].traces == 14 * 8 and by_policy["uniform"].traces == 4 * 8
    assert 4 * 4 <= by_policy["online_grid"].traces <= 4 * 8
    assert all(row.seconds > 0 for row in rows)
    assert len(clock_table(rows, "Wall clock").columns) == 4
