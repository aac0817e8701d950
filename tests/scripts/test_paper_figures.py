"""The paper's figures: the numbers behind them."""

import numpy as np
import pytest
from scripts.paper.figures import MEANS, THETAS, budget_plan, draw_plan, draw_voting, voting_curves

from pets.core.consistency import SC_curve
from pets.core.probit import sup_error
from pets.report.style import drawn_svg


def test_both_plans_spend_the_mean_and_ease_ranks_the_large_ones():
    rows = budget_plan((4, 64), batches=20)
    for mean in (4, 64):
        plan = [row for row in rows if row.mean_budget == mean]
        assert [row.theta for row in plan] == list(THETAS)
        assert np.mean([row.offline for row in plan]) == pytest.approx(mean)
        assert np.mean([row.online for row in plan]) == pytest.approx(mean)
    online = [row.online for row in rows if row.mean_budget == 64]
    assert sorted(online, reverse=True) == online
    assert rows == budget_plan((4, 64), batches=20)


def test_the_plans_grow_alike():
    rows = budget_plan((4, 256), batches=20)
    shares = {mean: np.array([[r.offline, r.online] for r in rows if r.mean_budget == mean]) for mean in (4, 256)}
    gaps = {mean: np.abs(np.subtract(*(table / table.sum(axis=0)).T)).sum() / 2 for mean, table in shares.items()}
    assert gaps[256] < 0.1 < gaps[4]


def test_the_plan_has_a_panel_a_mean_budget():
    chart = draw_plan(budget_plan((2, 4), batches=2))
    panels = chart["hconcat"]
    assert [panel["title"]["text"] for panel in panels] == ["mean budget 2", "mean budget 4"] and len(MEANS) == 4
    bars = [bar["traces"] for bar in panels[0]["data"]["values"] if bar["plan"].startswith("online")]
    assert bars == [row.online for row in budget_plan((2,), batches=1)]
    assert "Where a budget goes" in drawn_svg(chart)


def test_voting_panels_show_exact_curves_and_both_fits():
    curves = voting_curves()
    assert [curve.options for curve in curves] == [2] * 5 + [4] * 5 + [10] * 5
    linear = next(curve for curve in curves if (curve.options, curve.name) == (4, "linear"))
    assert np.array_equal(linear.exact, SC_curve([0.4, 0.3, 0.2, 0.1], 64))
    assert linear.row()["l1_sup_error"] == sup_error(linear.l1, linear.exact) < 0.1
    chart = draw_voting(curves)
    panels = chart["hconcat"]
    assert [panel["title"]["text"] for panel in panels] == ["M = 2 options", "M = 4 options", "M = 10 options"]
    dots = [dot["SC"] for dot in panels[1]["layer"][0]["data"]["values"] if dot["label"] == "linear"]
    assert dots == linear.exact[1:].tolist()
    assert "head-heavy" in drawn_svg(chart)
