"""The conformance suites of samplers and ledgers find each law that is broken. Those of policies and answer types are
tested beside their packages, in ``test_conformance.py``, those of our ledgers in ``engine`` and ``gateway``.
"""

import asyncio
import contextlib

import pytest

from pets.core.budget import whole_traces
from pets.engine.ledger import Ledger
from pets.errors import BudgetError, RefusedError
from pets.mock import MockModel, running, synthetic
from pets.prompts import Completion, Prompt, Sampling
from pets.samplers import Sampler
from pets.samplers.openai import OpenAISampler
from pets.testing import check_ledger, check_sampler

QUESTION = Prompt("q")


class Counting(Sampler):
    """A sampler that keeps the law: the trace of a seed is its number."""

    closed = 0

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        await asyncio.sleep(0)
        if prompt.content == "refused":
            raise RefusedError("no")
        return [self.trace(seed + i) for i in range(n)]

    def trace(self, seed: int) -> Completion:
        return Completion(str(seed), "stop", 1)

    async def close(self) -> None:
        self.closed += 1


class TooMany(Counting):
    async def sample(self, *args):
        return [*await super().sample(*args), self.trace(0)]


class NoneAtAll(Counting):
    async def sample(self, *args):
        return []


class Shuffled(Counting):
    async def sample(self, *args):
        return (await super().sample(*args))[::-1]


class SharedState(Counting):
    """Overlapping calls take each other's seed."""

    async def sample(self, prompt, n, seed, sampling):
        self.seed = seed
        await asyncio.sleep(0)
        return [self.trace(self.seed + i) for i in range(n)]


class PlainTexts(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return ["4"] * n


class KeyErrors(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return [{"q": self.trace(seed)}[prompt.content]]


class Indulgent(Counting):
    async def sample(self, prompt, n, seed, sampling):
        return [self.trace(seed)]


class ClosesOnce(Counting):
    async def close(self):
        assert not self.closed, "closed twice"
        self.closed += 1


def test_samplers_that_keep_the_law_pass():
    sampler = Counting()
    check_sampler(sampler, QUESTION, refused=Prompt("refused"))
    assert sampler.closed >= 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_of_a_server_passes(stream):
    with running(MockModel(synthetic(3))) as url:
        check_sampler(OpenAISampler(url, "mock", stream=stream), Prompt("q1"))


def test_one_that_gives_fewer_traces_passes():
    check_sampler(Indulgent(), QUESTION)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (TooMany, "1 traces were asked for, 2 came"),
        (NoneAtAll, "1 traces were asked for, 0 came"),
        (Shuffled, "trace i of a request is not the trace of seed"),
        (SharedState, "calls that overlap gave other traces"),
        (PlainTexts, "a trace is a Completion; got '4'"),
        (KeyErrors, "a failure is a SamplerError; got KeyError"),
        (Indulgent, "it should raise a SamplerError"),
        (ClosesOnce, "closed twice"),
    ],
)
def test_each_broken_law_is_named(broken, law):
    with pytest.raises(AssertionError, match=law):
        check_sampler(broken(), QUESTION, refused=Prompt("refused"))


def test_the_order_of_an_unseeded_model_is_not_checked():
    check_sampler(Shuffled(), QUESTION, seeded=False)


class Counted(Ledger):
    """A ledger that keeps the laws in memory, at one trace each; what was open when it is opened again is charged."""

    total = 60

    def __init__(self):
        self.spent, self.open, self.lost_tries = 0, set(), {}

    def charged(self):
        return self.spent + len(self.open)

    async def opened(self, request):
        if self.charged() + request.size > self.total:
            raise BudgetError("used up")
        self.open.update(request.launches)

    async def delivered(self, request, traces):
        self.open.difference_update(trace.launch for trace in traces)
        self.spent += len(traces)

    def lost(self, request, usage):
        self.released(request)
        self.spent += request.size

    def released(self, request):
        self.open.difference_update(request.launches)

    def abandoned(self, request, traces):
        self.lost(request, None)

    def cancelled(self, request, traces):
        self.released(request)
        self.spent += whole_traces(sum(trace.part for trace in traces))


class PaysWhole(Counted):
    def cancelled(self, request, traces):
        self.lost(request, None)


class PaysTwice(Counted):
    async def given_up(self, traces):
        self.spent += len(traces)


class ForgetsLost(Counted):
    def lost(self, request, usage):
        self.released(request)


class Late(Counted):
    async def opened(self, request):
        asyncio.get_running_loop().call_soon(self.open.update, request.launches)


class KeepsReleased(Counted):
    def released(self, request):
        pass


class Overdraws(Counted):
    async def opened(self, request):
        self.open.update(request.launches)


class Refuses(Counted):
    async def opened(self, request):
        if self.charged() + request.size > self.total:
            raise RefusedError("used up")
        self.open.update(request.launches)


@contextlib.asynccontextmanager
async def reopened(ledger):
    yield ledger
    ledger.spent, ledger.open = ledger.charged(), set()


def check(ledger, reopen=reopened):
    check_ledger(lambda: reopen(ledger), ledger.charged, total=Counted.total)


def test_a_ledger_that_keeps_the_laws_passes():
    check(Counted())


@pytest.mark.parametrize("kind", [PaysWhole, PaysTwice, ForgetsLost, Late, KeepsReleased, Overdraws, Refuses])
def test_a_ledger_that_breaks_a_law_is_found(kind):
    with pytest.raises(AssertionError):
        check(kind())


@pytest.mark.parametrize("after", [lambda ledger: 0, lambda ledger: 2 * len(ledger.open)], ids=["free", "twice"])
def test_a_ledger_that_forgets_what_was_open_or_charges_it_twice_is_found(after):
    @contextlib.asynccontextmanager
    async def reopen(ledger):
        yield ledger
        ledger.spent, ledger.open = ledger.spent + after(ledger), set()

    with pytest.raises(AssertionError, match="once"):
        check(Counted(), reopen)
