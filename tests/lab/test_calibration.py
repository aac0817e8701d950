"""Calibration: what is paired with what, and the scores by hand."""

from dataclasses import replace

import numpy as np
import pytest

from pets.core.tally import majority
from pets.errors import InputError
from pets.lab import replay
from pets.lab.calibration import Bin, Certified, calibrate
from pets.lab.config import ReplayConfig
from pets.lab.draws import draw_traces
from pets.lab.labelled import read_answers


def certify(pool, policies, budgets, config):
    (replayed,) = replay([pool], policies, config=replace(config, certified=budgets))
    return [certified for result in replayed.results for certified in result.certified]


def given(certificate, share, right):
    return Certified("toy", "okg", 4.0, np.array(certificate), np.array(share), np.array(right))


def test_the_scores_are_those_of_the_definition():
    certified = calibrate(
        [given([0.95, 1.0, 0.05], [0.5, 1.0, 0.5], [True, True, False]), given([0.55], [0.6], [False])]
    )
    assert certified.count == 4 and certified.right == 0.5 and certified.certificate == pytest.approx(2.55 / 4)
    assert certified.error == pytest.approx((0.05 + 0.05 + 0.55) / 4)
    assert certified.brier == pytest.approx((0.05**2 + 0.0 + 0.05**2 + 0.55**2) / 4)
    assert certified.brier_constant == 0.25 and certified.brier_share == pytest.approx((0.25 + 0.0 + 0.25 + 0.36) / 4)
    assert certified.bins[9] == Bin(0.9, 1.0, 2, pytest.approx(0.975), 1.0)
    assert certified.bins[1] == Bin(0.1, 0.2, 0, None, None) and len(certified.bins) == 10


def test_gaps_of_one_bin_cancel_and_of_two_do_not():
    certified = given([0.4, 0.6], [1.0, 1.0], [False, True])
    assert calibrate([certified], bins=1).error == pytest.approx(0.0)
    assert calibrate([certified], bins=2).error == pytest.approx(0.4)
    with pytest.raises(InputError, match="at least one"):
        calibrate([])


def test_every_question_of_every_repetition_is_certified_at_every_budget(pool):
    read, config = read_answers(pool), ReplayConfig(repetitions=2, size=16, tolerance=0.0)
    certified = certify(pool, ["okg", "uniform"], (2.0, 4.0), config)
    runs = [(policy, budget) for policy in ("okg", "uniform") for budget in (2, 4) for _ in range(2)]
    assert [(group.policy, group.budget) for group in certified] == runs
    for repetition, uniform in enumerate(certified[6:]):
        paths = [[trace.answer for trace in path] for path in draw_traces(read, config, repetition).traces.values()]
        expected = [(majority(path[:4]), majority(path)) for path in paths]
        assert uniform.right.tolist() == [now is not None and now == end for now, end in expected]
        assert all((c > 0) == (now is not None) for c, (now, _) in zip(uniform.certificate, expected, strict=True))
        assert np.all((uniform.certificate >= 0) & (uniform.certificate <= 1))


def test_who_has_drawn_everything_is_certain_and_right(pool):
    for group in certify(pool, ["okg", "uniform"], (8.0,), ReplayConfig(repetitions=1, size=8)):
        assert group.right.all() and group.certificate == pytest.approx(np.ones(12))


def test_certificates_of_the_models_own_questions_are_calibrated(build):
    made = [build(f"toy{seed}", 150, 32, nulls=0.05, seed=seed) for seed in range(2)]
    certified = [group for p in made for group in certify(p, ["okg", "uniform"], (8.0,), ReplayConfig(1, 32))]
    scores = calibrate(certified)
    assert scores.error < 0.04 and scores.brier < min(scores.brier_constant, scores.brier_share)


def test_the_zones_certificates_are_held_against_good_verdicts(pool):
    read, config = read_answers(pool), ReplayConfig(repetitions=2, size=16, tolerance=0.2)
    groups = certify(pool, ["uniform"], (4.0,), config)
    assert [group.zone for group in groups] == [0.0, 0.0, 0.2, 0.2]
    for repetition, (plain, zone) in enumerate(zip(groups[:2], groups[2:], strict=True)):
        draw = draw_traces(read, config, repetition)
        assert zone.right.tolist() == draw.outcomes.good[:, 4].tolist()
        assert np.all(zone.certificate >= plain.certificate - 1e-6) and zone.right.sum() >= plain.right.sum()


def test_with_disjoint_halves_certificates_are_for_infinity(build):
    pool = build(questions=60, traces=60, nulls=0.0)
    (whole,) = certify(pool, ["uniform"], (4.0,), ReplayConfig(1, size=30, tolerance=0.0))
    (forever,) = certify(pool, ["uniform"], (4.0,), ReplayConfig(1, size=30, tolerance=0.0, reference="disjoint"))
    assert forever.certificate.mean() < whole.certificate.mean()  # a vote that shares no trace is further away


def test_a_calibrated_forecaster_errs_by_its_null():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 1.0, 500)
    errors = []
    for _ in range(100):
        scores = calibrate([given(p, p, rng.random(500) < p)])
        errors.append(scores.error)
    assert 0.85 < np.mean(np.array(errors) < scores.null) <= 1.0
    assert scores.null == pytest.approx(scores.null_questions, rel=0.25)  # one repetition: the coins are the same
    again = [Certified("toy", "okg", 4.0, p, p, p > 0.5)] * 20
    assert calibrate(again).null_questions > 2 * calibrate(again).null
