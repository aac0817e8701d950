"""A live run from Python: 20 questions against a mock server on this machine, 8 traces each on average.

Put your own server's URL and model in their place; everything else stays as it is.
"""

import pets
from pets.mock import MockModel, running, synthetic
from pets.questions import Problem
from pets.samplers import Prompt

book = synthetic(20, strength=0.3)
questions = [Problem(id, Prompt.chat(f"Question {id}"), "choice:options=4") for id in book.ids()]

with running(MockModel(book)) as url:
    solution = pets.solve(questions, endpoint=url, model="mock", budget="8x", concurrency=16)

mean, low, high = solution.consistency
print(f"{solution.spent} traces, expected self-consistency {mean:.2f} ({low:.2f} to {high:.2f})")
for answer in sorted(solution.answers, key=lambda answer: answer.certificate)[:3]:
    print(f"least certain: {answer.id} = {answer.answer}, {answer.certificate:.2f}, votes {answer.votes}")
