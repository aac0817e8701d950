"""What the verbs that ask a model share: their questions, and how traces are drawn."""

import pytest

from pets.cli.options import load_questions, merge_sampling
from pets.errors import InputError
from pets.prompts import Sampling


def test_questions_come_from_a_named_set_or_a_file(tmp_path):
    assert len(load_questions("starter").problems) > 100
    path = tmp_path / "mine.csv"
    path.write_text("id,problem,solution\na,What is 2 + 2?,4\n")
    (problem,) = load_questions(str(path), ("question=problem", "gold=solution")).problems
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
        load_questions(name, fields)


def test_what_is_not_given_is_the_sets_own_choice():
    own = Sampling(max_tokens=50, temperature=0.7, stop=("x",), window=8)
    assert merge_sampling(own, None, None, (), None) == own
    assert merge_sampling(own, 0.0, 9, ("y",), 4) == Sampling(max_tokens=9, temperature=0.0, stop=("y",), window=4)
