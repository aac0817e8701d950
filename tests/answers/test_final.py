"""Where the final answer stands."""

import pytest

from pets.answers.final import boxed, places


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{7}", "7"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{ \boxed{3} }", "3"),
        (r"\boxed{1} and cut off at \boxed{2", "1"),
        (r"\boxed{1} and \boxed{}", "1"),
        (r"\fbox{9}", "9"),
        (r"\boxed {5}", "5"),
        ("boxed{5}", None),
        ("", None),
    ],
)
def test_the_last_complete_box(text, content):
    assert boxed(text) == content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"The answer is 3. \boxed{4}", [("boxed", "4")]),
        ("the answer is 3\nNo: the final answer is 4.", [("cue", "4."), ("line", "No: the final answer is 4.")]),
        ("**Answer:** C\n\n", [("cue", "C"), ("line", "**Answer:** C")]),
        ("**Final Answer**\n#### 42", [("cue", "42"), ("line", "#### 42")]),
        ("Answer:\n42", [("cue", "42"), ("line", "42")]),
        ("The answer to the second question is 5", [("cue", "5"), ("line", "The answer to the second question is 5")]),
        ("I cannot answer that", [("line", "I cannot answer that")]),
        ("<think>answer is 1</think>It is 2", [("line", "It is 2")]),
        ("answer is 1</think>It is 2", [("line", "It is 2")]),
        (r"<think>so \boxed{1}, wait", []),
        (" \n ", []),
        ("", []),
    ],
)
def test_places_best_first(text, expected):
    assert list(places(text)) == expected


def test_a_long_text_is_read_in_linear_time():
    assert list(places("answer " * 200_000 + r"\boxed{" * 2_000)) == []
