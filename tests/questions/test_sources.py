"""Questions by name: a file, a set or stdin, in whatever format stdin is."""

import io
import json
import sys

import pytest

from pets.errors import InputError
from pets.questions import Problem, find_questions
from pets.samplers import Prompt

EXPECTED = (Problem("a", Prompt.chat("2 + 2?"), "auto", "4"),)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"id": "a", "question": "2 + 2?", "answer": 4}) + "\n",
        json.dumps([{"id": "a", "question": "2 + 2?", "answer": 4}], indent=1),
        "id,question,answer\na,2 + 2?,4\n",
        "id;question;answer\na;2 + 2?;4\n",
    ],
    ids=["jsonl", "json", "csv", "semicolons"],
)
def test_stdin_is_read_in_the_format_that_it_shows(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert find_questions("-").problems == EXPECTED


def test_plain_lines_on_stdin_are_questions(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"What is 2, or 3?\nAnd then?\n")))
    questions = find_questions("-")
    assert [problem.prompt.content[0].content for problem in questions.problems] == ["What is 2, or 3?", "And then?"]


def test_an_empty_or_bad_stdin_is_one_line(monkeypatch):
    for text, message in (("", "holds no question"), ("{oops\n", "questions on stdin line 1: this is not JSON")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with pytest.raises(InputError, match=message):
            find_questions("-")


def test_a_file_that_is_named_like_a_set_needs_its_path_only_where_fields_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "starter").write_text(json.dumps({"id": "a", "body": "2 + 2?", "answer": 4}))
    assert find_questions("starter", {"question": "body"}).problems == EXPECTED
    assert len(find_questions("starter").problems) == 300
