"""Sets of multiple choice: a question, lettered options, the letter in a box."""

import zlib
from collections.abc import Sequence

import numpy as np

from pets.errors import InputError
from pets.questions.problem import Problem
from pets.questions.published import first_of, level_of
from pets.questions.rows import Record
from pets.samplers.base import Prompt

__all__ = ["listed", "shuffled"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ASKED = "{}\n\n{}\n\nPlease reason step by step, and put the letter of your choice within \\boxed{{}}."
RIGHT, WRONG = "Correct Answer", ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
FILLER = "N/A"  # older versions of MMLU-Pro fill their lists up to ten with it


def shuffled(record: Record, id: str, seed: int = 0) -> Problem:
    """GPQA: the right answer and three wrong ones, in an order that depends on the seed and the question alone.

    >>> row = {"Question": "Which?", "Correct Answer": "this", "Incorrect Answer 1": "that"}
    >>> row |= {"Incorrect Answer 2": "those", "Incorrect Answer 3": "these", "Record ID": "rec1"}
    >>> [shuffled(row, "1", seed).gold for seed in range(6)]
    ['C', 'A', 'B', 'B', 'C', 'D']
    """
    question = first_of(record, "Question").strip()
    options = [first_of(record, key).strip() for key in (RIGHT, *WRONG)]
    rng = np.random.default_rng([seed, zlib.crc32(question.encode())])
    order = rng.permutation(len(options)).tolist()
    id = first_of(record, "Record ID", default=id)
    level = level_of(record, "High-level domain")
    return _problem(id, question, [options[at] for at in order], order.index(0), level)


def listed(record: Record, id: str, seed: int = 0) -> Problem:
    """MMLU-Pro: ``options`` in their own order, ``answer_index`` (or the letter ``answer``) says which is right."""
    options = record.get("options")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise InputError(f'"options" is {str(options)[:40]!r}; expected a list of texts.')
    right = record.get("answer_index")
    if right is None:
        right = LETTERS.find(first_of(record, "answer"))
    if type(right) is not int or not 0 <= right < len(options):
        raise InputError(f"the right one is number {right!r} of {len(options)} options; expected one of them.")
    kept = [at for at, option in enumerate(options) if option != FILLER or at == right]
    id = first_of(record, "question_id", default=id)
    question = first_of(record, "question").strip()
    return _problem(id, question, [options[at] for at in kept], kept.index(right), level_of(record, "category"))


def _problem(id: str, question: str, options: Sequence[str], right: int, level: str) -> Problem:
    lettered = "\n".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
    many = len(options)
    return Problem(
        id, Prompt.chat(ASKED.format(question, lettered)), f"choice:options={many}", LETTERS[right], level, many
    )
