"""Snapshots of what was counted: every amount is in one interval, in a ring that does not grow."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.gateway.history import RESOLUTIONS, History, quantiles


class Counted:
    """A count with a history; ``add`` counts at a time."""

    def __init__(self, now=0.0, count=0.0):
        self.state = SimpleNamespace(now=now, count=count)
        self.history = History(self.counts, clock=lambda: self.state.now)

    def counts(self):
        return np.array([self.state.count])

    def add(self, now, amount=1.0):
        self.state.now = now
        self.history.keep()
        self.state.count += amount

    def column(self, span="hour"):
        starts, increases = self.history.increases(span, self.counts())
        return dict(zip(starts, increases[:, 0].tolist(), strict=True))

    def per_second(self, now):
        self.state.now = now
        return self.history.per_second(0, self.counts())


def test_only_the_latest_intervals_are_kept():
    counted = Counted()
    for number in range(1000):
        counted.add(30.0 * number, amount=number)
    assert list(counted.column().items())[-3:] == [(29910, 997), (29940, 998), (29970, 999)]
    assert len(counted.column()) == 120 and list(counted.column().values()) == list(range(880, 1000))


@given(st.lists(st.floats(0, 3599), max_size=40))
def test_every_amount_is_in_the_interval_of_its_time(times):
    counted = Counted()
    for now in sorted(times):
        counted.add(now)
    counted.state.now = 3599.0
    for span, (seconds, _) in RESOLUTIONS.items():
        starts = [now // seconds * seconds for now in times]
        assert {start: n for start, n in counted.column(span).items() if n} == {s: starts.count(s) for s in starts}


def test_a_clock_that_is_set_back_adds_to_the_latest_interval():
    counted = Counted(now=100.0)
    counted.add(100.0)
    counted.add(40.0)
    assert list(counted.column().items())[-2:] == [(60, 0), (90, 2)]


def test_a_rate_is_that_of_the_last_hour_or_since_the_start():
    counted = Counted()
    for now in range(30):
        counted.add(float(now))
    assert counted.per_second(now=30.0) == 30 / 60  # the first minute counts as one
    for minute in range(2, 602):
        counted.add(60.0 * minute, amount=1000 if minute < 300 else 2)
    assert counted.per_second(now=36060.0) == pytest.approx(2 / 60, rel=0.02)
    assert counted.per_second(now=36060.0 + 7200.0) < 2 / 60


def test_what_was_counted_before_the_count_was_known_is_no_rate():
    counted = Counted(count=math.nan)
    assert counted.per_second(now=1.0) == 0.0
    counted.state.count = 5000.0
    assert counted.per_second(now=2.0) == 0.0
    counted.add(60.0, amount=30)
    assert counted.per_second(now=120.0) == 0.5


@given(st.lists(st.floats(0.001, 9.999), min_size=1, max_size=60))
def test_a_quantile_is_in_the_bucket_of_the_exact_one(times):
    bounds = (0.01, 0.1, 1.0, 10.0)
    cumulative = [*(sum(time <= bound for time in times) for bound in bounds), len(times)]
    for share, value in zip((0.5, 0.99), quantiles(cumulative, bounds), strict=True):
        exact = sorted(times)[math.ceil(share * len(times)) - 1]
        upper = next(bound for bound in bounds if exact <= bound)
        assert upper / 10 - 0.01 <= value <= upper


def test_what_is_over_the_last_bound_counts_as_that_and_nothing_as_none():
    assert quantiles((0, 0, 5), (1.0, 2.0)) == [2.0, 2.0]
    assert quantiles((0, 0, 0), (1.0, 2.0)) == [None, None]
