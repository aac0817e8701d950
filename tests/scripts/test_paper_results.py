"""The paper's result tables: who is compared at whose spend."""

from dataclasses import replace

import numpy as np
import pytest
from scripts.paper.layout import result_table
from scripts.paper.results import BUDGETS, not_given, paper_results
from tests.report.conftest import make_pool

from pets.lab import ReplayConfig, at_spend, reached, replay
from pets.pools import PooledQuestion

CONFIG = ReplayConfig(2, 16)


def with_confidences(pool):
    rng = np.random.default_rng(1)
    return replace(
        pool,
        questions=tuple(
            PooledQuestion(q.id, q.answers, q.gold, confidence=tuple(rng.uniform(1, 9, len(q.answers)).tolist()))
            for q in pool.questions
        ),
    )


def test_methods_are_matched_at_the_spend_of_pets_in_their_own_setting(pool):
    rows = {(row.setting, row.method): row for row in paper_results([pool], CONFIG)}
    budgets = tuple(budget for budget in BUDGETS if budget <= 16)
    (result,) = replay([pool], ["okg:prior=1", "uniform", "online_grid"], config=replace(CONFIG, budgets=budgets))
    for setting, ours in (("offline", "okg:prior=1"), ("online", "online_grid")):
        pets, uniform = result.result(ours, setting), result.result("uniform", setting)
        spends = reached(pets, 1.0).first
        expected = at_spend(uniform, uniform.consistency, spends)
        row = rows[setting, "Uniform"]
        assert row.consistency == pytest.approx(np.nanmean(expected), nan_ok=True) or not np.isfinite(expected).any()
        traces = reached(uniform, 1.0).first * uniform.questions
        assert row.traces == pytest.approx(np.nanmean(traces))
    assert ("online", "PETS-Oracle") in rows and not any("conf" in method for _, method in rows)


def test_conf_rows_are_given_where_there_are_confidences_and_what_is_not_is_said(pool):
    sure = with_confidences(make_pool("sure", questions=12, traces=20))
    rows = paper_results([sure], CONFIG)
    methods = {row.method for row in rows}
    assert {"PETS-Offline (conf)", "Uniform (conf)", "Conf. guided, keep 10 %", "PETS-Online (conf)"} <= methods
    assert not_given([sure], CONFIG) == []
    bare, few = not_given([pool, make_pool("few", questions=5)], CONFIG)
    assert "not in toy, few" in bare and few.endswith("few.")
    table = result_table(rows, "offline")
    assert table.row_count == sum(row.setting == "offline" for row in rows) and table.columns[1].header == "method"
