"""Online stream: questions arrive one by one, each is answered as soon as its vote is clear, the budget is fixed.

A plan says how to spend the budget. It is fitted to recorded answers of the same kind of questions, and needs no right
answers. Here both come from the pool that PETS brings: the plan from its first 100 questions, the stream from the next
60, answered by a mock server. The same on the command line:

    pets fit recorded.jsonl --budget 8x --rounds 3 -o plan.json
    pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

from pets import Answer, Budget, OpenAISampler, Problem, Prompt
from pets.engine import RunSpec
from pets.engine.sources import Sources
from pets.engine.stream import Stream
from pets.mock import MockModel, PoolAnswers, running
from pets.plans import fit_plan
from pets.pools import load

pool = load("starter")
training = replace(pool, name="training", questions=pool.questions[:100])
arriving = replace(pool, name="arriving", questions=pool.questions[100:160])

# 8 traces per question on average, in at most 3 parallel batches after the first 4 traces.
plan = fit_plan(training, mean_budget=8, rounds=3)
spec = RunSpec.of(
    policy=plan.policy(use_up=True),
    budget=f"{plan.mean_budget}x",
    max_traces=plan.cap,
    horizon=len(arriving.questions),
    concurrency=16,
)

answers: list[Answer] = []


async def questions() -> AsyncIterator[Problem]:
    """Questions as they arrive: in your service a queue, a socket, standard input."""
    for question in arriving.questions:
        yield Problem(question.id, Prompt.chat(f"Question {question.id}"), "text")


async def main(url: str) -> Budget:
    # `answers.append` gets each answer as soon as it is there; yours would send it to whoever asked.
    async with Stream(spec, Sources([OpenAISampler(url, "mock")]), answers.append) as stream:
        await stream.run(questions())
        return stream.driver.allocator.budget


with running(MockModel(PoolAnswers(arriving))) as url:
    budget = asyncio.run(main(url))

print(f"{len(answers)} answers for {budget.spent} of {budget.total} traces")
print("traces per question, and how many questions took so many:")
for traces, count in sorted(Counter(answer.traces for answer in answers).items()):
    print(f"  {traces:3d} {'#' * count}")
surest = max(answers, key=lambda answer: answer.certificate)
print(f"surest: {surest.id} = {surest.answer}, certificate {surest.certificate:.3f}, {surest.traces} traces")
