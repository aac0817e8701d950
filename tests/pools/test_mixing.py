"""Pools of several models as one: turns, shares, the same questions, and what does not mix."""

import pytest

from pets.core.mixture import ModelMixture
from pets.errors import InputError, PoolError
from pets.pools import Pool, PooledQuestion, mix_pools, split_mixture


def pool(name, traces=6, ids=("q0", "q1", "q2"), **fields):
    questions = (PooledQuestion(id, tuple(f"{name}{n}" for n in range(traces)), "gold", **fields) for id in ids)
    return Pool(f"set.{name}", tuple(questions), "text")


def test_the_traces_of_a_question_take_turns_from_its_place_on_and_keep_their_order():
    mixed = mix_pools([pool("a"), pool("b")])
    assert [question.answers[:3] for question in mixed.questions] == [
        ("a0", "b0", "a1"), ("b0", "a0", "b1"), ("a0", "b0", "a1")]  # fmt: skip
    assert mixed.questions[1].models[:3] == (1, 0, 1) and mixed.kind == "text"


@pytest.mark.parametrize("weights", [(2, 1), (1, 3)])
def test_as_many_traces_are_taken_as_the_turns_allow(weights):
    mixed = mix_pools([pool("a", 12), pool("b", 12)], weights)
    for place, question in enumerate(mixed.questions):
        size = len(question.answers)
        assert question.models == tuple(ModelMixture(weights).model_of(place + n) for n in range(size))
        assert max(question.models.count(model) for model in (0, 1)) == 12


def test_questions_that_not_all_have_are_left_out_and_names_tell_models_and_weights():
    mixed = mix_pools([pool("a"), pool("b", ids=("q2", "q0"))], (2, 1))
    assert [question.id for question in mixed.questions] == ["q0", "q2"] and mixed.name == "set.a=2+b=1"


def test_columns_are_mixed_where_all_pools_have_them():
    full = {"tokens": (1, 2, 3, 4, 5, 6), "confidences": {"tail": (0.5,) * 6, "mean": (0.1,) * 6}}
    mixed = mix_pools([pool("a", **full), pool("b", **full)])
    assert mixed.questions[0].tokens == (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6)
    assert set(mixed.questions[0].confidences) == {"tail", "mean"}
    assert mix_pools([pool("a", **full), pool("b")]).questions[0].tokens is None


def test_pools_that_asked_something_else_do_not_mix():
    other = Pool("set.b", (PooledQuestion("q0", ("x",), "another"),), "text")
    with pytest.raises(PoolError, match="did not ask the same question"):
        mix_pools([pool("a"), other])
    with pytest.raises(PoolError, match="share no question"):
        mix_pools([pool("a"), pool("b", ids=("z",))])
    with pytest.raises(PoolError, match="different kinds"):
        mix_pools([pool("a"), Pool("set.b", other.questions, "number")])


def test_a_file_name_with_a_plus_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert split_mixture("a+b.jsonl=1.5") == [("a", 1.0), ("b.jsonl", 1.5)]
    (tmp_path / "a+b.jsonl").write_text("")
    assert split_mixture("a+b.jsonl") == [("a+b.jsonl", 1.0)]


@pytest.mark.parametrize("text", ["a.jsonl+a.jsonl", "a.jsonl=2+a.jsonl", "a.jsonl+"])
def test_a_pool_mixed_with_itself_or_nothing_is_refused(text):
    with pytest.raises(InputError, match="name each once"):
        split_mixture(text)
