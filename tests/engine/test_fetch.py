"""Several traces in one request, where the server honours n."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.engine.fetch import Fetcher, TokenEstimator, TraceRequest
from pets.errors import BusyError, RefusedError, UnreachableError
from pets.mock import Faults
from pets.samplers import Completion, Prompt, Sampler, Sampling

from ..other_hosts import LlamaCppMock
from ..simulated_time import run_simulated
from ..waiting import until
from .conftest import Scripted, asked, solve


def split(prompt, seed):
    """Answers of which no number settles a question."""
    return f"The answer is {'AB'[seed % 2]}."


def test_one_request_brings_several_traces_with_seeds_of_their_own():
    sampler = Scripted(split)
    solution = solve(asked(["q"]), sampler=sampler, budget=32, concurrency=16)
    assert solution.spent == 32 and solution.faults == {}
    assert sampler.requests <= 6
    assert len(sampler.seeds) == 32 and set(sampler.seeds.values()) == {1}


def test_a_server_that_ignores_n_is_asked_for_one_at_a_time():
    sampler = Scripted(split, most=1)
    solution = solve(asked(["q"]), sampler=sampler, budget=64, concurrency=8)
    assert solution.spent == 64 and set(sampler.seeds.values()) == {1} and len(sampler.seeds) == 64
    assert sampler.requests == 64 and solution.faults["fewer choices"] <= 8
    assert sampler.widest > 4  # in parallel instead


def test_a_server_that_refuses_n_above_its_slots_is_asked_for_fewer(serve):
    mock, _, problems, sampler = serve(2, n_limit=3)
    solution = solve(problems, sampler=sampler, budget=64, concurrency=16)
    assert solution.spent == mock.stats.traces == 64 and solution.failed == 0
    assert solution.faults["refused"] == mock.stats.faults["n_refused"] <= 8


def test_over_http_n_ignored_and_usage_of_one(serve):
    for settings in ({"faults": Faults(one_choice=1.0)}, {"kind": LlamaCppMock}):
        mock, _, problems, sampler = serve(4, **settings)
        solution = solve(problems, sampler=sampler, budget="8x", concurrency=16)
        assert solution.spent == mock.stats.traces == 32
        assert abs(solution.tokens / mock.stats.completion_tokens - 1) < 0.25  # estimated from the texts' lengths


@given(st.lists(st.tuples(st.none() | st.integers(0, 2**53), st.integers(0, 5000)), max_size=20), st.integers(1, 4000))
def test_an_estimate_is_a_quarter_of_the_bytes_or_more_never_nothing_and_never_over_the_limit(replies, max_tokens):
    lengths, prompt = TokenEstimator(), Prompt.chat("What is 2 + 2?")
    for told, size in replies:
        [trace] = lengths.counted([Completion("x", "stop", told, size=size)], prompt, max_tokens)
        assert trace.tokens == told if told is not None else min(max_tokens, max(1, size / 4)) <= trace.tokens
        assert told is not None or trace.tokens <= min(max_tokens, max(1, size))
        assert prompt.max_tokens / 4 <= trace.prompt_tokens <= prompt.max_tokens


def test_the_refusal_of_a_prompt_does_not_make_requests_small():
    class Picky(Sampler):
        def __init__(self):
            self.sizes = []

        async def sample(self, prompt, n, seed, sampling):
            await asyncio.sleep(0)
            if "q1" in str(prompt):
                raise RefusedError("too long", status=400)
            self.sizes.append(n)
            return [Completion("B", "stop", 1, 1)] * n

    asking = {"budget": 40, "concurrency": 16, "max_traces": 20, "policy": "uniform"}
    solve(asked(["q1", "q2"]), sampler=(picky := Picky()), **asking)
    assert max(picky.sizes[1:]) > 1


class Noting:
    """A receiver that notes what becomes of launches that nobody waits for any more."""

    def __init__(self):
        self.charged = []

    async def opened(self, request):
        return True

    def released(self, request, error):
        pass

    async def delivered(self, request, completions):
        pass

    def abandoned(self, request):
        self.charged += [launch.number for launch in request.launches]


def cut_off(sampler, waiting, size, max_n):
    """The launches that a fetch of ``size`` leaves behind when it is cancelled, which it is when ``waiting()``."""

    async def run():
        receiver, fetcher = Noting(), Fetcher([sampler], max_n=max_n)
        request = TraceRequest("q", 0, size, Prompt("?"), 0, Sampling(), (1,) * size)
        task = asyncio.create_task(fetcher.fetch(request, receiver))
        await until(waiting, task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return sorted(receiver.charged)

    return run_simulated(run())


def test_what_was_sent_in_parts_is_charged_when_it_is_cut_off_and_what_was_not_is_not():
    silent = Scripted()
    silent.gate = asyncio.Event()
    assert cut_off(silent, lambda: silent.in_flight == 5, size=5, max_n=2) == [0, 1, 2, 3, 4]

    class Busy(Scripted):
        async def sample(self, prompt, n, seed, sampling):
            self.requests += 1
            raise BusyError("later", status=503, retry_after=1e6)

    busy = Busy()
    assert cut_off(busy, lambda: busy.requests, size=4, max_n=4) == []


def test_what_ends_a_run_from_the_server_s_side_was_not_sampled():
    class Unknown(Scripted):
        async def sample(self, prompt, n, seed, sampling):
            raise RefusedError("no such model", status=404)

    async def run():
        receiver = Noting()
        request = TraceRequest("q", 0, 2, Prompt("?"), 0, Sampling(), (1, 1))
        with pytest.raises(RefusedError):
            await Fetcher([Unknown()]).fetch(request, receiver)
        return receiver.charged

    assert asyncio.run(run()) == []


def test_requests_per_minute_are_kept_while_a_ledger_is_waited_for():
    times = []

    class Timed(Scripted):
        async def sample(self, prompt, n, seed, sampling):
            times.append(asyncio.get_running_loop().time())
            return await super().sample(prompt, n, seed, sampling)

    class Slow(Noting):
        async def opened(self, request):
            await asyncio.sleep(0.1)
            return True

        async def delivered(self, request, completions):
            pass

    async def run():
        fetcher = Fetcher([Timed()], rpm=10)
        requests = [TraceRequest(f"q{i}", 0, 1, Prompt("?"), 0, Sampling(), (1,)) for i in range(30)]
        await asyncio.gather(*(fetcher.fetch(request, Slow()) for request in requests))

    run_simulated(run())
    assert len(times) == 30 and sum(time < 60.0 for time in times) == 10


def test_a_server_that_answers_with_errors_alone_is_told_like_an_outage():
    async def scenario():
        well = False

        def answer(prompt, seed):
            if not well:
                raise BusyError("the server says 500", status=500)
            return "A"

        fetcher, receiver = Fetcher([Scripted(answer)]), Noting()
        requests = [TraceRequest(f"q{i}", 0, 1, Prompt("?"), i, Sampling(), (1,)) for i in range(2)]
        both = asyncio.gather(*(fetcher.fetch(request, receiver) for request in requests))
        states = []
        for seconds in (1.0, 99.0):
            await asyncio.sleep(seconds)
            states.append(fetcher.outage_state)
        well = True
        await both
        return [*states, fetcher.outage_state, fetcher.not_coming(draining=True)]

    early, failing, after, not_coming = run_simulated(scenario())
    assert early is None and after is None and not_coming is None
    assert str(failing.error) == "the server says 500" and not failing.is_unreachable
    assert failing.since_s == pytest.approx(100) and failing.gives_up_s == pytest.approx(200)


def test_no_time_is_told_for_an_address_that_never_answered_since_its_tries_end_it():
    def answer(prompt, seed):
        raise UnreachableError("nobody there")

    async def scenario():
        fetcher = Fetcher([Scripted(answer)])
        task = asyncio.create_task(fetcher.fetch(TraceRequest("q", 0, 1, Prompt("?"), 0, Sampling(), (1,)), Noting()))
        await until(lambda: fetcher.outage_state is not None, task)
        state = fetcher.outage_state
        with pytest.raises(UnreachableError):
            await task
        return state

    assert run_simulated(scenario()).gives_up_s is None


def test_an_outage_says_since_when_it_lasts_when_the_next_try_comes_and_when_it_is_given_up():
    up = True

    def answer(prompt, seed):
        if not up:
            raise UnreachableError("nobody there")
        return "A"

    async def scenario():
        nonlocal up
        fetcher, receiver = Fetcher([Scripted(answer)]), Noting()
        await fetcher.fetch(TraceRequest("q", 0, 1, Prompt("?"), 0, Sampling(), (1,)), receiver)
        states = [fetcher.outage_state]
        up = False
        second = asyncio.create_task(fetcher.fetch(TraceRequest("q", 1, 1, Prompt("?"), 1, Sampling(), (1,)), receiver))
        await asyncio.sleep(100.0)
        states.append(fetcher.outage_state)
        up = True
        await second
        return [*states, fetcher.outage_state]

    before, outage, after = run_simulated(scenario())
    assert before is None and after is None and str(outage.error) == "nobody there"
    assert outage.since_s == pytest.approx(100) and outage.gives_up_s == pytest.approx(200)
    assert 0 < outage.next_try_s <= 30
