"""Where the traces of a run come from: samplers as the user names them, and what cannot be asked is refused."""

import pytest

from pets.engine.config import RunConfig
from pets.engine.models import model_shares
from pets.engine.sources import check_resent, endpoint_keys, make_samplers, source_name, sources_of
from pets.errors import InputError
from pets.samplers.batch import BatchSampler
from pets.samplers.openai import OpenAISampler

from .conftest import Scripted

ONE, TWO = "http://one/v1", "http://two/v1"


def test_every_endpoint_has_a_sampler_and_a_provider_of_jobs_one():
    assert [type(sampler) for sampler in make_samplers([ONE, TWO], "m")] == [OpenAISampler, OpenAISampler]
    assert [type(sampler) for sampler in make_samplers([ONE], "m", batch_api=True)] == [BatchSampler]


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
        make_samplers(endpoints, model, **options)


def test_a_key_is_for_all_endpoints_or_for_its_own():
    assert endpoint_keys([ONE, TWO], "sk") == ["sk", "sk"] and endpoint_keys([ONE, TWO], None) == [None, None]
    assert endpoint_keys([ONE, TWO], ["sk", None]) == ["sk", None]


def test_the_samplers_of_a_mixture_know_their_model_and_its_servers():
    config = RunConfig(models=model_shares({"a": 2, "b": 1}))
    endpoints, sources = sources_of(None, {"a": [ONE, TWO], "b": ONE}, None, None, None, config)
    assert endpoints == [f"a={ONE}", f"a={TWO}", f"b={ONE}"]
    assert [model for model, _ in sources] == [0, 0, 1]


def test_objects_that_nobody_has_named_tell_no_model_from_another():
    sampler = Scripted()
    assert source_name(None, sampler, [sampler]) is None
    assert source_name("m", sampler, [sampler]) == source_name("m", None, make_samplers([ONE], "m")) == "m"
    sampler.source = "weights.gguf"
    assert source_name(None, sampler, [sampler]) == "weights.gguf"


def test_a_header_whose_value_is_not_kept_is_sent_again():
    config = RunConfig(headers=("X-Team",))
    assert check_resent(config, {"X-Team": "a"}) == {"X-Team": "a"}
    with pytest.raises(InputError, match="sends the header X-Team"):
        check_resent(config, {"X-Other": "a"})
