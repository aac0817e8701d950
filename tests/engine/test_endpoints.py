"""Several servers: load, health, limits per minute and what the server says of its own."""

import asyncio

import pytest

from pets.core.mixture import ModelMixture
from pets.engine.endpoints import MAX_MODELS, EndpointPool, RateWindow
from pets.samplers import RateLimits
from pets.samplers.mixture import MixtureSampler

from ..simulated_time import run_simulated
from .conftest import Scripted


def test_load_is_shared_by_speed_and_the_sick_rest():
    async def run():
        pool = EndpointPool([Scripted(), Scripted()], 8)
        quick, slow = pool.endpoints
        quick.succeeded(1, 1, 0.1)
        slow.succeeded(1, 1, 1.0)
        quick.in_flight = 4
        assert await pool.pick() is quick
        quick.in_flight = 20
        assert await pool.pick() is slow
        for _ in range(5):
            slow.failed(asyncio.get_running_loop().time(), unreachable=False)
        assert await pool.pick() is quick
        slow.succeeded(1, 1, 1.0)
        assert await pool.pick() is slow

    asyncio.run(run())


def test_an_endpoint_is_not_asked_before_the_moment_that_it_named():
    async def run():
        clock = asyncio.get_running_loop().time
        pool = EndpointPool([Scripted()], 8)
        (endpoint,) = pool.endpoints
        endpoint.failed(clock(), retry_after=30.0)
        endpoint.succeeded(1, 1, 0.1)  # of a request that was out already: it does not lift the ban
        begun = clock()
        await pool.pick()
        return clock() - begun

    assert run_simulated(run()) == pytest.approx(30.0)


def test_requests_per_minute_are_kept():
    async def run():
        clock, moments = asyncio.get_running_loop().time, []
        pool = EndpointPool([Scripted()], 8, rpm=10)
        for _ in range(35):
            endpoint = await pool.pick()
            endpoint.end(1, endpoint.begin(1, clock()), 5, clock())
            moments.append(clock())
        return moments

    moments = run_simulated(run())
    assert all(later - earlier >= 60.0 for earlier, later in zip(moments, moments[10:], strict=False))
    assert moments[-1] - moments[0] == pytest.approx(180.0)


def test_tokens_per_minute_are_kept_once_a_requests_size_is_known():
    async def run():
        clock, used = asyncio.get_running_loop().time, []
        pool = EndpointPool([Scripted()], 8, tpm=1000)
        for _ in range(40):
            endpoint = await pool.pick()
            endpoint.end(1, endpoint.begin(1, clock()), 100, clock())
            used.append(clock())
        return used

    used = run_simulated(run())
    busiest = max(sum(moment <= other < moment + 60.0 for other in used) for moment in used[10:])
    assert busiest <= 10


def test_the_servers_own_limits_are_heeded():
    async def run():
        clock = asyncio.get_running_loop().time
        sampler = Scripted()
        pool = EndpointPool([sampler], 8)
        (endpoint,) = pool.endpoints
        entry = endpoint.begin(1, clock())
        sampler.rate_limits = RateLimits(limit_requests=60, remaining_requests=0, reset_requests_s=12.0)
        endpoint.end(1, entry, 5, clock())
        begun = clock()
        await pool.pick()
        return clock() - begun

    assert run_simulated(run()) == pytest.approx(12.0)


def test_an_amount_over_the_limit_goes_alone():
    window = RateWindow(100)
    assert window.wait_s(500, now=0.0) == 0.0
    entry = window.take(500, now=0.0)
    assert window.wait_s(1, now=10.0) == 50.0
    window.correct(entry, 20)
    assert window.wait_s(1, now=10.0) == 0.0


def test_a_model_that_fails_says_nothing_of_the_others_and_the_limits_are_the_servers():
    async def work():
        pool = EndpointPool([Scripted()], 8, rpm=10)
        (broken,), (well,) = pool.of_model("broken").endpoints, pool.of_model("well").endpoints
        for _ in range(6):
            broken.failed(0.0, retry_after=60.0)
        broken.max_n = 1
        assert (broken.wait_s(0.0), well.wait_s(0.0), well.max_n) == (60.0, 0.0, 8)
        for _ in range(10):
            broken.end(1, broken.begin(1, 0.0), None, 0.0)
        assert well.wait_s(0.0) == 60.0

    run_simulated(work())


