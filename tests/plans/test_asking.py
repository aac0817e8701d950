"""Live traces: tried again, split, given up, read; over the mock endpoint and over samplers that misbehave."""

import asyncio

import httpx
import pytest

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.sources import samplers_of
from pets.errors import BusyError, RefusedError, ReplyError
from pets.mock import MockModel, running, synthetic
from pets.plans import SampledTraces, Stream
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling


class Scripted(Sampler):
    """Raises or answers as the script says, then goes on answering A; remembers seeds and sizes."""

    def __init__(self, *script, most=99):
        self.script, self.most, self.calls = list(script), most, []

    async def sample(self, prompt, n, seed, sampling):
        self.calls.append((n, seed))
        await asyncio.sleep(0)
        if n > self.most:
            raise RefusedError("n is too large", status=400)
        if self.script and isinstance(step := self.script.pop(0), Exception):
            raise step
        return [Completion("The answer is A.", "stop", 7, 20) for _ in range(n)]


def draw(sampler, n=4, first=0, **settings):
    source = SampledTraces([sampler], Sampling(), backoff=0.0, **settings)

    async def run():
        asked = source.open(Problem("q", Prompt("?"), "choice:options=4"), 3)
        try:
            return await asked.draw(first, n)
        finally:
            asked.close()

    return asyncio.run(run()), source


def test_traces_are_read_as_votes_and_the_prompt_is_paid_once():
    found, _ = draw(Scripted())
    assert [one.label for one in found] == ["A"] * 4
    assert [one.prompt_tokens for one in found] == [20, 0, 0, 0]


def test_a_launch_has_the_same_seed_whatever_went_before():
    early, late = Scripted(), Scripted()
    draw(early, n=4)
    draw(late, n=2, first=2)
    assert late.calls[0][1] == early.calls[0][1] + 2


def test_what_may_pass_is_tried_again():
    found, source = draw(Scripted(BusyError("429", status=429), ReplyError("half a body")))
    assert [one.error for one in found] == [None] * 4
    assert source.faults == {"429": 1, "broken reply": 1}


def test_a_trace_is_given_up_after_its_tries():
    found, _ = draw(Scripted(None, *[BusyError("503", status=503)] * 3), n=20, tries=3)
    assert [one.error for one in found] == [None] * 16 + ["503"] * 4
    assert all(one.label is None for one in found[16:])


def test_a_server_that_takes_fewer_at_a_time_is_asked_for_fewer():
    sampler = Scripted(most=2)
    found, _ = draw(sampler, n=6)
    assert len(found) == 6
    assert all(one.label == "A" for one in found)
    assert [n for n, _ in sampler.calls if n <= 2][:3] == [2, 2, 2]


def test_a_question_that_is_refused_has_no_votes_and_the_stream_goes_on():
    found, _ = draw(Scripted(most=0), n=2)
    assert [one.error for one in found] == ["n is too large"] * 2


@pytest.mark.parametrize("error", [RefusedError("no such key", status=401), BusyError("nobody is there")])
def test_a_wrong_key_or_address_ends_the_stream(error):
    if isinstance(error, BusyError):  # nobody listens there
        error.__cause__ = httpx.ConnectError("refused")
    with pytest.raises(ExceptionGroup) as found:
        draw(Scripted(*[error] * 9), tries=1)
    assert found.value.exceptions == (error,)


def test_a_stream_over_http_answers_every_question_within_its_budget(plan):
    mock = MockModel(synthetic(12, strength=0.3))

    async def run(url):
        found = []
        (sampler,) = samplers_of([url], "mock", concurrency=16)
        allocator = Allocator(plan.policy(), Budget(12 * 10, 32), horizon=12)
        async with sampler:
            source = SampledTraces([sampler], Sampling(max_tokens=64), options={"choice": 4})
            await Stream(allocator, source, found.append, at_once=4, concurrency=16).run(questions())
        return found, allocator

    async def questions():
        for i in range(12):
            yield Problem(f"q{i}", Prompt.chat(f"Question q{i}"), "choice")

    with running(mock) as url:
        found, allocator = asyncio.run(run(url))
    assert len(found) == 12
    assert sum(one.traces for one in found) == allocator.budget.spent == mock.stats.traces
    assert 0.98 * 120 <= allocator.budget.spent <= 120
    assert all(one.text and one.answer for one in found)
