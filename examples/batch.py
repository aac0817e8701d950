"""Offline batch: a file of questions, one budget, an answer with a certificate for each.

A mock server on this machine stands in for a model, so the script needs no GPU, no key and no network. With a model of
your own, ``pets.solve("questions.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B", budget="8x")`` is
all there is. The same on the command line: ``pets solve questions.jsonl --endpoint ... --budget 8x``.
"""

import pets
from pets.mock import MockModel, running, synthetic

# Twenty made-up questions of four options; the mock knows how its answers to each of them scatter.
scatter = synthetic(20, strength=0.3)
questions = [
    {"id": id, "question": f"Question {id}: A, B, C or D?", "answer_type": "choice:options=4"} for id in scatter.ids()
]

# 8 traces per question on average, 160 in all: easy questions get few of them, hard ones many.
with running(MockModel(scatter)) as url:
    # A run is kept in runs.db, so that nothing is paid for twice; these traces cost nothing.
    solution = pets.solve(questions, endpoint=url, model="mock", budget="8x", concurrency=16, store=None)

# What was bought. Self-consistency is the share of answers that a vote over infinitely many traces would not change.
consistency = solution.consistency
print(f"{solution.spent} traces for {solution.questions} questions")
print(f"expected self-consistency {consistency.mean:.2f} ({consistency.low:.2f} to {consistency.high:.2f})")

# Those to look at first: a certificate is the probability that the answer is the vote over infinitely many traces.
print("least certain:")
for answer in sorted(solution.answers, key=lambda answer: answer.certificate)[:3]:
    print(f"  {answer.id} = {answer.answer}, certificate {answer.certificate:.2f}, votes {dict(answer.votes)}")
