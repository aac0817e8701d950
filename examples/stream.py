"""Stream: questions arrive one by one, each is answered as soon as its vote is clear, within one budget.

A plan says how to spend it: fitted to recorded answers of the same kind of questions. Here both come from the pool that
PETS brings, answered by a mock server. On the command line: `pets fit recorded.jsonl -o plan.json`, then
`pets stream --plan plan.json --endpoint http://localhost:8000/v1 --model Qwen/Qwen3-8B < questions.jsonl`.
"""

import asyncio

import pets
from pets.mock import MockModel, PoolAnswers, running
from pets.pools import load

recorded = load("starter").questions
plan = pets.fit(pets.Pool("training", recorded[:100]), mean_budget=8)
arriving = pets.Pool("arriving", recorded[100:160])
questions = [{"id": q.id, "prompt": f"Question {q.id}", "answer_type": "text"} for q in arriving.questions]


async def main(url: str) -> None:
    spent = 0
    # `questions` may be an asynchronous iterator too: a queue or a socket of your service.
    async for answer in pets.stream(questions, endpoint=url, model="mock", plan=plan):
        spent += answer.traces
        print(f"{answer.id} = {answer.answer}, certificate {answer.certificate:.2f}, {answer.traces} traces")
    print(f"{spent} traces of {8 * len(questions)}")


with running(MockModel(PoolAnswers(arriving))) as url:
    asyncio.run(main(url))
