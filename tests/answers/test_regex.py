"""Patterns of the user's own, in linear time."""

import pytest

from pets.answers.regex import NEAR_END_CHARS, Regex
from pets.errors import SpecError
from pets.registry import make_answer_type, spec_of
from pets.testing import check_answer_type


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        (r"Final: (\w+)", "Final: 3\nFinal: Four.", "4"),
        (r"\d+", "1, 22 and 333", "333"),
        (r"<a>(.*?)</a>|=(\d)", "<a>x</a> then =5", "5"),
        (r"(?i)ANSWER: (.+)", "answer:  São  Paulo! ", "sao paulo"),
        (r"(\d+)", "none", None),
        (r"x*", "no match but the empty one", None),
        (r"\d+", "<think>7</think>8", "8"),
        (r"(?s)^(.).*z$", "abc" * 3000 + "z", "a"),
    ],
)
def test_the_last_match_is_the_answer(pattern, text, answer):
    assert Regex(pattern).extract(text) == answer


def test_a_match_far_from_the_end_counts_where_there_is_none_near_it():
    assert Regex(r"(\d+)").extract("12 " + "x " * NEAR_END_CHARS) == "12"


def test_all_of_the_spec_is_the_pattern():
    pattern = r'a:b=(\w+), {2,3} "x"'
    made = make_answer_type(f"regex:{pattern}")
    assert made == Regex(pattern) and make_answer_type(spec_of(made)) == made


@pytest.mark.parametrize(
    ("spec", "message"), [("regex:(", "none of RE2's (missing ): ()"), ("regex:(a)\\1", "none of RE2's"),
                          ("regex", "pattern is missing. Write regex:PATTERN.")]
)  # fmt: skip
def test_a_bad_pattern_is_one_clear_line(spec, message):
    with pytest.raises(SpecError) as error:
        make_answer_type(spec)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_laws():
    check_answer_type(Regex(r"(?i)final: (.+)"), ["Final: a", "FINAL: A.", "a", "b", "Final: b", "", "..."])
