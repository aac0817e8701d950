"""The starter set: short questions that a model of 135 million parameters can try, made for PETS.

Sums and differences of one and two digits, products to 12 and general knowledge with one-word answers, in few-shot
completion form: a chat or a letter-only form is near chance for so small a model. A worked example takes 30 to 40
tokens, so that the four trace confidences differ over windows of 8. The order is fixed and mixes the levels, so that
any first part of the set is a fair sample of it; what is added stands behind, so that no question's place, and with it
the seeds of its traces, ever moves.
"""

import json
from functools import cache
from importlib.resources import files

from pets.prompts import Prompt, Sampling
from pets.questions.problem import Problem, QuestionSet

SAMPLING = Sampling(max_tokens=56, temperature=0.7, stop=("\n",), top_logprobs=20, window=8)


@cache
def starter() -> QuestionSet:
    """The starter set: 300 questions, each behind the examples of its kind, and how their traces are drawn.

    >>> problems = starter().problems
    >>> sorted({problem.level for problem in problems})[:2]
    ['difference of one digit', 'difference of two digits']
    """
    data = json.loads(files(__package__).joinpath("starter.json").read_bytes())
    problems = []
    for id, question, gold, level in data["questions"]:
        kind = id.partition("-")[0]
        prompt = Prompt(f"{data['examples'][kind]}Question: {question}\nAnswer:")
        problems.append(Problem(id, prompt, "text" if kind == "fact" else "number", gold, level))
    return QuestionSet("starter", tuple(problems), SAMPLING)
