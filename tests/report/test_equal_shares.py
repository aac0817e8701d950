"""What equal shares would bring: against closed forms where the posterior is nearly certain."""

import numpy as np
import pytest

from pets.core.consistency import SC_curve
from pets.core.prior import LearnedPrior
from pets.core.tally import Tally
from pets.report.equal_shares import equal_shares


def test_questions_whose_shares_are_known_follow_the_exact_curve():
    shares = equal_shares([Tally((7_000, 3_000), options=2)] * 400, LearnedPrior(), most=9)
    exact = SC_curve([0.7, 0.3], 9)[1:]
    odd = slice(None, None, 2)  # an even vote may be tied: the first seen wins here, a coin there
    assert shares.consistency[odd] == pytest.approx(exact[odd], abs=0.02)


def test_traces_without_an_answer_cast_no_vote():
    full = equal_shares([Tally((700, 300), options=2)] * 200, LearnedPrior(), most=8)
    half = equal_shares([Tally((700, 300), 1_000, options=2)] * 200, LearnedPrior(), most=8)
    assert np.all(half.consistency[1:] < full.consistency[1:])
