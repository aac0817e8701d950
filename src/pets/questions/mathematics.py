r"""Sets of mathematics: a problem in words, an answer in a box.

>>> competition({"problem_idx": 3, "problem": "What is $1+1$?", "answer": "2", "problem_type": ["Algebra"]}, "1")
Problem(id='3', prompt=Prompt(...), answer='math', gold='2', level='Algebra', options=None)
>>> school({"question": "Two and two pens?", "answer": "2 + 2 = <<2+2=4>>4\n#### 1,004"}, "7").gold
'1,004'
"""

from pets.errors import InputError
from pets.questions.problem import Problem
from pets.questions.published import first_of, level_of
from pets.questions.rows import Record
from pets.samplers.base import Prompt

__all__ = ["competition", "integers", "school"]

ASKED = "{}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
FINAL = "####"


def competition(record: Record, id: str, seed: int = 0) -> Problem:
    """``problem`` and ``answer``: MathArena's contests, AIME, MATH."""
    return _problem(record, id, "math", first_of(record, "answer", "Answer"))


def integers(record: Record, id: str, seed: int = 0) -> Problem:
    """The same where every answer is a whole number; some copies of AIME write their columns' names large."""
    return _problem(record, id, "number", first_of(record, "answer", "Answer"))


def school(record: Record, id: str, seed: int = 0) -> Problem:
    """``question`` and ``answer``: GSM8K, whose answer is worked out and ends in ``#### 18``."""
    worked, mark, final = first_of(record, "answer").rpartition(FINAL)
    if not mark:
        raise InputError(f'"answer" ends in {worked[-20:] + final[-20:]!r}; expected "{FINAL}" and the number.')
    return _problem(record, id, "number", final.strip())


def _problem(record: Record, id: str, answer: str, gold: str) -> Problem:
    id = first_of(record, "unique_id", "problem_idx", "id", "ID", default=id)
    question = first_of(record, "problem", "question", "Problem").strip()
    level = level_of(record, "subject", "problem_type")
    return Problem(id, Prompt.chat(ASKED.format(question)), answer, gold.strip(), level)
