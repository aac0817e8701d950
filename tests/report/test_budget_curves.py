"""Curves against the budget: closed forms where the posterior is nearly certain, and the order of a policy's worth."""

from collections import Counter

import numpy as np
import pytest

from pets.core.consistency import SC_curve
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.engine.forecast import Forecast
from pets.policies.asc import ASC
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform
from pets.report.budget_curves import SELF_CONSISTENCY, RunQuestion, budget_curves, launch_order

PRIOR = LearnedPrior()


def asked(answers, right=None, options=4):
    labels = tuple(None if answer == "-" else answer for answer in answers)
    return RunQuestion(Tally.of(labels, options=options), labels, (9,) * len(labels), right)


def believed(counts, nulls=0):
    """A question of which nothing but the shares is known: its own traces are not played again."""
    return RunQuestion(Tally(counts, nulls, options=2), (), ())


def test_questions_whose_shares_are_known_follow_the_exact_curve():
    uniform, run = budget_curves([believed((7_000, 3_000))] * 400, PRIOR, OKG(), most=9)
    exact = SC_curve([0.7, 0.3], 9)[1:]
    odd = slice(None, None, 2)  # an even vote may be tied: the first seen wins here, a coin there
    assert uniform[SELF_CONSISTENCY].mean[odd] == pytest.approx(exact[odd], abs=0.02) and not run
    assert "accuracy" not in uniform


def test_traces_without_an_answer_cast_no_vote():
    full, _ = budget_curves([believed((700, 300))] * 200, PRIOR, OKG(), most=8)
    half, _ = budget_curves([believed((700, 300), 1_000)] * 200, PRIOR, OKG(), most=8)
    assert np.all(half[SELF_CONSISTENCY].mean[1:] < full[SELF_CONSISTENCY].mean[1:])


def test_a_near_tie_is_good_within_the_zone():
    near = [believed((5_100, 4_900))] * 100
    plain, _ = budget_curves(near, PRIOR, OKG(), most=5)
    zoned, _ = budget_curves(near, PRIOR, OKG(), most=5, zone=0.1)
    assert np.all(plain[SELF_CONSISTENCY].mean < 0.7) and np.all(zoned[SELF_CONSISTENCY].mean == 1.0)


QUESTIONS = [
    asked("AAA", frozenset("A")),
    asked("ABABBABBBCBBBB", frozenset("B")),
    asked("-BCBCB", frozenset("B")),
    asked("CC"),
]


def test_the_run_ends_with_all_of_its_traces_and_counts_its_accuracy():
    uniform, run = budget_curves(QUESTIONS, PRIOR, OKG(), most=16)
    total = sum(len(question.answers) for question in QUESTIONS)
    traces, accuracy = run[SELF_CONSISTENCY].traces, run["accuracy"]
    assert traces[0] == 1.0 and traces[-1] == total / 4 and np.all(np.diff(traces) > 0)
    assert accuracy.mean[0] == pytest.approx(1 / 3)  # A is right, A is wrong, no vote is wrong; one has no gold
    assert accuracy.mean[-1] == 1.0 and accuracy.low == pytest.approx(accuracy.high)
    # One trace each is the same for both.
    assert run[SELF_CONSISTENCY].mean[0] == pytest.approx(uniform[SELF_CONSISTENCY].mean[0])
    assert accuracy.mean[0] == pytest.approx(uniform["accuracy"].mean[0])


def test_uniform_as_spent_takes_the_questions_by_turns():
    _, run = budget_curves([asked("AAAA"), asked("ABAB")], PRIOR, Uniform(), most=4)
    assert run[SELF_CONSISTENCY].traces.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]


def test_what_disagrees_is_worth_more_than_what_agrees():
    questions = [asked("AAAAAAAA"), asked("ABABABAB")]
    order = launch_order(questions, OKG())
    assert Counter(order) == {0: 8, 1: 8}
    assert Counter(order[:10])[1] > Counter(order[:10])[0]


def test_a_stopping_rule_has_no_curve():
    uniform, run = budget_curves(QUESTIONS, PRIOR, ASC(), most=4)
    assert run == {} and len(uniform[SELF_CONSISTENCY].traces) == 4


def test_the_budget_for_a_level_is_read_off_the_curve():
    uniform, _ = budget_curves([believed((7_000, 3_000))] * 100, PRIOR, OKG(), most=9)
    curve = Forecast(uniform[SELF_CONSISTENCY].traces, uniform[SELF_CONSISTENCY].mean)
    assert curve.budget_for(0.75) < curve.budget_for(0.85) and curve.budget_for(0.999) is None
