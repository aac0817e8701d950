"""Several models in one vote: whose launch it is, what traces say of their model, and what is the server's own."""

import asyncio

import pytest

from pets.core.mixture import ModelMixture
from pets.core.money import Currency
from pets.errors import ReplyError
from pets.samplers import Completion, Prompt, RateLimits, Sampler, Sampling
from pets.samplers.function import FunctionSampler
from pets.samplers.mixture import MixtureSampler
from pets.testing import check_sampler

QUESTION, BOTH = Prompt("2 + 2 ="), ModelMixture((2, 1))
PRICE = Currency.money(1, 2, prompt_tokens=0, max_tokens=0)


class Server(Sampler):
    """Says what it was asked; ``fails`` where it is told to."""

    source = "weights.gguf"

    def __init__(self, fails=False):
        self.fails, self.asked, self.entered, self.closed = fails, [], 0, 0

    async def __aenter__(self):
        self.entered += 1
        return self

    async def sample(self, prompt, n, seed, sampling):
        self.asked.append((prompt, n, seed))
        self.rate_limits = RateLimits(remaining_requests=5)
        if self.fails:
            raise ReplyError("half a body")
        return [Completion("4", "stop", 3)] * n

    async def models(self):
        return [{"id": "m"}]

    async def max_model_len(self):
        return 4096

    async def close(self):
        self.closed += 1


def sample(sampler, prompt=QUESTION, n=2):
    return asyncio.run(sampler.sample(prompt, n, 7, Sampling()))


def test_it_keeps_the_law_of_samplers():
    check_sampler(MixtureSampler(FunctionSampler(lambda question: f"{question} 4"), BOTH, 1, "b"))


def test_every_launch_is_one_model_s_and_every_other_model_is_asked_once_more():
    samplers = [MixtureSampler(Server(), ModelMixture((3, 2, 1)), model) for model in range(3)]
    for launch in range(12):
        takers = [[s.model for s in samplers if s.takes(launch, attempt)] for attempt in range(4)]
        assert sorted(takers[:3]) == [[0], [1], [2]] and takers[3] == []


def test_a_trace_knows_its_model_and_its_price():
    traces = sample(MixtureSampler(Server(), BOTH, 1, "b", PRICE))
    assert [(trace.model, trace.currency, trace.text) for trace in traces] == [(1, PRICE, "4")] * 2


def test_a_request_in_a_client_s_words_names_the_model():
    server, body = Server(), {"model": "mixture", "messages": [{"role": "user", "content": "?"}], "top_p": 0.5}
    sample(MixtureSampler(server, BOTH, 1, "b"), Prompt.of_body(body, sender="alice"))
    ((prompt, n, seed),) = server.asked
    assert prompt.body == {**body, "model": "b"} and prompt.sender == "alice" and (n, seed) == (2, 7)


@pytest.mark.parametrize("fails", [False, True])
def test_errors_and_rate_limits_are_the_model_s_own(fails):
    sampler = MixtureSampler(Server(fails), BOTH, 1, "b")
    if fails:
        with pytest.raises(ReplyError, match="half a body") as raised:
            sample(sampler)
        assert raised.value.model == 1
    else:
        sample(sampler)
    assert sampler.rate_limits.remaining_requests == 5


def test_it_is_opened_and_closed_with_its_server_and_tells_what_that_tells():
    server = Server()

    async def whole():
        async with MixtureSampler(server, BOTH, 0, "a") as sampler:
            return sampler.source, await sampler.models(), await sampler.max_model_len()

    assert asyncio.run(whole()) == ("weights.gguf", [{"id": "m"}], 4096)
    assert (server.entered, server.closed) == (1, 1)
