"""Counts and times by interval: what is added up is all there, in a ring that does not grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.gateway.timeseries import INTERVALS_WITH_BINS, LATENCY_ERROR, RESOLUTIONS, History, TimeSeries, quantiles


def test_only_the_latest_intervals_are_kept():
    series = TimeSeries(seconds=10, size=4)
    for number in range(1000):
        series.add(10.0 * number, {"requests": number})
    assert series.column("requests", now=9995.0) == [996, 997, 998, 999]
    assert series.starts(now=9995.0) == [9960, 9970, 9980, 9990]
    assert len(series._intervals) == 4


def test_intervals_without_a_request_are_zero_and_age_out():
    series = TimeSeries(seconds=10, size=3)
    series.add(5.0, {"requests": 2})
    assert series.column("requests", now=25.0) == [2, 0, 0]
    assert series.column("requests", now=35.0) == [0, 0, 0] and series.total("requests", now=35.0) == 0


@given(st.lists(st.floats(0, 299), max_size=40))
def test_every_amount_of_the_span_is_in_one_interval(times):
    series = TimeSeries(seconds=10, size=30)
    for now in sorted(times):
        series.add(now, {"requests": 1})
    assert series.total("requests", now=299.0) == len(times)


def test_a_clock_that_is_set_back_adds_to_the_latest_interval():
    series = TimeSeries(seconds=10, size=3)
    series.add(100.0, {"requests": 1})
    series.add(40.0, {"requests": 1})
    assert series.column("requests", now=40.0) == [0, 0, 2]


@given(st.lists(st.floats(0.001, 3600), min_size=1, max_size=60), st.sampled_from([0.5, 0.99]))
def test_quantiles_are_within_their_error(times, share):
    series = TimeSeries(seconds=10, size=3)
    for seconds in times:
        series.observe(0.0, "vote", seconds)
    rank = next(place for place in range(1, len(times) + 1) if place >= share * len(times))
    exact = sorted(times)[rank - 1]
    shown = dict(zip((0.5, 0.99), series.latency("vote", now=0.0), strict=True))[share]
    assert exact / (1 + LATENCY_ERROR) * 0.999 <= shown <= exact * (1 + LATENCY_ERROR) * 1.001


def test_times_outside_the_bins_count_in_the_first_and_the_last():
    series = TimeSeries(seconds=10, size=1)
    series.observe(0.0, "vote", 0.0)
    assert series.latency("vote", now=0.0)[0] == pytest.approx(0.001, rel=1.01 * LATENCY_ERROR)
    series.observe(0.0, "plain", 1e9)
    assert series.latency("plain", now=0.0)[0] > 3600


def test_of_older_intervals_the_quantiles_stay_and_the_bins_go():
    series = TimeSeries(seconds=10, size=20)
    for number in range(20):
        series.observe(10.0 * number, "vote", 0.1 if number < 15 else 10.0)
    p50, p99 = series.latencies("vote", now=195.0)
    assert p50 == p99 and p50[:15] == [p50[0]] * 15 and p50[0] == pytest.approx(0.1, rel=1.01 * LATENCY_ERROR)
    assert sum(bool(interval.bins) for interval in series._intervals) == INTERVALS_WITH_BINS
    assert series.latency("vote", now=195.0)[0] == p50[-1] == pytest.approx(10.0, rel=1.01 * LATENCY_ERROR)
    assert series.latency("vote", now=400.0) == [None, None]  # nothing lately


def test_kinds_and_intervals_have_their_own_times():
    series = TimeSeries(seconds=10, size=2)
    series.observe(5.0, "vote", 1.0)
    series.observe(15.0, "plain", 2.0)
    (p50, p99), (plain_p50, _) = series.latencies("vote", now=15.0), series.latencies("plain", now=15.0)
    assert p50 == p99 and p50[0] == pytest.approx(1.0, rel=1.01 * LATENCY_ERROR) and p50[1] is None
    assert plain_p50[0] is None and plain_p50[1] is not None
    assert quantiles({}) == [None, None]


def test_a_history_counts_the_hour_and_the_day():
    history = History()
    for minute in range(120):
        history.add(60.0 * minute, {"requests": 1})
        history.observe(60.0 * minute, "vote", 0.5)
    now = 60.0 * 119
    assert history.series["hour"].total("requests", now) == 60
    assert history.series["day"].total("requests", now) == 120
    assert history.latency("vote", now)[0] == pytest.approx(0.5, rel=1.01 * LATENCY_ERROR)
    assert {span: seconds * size for span, (seconds, size) in RESOLUTIONS.items()} == {"hour": 3600, "day": 86400}
