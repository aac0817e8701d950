"""Planning backwards: a forecast begins where the run stands, and rises."""

from collections import Counter

import pytest

from pets.core.certificate import expected_consistency
from pets.core.prior import fit_prior
from pets.core.tally import Tally
from pets.engine.forecast import forecast
from pets.errors import InputError
from pets.policies.okg import OKG
from pets.policies.uniform import Uniform


def test_a_forecast_begins_where_the_run_stands_and_rises():
    tallies = [Tally((3,), options=4)] * 40 + [Tally((2, 1), options=4)] * 10
    found = forecast(tallies, OKG(), up_to=12, paths=600)
    assert found.mean_budget[0] == 3.0 and found.consistency[-1] > found.consistency[0]
    middle = (found.consistency[0] + found.consistency[-1]) / 2
    assert 3.0 < found.budget_for(middle) < 12.0
    assert found.budget_for(1.0 + 1e-9) is None and found.budget_for(0.1) == 3.0
    with pytest.raises(InputError, match="index policy"):
        forecast(tallies, Uniform())
    with pytest.raises(InputError, match="spent already"):
        forecast(tallies, OKG(), up_to=2)


def test_a_large_batch_is_forecast_as_a_whole_whatever_its_order():
    """Every second question is split: a simulation of some of them must not see the others alone."""
    tallies = [Tally((2,), options=4), Tally((1, 1), options=4)] * 700
    played = forecast(tallies, OKG(), up_to=2.2, paths=1000)
    now, *_ = expected_consistency(tallies, fit_prior(dict.fromkeys(tallies[:2], 700)))
    assert played.consistency[0] == pytest.approx(now, abs=0.03)


def test_a_forecast_begins_at_the_figure_that_the_run_prints():
    """Both mean the vote over infinitely many traces."""
    tallies = [Tally((3,), options=4)] * 150 + [Tally((2, 1), options=4)] * 50
    played = forecast(tallies, OKG(), up_to=3.1)
    mean, *_ = expected_consistency(tallies, fit_prior(Counter(tallies)))
    assert played.consistency[0] == pytest.approx(mean, abs=0.02)


def test_no_question_gets_more_than_its_cap():
    near_ties = [Tally((2, 2), options=2)] * 20
    capped = forecast(near_ties, OKG(), max_traces=6, paths=80)
    assert capped.mean_budget[-1] == 6.0 and capped.budget_for(0.99) is None
    assert forecast([Tally((3, 3), options=2)] * 4, OKG(), max_traces=6, paths=80).mean_budget.tolist() == [6.0] * 96


def test_targets_that_are_near_end_the_forecast_early():
    near_ties = [Tally((2, 1), options=2)] * 20
    near, far = (forecast(near_ties, OKG(), max_traces=20, targets=[target], paths=80) for target in (0.5, 0.999))
    assert (near.mean_budget[-1], far.mean_budget[-1]) == (12.0, 20.0)