def test_the_health_of_so_many_models_is_remembered():
    pool = EndpointPool([Scripted()], 8)
    first = pool.of_model("0")
    for number in range(1, MAX_MODELS):
        pool.of_model(str(number))
    assert pool.of_model("0") is first
    pool.of_model("one more")
    assert pool.of_model("0") is first
    for number in range(MAX_MODELS):
        pool.of_model(f"other {number}")
    assert pool.of_model("0") is not first


def test_a_pool_knows_its_shortest_trace_and_forgets_failures_when_one_comes():
    pool = EndpointPool([Scripted()], 4)
    assert pool.shortest_s is None
    pool.unknown_traces = 7
    for seconds in (3.0, 2.0, 5.0):
        pool.delivered(seconds)
    assert pool.shortest_s == 2.0 and pool.unknown_traces == 0 and pool.of_model("another").shortest_s is None


def mixed_pool():
    """Two servers of a model "a" and one of "b", which take turns from "a" on."""
    mixture = ModelMixture((1, 1))
    return EndpointPool([MixtureSampler(Scripted(), mixture, model, "ab"[model]) for model in (0, 0, 1)], 8)


def numbers(endpoints):
    return [endpoint.number for endpoint in endpoints]


def test_a_launch_goes_to_the_servers_of_its_model_and_then_to_the_other_model():
    pool = mixed_pool()
    assert [numbers(pool.takers(0, attempt)) for attempt in range(3)] == [[0, 1], [2], []]
    assert [numbers(pool.takers(1, attempt)) for attempt in range(3)] == [[2], [0, 1], []]


def test_a_model_is_away_when_all_its_servers_rest_and_back_with_the_first_of_them():
    pool = mixed_pool()
    for endpoint in pool.endpoints:
        endpoint.answered = True
    pool.endpoints[0].failed(0.0, unreachable=True)
    assert numbers(pool.present_takers(0, 0, 0.0)) == [0, 1]
    pool.endpoints[1].failed(0.1, unreachable=True)
    assert numbers(pool.present_takers(0, 0, 0.2)) == [2]
    pool.endpoints[2].failed(0.2, unreachable=True)
    assert numbers(pool.present_takers(1, 0, 0.3)) == [0, 1]  # all are away: these are back first
    assert numbers(pool.present_takers(0, 0, 0.5)) == [0, 1]


def test_a_model_that_never_said_a_word_hands_nothing_on():
    pool = mixed_pool()
    pool.endpoints[2].failed(0.0, unreachable=True)
    assert numbers(pool.present_takers(1, 0, 0.1)) == [2]
    pool.endpoints[2].served = True  # before the run was resumed
    assert numbers(pool.present_takers(1, 0, 0.1)) == [0, 1]


def test_a_model_that_refuses_everything_rests_if_it_has_served_and_another_is_there():
    pool = mixed_pool()
    assert not pool.stand_down(pool.endpoints[0], now=0.0)  # it never served: its name or its key is wrong
    for endpoint in pool.endpoints:
        endpoint.succeeded(1, 1, 0.5)
    assert pool.stand_down(pool.endpoints[0], now=0.0)
    assert numbers(pool.present_takers(0, 0, 1.0)) == [2] and numbers(pool.present_takers(0, 0, 31.0)) == [0, 1]
    assert not pool.stand_down(pool.endpoints[2], now=1.0)  # nobody else is there


def test_a_server_that_refuses_everything_is_told_where_there_is_one_model():
    pool = EndpointPool([Scripted(), Scripted()], 8)
    for endpoint in pool.endpoints:
        endpoint.succeeded(1, 1, 0.5)
    assert not pool.stand_down(pool.endpoints[0], now=0.0) and pool.endpoints[0].wait_s(0.0) == 0.0
