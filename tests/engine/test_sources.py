"""Where the traces of a run come from: samplers as the user names them, and what cannot be asked is refused."""

import asyncio

import pytest

from pets.engine.budget import ModelShare, TokenPrice, model_shares, with_prices
from pets.engine.sources import LiveRun, Servers, Sources, endpoint_keys, source_name, sources_of
from pets.engine.spec import RunSpec
from pets.errors import InputError
from pets.samplers.batch import BatchSampler
from pets.samplers.openai import OpenAISampler

from .conftest import Scripted

ONE, TWO = "http://one/v1", "http://two/v1"


def made(endpoints, model, key=None, **options):
    return sources_of(Servers(endpoints, model, key), RunSpec.of(**options)).samplers


def test_every_endpoint_has_a_sampler_and_a_provider_of_jobs_one():
    assert [type(sampler) for sampler in made([ONE, TWO], "m")] == [OpenAISampler, OpenAISampler]
    assert [type(sampler) for sampler in made([ONE], "m", batch_api=True)] == [BatchSampler]


@pytest.mark.parametrize(
    ("endpoints", "model", "options", "message"),
    [
        ([ONE], None, {}, "an endpoint needs --model NAME"),
        ([ONE, TWO], "m", {"key": ["sk-one"]}, "1 keys for 2 endpoints"),
        ([], "m", {"batch_api": True}, "batch jobs need a provider"),
        ([ONE, TWO], "m", {"batch_api": True}, "batch jobs go to one provider; got 2 endpoints"),
    ],
)
def test_endpoints_that_cannot_be_asked_are_refused(endpoints, model, options, message):
    with pytest.raises(InputError, match=message):
        made(endpoints, model, **options)


def test_a_key_is_for_all_endpoints_or_for_its_own():
    assert endpoint_keys([ONE, TWO], "sk") == ["sk", "sk"] and endpoint_keys([ONE, TWO], None) == [None, None]
    assert endpoint_keys([ONE, TWO], ["sk", None]) == ["sk", None]


def test_the_samplers_of_a_mixture_know_their_model_and_its_servers():
    spec = RunSpec.of(models=model_shares({"a": 2, "b": 1}))
    sources = sources_of(Servers({"a": [ONE, TWO], "b": ONE}), spec)
    endpoints, samplers = sources.endpoints, sources.samplers
    assert endpoints == [f"a={ONE}", f"a={TWO}", f"b={ONE}"]
    assert [sampler.name for sampler in samplers] == ["a", "a", "b"]
    assert [sampler.takes(0) for sampler in samplers] == [True, True, False]
    assert {sampler.currency for sampler in samplers} == {None}
    assert sources_of(Servers(sampler=samplers), spec) == Sources(samplers, [], "a=2, b")


def test_models_of_different_prices_say_what_their_traces_cost():
    spec = RunSpec.of(models=with_prices(model_shares(["a", "b"]), {"b": "in=1,out=4"}), price=TokenPrice(1, 2))
    samplers = sources_of(Servers(ONE), spec).samplers
    assert [sampler.currency.per_token for sampler in samplers] == [2_000_000, 4_000_000]
    samplers = sources_of(Servers(ONE), spec.with_options(models=(*spec.serving.models, ModelShare("c")))).samplers
    assert [sampler.currency.per_token for sampler in samplers] == [2_000_000, 4_000_000, 2_000_000]
    unknown = RunSpec.of(models=with_prices(model_shares(["a", "b"]), {"b": "in=1,out=4"}))
    assert {sampler.currency for sampler in sources_of(Servers(ONE), unknown).samplers} == {None}


def test_objects_that_nobody_has_named_tell_no_model_from_another():
    sampler = Scripted()
    assert source_name(None, sampler, [sampler]) is None
    assert source_name("m", sampler, [sampler]) == source_name("m", None, made([ONE], "m")) == "m"
    sampler.source = "weights.gguf"
    assert source_name(None, sampler, [sampler]) == "weights.gguf"


def test_a_header_whose_value_is_not_kept_is_sent_again():
    spec = RunSpec.of(headers=("X-Team",))
    assert sources_of(Servers(ONE, "m", headers={"X-Team": "a"}), spec).samplers
    with pytest.raises(InputError, match="sends the header X-Team"):
        sources_of(Servers(ONE, "m", headers={"X-Other": "a"}), spec)


class Opened(Scripted):
    """Says whether it is open, and which models it has."""

    def __init__(self, *models):
        super().__init__()
        self.names, self.open = models, False

    async def __aenter__(self):
        self.open = True
        return self

    async def __aexit__(self, *exception):
        self.open = False

    async def models(self):
        return [{"id": name} for name in self.names]


def test_samplers_and_a_judge_are_open_as_long_as_the_run():
    one, two, judge = Opened("a", "b"), Opened("b"), Opened("c")

    async def work():
        async with LiveRun(Sources([one, two], judge=judge)) as live:
            assert one.open and two.open and judge.open and live.store_name == ""
            return await live.models()

    assert asyncio.run(work()) == ["a", "b"]
    assert not (one.open or two.open or judge.open)
