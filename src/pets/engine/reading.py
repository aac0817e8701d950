"""Reads what traces say; what may take long is done in threads, so that the event loop and other questions go on.

The threads are daemons, and a reading that takes more processor time than its answer type allows is given up: its trace
is ``unread``, casts no vote, keeps its text, and is read again when the run is resumed. It is processor time, not the
clock's, so that a busy machine loses no votes.
"""

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from pets.answers.base import AnswerType
from pets.engine.question import UNREAD, OpenQuestion
from pets.prompts import is_cut
from pets.samplers import Completion

__all__ = ["LONG_READ_CHARS", "QUICK_QUESTION_S", "ReadingThreads", "read_again"]

QUICK_QUESTION_S = 1.0  # of processor time, for comparing a question's answers; most take a few hundredths
LONG_READ_CHARS = 16_384  # of texts that came together; more is not read in the event loop
LOOK_S = 0.1  # between two looks at a reading's processor time
LAST_READING_S = 1.0  # by the clock, that readings have once the run is to end
CLOCK_PER_CPU = 20.0  # seconds by the clock for one of processor time, where the system does not tell a thread's

T = TypeVar("T")


class ReadingThreads:
    """Reads the answers of traces and finds out which of them are the same.

    Long texts, and those of types that do not say that they read at once, are read in one thread and answers compared
    in others, a text or a pair at a time. Every question has one of these waiting at most, and so has every payer, so
    they take turns, however much one of them has.
    """

    def __init__(self) -> None:
        self._threads: dict[str, _Worker] = {}  # by what is done in them, one each
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()  # by thread and payer
        self._ends_at = float("inf")

    async def read(self, question: OpenQuestion, completions: list[Completion]) -> list[str | None]:
        """The form of each trace, whose class is known then; one that was given up is ``UNREAD`` in the list."""
        answer_type = question.answer_type
        characters = sum(len(completion.text) for completion in completions)
        long = not answer_type.reads_at_once or characters > LONG_READ_CHARS
        if not long and not answer_type.merges:
            return question.read(completions)
        async with question.reading:
            forms = await self._read_in_turn(question, completions) if long else question.read(completions)
            if not answer_type.asks_model:
                await question.classify(forms, self._compare)
        return forms

    def end_soon(self) -> None:
        """The run is to end: what is still being read a second later is given up."""
        self._ends_at = min(self._ends_at, time.monotonic() + LAST_READING_S)

    def close(self) -> None:
        """Let the threads end; twice does no harm, and none is waited for."""
        while self._threads:
            self._threads.popitem()[1].close()

    async def _read_in_turn(self, question: OpenQuestion, completions: list[Completion]) -> list[str | None]:
        """The form of each trace, one after the other in the thread that reads."""
        forms: list[str | None] = []
        for place, completion in enumerate(completions):
            try:
                forms.append(await self._read_one(question, completion))
            except _GivenUpError:
                completions[place] = replace(completion, finish=UNREAD)
                forms.append(None)
        return forms

    async def _read_one(self, question: OpenQuestion, completion: Completion) -> str | None:
        """The form of a trace; raises where it takes too long."""
        if is_cut(completion.finish):
            return None
        async with self._turn("reading", question):
            worker = self._worker("reading")
            job = worker.submit(lambda: question.read([completion])[0])
            form = asyncio.wrap_future(job.outcome)
            try:
                while not (await asyncio.wait([form], timeout=LOOK_S))[0]:
                    if time.monotonic() > self._ends_at or job.seconds() > question.answer_type.reading_seconds:
                        raise _GivenUpError
            except BaseException:
                worker.give_up(job)
                raise
            return form.result()

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

        async with self._turn(thread, question):
            return await asyncio.wrap_future(self._worker(thread).submit(work).outcome)

    def _turn(self, thread: str, question: OpenQuestion) -> asyncio.Lock:
        """Of each payer one piece of work waits for a thread at a time."""
        payer = "" if question.submission is None else question.submission.payer
        return self._turns.setdefault((thread, payer), asyncio.Lock())

    def _worker(self, thread: str) -> "_Worker":
        if thread not in self._threads:
            self._threads[thread] = _Worker(f"pets-{thread}")
        return self._threads[thread]


def read_again(answer_type: AnswerType, text: str) -> str | None:
    """The form of a text that was given up before; ``UNREAD`` where it takes too long again."""
    worker = _Worker("pets-reading")
    job = worker.submit(lambda: answer_type.extract(text))
    try:
        while job.seconds() <= answer_type.reading_seconds:
            with suppress(TimeoutError):
                return job.outcome.result(LOOK_S)
        return UNREAD
    finally:
        worker.give_up(job)
        worker.close()


class _GivenUpError(Exception):
    """A reading took too long; raised in its thread, too, which ends it where it is Python code."""


class _Job(Generic[T]):
    """A piece of work, and how much of the processor's time it has taken so far."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self.outcome = work, Future[T]()
        self.given_up = False
        self._thread = 0  # while it is done
        self._lock = threading.Lock()  # held to look at the thread: it does not end meanwhile
        self._cpu_begun = self._clock_begun = 0.0

    def run(self) -> None:
        """Do it, in the thread that calls; what nobody waits for any more is dropped."""
        self._cpu_begun, self._clock_begun = time.thread_time(), time.monotonic()
        self._thread = threading.get_ident()
        try:
            value = self._work()
        except BaseException as error:  # noqa: BLE001 (handed over to whoever waits)
            with suppress(InvalidStateError):
                self.outcome.set_exception(error)
        else:
            with suppress(InvalidStateError):
                self.outcome.set_result(value)
        with self._lock:
            self._thread = 0

    def seconds(self) -> float:
        """Processor seconds so far; none before it has begun, or when it has ended."""
        with self._lock:
            if not self._thread:
                return 0.0
            if not hasattr(time, "pthread_getcpuclockid"):
                return (time.monotonic() - self._clock_begun) / CLOCK_PER_CPU
            return time.clock_gettime(time.pthread_getcpuclockid(self._thread)) - self._cpu_begun

    def give_up(self) -> bool:
        """Wait for it no longer, and end it where it is; whether it had begun, so that its thread ends with it."""
        self.outcome.cancel()
        with self._lock:
            self.given_up = bool(self._thread)
            if self.given_up:
                thread, error = ctypes.c_ulong(self._thread), ctypes.py_object(_GivenUpError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)
        return self.given_up


class _Worker:
    """A thread that does one piece of work after the other. Work that is given up leaves it to another thread.

    Threads are daemons: whatever one of them does, the process ends when it wants to.
    """

    def __init__(self, name: str) -> None:
        self._name, self._jobs = name, SimpleQueue[_Job[Any] | None]()
        self._start()

    def submit(self, work: Callable[[], T]) -> _Job[T]:
        """Have something done after all that was submitted before."""
        job = _Job(work)
        self._jobs.put(job)
        return job

    def give_up(self, job: _Job[Any]) -> None:
        """Wait for a piece of work no longer; what comes after it is done by another thread."""
        if job.give_up():
            self._start()

    def close(self) -> None:
        """Let the thread end when it has done what it does."""
        self._jobs.put(None)

    def _start(self) -> None:
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _serve(self) -> None:
        with suppress(_GivenUpError):
            while (job := self._jobs.get()) is not None:
                if not job.outcome.cancelled():
                    job.run()
                if job.given_up:
                    return
