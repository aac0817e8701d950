"""Where the final answer stands."""

import pytest

from pets.answers.final import boxed, places
from pets.registry import make_answer_type


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
        (
            "the answer is 3\nthe answer is 4.",
            [("cue", "4."), ("cue", "3"), ("line", "the answer is 4."), ("first", "the answer is 3")],
        ),
        ("**Answer:** C\n\n", [("cue", "C"), ("line", "**Answer:** C")]),
        ("**Final Answer**\n42", [("cue", "42"), ("line", "42"), ("first", "**Final Answer**")]),
        ("#### 42", [("cue", "42"), ("line", "#### 42")]),
        ("B is the correct answer.", [("cue", "B"), ("line", "B is the correct answer.")]),
        ("The answer is A. Wait, no: B.", [("cue", "B."), ("line", "B.")]),
        ("<answer>B</answer> and so on", [("marked", "B")]),
        ('{"why": "the answer is 3", "answer": 4}', [("marked", "4")]),
        ('{"answer": {"value": 5, "unit": "km"}}', [("marked", "5 km")]),
        ('{"answer": null}', []),
        (r"\boxed{3} or \boxed{5}", [("boxed", "3 or 5")]),
        (r"\boxed{3}. So the correct option is (B).", [("boxed", "3"), ("cue", "(B).")]),
        (
            r"\boxed{3}. Wait, no. The answer is 4.",
            [("cue", "4."), ("cue", "The answer is 4."), ("line", "The answer is 4.")],
        ),
        ("So 42.\n\nLet me know if you have questions!", [("line", "So 42.")]),
        ("42\n\nExplanation:\nEach has 7.", [("line", "42")]),
        ("正确答案是（B）。", [("cue", "（B）。"), ("line", "正确答案是（B）。")]),
        ("Answer:\n42", [("cue", "42"), ("line", "42")]),
        ("The answer to the second question is 5", [("cue", "5"), ("line", "The answer to the second question is 5")]),
        ("I cannot answer that", []),
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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("64\n\nQuestion: A robe takes 2 bolts. How many in all?\nAnswer: 3", "64"),
        ("21 + 12 = 33. The answer is 33.\n\nQ: Jason had 20.\nA: The answer is 8.", "33"),
        ("#### 260\n\nProblem: Betty saves.\nSolution: 50.\n#### 5", "260"),
        ("Question: What is 2 + 2?\n\nAnswer: 4", "4"),
        ("Let me restate.\n\nProblem: find x.\nSolution: x + 1 = 6. The answer is 5.", "5"),
    ],
)
def test_a_model_that_goes_on_with_a_question_of_its_own_has_answered_before(text, answer):
    assert make_answer_type("number").extract(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "The pens cost $18 and the notebooks $12. The total before tax is then $30, and with a tax of 8% we get",
        "There are 6 x 6 = 36 outcomes, and the pairs whose sum is 9 are (3,6), (4,5), (5,4) and (6,",
        "Could you clarify whether the 15% discount applies before or after tax?",
    ],
)
def test_a_text_that_breaks_off_or_asks_back_has_no_answer(text):
    assert make_answer_type("number").extract(text) is None


def test_a_long_sentence_without_an_end_was_cut_and_a_short_one_was_not():
    number = make_answer_type("number")
    cut = "There are 36 outcomes. From these we have to take away those in which both dice show an even number that"
    assert number.extract(cut) is None
    assert number.extract("She had 50 apples and gave 8 away. So there are 42 apples left") == "42"


@pytest.mark.parametrize(
    ("text", "content"),
    [(r"So \boxed 7.", "7"), (r"Thus $\boxed 3.5$", "3.5"), (r"\boxed C", "C"), (r"the \boxed answer is 5", None)],
)
def test_a_box_without_braces_holds_one_number_or_letter(text, content):
    assert next((passage for place, passage in places(text) if place == "boxed"), None) == content
