"""``pets.solve``: the whole of a run in one call."""

import asyncio
from dataclasses import replace
from typing import Any

from pets.engine.engine import Engine
from pets.engine.snapshot import Solution
from pets.engine.sources import Questions

__all__ = ["solve"]


def solve(questions: Questions, **options: Any) -> Solution:
    """Answer questions by self-consistency under a budget; takes what :class:`~pets.engine.engine.Engine` takes.

        solution = pets.solve("mine.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B", budget="16x")
        for answer in solution.answers:
            print(answer.id, answer.answer, answer.certificate)

    Inside an event loop, use ``Engine``.
    """
    return asyncio.run(_solve(questions, options))


async def _solve(questions: Questions, options: dict[str, Any]) -> Solution:
    async with Engine(questions, **options) as engine:
        solution = await engine.run()
        return replace(solution, answers=tuple(engine.answers()))
