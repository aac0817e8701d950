"""Files of questions: what is written is read back, and every bad line has its number."""

import io

import pytest

from pets.errors import InputError
from pets.questions import named_sets, question_set, read_questions, write_questions
from pets.samplers import Prompt


def test_a_set_survives_the_round_trip(tmp_path):
    problems = question_set("starter").problems
    text = io.StringIO()
    write_questions(problems, text)
    path = tmp_path / "starter.jsonl"
    path.write_text(text.getvalue(), "utf-8")
    assert read_questions(path).problems == problems


def test_a_question_is_asked_as_a_chat(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "What is 2 + 2?", "gold": 4, "answer": "number"}\n\n{"id": 7, "prompt": "1, 2,"}\n')
    first, second = read_questions(path).problems
    assert (first.id, first.gold, first.prompt) == ("1", "4", Prompt.chat("What is 2 + 2?"))
    assert (second.id, second.prompt, second.answer) == ("7", Prompt("1, 2,"), "text")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "an object with id and prompt"),
        ('{"id": "x"}', '"prompt" is a text'),
        ('{"id": "x", "prompt": ""}', "the prompt is empty"),
        ('{"id": "x", "prompt": [{"role": "boss", "content": "a"}]}', '"prompt" is a text'),
        ('{"id": "x", "prompt": "a", "answer": "colour"}', "no answer type 'colour'"),
        ('{"id": "x", "prompt": "a", "options": 1}', "at least 2"),
        ('{"id": ["x"], "prompt": "a"}', "expected a string"),
        ('{"id": "good", "prompt": "a"}', "as on line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, said):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "good", "prompt": "a"}\n' + line + "\n")
    with pytest.raises(InputError, match=r'"bad\.jsonl" line 2') as error:
        read_questions(path)
    assert said in str(error.value)


def test_a_missing_or_empty_file_and_an_unknown_set_say_so(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no question"):
        read_questions(tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match=", ".join(named_sets())):
        question_set("nothing")
