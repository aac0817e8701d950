"""What the verbs that ask a model share: their questions, and how traces are drawn."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pets.cli._groups import SpecOptions
from pets.cli.main import cli
from pets.cli.options import (
    ModelOptions,
    QuestionOptions,
    local_settings,
    run_spec,
)
from pets.engine import RunSpec, TokenPrice
from pets.errors import InputError, PetsError
from pets.mock import MockModel, running, synthetic
from pets.plans import fit_plan, write_plan
from pets.pools import read_pool
from pets.prompts import Sampling
from pets.store import Store

SERVER = ("--endpoint", "{url}", "--model", "mock")
SOLVE = ("solve", "mine.jsonl", *SERVER, "--budget", "4x")
WAVE = ("solve", "mine.jsonl", "--model", "mock", "--budget", "4x", "--batch-api", "--to", "wave.jsonl")
STREAM = ("stream", "mine.jsonl", *SERVER, "--store", "runs.db", "--budget", "8x")
PLANNED, COLD = (*STREAM, "--plan", "plan.json"), STREAM
REPLAYED = ("stream", "--pool", "pool.jsonl")


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


def test_what_is_not_said_is_the_sets_own_choice():
    own = Sampling(max_tokens=50, temperature=0.7, stop=("x",), window=8)
    said = SpecOptions({"max_tokens": 9, "temperature": 0.0, "stop": ("y",)})
    assert run_spec(SpecOptions({}), ModelOptions(), own).sampling == own
    changed = Sampling(max_tokens=9, temperature=0.0, stop=("y",), window=8)
    assert run_spec(said, ModelOptions(), own).sampling == changed


def test_a_server_needs_the_name_of_a_model_and_gets_the_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-1")
    assert ModelOptions(key_env=("MY_KEY",)).keys == "sk-1" and ModelOptions(key_env=("NO_KEY",)).keys is None
    assert ModelOptions(key_env=("MY_KEY", "NO_KEY")).keys == ["sk-1", None]
    with pytest.raises(InputError, match="--endpoint needs --model NAME"):
        ModelOptions(endpoint=("http://x/v1",)).samplers(RunSpec.of())
    servers = ModelOptions(endpoint=("http://x/v1", "http://y/v1"), model=("m",))
    assert len(servers.samplers(RunSpec.of())) == 2


def test_a_local_model_has_fewer_traces_in_flight():
    def concurrency(model, **said):
        return run_spec(SpecOptions(said), model, Sampling()).pacing.concurrency

    server, local = ModelOptions(endpoint=("http://x/v1",)), ModelOptions()
    assert [concurrency(server), concurrency(local), concurrency(local, concurrency=3)] == [64, 16, 3]


def test_how_a_local_model_runs_is_said_in_one_option():
    assert local_settings(["threads=2", "slots=8"]) == {"slots": 8, "context": None, "threads": 2}
    for text in ("", "slots", "slots=0", "slots=x", "slot=3", "slots=1,"):
        with pytest.raises(InputError, match="slots=N, context=N and threads=N"):
            assert local_settings([text])


def test_the_base_url_of_the_environment_is_asked_for_a_model_that_is_no_file(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://base/v1")
    assert ModelOptions(model=("m",)).servers == ("http://base/v1",)
    assert ModelOptions(endpoint=("http://x/v1",), model=("m",)).servers == ("http://x/v1",)
    assert ModelOptions().servers == ModelOptions(model=("weights.gguf",)).servers == ()


def test_every_endpoint_may_have_a_key_of_its_own(monkeypatch):
    monkeypatch.setenv("A", "sk-aaaaaaaa")
    servers = ModelOptions(endpoint=("http://x/v1", "http://y/v1"), model="m", key_env=("A", "NO_KEY"))
    assert len(servers.samplers(RunSpec.of())) == 2
    with pytest.raises(InputError, match="2 keys for 1 endpoints"):
        replace(servers, endpoint=("http://x/v1",)).samplers(RunSpec.of())


def test_more_fields_of_a_request_are_a_json_object_without_those_that_have_options():
    def sampling(**said):
        return run_spec(SpecOptions(said), ModelOptions(), Sampling()).sampling

    assert sampling(extra_body='{"top_a": 0.1}', top_k=5) == Sampling(extra_body={"top_a": 0.1}, top_k=5)
    for text, words in (("[]", "is a JSON object"), ("{", "is a JSON object"), ('{"n": 3}', "may not hold n")):
        with pytest.raises(InputError, match=words):
            sampling(extra_body=text)


def test_several_models_have_servers_keys_and_prices_of_their_own(monkeypatch):
    monkeypatch.setenv("KEY_B", "sk-b")
    both = ModelOptions(
        endpoint=("a=http://x/v1", "b=http://y/v1", "b=http://z/v1"), model=("a=2", "b"), key_env=("b=KEY_B",)
    )
    assert both.keys == ["b=sk-b"] and both.names == ["a", "b"]
    spec = run_spec(SpecOptions({"price": ("in=1,out=2", "b=in=3,out=4")}), both, Sampling())
    samplers, shares = both.samplers(spec), spec.serving.models
    assert [sampler.name for sampler in samplers] == ["a", "b", "b"] and both.name == "a=2, b"
    assert spec.spending.price is None and [share.price for share in shares] == [TokenPrice(1, 2), TokenPrice(3, 4)]
    assert ModelOptions(model=("a",)).price(("in=1,out=2",)) == "in=1,out=2"


def test_the_one_model_may_be_named_with_its_server_and_its_price():
    one = ModelOptions(endpoint=("a=http://x/v1", "a=http://y/v1?to=http://z"), model=("a",))
    assert one.servers == ("http://x/v1", "http://y/v1?to=http://z")
    assert one.price(("a=in=1,out=2",)) == one.price(("in=3,out=4", "a=in=1,out=2")) == "in=1,out=2"
    with pytest.raises(InputError, match="a price is in="):
        run_spec(SpecOptions({"price": ("b=in=1,out=2",)}), one, Sampling())


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
        model.samplers(run_spec(SpecOptions({"price": prices}), model, Sampling()))


def test_a_server_of_another_model_is_refused_where_there_is_one():
    with pytest.raises(InputError, match="--endpoint names b, which is none of the models a"):
        ModelOptions(model=("a",), endpoint=("b=http://x/v1",)).samplers(RunSpec.of())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Questions, a pool, its plan, and a store with one run."""
    book, path = synthetic(4, strength=0.5), tmp_path_factory.mktemp("half")
    rows = [{"id": id, "question": f"Question {id}", "answer_type": "choice:options=4"} for id in book.ids()]
    (path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pool = [{"id": f"p{i}", "gold": None, "answers": list("AAABAACA" * 4)} for i in range(8)]
    (path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pool))
    write_plan(fit_plan(read_pool(path / "pool.jsonl"), 8, cap=32, answer="choice"), path / "plan.json")
    mock = MockModel(book)
    with running(mock) as url, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert typed(url, *SOLVE).exit_code == 0
        yield path, mock, url


