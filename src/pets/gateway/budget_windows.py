"""Windows of keys' budgets: calendar days, weeks (from Monday) and months in UTC, each by its number.

A day has a number since 1970, and so have the week and the month that it is in: a ledger's row that knows its day knows
the windows in which it counts.
"""

from datetime import date
from typing import Literal

BudgetWindow = Literal["day", "week", "month"]
BUDGET_WINDOWS: tuple[BudgetWindow, ...] = ("day", "week", "month")
DAY_S = 86_400
EPOCH = date(1970, 1, 1).toordinal()  # a Thursday


def window_number(window: BudgetWindow, day: int) -> int:
    """The number of the window that a day is in.

    >>> day = date(2026, 11, 18).toordinal() - EPOCH
    >>> [window_number(window, day) for window in BUDGET_WINDOWS]
    [20775, 2968, 24322]
    """
    if window == "day":
        return day
    if window == "week":
        return (day + 3) // 7
    then = date.fromordinal(EPOCH + day)
    return then.year * 12 + then.month - 1


def window_start(window: BudgetWindow, day: int, later: int = 0) -> int:
    """When the window begins that a day is in, or one so many ``later``, in seconds since 1970.

    >>> [window_start("month", day) // DAY_S for day in (0, 30, 31)], window_start("week", 4) // DAY_S
    ([0, 0, 31], 4)
    """
    number = window_number(window, day) + later
    if window == "day":
        return number * DAY_S
    if window == "week":
        return (7 * number - 3) * DAY_S
    return (date(number // 12, number % 12 + 1, 1).toordinal() - EPOCH) * DAY_S
