"""How long a batch may take: waves, widths, and when a wave waits no longer."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.engine.pacing import FEWEST_WAVES, SLOWEST_TRACE, Pace, WaveClock, pace_of
from pets.errors import InputError
from pets.policies.okg import OKG
from pets.policies.okg_weighted import OKGWeighted
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform


@given(
    questions=st.integers(2, 5000),
    mean=st.integers(1, 64),
    concurrency=st.integers(1, 512),
    patience=st.one_of(st.none(), st.floats(1.0, 10.0)),
)
def test_no_batch_takes_longer_than_it_may(questions, mean, concurrency, patience):
    pace = pace_of(OKG(), mean * questions, questions, concurrency, patience=patience)
    allowed = (patience or 2.0) * pace.uniform_times
    if patience is None:
        allowed = max(allowed, pace.rounds - 1 + FEWEST_WAVES * SLOWEST_TRACE)
    assert pace.uniform_times <= pace.trace_times + 1e-9 <= allowed + 2e-9


def test_a_batch_of_many_questions_is_never_held_back():
    assert pace_of(OKG(), 16 * 5000, 5000, 64).waves == 0
    assert {pace_of(OKG(), 16 * 5000, 5000, 64).limit(left) for left in range(1, 400)} == {64}


def test_without_waves_a_batch_ends_with_fewer_and_fewer_in_flight():
    pace = pace_of(OKGWeighted(), 6 * 300, 300, 64)
    widths = [pace.limit(left) for left in range(800, 0, -1)]
    assert pace.waves == 0 and widths[0] == 64 and widths[-1] < 16 and sorted(widths, reverse=True) == widths


def test_policies_that_decide_alone_or_blindly_are_asked_as_fast_as_can_be():
    for policy in (Uniform(), PriceRule(rounds=3)):
        pace = pace_of(policy, 60, 10, 64)
        assert (pace.waves, pace.times_as_long, pace.limit(1)) == (0, 1.0, 64)
        with pytest.raises(InputError, match="knows no waves"):
            pace_of(policy, 60, 10, 64, waves=3)
    assert pace_of(OKG(), 16, 1, 64).limit(1) == 64  # a single question needs no choice


def test_the_policy_s_own_waves_are_kept_unless_others_are_given():
    assert pace_of(OKG(waves=3), 60, 10, 64).waves == 3
    assert pace_of(OKG(waves=3), 60, 10, 64, waves=7).waves == 7


def test_a_single_question_has_one_wave_unless_its_user_or_what_comes_back_asks_for_more():
    assert pace_of(OKG(waves=4), 16, 1, 64).waves == 1
    assert pace_of(OKG(waves=4), 16, 1, 64, waves=3).waves == 3
    assert pace_of(OKG(waves=4), 16, 1, 64, needs_feedback=True).waves == 4


def test_a_wave_waits_as_long_as_its_last_traces_could_pay():
    clock = WaveClock()
    clock.begin(100.0, pending=2)
    clock.launched(14)
    assert clock.waits_until(in_flight=2) == math.inf  # nothing is back yet
    clock.back(104.0, in_flight=8)
    clock.back(107.0, in_flight=2)
    assert clock.waits_until(in_flight=3) == math.inf  # too many are out
    assert clock.waits_until(in_flight=2) == 100 + 16 * min(4 / 8, 7 / 14)


def test_what_is_left_is_told_by_the_waves_that_are_over():
    clock = WaveClock()
    clock.begin(0.0, pending=0)
    clock.launched(4)
    assert clock.seconds_left(1.0, waves_left=2) is None
    clock.begin(3.0, pending=0)
    assert clock.seconds_left(4.0, waves_left=2) == 2 + 2 * 3


def test_a_pace_without_anything_is_full_speed():
    assert Pace(8).limit(1) == 8 and Pace(8).times_as_long == 1.0


def test_fewer_waves_give_up_more_than_more_of_them():
    points = [Pace(64, 10, 60, waves).points_given_up(4) for waves in (1, 2, 3, 4, 6, 8)]
    assert points == sorted(points, reverse=True) and 0.2 < points[3] < 1 < points[0]
    assert Pace(64, 10, 60).points_given_up(4) == 0.0
    assert Pace(64, 1, 16, waves=1).points_given_up(4) == 0.0  # there was nothing to allocate
