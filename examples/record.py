"""Record: many traces of every question, once; then study policies and fit plans without paying again.

A mock server stands in for a model. The same on the command line:

    pets sample questions.jsonl -o questions.pool.jsonl --traces 32 --endpoint http://localhost:8000/v1 --model m
    pets fit questions.pool.jsonl --budget 8x -o plan.json
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pets
from pets.mock import MockModel, running, synthetic

scatter = synthetic(12, strength=0.3)  # made-up questions of four options
questions = [{"id": id, "question": f"Question {id}", "answer_type": "choice:options=4"} for id in scatter.ids()]

with TemporaryDirectory() as folder, running(MockModel(scatter)) as url:
    # The file grows by a line for every question; broken off, the same call goes on where it ends.
    file = Path(folder) / "questions.pool.jsonl"
    pool = pets.record(questions, endpoint=url, model="mock", traces=32, output=file)

print(f"{sum(len(question.answers) for question in pool.questions)} traces of {len(pool.questions)} questions")
plan = pets.fit(pool, mean_budget=8, policy="price:rounds=1")
print(f"at 8 traces per question a stream reaches self-consistency {plan.expected:.2f}")