def typed(url, *words):
    return CliRunner().invoke(cli, [word.format(url=url) for word in words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SOLVE, "--new", "--run", "3"), "--run is now `pets resume RUN`."),
        ((*SOLVE, "--new", "--resume"), "--resume is now `pets resume RUN`."),
        ((*SOLVE, "--new", "--to", "wave.jsonl"), "--to is read with --batch-api alone"),
        (("top-up", "1", "--budget", "16"), "`pets top-up` is now: pets resume 1 --budget +16"),
        ((*SOLVE, "--new", "--expect", "tokens=9,seconds=1"), "--expect is now --dry-run tokens=N,seconds=S."),
        (("solve", "--dry-run", "mine.jsonl"), "Questions stand before it."),
        ((*WAVE, "--concurrency", "3"), "leave out --concurrency."),
        ((*WAVE, "--endpoint", "{url}"), "leave out --endpoint."),
        ((*PLANNED, "--run", "3"), "--run is now `pets resume RUN [QUESTIONS]`."),
        ((*PLANNED, "--policy", "price"), "a --plan is a policy; leave --policy out."),
        ((*PLANNED, "--rounds", "9"), "--rounds is now --hurry 0 to 1."),
        ((*COLD, "--cold"), "--cold is now what a stream does without --plan"),
        ((*COLD, "--waves", "3"), "--hurry"),
        ((*REPLAYED, "--temperature", "0.5"), "leave out --temperature."),
        ((*REPLAYED, "--system", "Be brief."), "leave out --system."),
        ((*REPLAYED, "--no-instruct"), "leave out --no-instruct."),
        ((*REPLAYED, "--rpm", "3", "--tries", "2"), "leave out --rpm, --tries."),
        ((*REPLAYED, "--first", "3"), "leave out --first."),
        ((*REPLAYED, *SERVER, "--store", "runs.db"), "leave out --endpoint, --model, --store."),
    ],
    ids=lambda value: " ".join(value[-3:]) if isinstance(value, tuple) else "",
)
def test_an_option_that_nothing_would_read_is_refused_and_nothing_is_bought(folder, monkeypatch, words, message):
    path, mock, url = folder
    monkeypatch.chdir(path)
    before = mock.stats.traces
    result = typed(url, *words)
    assert message in (str(result.exception) if isinstance(result.exception, PetsError) else result.stderr)
    assert isinstance(result.exception, PetsError) or result.exit_code == 2  # main() makes the first a line and exit 2
    assert mock.stats.traces == before
    assert not (path / "wave.jsonl").exists()
    with Store.open("runs.db", create=False) as store:
        assert len(store.runs()) == 1


def test_a_pool_is_drawn_from_at_once_whatever_the_config_file_says_of_a_model(folder, monkeypatch, tmp_path):
    path, mock, url = folder
    monkeypatch.chdir(path)
    before = mock.stats.traces
    (tmp_path / "pets.toml").write_text(f'[stream]\nendpoint = ["{url}"]\nmodel = ["mock"]\nrpm = 1\nsystem = "Hm."\n')
    result = CliRunner().invoke(cli, ["--config", str(tmp_path / "pets.toml"), *REPLAYED])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 8 and mock.stats.traces == before
