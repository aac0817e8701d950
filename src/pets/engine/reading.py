"""Reads what traces say; what takes long is done in threads, so that the event loop and other questions go on."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from pets.engine.question import OpenQuestion
from pets.samplers import Completion

__all__ = ["LONG_READ_CHARS", "QUICK_QUESTION_S", "ReadingThreads"]

QUICK_QUESTION_S = 1.0  # of processor time, for comparing a question's answers; most take a few hundredths
LONG_READ_CHARS = 16_384  # of texts that came together; more is not read in the event loop

T = TypeVar("T")


class ReadingThreads:
    """Reads the answers of traces and finds out which of them are the same.

    Long texts are read in one thread and answers compared in others, a text or a pair at a time. Every question has one
    of these waiting at most, and so has every payer, so they take turns, however much one of them has.
    """

    def __init__(self) -> None:
        self._threads: dict[str, ThreadPoolExecutor] = {}  # by what is done in them, one each
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()  # by thread and payer

    async def read(self, question: OpenQuestion, completions: Sequence[Completion]) -> list[str | None]:
        """The form of each trace, whose class is known then."""
        characters = sum(len(completion.text) for completion in completions)
        long = question.answer_type.runs_code or characters > LONG_READ_CHARS
        if not long and not question.answer_type.merges:
            return question.read(completions)
        forms: list[str | None] = []
        async with question.reading:
            for part in [[completion] for completion in completions] if long else [completions]:
                forms += await self._in_thread("reading", question, partial(question.read, part))
            if not question.answer_type.asks_model:
                await question.classify(forms, self._compare)
        return forms

    def close(self) -> None:
        """Give back the threads; twice does no harm."""
        while self._threads:
            self._threads.popitem()[1].shutdown(wait=False, cancel_futures=True)

    async def _compare(self, question: OpenQuestion, first: str, second: str) -> tuple[bool, float]:
        """As :data:`~pets.engine.question.Compare`; what takes long, and a question that has, waits for its likes."""
        answer_type, seconds = question.answer_type, 0.0
        if question.compared_seconds < QUICK_QUESTION_S:
            same, seconds = await self._timed("comparing", question, answer_type.same_soon, first, second)
            if same is not None:
                return same, seconds
        same, more_seconds = await self._timed("comparing-long", question, answer_type.same, first, second)
        return bool(same), seconds + more_seconds

    async def _timed(
        self, thread: str, question: OpenQuestion, same: Callable[[str, str], bool | None], first: str, second: str
    ) -> tuple[bool | None, float]:
        """What a comparison says, and the processor seconds that it took."""
        answer_type = question.answer_type

        def work() -> tuple[bool | None, float]:
            begun = answer_type.processor_time()
            result = same(first, second)
            return result, answer_type.processor_time() - begun

        return await self._in_thread(thread, question, work)

    async def _in_thread(self, name: str, question: OpenQuestion, work: Callable[[], T]) -> T:
        """The result of work in a thread; of each payer one piece waits there at a time."""
        payer = "" if question.submission is None else question.submission.payer
        turn = self._turns.setdefault((name, payer), asyncio.Lock())
        async with turn:
            if name not in self._threads:
                self._threads[name] = ThreadPoolExecutor(1, f"pets-{name}")
            return await asyncio.get_running_loop().run_in_executor(self._threads[name], work)
