"""The reliability diagram shows the bins that are not empty, and the table the scores of the rows."""

import numpy as np
import pytest

from pets.replay import ReplayConfig, replay
from pets.replay.calibration import Certified, calibrate
from pets.report.reliability import draw_reliability


@pytest.fixture(scope="module")
def certified(pool):
    return replay([pool], ["uniform", "okg", "asc"], config=ReplayConfig(2, 16, certified=(4.0, 8.0)))


def test_a_dot_a_bin_that_is_not_empty():
    right = np.array([True, True, False])
    calibration = calibrate([Certified("p", "okg", 4.0, np.array([0.95, 0.91, 0.15]), np.ones(3), right)])
    above, below = draw_reliability({"okg": calibration}, "toy").axes
    _, line = above.lines
    assert line.get_xydata().tolist() == [pytest.approx([0.15, 0.0]), pytest.approx([0.93, 1.0])]
    assert line.get_label() == f"okg: calibration error {calibration.error:.4f}"
    assert below.patches[0].get_data().values.tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
