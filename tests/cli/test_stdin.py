"""Lines as they arrive, and the questions in them."""

import asyncio
import io
import json
import os

import pytest

from pets.cli import _stdin
from pets.cli._stdin import arriving_rows, problems_in, spoken_problem


def read(file):
    async def run():
        return [row async for row in arriving_rows(file)]

    return asyncio.run(run())


def asked(*texts):
    """The ids of the questions in these lines, and the lines refused."""
    refused = []

    async def run():
        content = b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)
        parse, rows = spoken_problem({}, "number"), arriving_rows(io.BytesIO(content))
        return [one async for one in problems_in(rows, parse, lambda at, why: refused.append((at, why)))]

    return asyncio.run(run()), refused


def test_rows_come_under_the_numbers_of_their_lines():
    rows = [(row.place, row.value) for row in read(io.BytesIO(b"1\n\n \n2\r\n3"))]
    assert rows == [("line 1", 1), ("line 4", 2), ("line 5", 3)]


def test_blank_lines_are_no_questions_and_count_as_lines():
    found, refused = asked("", '{"question": "1 + 1?"}', " \r", "{", '{"question": "2 + 2?"}')
    assert [one.id for one in found] == ["1", "3"]
    assert [at for at, _ in refused] == [4]


def test_more_lines_than_are_read_ahead_all_come():
    content = b"".join(b"%d\n" % i for i in range(5000))
    assert [row.value for row in read(io.BytesIO(content))] == list(range(5000))


def test_a_line_comes_while_the_pipe_is_still_open():
    reading, writing = os.pipe()

    async def run():
        with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb", buffering=0) as end:
            arriving = arriving_rows(file)
            end.write(b"1\n2")
            assert (await anext(arriving)).value == 1
            end.write(b"2\n")
            assert (await anext(arriving)).value == 22
            end.close()
            assert await anext(arriving, None) is None

    asyncio.run(run())


class Breaking(io.BytesIO):
    def readline(self, size=-1):
        if found := super().readline(size):
            return found
        raise OSError("the other side is gone")


def test_a_pipe_that_breaks_has_ended():
    assert [row.value for row in read(Breaking(b"1\n2\n"))] == [1, 2]


def test_a_line_without_end_is_cut_and_passed_over(monkeypatch):
    monkeypatch.setattr(_stdin, "MAX_LINE_BYTES", 1000)
    cut, following = read(io.BytesIO(b"x" * 5000 + b"\n2\n"))
    assert (cut.place, following.place, following.value) == ("line 1", "line 2", 2) and "not JSON" in cut.problem


CSV = """
id,question,gold
a,"What is 1, and
then 2?",3
b,5" pipe?,

c,"broken" x,1
d,one,two,three
e,\xff?,1
f,last?,6
"""


def test_rows_of_csv_come_under_the_numbers_of_their_lines():
    content = CSV.encode("latin-1")
    assert [row.place for row in read(io.BytesIO(content))] == [f"line {at}" for at in (4, 5, 7, 8, 9, 10)]
    found, refused = asked(content)
    assert [(one.id, one.prompt.content[-1].content) for one in found] == [
        ("a", "What is 1, and\nthen 2?"), ("b", '5" pipe?'), ("f", "last?"),
    ]  # fmt: skip
    assert [(at, why.split(" (")[0]) for at, why in refused] == [
        (7, "this is not CSV"), (8, "it has more cells than the head"), (9, "this is not UTF-8"),
    ]  # fmt: skip


def test_a_row_of_csv_comes_while_the_pipe_is_still_open_and_an_open_quote_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(_stdin, "MAX_LINE_BYTES", 1000)
    reading, writing = os.pipe()

    async def run():
        with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb", buffering=0) as end:
            arriving = arriving_rows(file)
            end.write(b"id;question\na;What?\n")
            assert (await anext(arriving)).value == {"id": "a", "question": "What?"}
            end.write(b'b;"never\n' + b"x" * 400 + b"\n" + b"y" * 700 + b"\nc;Who?\n")
            broken, whole = [await anext(arriving) for _ in range(2)]
            assert "larger than field limit" in broken.problem and broken.place == "line 5"
            assert whole.value == {"id": "c", "question": "Who?"}

    asyncio.run(run())


def test_a_question_is_read_by_the_type_that_is_given_unless_it_says_another():
    found, refused = asked('{"id": "a", "question": "1 + 1?"}', '{"question": "x?", "answer_type": "text"}')
    assert [(one.id, one.answer_type) for one in found] == [("a", "number"), ("2", "text")]
    assert not refused


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "3", "null", '{"id": "x"}', b"\xff", "[" * 100_000, json.dumps({"question": "\ud800"}), "9" * 9000],
)
def test_a_line_that_is_no_question_is_refused_and_the_next_one_read(text):
    found, refused = asked(text, '{"id": "good", "question": "?"}')
    assert [one.id for one in found] == ["good"]
    assert [at for at, _ in refused] == [1]
    assert refused[0][1]
