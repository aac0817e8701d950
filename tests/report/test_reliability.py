"""The reliability diagram shows the bins that are not empty, and the table the scores of the rows."""

import numpy as np
import pytest

from pets.lab import ReplayConfig, replay
from pets.lab.calibration import Certified, calibrate
from pets.report.reliability import draw_reliability
from pets.report.style import drawn_svg


@pytest.fixture(scope="module")
def certified(pool):
    return replay([pool], ["uniform", "okg", "asc"], config=ReplayConfig(2, 16, certified=(4.0, 8.0)))


def test_a_dot_a_bin_that_is_not_empty():
    right = np.array([True, True, False])
    calibration = calibrate([Certified("p", "okg", 4.0, np.array([0.95, 0.91, 0.15]), np.ones(3), right)])
    chart = draw_reliability({"okg": calibration}, "toy")
    rows = chart["data"]["values"]
    dots = [(row["certificate"], row["right"]) for row in rows if "right" in row]
    assert dots == [pytest.approx((0.15, 0.0)), pytest.approx((0.93, 1.0))]
    assert rows[0]["label"] == f"okg ({calibration.error:.3f})"
    assert [row["count"] for row in rows] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2]  # the last bin ends at 1
    assert "toy" in drawn_svg(chart)
