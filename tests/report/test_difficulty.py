"""Budget against difficulty: the sizes drawn are those that the replay spent."""

import numpy as np
import pytest

from pets.lab import ReplayConfig, read_answers, replay, traces_at_mean
from pets.report.difficulty import draw_difficulty, leader_share, spreads
from pets.report.style import drawn_svg


def test_a_curve_spends_what_its_mean_curve_needs(pool_result):
    by_label = {spread.label: spread.traces for spread in spreads(pool_result)}
    for policy in ("uniform", "okg:prior=1"):
        assert by_label[policy].mean() == pytest.approx(traces_at_mean(pool_result.result(policy), 0.99), abs=1 / 14)


def test_a_sweep_spends_what_its_cheapest_good_value_spent(pool_result):
    by_label = {spread.label: spread.traces for spread in spreads(pool_result)}
    for policy in ("asc", "dsc"):
        result = pool_result.result(policy)
        means = result.traces.mean(axis=0)[result.consistency.mean(axis=0) >= 0.99]
        assert by_label[policy].mean() == pytest.approx(means.min())


def test_streams_leave_training_questions_out(pool):
    (pool_result,) = replay([pool], ["online_grid"], config=ReplayConfig(1, 16, budgets=(16.0,)))
    (spread,) = spreads(pool_result)
    assert np.isnan(spread.traces).sum() == 10
    assert np.nansum(spread.traces) == pool_result.results[0].spent[0, 0]


def test_a_level_that_is_never_reached_is_said(pool):
    (pool_result,) = replay([pool], ["uniform", "online_grid"], config=ReplayConfig(1, 16, budgets=(4.0,)))
    chart = draw_difficulty(pool_result, read_answers(pool), level=1.0)
    assert spreads(pool_result, 1.0)[1].traces is None
    assert chart["concat"][1]["mark"]["text"] == "never gets there"


def test_every_question_is_a_dot_with_its_traces(pool, pool_result):
    uniform, *_ = draw_difficulty(pool_result, read_answers(pool))["concat"]
    dots = uniform["layer"][0]["data"]["values"]
    assert [dot["id"] for dot in dots] == [question.id for question in pool.questions]
    assert "Where the traces went" in drawn_svg(draw_difficulty(pool_result, read_answers(pool)))


def test_difficulty_is_the_leaders_share_of_the_votes(pool):
    question = read_answers(pool).questions[0]
    assert leader_share(question) == max(map(question.labels.count, "ABC")) / len(question.labels)
