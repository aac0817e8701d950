"""A question needs an id; all else has a default."""

import pytest

from pets.errors import InputError
from pets.questions import Problem, QuestionSet
from pets.samplers import Prompt, Sampling


def test_a_question_without_an_id_is_refused():
    with pytest.raises(InputError, match='has no "id"'):
        Problem("", Prompt("2 + 2 ="))


def test_a_question_is_read_as_text_and_a_set_is_drawn_plainly_where_nothing_else_is_said():
    problem = Problem("q", Prompt("2 + 2 ="))
    assert (problem.answer_type, problem.gold, problem.level, problem.options) == ("text", None, "", None)
    assert QuestionSet("mine", (problem,)).sampling == Sampling()
