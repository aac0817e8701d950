"""How much is in flight: the hurry where nobody says, and what the waves of batch jobs take."""

import asyncio

import pytest

from pets.engine.pacing import Pace, hurry_of, pace_of
from pets.policies.okg import OKG
from pets.policies.price import PriceRule
from pets.policies.uniform import Uniform

from .conftest import Scripted


class Counting(Scripted):
    """A server that tells how many requests it is at work on."""

    async def requests_running(self):
        return self.in_flight


class Stopping(Scripted):
    stops = True


@pytest.mark.parametrize(
    ("servers", "hurry"),
    [
        ([Counting], 0.25),
        ([Stopping], 0.25),
        ([Scripted], 0.0),
        ([Counting, Scripted], 0.0),
        ([Stopping, Counting], 0.25),
    ],
)
def test_without_a_word_only_servers_that_stop_or_tell_whether_they_do_are_hurried(servers, hurry):
    samplers = [kind() for kind in servers]
    assert asyncio.run(hurry_of(None, samplers, 0.25)) == hurry
    assert asyncio.run(hurry_of(2.0, samplers, 0.25)) == 2.0


def test_waves_take_a_slowest_trace_each_and_races_little_longer_than_all_at_once():
    raced, waves, uniform = (pace_of(policy, 60, 10, 64) for policy in (OKG(), OKG(waves=4), Uniform()))
    assert (raced.waves, waves.waves, uniform.waves) == (0, 4, 0)
    assert uniform.times_as_long == 1.0 < raced.times_as_long < waves.times_as_long == 4.0
    assert pace_of(PriceRule(), 16_000, 1000, 64).times_as_long < 1.01


def test_a_single_question_has_one_wave_unless_the_run_needs_feedback():
    assert pace_of(OKG(waves=4), 16, 1, 64).waves == 1
    assert pace_of(OKG(waves=4), 16, 1, 64, needs_feedback=True).waves == 4
    assert pace_of(OKG(), 16, 1, 64).waves == 0


def test_fewer_waves_give_up_more_than_more_of_them():
    points = [Pace(64, 10, 60, waves).points_given_up(4) for waves in (1, 2, 3, 4, 6, 8)]
    assert points == sorted(points, reverse=True) and points[0] > 3 and points[-1] < 0.2
    assert Pace(64, 10, 60).points_given_up(4) == 0.0
    assert Pace(64, 1, 16, waves=1).points_given_up(4) == 0.0  # there was nothing to allocate
