"""Curves read off runs: what each point of an order, or of a sweep's sizes, adds up to."""

import numpy as np
import pytest

from pets.lab.config import ReplayConfig
from pets.lab.curves import curve_of_order, curve_of_sizes
from pets.lab.draws import draw_traces
from pets.lab.labelled import read_answers


@pytest.fixture
def draw(pool):
    return draw_traces(read_answers(pool), ReplayConfig(size=8), 1)


def test_a_run_that_ends_early_stays_where_it_is(draw):
    curve = curve_of_order(np.array([3, 3, 0]), draw)
    assert (
        curve.agree[3] == int(draw.outcomes.agree[3, 2]) + int(draw.outcomes.agree[0, 1])
        and (curve.agree[3:] == curve.agree[3]).all()
    )


def test_sizes_pick_the_prefixes(draw):
    curve = curve_of_sizes(np.array([[1, 2], [8, 0]]), draw, np.array([4, 7]))
    assert curve.traces.tolist() == [3, 8] and curve.questions == 2
    assert curve.agree.tolist() == [
        int(draw.outcomes.agree[4, 1]) + int(draw.outcomes.agree[7, 2]),
        int(draw.outcomes.agree[4, 8]),
    ]
