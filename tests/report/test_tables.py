"""Tables: their columns and cells."""

from dataclasses import replace

import numpy as np
import pytest

from pets.lab import ReplayConfig, certificates, replay, rows
from pets.lab.mixture import Candidate, ChosenModels, MixtureLab
from pets.report.tables import (
    certificate_table,
    choice_table,
    clock_table,
    mixture_table,
    pool_table,
)

CONFIG = ReplayConfig(2, 16, budgets=(8.0,))


def test_a_pool_has_a_row_for_each_policy_and_says_what_bounds_it(pool_result):
    table = pool_table(pool_result, rows([pool_result]))
    assert list(table.columns[0].cells) == [result.policy for result in pool_result.results]
    assert table.title.startswith("toy: 14 questions x 16 traces, 2 repetitions, pass@1")


def test_the_clock_has_a_row_for_each_hurry_and_no_accuracy_without_gold(timed_pool):
    bare = replace(timed_pool, questions=tuple(replace(question, gold=None) for question in timed_pool.questions))
    (result,) = replay([bare], ["lead", "all:8"], clock=True, repetitions=2, size=12)
    table = clock_table(result)
    assert list(table.columns[1].cells) == ["hurry 0", "hurry 0.25", "hurry 0.5", "hurry 1", "hurry 2", ""]
    assert set(table.columns[6].cells) == {"-"}


@pytest.fixture(scope="module")
def certified(pool):
    return replay([pool], ["uniform", "okg", "asc"], config=ReplayConfig(2, 16, certified=(4.0, 8.0)))


def test_the_table_has_a_row_for_each_offline_policy(certified):
    table = certificate_table(rows(certified))
    assert list(table.columns[1].cells) == ["uniform", "uniform, zone", "okg", "okg, zone"]
    assert list(table.columns[5].cells)[2] == f"{certificates(certified)['okg'].error:.4f}"
    assert certificate_table([]) is None


def test_a_mixture_stands_beside_its_models_with_tokens_where_there_are_some():
    rows = [("a", (0,), np.full((2, 1), 40.0)), ("b", (1,), None), ("a+b", (0, 1), None), ("a=2+b=1", (0, 1), None)]
    candidates = [
        Candidate(name, models, (1.0,) * len(models), np.array([[1.0], [0.5]]), tokens) for name, models, tokens in rows
    ]
    lab = MixtureLab("set.a+b", 2, (4,), tuple(candidates))
    table = mixture_table(lab, shown=3)
    assert list(table.columns[0].cells) == ["a", "b", "a+b"]
    assert list(table.columns[1].cells) == ["0.750 (40)", "0.750", "0.750"] and table.columns[1].header == "4"
    chosen = choice_table(lab, [ChosenModels(4, 0.7, 0.8, 0.79, 0.1, -0.05, 0.2, 1234.4, None, "a+b", 0.6)])
    assert [list(column.cells) for column in chosen.columns] == [
        ["4"], ["0.700 (1,234)"], ["0.800"], ["0.790"], ["+0.100 (-0.050 to +0.200)"], ["a+b (60%)"]]  # fmt: skip
