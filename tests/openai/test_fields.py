"""Fields of a request are read where they are right; an error names the one that is not."""

import pytest

from pets.openai.errors import ApiError
from pets.openai.fields import flag, json_object, number, object_field, whole_number


def test_fields_that_are_right_or_missing():
    fields = {"stream": True, "n": 3, "temperature": 1, "options": {"a": 1}, "seed": None}
    assert flag(fields, "stream") and not flag(fields, "logprobs")
    assert (whole_number(fields, "n", 1, 9), whole_number(fields, "seed", 0, 9)) == (3, None)
    assert (number(fields, "temperature", 0, 2), number(fields, "top_p", 0, 1)) == (1.0, None)
    assert (object_field(fields, "options"), object_field(fields, "other")) == ({"a": 1}, {})


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda wrong: flag({"x": wrong}, "x", "in."), "'in.x' is .*; expected true or false"),
        (
            lambda wrong: whole_number({"x": wrong}, "x", 1, 9, "in."),
            "'in.x' is .*; expected a whole number .* 9",
        ),
        (lambda wrong: number({"x": wrong}, "x", 1, 9, "in."), "'in.x' is .*; expected a number between 1 and 9"),
    ],
)
@pytest.mark.parametrize("wrong", [0, "1", [1], {}, 10**4000], ids=["0", "text", "list", "object", "large"])
def test_fields_that_are_wrong(read, words, wrong):
    with pytest.raises(ApiError, match=words) as caught:
        read(wrong)
    assert (caught.value.param, caught.value.status) == ("in.x", 400)
    assert len(caught.value.message) < 200


def test_a_flag_is_no_number():
    for read in (whole_number, number):
        with pytest.raises(ApiError):
            read({"n": True}, "n", 0, 9)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"n": NaN}', b"[" * 100_000, b"[1]", b"7"])
def test_bodies_that_hold_no_object(body):
    with pytest.raises(ApiError, match="JSON"):
        json_object(body)
