"""What the verbs that ask a model share: their questions, and how traces are drawn."""

from dataclasses import replace

import pytest

from pets.cli.options import LocalModelOptions, ModelOptions, QuestionOptions, SamplingOptions, StoredRunOptions
from pets.engine import TokenPrice
from pets.errors import InputError
from pets.prompts import Sampling


def test_questions_come_from_a_named_set_or_a_file(tmp_path):
    assert len(QuestionOptions(first=7).load("starter").problems) == 7
    path = tmp_path / "mine.csv"
    path.write_text("id,problem,solution\na,What is 2 + 2?,4\n")
    (problem,) = QuestionOptions(("question=problem", "gold=solution")).load(str(path)).problems
    assert (problem.id, problem.gold) == ("a", "4")


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("no-such-file.jsonl", (), "neither a file nor a question set. Sets: "),
        ("starter", ("question=problem",), "leave out --field"),
    ],
)
def test_a_mistake_says_what_to_do(name, fields, message):
    with pytest.raises(InputError, match=message):
        QuestionOptions(fields).load(name)


def test_what_is_not_given_is_the_sets_own_choice():
    own = Sampling(max_tokens=50, temperature=0.7, stop=("x",), window=8)
    assert SamplingOptions().merge(own) == own
    assert SamplingOptions(0.0, 9, stop=("y",), confidence_window=4).merge(own) == Sampling(
        max_tokens=9, temperature=0.0, stop=("y",), window=4
    )


def test_a_server_needs_the_name_of_a_model_and_gets_the_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-1")
    assert ModelOptions(key_env=("MY_KEY",)).keys == "sk-1" and ModelOptions(key_env=("NO_KEY",)).keys is None
    assert ModelOptions(key_env=("MY_KEY", "NO_KEY")).keys == ["sk-1", None]
    with pytest.raises(InputError, match="--endpoint needs --model NAME"):
        ModelOptions(endpoint=("http://x/v1",)).samplers(LocalModelOptions(), stream=False)
    servers = ModelOptions(endpoint=("http://x/v1", "http://y/v1"), model=("m",))
    assert len(servers.samplers(LocalModelOptions(), stream=False)) == 2


def test_a_local_model_has_fewer_traces_in_flight():
    server, local = ModelOptions(endpoint=("http://x/v1",)), ModelOptions()
    assert [StoredRunOptions().in_flight(model) for model in (server, local)] == [64, 16]
    assert StoredRunOptions(concurrency=3).in_flight(local) == 3


def test_the_base_url_of_the_environment_is_asked_for_a_model_that_is_no_file(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://base/v1")
    assert ModelOptions(model=("m",)).servers == ("http://base/v1",)
    assert ModelOptions(endpoint=("http://x/v1",), model=("m",)).servers == ("http://x/v1",)
    assert ModelOptions().servers == ModelOptions(model=("weights.gguf",)).servers == ()


def test_every_endpoint_may_have_a_key_of_its_own(monkeypatch):
    monkeypatch.setenv("A", "sk-aaaaaaaa")
    servers = ModelOptions(endpoint=("http://x/v1", "http://y/v1"), model="m", key_env=("A", "NO_KEY"))
    assert len(servers.samplers(LocalModelOptions(), stream=False)) == 2
    with pytest.raises(InputError, match="2 keys for 1 endpoints"):
        replace(servers, endpoint=("http://x/v1",)).samplers(LocalModelOptions(), stream=False)


def test_more_fields_of_a_request_are_a_json_object_without_those_that_have_options():
    options = SamplingOptions(top_p=0.9, top_k=5, min_p=0.1, reasoning_effort="low", extra_body='{"top_a": 0.1}')
    sampling = options.merge(Sampling())
    assert (sampling.top_p, sampling.top_k, sampling.min_p) == (0.9, 5, 0.1)
    assert sampling.reasoning_effort == "low" and sampling.extra_body == {"top_a": 0.1}
    for text, words in (("[]", "is a JSON object"), ("{", "is a JSON object"), ('{"n": 3}', "may not hold n")):
        with pytest.raises(InputError, match=words):
            SamplingOptions(extra_body=text).merge(Sampling())


def test_several_models_have_servers_keys_and_prices_of_their_own(monkeypatch):
    monkeypatch.setenv("KEY_B", "sk-b")
    both = ModelOptions(
        endpoint=("a=http://x/v1", "b=http://y/v1", "b=http://z/v1"), model=("a=2", "b"), key_env=("b=KEY_B",)
    )
    assert both.keys == ["b=sk-b"] and both.names == ["a", "b"]
    samplers = both.samplers_by_model(LocalModelOptions(), stream=False)
    assert {name: len(own) for name, own in samplers.items()} == {"a": 1, "b": 2}
    price, shares = both.priced(("in=1,out=2", "b=in=3,out=4"))
    assert price is None and [share.price for share in shares] == [TokenPrice(1, 2), TokenPrice(3, 4)]
    assert ModelOptions(model=("a",)).priced(("in=1,out=2",))[0] == shares[0].price


def test_the_one_model_may_be_named_with_its_server_and_its_price():
    one = ModelOptions(endpoint=("a=http://x/v1", "a=http://y/v1?to=http://z"), model=("a",))
    assert one.servers == ("http://x/v1", "http://y/v1?to=http://z")
    assert one.priced(("a=in=1,out=2",)) == (TokenPrice(1, 2), ())
    assert one.priced(("in=3,out=4", "a=in=1,out=2")) == (TokenPrice(1, 2), ())
    with pytest.raises(InputError, match="a price is in="):
        one.priced(("b=in=1,out=2",))


@pytest.mark.parametrize(
    ("model", "prices", "message"),
    [
        (ModelOptions(model=("a", "b")), (), "which server has a"),
        (ModelOptions(model=("a", "b"), endpoint=("http://x/v1", "c=http://y/v1")), (), "names c, which is none of"),
        (ModelOptions(model=("a", "a"), endpoint=("http://x/v1",)), (), "named twice"),
        (ModelOptions(model=("a", "b"), endpoint=("http://x/v1",)), ("in=1,out=1", "in=2,out=2"), "2 prices for a"),
    ],
)
def test_a_mixture_that_says_too_little_or_too_much_is_refused(model, prices, message):
    with pytest.raises(InputError, match=message):
        model.priced(prices)
        model.samplers_by_model(LocalModelOptions(), stream=False)


def test_a_server_of_another_model_is_refused_where_there_is_one():
    with pytest.raises(InputError, match="--endpoint names b, which is none of the models a"):
        ModelOptions(model=("a",), endpoint=("b=http://x/v1",)).samplers(LocalModelOptions(), stream=False)


def test_verbs_of_one_model_refuse_several():
    with pytest.raises(InputError, match="one model is asked here"):
        ModelOptions(model=("a", "b"), endpoint=("http://x/v1",)).samplers(LocalModelOptions(), stream=False)
