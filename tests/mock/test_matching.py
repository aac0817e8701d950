"""Which question a prompt asks."""

import pytest

from pets.mock.matching import QuestionMatcher

MATCHER = QuestionMatcher(["q1", "q12", "gpqa-001", "#7", "What is 2 + 2?", "1"])


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        ("q12", "q12"),
        ("Answer q1, please", "q1"),
        ("q12 comes after q1", "q12"),
        ("Question 1. See gpqa-001!", "gpqa-001"),
        ("(#7)", "#7"),
        ("Think. What is 2 + 2? CompletionResponse briefly.", "What is 2 + 2?"),
        ("the answer to 1", "1"),
        ("q1\n", "q1"),
    ],
)
def test_the_longest_id_that_stands_alone_wins(prompt, question):
    assert MATCHER.find(prompt) == (question, True)


def test_of_equal_ids_the_last_wins_as_in_few_shot_prompts():
    assert QuestionMatcher(["q1", "q2", "q3"]).find("Q: q3 A: 5\nQ: q1 A: 7\nQ: q2 A:") == ("q2", True)


def test_a_whole_prompt_that_was_given_is_its_question_and_nothing_else_is():
    matcher = QuestionMatcher(["q1", "q2"], {"Q: 3 + 4?\nA:": "q2", "elsewhere": "q9"})
    assert matcher.find("Q: 3 + 4?\nA:") == ("q2", True)
    assert not matcher.find("Q: 3 + 4?\nA: ")[1] and not matcher.find("elsewhere")[1]


@pytest.mark.parametrize("prompt", ["", "xq1", "q123", "gpqa-0012", "q1_b", "\ud800"])
def test_a_prompt_that_names_none_always_gets_the_same_one(prompt):
    first, again = MATCHER.find(prompt), QuestionMatcher(MATCHER._ids).find(prompt)
    assert first == again and not first[1]


def test_prompts_that_name_none_spread_over_the_questions():
    found = [MATCHER.find(f"prompt{number}x")[0] for number in range(600)]
    assert min(found.count(id) for id in MATCHER._ids) > 60
