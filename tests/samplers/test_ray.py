"""What an actor keeps to itself, and how many fit; actors on a real cluster: tests/e2e/test_ray.py."""

import asyncio
from types import SimpleNamespace

import pytest

from pets._version import __version__
from pets.errors import LocalModelError, RefusedError
from pets.prompts import TokenAlternatives
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.samplers import ray as module
from pets.samplers.ray import ActorSize, SamplerActor

PROMPT = Prompt("2 + 2 =")
TRACE = Completion("4", "stop", 1, raw={"logprobs": [0.0]}, alternatives=(TokenAlternatives("4", {"4": 0.0}),))


class Model(Sampler):
    """Gives one trace, or raises."""

    def __init__(self, error=None):
        self.error, self.entered = error, 0

    async def __aenter__(self):
        self.entered += 1
        await asyncio.sleep(0)
        return self

    async def sample(self, prompt, n, seed, sampling):
        if self.error is not None:
            raise self.error
        return [TRACE] * n

    async def max_model_len(self):
        return 512


def sample(actor):
    return asyncio.run(actor.sample(PROMPT, 2, 0, Sampling()))


def test_log_probabilities_stay_in_the_actor_unless_votes_are_soft():
    assert sample(SamplerActor(Model)) == [Completion("4", "stop", 1)] * 2
    assert sample(SamplerActor(Model, alternatives=True)) == [TRACE] * 2


def test_a_model_is_loaded_once_for_all_calls():
    model = Model()

    async def calls():
        actor = SamplerActor(lambda: model)
        assert await actor.version() == __version__
        return await asyncio.gather(actor.start(), actor.start(), actor.sample(PROMPT, 1, 0, Sampling()))

    assert asyncio.run(calls())[:2] == [512, 512]
    assert model.entered == 1


def test_what_a_model_refuses_comes_back_as_it_was():
    refusal = RefusedError("too long", status=400)
    assert sample(SamplerActor(lambda: Model(refusal))) is refusal


def test_why_a_model_cannot_be_loaded_comes_back():
    def make():
        raise LocalModelError("no such file")

    assert str(asyncio.run(SamplerActor(make).start())) == "no such file"


def test_a_model_that_dies_takes_its_actor_along(monkeypatch):
    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(module.os, "_exit", end)
    with pytest.raises(SystemExit):
        sample(SamplerActor(lambda: Model(LocalModelError("it has died"))))


def cluster(*nodes):
    return SimpleNamespace(
        nodes=[{"CPU": float(cpus), **({"GPU": float(gpus)} if gpus else {})} for cpus, gpus in nodes]
    )


@pytest.mark.parametrize(
    ("nodes", "cpus", "gpus", "size", "count"),
    [
        ([(8, 0), (4, 0), (0, 0)], None, 0, ActorSize(4), 3),  # the head node takes no work
        ([(8, 0), (4, 0)], 3, 0, ActorSize(3), 3),
        ([(8, 0), (4, 0)], 9, 0, ActorSize(9), 0),
        ([(8, 4), (4, 2), (16, 0)], None, 1, ActorSize(1, 1), 6),
        ([(8, 4), (4, 2), (1, 8)], 2, 2, ActorSize(2, 2), 3),
        ([], None, 0, ActorSize(1), 0),
    ],
)
def test_as_many_actors_as_nodes_have_cores_and_cards_for(nodes, cpus, gpus, size, count):
    assert ActorSize.fitting(cluster(*nodes), cpus, gpus) == size
    assert size.count(cluster(*nodes)) == count
