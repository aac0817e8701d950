"""Recording: n traces of every question as a pool, so that policies can be studied without paying again.

Every question is a line of its own, written whole and flushed to disk when its last trace is back. A recording that
was broken off is taken up again where it stopped: what stands in the file is not sampled twice.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pets.confidence import KINDS
from pets.errors import InputError, PoolError
from pets.pools import PooledQuestion, read_pool
from pets.pools.writing import line_of
from pets.questions import Problem
from pets.registry import make_answer_type
from pets.samplers import Completion, Sampler, Sampling, Seeds

__all__ = ["Recording", "record"]


@dataclass(frozen=True, slots=True)
class Recording:
    """What to record: ``traces`` of every problem, drawn as ``sampling`` says, seeds from ``seed``.

    ``part`` (i, k) is every k-th problem, from the i-th on: k machines can share the work, and their files, put
    together, are what one machine would have recorded, since a trace's seed depends on its question's place alone.
    """

    problems: Sequence[Problem]
    traces: int
    sampling: Sampling
    seed: int = 0
    at_once: int = 1  # questions in flight
    part: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        i, k = self.part
        if not 1 <= i <= k:
            raise InputError(f"part {i}/{k} is none of {k}; parts are counted from 1.")
        if self.traces < 1 or self.at_once < 1:
            raise InputError(f"traces and questions in flight are at least 1; got {self.traces} and {self.at_once}.")

    @property
    def numbered(self) -> list[tuple[int, Problem]]:
        """The problems of this part, each with its place among all."""
        i, k = self.part
        return list(enumerate(self.problems))[i - 1 :: k]


async def record(
    recording: Recording, sampler: Sampler, path: Path, told: Callable[[PooledQuestion], None] = lambda _: None
) -> int:
    """Sample what the file does not hold yet, appending a line a question; how many questions were sampled."""
    kept = _kept(path, recording)
    seeds = Seeds(recording.seed, cap=max(4096, recording.traces))
    todo = [(number, problem) for number, problem in recording.numbered if problem.id not in kept]
    with path.open("ab") as file:
        async for question in _sampled(recording, sampler, seeds, todo):
            file.write(line_of(question).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())  # it was paid for
            told(question)
    return len(todo)


async def _sampled(
    recording: Recording, sampler: Sampler, seeds: Seeds, todo: Sequence[tuple[int, Problem]]
) -> AsyncIterator[PooledQuestion]:
    """Questions as they come back, ``at_once`` of them in flight."""
    waiting = list(reversed(todo))
    done: asyncio.Queue[PooledQuestion] = asyncio.Queue()

    async def work() -> None:
        while waiting:
            number, problem = waiting.pop()
            traces = await _traces(sampler, problem, recording, seeds.at(number, 0))
            await done.put(pooled(problem, traces))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(recording.at_once, len(todo))):
            group.create_task(work())
        for _ in todo:
            yield await done.get()


async def _traces(sampler: Sampler, problem: Problem, recording: Recording, seed: int) -> list[Completion]:
    """As many traces as were asked for, also from a server that gives fewer at a time."""
    found: list[Completion] = []
    while len(found) < recording.traces:
        left = recording.traces - len(found)
        found += await sampler.sample(problem.prompt, left, seed + len(found), recording.sampling)
    return found


def pooled(problem: Problem, traces: Sequence[Completion]) -> PooledQuestion:
    """A question's traces as a pool holds them; a trace that was cut at its limit gave no answer."""
    read = make_answer_type(problem.answer).extract
    confidences: dict[str, tuple[float | None, ...]] = {
        kind: tuple(None if t.confidence is None else round(getattr(t.confidence, kind), 3) for t in traces)
        for kind in KINDS
    }
    told = any(trace.confidence is not None for trace in traces)
    return PooledQuestion(
        problem.id,
        tuple(None if trace.finish == "length" else read(trace.text) for trace in traces),
        problem.gold,
        tuple(trace.tokens or 0 for trace in traces) if all(trace.tokens is not None for trace in traces) else None,
        confidences["tail"] if told else None,
        confidences if told else {},
    )


def _kept(path: Path, recording: Recording) -> set[str]:
    """Ids of the questions that the file holds already; a last line that was broken off is dropped."""
    if not path.exists() or not path.stat().st_size:
        return set()
    whole = path.read_bytes()
    if not whole.endswith(b"\n"):
        cut = whole.rfind(b"\n") + 1
        with path.open("r+b") as file:
            file.truncate(cut)
        if not cut:
            return set()
    pool = read_pool(path)
    for question in pool.questions:
        if len(question.answers) != recording.traces:
            raise PoolError(
                f'"{path}" holds {len(question.answers)} traces of {question.id!r}; this recording has '
                f"{recording.traces} a question. Choose another file, or the same number of traces."
            )
    return {question.id for question in pool.questions}
