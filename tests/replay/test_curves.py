"""Curves read off runs: what each point of an order, or of a sweep's sizes, adds up to."""

import numpy as np
import pytest

from pets.replay.config import ReplayConfig
from pets.replay.curves import curve_of_order, curve_of_sizes
from pets.replay.draws import draw
from pets.replay.labelled import read_answers


@pytest.fixture
def drawn(pool):
    return draw(read_answers(pool), ReplayConfig(size=8), 1)


def test_a_run_that_ends_early_stays_where_it_is(drawn):
    curve = curve_of_order(np.array([3, 3, 0]), drawn)
    assert (
        curve.agree[3] == int(drawn.agree[3, 2]) + int(drawn.agree[0, 1]) and (curve.agree[3:] == curve.agree[3]).all()
    )


def test_sizes_pick_the_prefixes(drawn):
    curve = curve_of_sizes(np.array([[1, 2], [8, 0]]), drawn, np.array([4, 7]))
    assert curve.traces.tolist() == [3, 8] and curve.questions == 2
    assert curve.agree.tolist() == [int(drawn.agree[4, 1]) + int(drawn.agree[7, 2]), int(drawn.agree[4, 8])]
