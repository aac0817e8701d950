"""What the verbs that ask a model share: their questions, and how traces are drawn."""

import pytest

from pets.cli.options import LocalModelOptions, ModelOptions, QuestionOptions, SamplingOptions, StoredRunOptions
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
    assert SamplingOptions(0.0, 9, ("y",), 4).merge(own) == Sampling(
        max_tokens=9, temperature=0.0, stop=("y",), window=4
    )


def test_a_server_needs_the_name_of_a_model_and_gets_the_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-1")
    assert ModelOptions(key_env="MY_KEY").key == "sk-1" and ModelOptions(key_env="NO_KEY").key is None
    with pytest.raises(InputError, match="--endpoint needs --model NAME"):
        ModelOptions(endpoint=("http://x/v1",)).samplers(LocalModelOptions(), stream=False)
    servers = ModelOptions(endpoint=("http://x/v1", "http://y/v1"), model="m")
    assert len(servers.samplers(LocalModelOptions(), stream=False)) == 2


def test_a_local_model_has_fewer_traces_in_flight():
    server, local = ModelOptions(endpoint=("http://x/v1",)), ModelOptions()
    assert [StoredRunOptions().in_flight(model) for model in (server, local)] == [64, 16]
    assert StoredRunOptions(concurrency=3).in_flight(local) == 3
