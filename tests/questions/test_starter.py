"""The starter set: what it promises about its own questions."""

from collections import Counter

from pets.questions import question_set
from pets.registry import make_answer_type

PROBLEMS = question_set("starter").problems


def test_about_300_questions_of_every_level_with_ids_of_their_own():
    levels = Counter(problem.level for problem in PROBLEMS)
    assert 250 <= len(PROBLEMS) <= 350
    assert min(levels.values()) >= 15 and len(levels) == 6
    assert len({problem.id for problem in PROBLEMS}) == len({problem.prompt for problem in PROBLEMS}) == len(PROBLEMS)


def test_every_gold_is_right_and_canonical_up_to_case():
    for problem in PROBLEMS:
        kind, *operands = problem.id.split("-")
        if kind != "fact":
            a, b = map(int, operands)
            assert problem.gold == str({"sum": a + b, "difference": a - b, "product": a * b}[kind])
            assert f"{a} {'+-x'[['sum', 'difference', 'product'].index(kind)]} {b}?" in problem.prompt.content
        assert make_answer_type(problem.answer_type).canonical(problem.gold) == problem.gold.lower(), problem.id


def test_no_question_is_among_its_own_examples():
    for problem in PROBLEMS:
        *shots, asked = problem.prompt.content.split("Question: ")[1:]
        assert asked.endswith("\nAnswer:") and not any(shot.startswith(asked) for shot in shots)


def test_every_example_is_read_as_its_own_answer():
    for problem in PROBLEMS:
        *shots, _ = problem.prompt.content.split("Question: ")[1:]
        read = make_answer_type(problem.answer_type).extract
        assert all(read(shot.split("Answer:")[1]) is not None for shot in shots)


def test_any_first_part_mixes_the_levels():
    first = Counter(problem.level for problem in PROBLEMS[:60])
    assert len(first) == 6 and max(first.values()) <= 40
