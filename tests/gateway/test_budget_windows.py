"""Calendar windows: each day is in one, each begins where the one before it ends."""

from datetime import UTC, datetime

import pytest

from pets.gateway.budget_windows import BUDGET_WINDOWS, DAY_S, window_number, window_start

DAYS = range(20_000, 21_600)  # over leap years and the ends of years


@pytest.mark.parametrize("window", BUDGET_WINDOWS)
def test_windows_follow_each_other_without_a_gap(window):
    for day in DAYS:
        start, end = window_start(window, day), window_start(window, day, 1)
        assert start <= day * DAY_S < end == window_start(window, end // DAY_S)
        assert (
            window_number(window, start // DAY_S)
            == window_number(window, day)
            == window_number(window, end // DAY_S) - 1
        )
        assert window_start(window, end // DAY_S, -1) == start


def test_weeks_begin_on_monday_and_months_on_their_first():
    for day in DAYS:
        then = datetime.fromtimestamp(day * DAY_S, UTC)
        week, month = (datetime.fromtimestamp(window_start(window, day), UTC) for window in ("week", "month"))
        assert week.isocalendar()[:2] == then.isocalendar()[:2] and week.isoweekday() == 1
        assert (month.year, month.month, month.day) == (then.year, then.month, 1)
