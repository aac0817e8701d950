"""Trace confidence: the streaming meter against brute force, odd log-probabilities, and memory that stays flat."""

import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.confidence import FLOOR, Confidence, Meter, measure, token_confidence
from pets.errors import InputError

LOGPROB = st.floats(-60.0, 0.0)
TOKENS = st.lists(st.lists(LOGPROB, min_size=1, max_size=7), min_size=1, max_size=60)
LOWEST_FLOAT32 = -3.4028234663852886e38


def brute_force(tokens, window, top):
    each = np.array([-np.mean(np.sort(logprobs)[::-1][:top]) for logprobs in tokens])
    groups = [each.mean()]
    if len(each) > window:
        groups = np.lib.stride_tricks.sliding_window_view(each, window).mean(axis=1)
    bottom = np.sort(groups)[: max(1, len(groups) // 10)].mean()
    return each.mean(), each[-window:].mean(), np.min(groups), bottom


def four(result):
    return result.mean, result.tail, result.lowest, result.bottom


def walk(length, seed=0):
    """Confidences that wander as those of a trace do."""
    steps = np.random.default_rng(seed).normal(0, 0.3, length)
    return np.abs(12 + np.cumsum(steps)) % 60


@given(TOKENS, st.integers(1, 70), st.integers(1, 8))
def test_the_meter_equals_brute_force(tokens, window, top):
    result = measure(tokens, window, top)
    assert four(result) == pytest.approx(brute_force(tokens, window, top), rel=1e-12, abs=1e-12)
    assert result.tokens == len(tokens)


@given(TOKENS, st.integers(1, 20))
def test_a_result_may_be_read_at_any_time(tokens, window):
    meter = Meter(window)
    for count, logprobs in enumerate(tokens, 1):
        meter.add(logprobs)
        assert meter.result() == measure(tokens[:count], window)


@pytest.mark.parametrize("window", [1, 2048])
def test_a_long_trace_is_measured_exactly(window):
    tokens = [[-value] for value in walk(20_000, seed=1)]
    assert four(measure(tokens, window)) == pytest.approx(brute_force(tokens, window, 20), rel=1e-10)


def test_a_trace_no_longer_than_the_window_is_one_group():
    result = measure([[-1.0], [-2.0], [-6.0]], window=3)
    assert result == Confidence(3.0, 3.0, 3.0, 3.0, 3)
    assert measure([], window=3) is None


def test_of_more_than_top_entries_the_largest_count_in_any_order():
    entries = [-0.1 * rank for rank in range(20)]
    shuffled = random.Random(3).sample([*entries, -30.0], 21)
    assert token_confidence(shuffled) == pytest.approx(token_confidence(entries), rel=1e-14)
    assert token_confidence(iter(shuffled)) == token_confidence(shuffled)


@pytest.mark.parametrize("impossible", [-math.inf, -9999.0, LOWEST_FLOAT32, -88.0])
def test_an_impossible_token_counts_as_the_floor(impossible):
    assert token_confidence([0.0, impossible]) == -FLOOR / 2
    assert measure([[impossible]] * 5, window=2) == Confidence(-FLOOR, -FLOOR, -FLOOR, -FLOOR, 5)


def test_rounding_above_zero_is_zero():
    assert token_confidence([1e-7]) == 0.0 == token_confidence([0.0])
    assert math.copysign(1.0, token_confidence([0.0])) == 1.0


@pytest.mark.parametrize("bad", [[], [-1.0, math.nan], [math.nan], [math.inf, -1.0], [0.5], [math.inf, -math.inf]])
def test_what_is_no_log_probability_is_refused_and_changes_nothing(bad):
    meter = Meter(window=2)
    for value in (-1.0, -2.0, -3.0):
        meter.add([value])
    before = meter.result()
    with pytest.raises(InputError):
        meter.add(bad)
    assert meter.result() == before


@pytest.mark.parametrize(("window", "top"), [(0, 20), (8, 0), (-1, 5)])
def test_a_bad_window_or_top_is_refused(window, top):
    with pytest.raises(InputError, match="at least 1"):
        Meter(window, top)


def test_rounding_does_not_pile_up():
    meter = Meter(window=7)
    for round_ in range(30_000):
        meter.add([-80.0 if round_ % 3 else -1e-9])
    for _ in range(7):
        meter.add([-1e-9])
    assert meter.result().tail == pytest.approx(1e-9, rel=1e-9)
    assert meter.result().lowest == pytest.approx(1e-9, rel=1e-3)


def test_rounding_never_makes_a_confidence_negative():
    rng = random.Random(5)
    for _ in range(200):
        tokens = [[-rng.uniform(0, 80)] for _ in range(20)] + [[0.0]] * 9
        assert measure(tokens, window=8).lowest == pytest.approx(0.0, abs=1e-12)
        assert min(four(measure(tokens, window=8))) >= 0.0


def peak(length):
    """Most bytes held by a meter over a trace of ``length`` tokens."""
    values = [[-value] for value in walk(2000, seed=2)]
    tracemalloc.start()
    meter = Meter(window=256)
    for at in range(length):
        meter.add(values[at % 2000])
    meter.result()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_a_token_takes_a_few_numbers_and_none_of_its_candidates():
    short, long = peak(10_000), peak(60_000)
    assert long - short < 50_000 * 100
