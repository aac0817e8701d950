"""Reads what traces say; what may take long is done in threads, so that the event loop and other questions go on.

The threads are daemons, and a reading that takes more processor time than its answer type allows is given up: its trace
is ``unread``, casts no vote, keeps its text, and is read again when the run is resumed. It is processor time, not the
clock's, so that a busy machine loses no votes.

A judge is a model that is asked whether a new answer is one that its question has already, on the account of the trace
that gave it: what was held for the trace covers the request, and its tokens are the trace's. The trace is written down
under the class that it joined, so that a run that goes on pays for no judgement twice.
"""

import asyncio
import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from pets.answers.base import AnswerType, Reading
from pets.answers.judge import Judge
from pets.engine.arrivals import Wiring
from pets.engine.fetch import Fetcher, fault_name, may_have_sampled
from pets.engine.question import UNREAD, OpenQuestion, chosen_for, named_type, words_of
from pets.errors import SamplerError
from pets.prompts import TokenAlternatives, is_cut
from pets.questions import Problem
from pets.samplers import Completion, Prompt
from pets.store import StoredTrace
from pets.types import SoftVote

QUICK_QUESTION_S = 1.0  # of processor time, for comparing a question's answers; most take a few hundredths
LONG_READ_CHARS = 16_384  # of texts that came together; more is not read in the event loop
LOOK_S = 0.1  # between two looks at a reading's processor time
LAST_READING_S = 1.0  # by the clock, that readings have once the run is to end
CLOCK_PER_CPU = 20.0  # seconds by the clock for one of processor time, where the system does not tell a thread's

SURE = 0.95  # of a token that leaves nothing to decide
SMALLEST_SHARE = 5e-4  # of a token that is kept

T = TypeVar("T")

REPLY_TIMEOUT_S = 60.0
FAILED = "error"  # how a reply that never came has finished


class ReadingThreads:
    """Reads the answers of traces and finds out which of them are the same.

    Long texts, and those of types that do not read at once, are read in one thread and answers compared in two others,
    a text or a pair at a time. One job of each payer waits at most, so no payer can starve the others.
    """

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[tuple[str, str | None], asyncio.Lock] = WeakValueDictionary()
        self._ends_at = float("inf")

    async def read(self, question: OpenQuestion, completions: list[Completion]) -> list[Reading | None]:
        """The answer of each trace, its class found; one that was given up becomes ``UNREAD`` in ``completions``."""
        answer_type = question.answer_type
        long = not answer_type.reads_at_once or sum([len(c.text) for c in completions]) > LONG_READ_CHARS
        if not long and not answer_type.merges:
            return question.read(completions)
        async with question.reading:
            readings = await self._read_in_turn(question, completions) if long else question.read(completions)
            if not answer_type.asks_model:
                await question.classify(map(form_of, readings), self._compare)
        return readings

    async def choose(self, question: OpenQuestion, completions: Sequence[Completion]) -> Problem:
        """The question with the answer type that its first traces choose."""
        texts = [completion.text for completion in completions if not is_cut(completion.finish)]
        if sum(map(len, texts)) <= LONG_READ_CHARS:
            return chosen_for(question.problem, texts)
        return await self._in_turn("reading", question, lambda: chosen_for(question.problem, texts))

    def end_soon(self) -> None:
        """Give up what is still being read in a second, as the run is to end."""
        self._ends_at = min(self._ends_at, time.monotonic() + LAST_READING_S)

    async def _read_in_turn(self, question: OpenQuestion, completions: list[Completion]) -> list[Reading | None]:
        readings: list[Reading | None] = []
        for index, completion in enumerate(completions):
            try:
                if is_cut(completion.finish):
                    readings.append(None)
                else:
                    read, most_s = partial(question.read, [completion]), question.answer_type.reading_seconds
                    readings += await self._in_turn("reading", question, read, most_s)
            except _GivenUpError:
                completions[index] = replace(completion, finish=UNREAD)
                readings.append(None)
        return readings

    async def _compare(self, question: OpenQuestion, first: str, second: str) -> tuple[bool, float]:
        """As :data:`~pets.engine.question.Compare`; slow comparisons go to a second thread."""
        answer_type, seconds = question.answer_type, 0.0

        def timed(same: Callable[[str, str], bool | None]) -> tuple[bool | None, float]:
            begun = answer_type.processor_time()
            result = same(first, second)
            return result, answer_type.processor_time() - begun

        if question.compared_seconds < QUICK_QUESTION_S:
            same, seconds = await self._in_turn("comparing", question, lambda: timed(answer_type.same_soon))
            if same is not None:
                return same, seconds
        same, more_seconds = await self._in_turn("comparing-long", question, lambda: timed(answer_type.same))
        return bool(same), seconds + more_seconds

    async def _in_turn(
        self, name: str, question: OpenQuestion, work: Callable[[], T], most_s: float | None = None
    ) -> T:
        """Do a piece of work in the one thread of that ``name``, for which one job of each payer waits; raises where it
        takes more than ``most_s`` seconds of the processor's time, or the run is to end before it."""
        async with self._turn(name, question.payer), self._turn(name, None):
            job = _Job(name, work, most_s)
            outcome, look_s = asyncio.wrap_future(job.outcome), None if most_s is None else LOOK_S
            try:
                while not (await asyncio.wait([outcome], timeout=look_s))[0]:
                    if time.monotonic() > self._ends_at or job.too_long:
                        raise _GivenUpError
            except BaseException:
                job.leave()
                raise
            return outcome.result()

    def _turn(self, name: str, payer: str | None) -> asyncio.Lock:
        return self._turns.setdefault((name, payer), asyncio.Lock())


class TraceReading:
    """Reads the answers of traces as their question wants it: in threads, with a judge, by a type that is chosen first.

    ``judge`` fetches from the model that is asked which answers are the same, where there is one. ``soft_temperature``
    is that of the sampling where votes are soft.
    """

    def __init__(self, wiring: Wiring, judge: Fetcher | None = None, soft_temperature: float | None = None) -> None:
        self._wiring, self._judge = wiring, judge
        self.soft_temperature = soft_temperature
        self.threads = ReadingThreads()

    async def read(self, question: OpenQuestion, completions: list[Completion]) -> list[Reading | None]:
        """The answer of each trace; ``completions`` are put at what they cost with their judgements."""
        if question.answer_type.chosen_from_traces:
            problem = await self.threads.choose(question, completions)
            if problem is not question.problem and question.answer_type.chosen_from_traces:  # no other came in between
                self._wiring.questions.choose(question, problem)
                self._wiring.ledger.choose(question.id, problem.answer_type)
        readings = await self.threads.read(question, completions)
        if question.answer_type.asks_model and self._judge is not None:
            return await self._join(question, completions, readings)
        return readings

    async def _join(
        self, question: OpenQuestion, completions: list[Completion], readings: Sequence[Reading | None]
    ) -> list[Reading | None]:
        """The answers under the names of their classes, as the judge says."""
        joined: list[Reading | None] = []
        async with question.reading:
            for index, reading in enumerate(readings):
                if reading is None:
                    joined.append(None)
                    continue
                name = question.class_of(reading.form)
                if name is None:
                    name = await self._judged(question, completions, index, reading.form)
                    question.put_into(reading.form, name)
                joined.append(Reading(name, reading.spelling))
        return joined

    async def _judged(self, question: OpenQuestion, completions: list[Completion], index: int, form: str) -> str:
        judge, known = question.answer_type, question.class_names()
        assert isinstance(judge, Judge)
        request = judge.request(words_of(question.problem), form, known)
        if request is None:
            return form
        prompt, numbered = request
        completion, dearest = completions[index], Completion("", FAILED, judge.max_tokens, prompt.max_tokens)
        completions[index] = _with_reply(completion, dearest)  # in case it is broken off while the judgement is out
        reply = await self._ask(judge, prompt, dearest)
        completions[index] = _with_reply(completion, reply)
        number = judge.verdict(reply.text, len(numbered))
        if number is None and reply.finish != FAILED:
            self._wiring.fetcher.faults["judge: no number"] += 1
        return numbered[number - 1] if number else form

    async def _ask(self, judge: Judge, prompt: Prompt, most: Completion) -> Completion:
        """The judge's reply; where there is none an empty one, with the ``most`` tokens that may have been used."""
        assert self._judge is not None
        faults = self._wiring.fetcher.faults
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                return await self._judge.ask(prompt, judge.sampling)
        except TimeoutError:
            faults["judge: late"] += 1
            return most
        except SamplerError as error:
            faults[f"judge: {fault_name(error)}"] += 1
            return most if may_have_sampled(error) else Completion("", FAILED, 0, 0)


def soft_vote(
    alternatives: Sequence[TokenAlternatives], form: str, answer_type: AnswerType, temperature: float
) -> SoftVote | None:
    """The answers that a trace might have given at its deciding token, with their shares; ``None`` where none is known.

    Votes are not soft at a ``temperature`` of 0. The deciding token is the first that was not sure from what stands
    before it, or that spells the answer ``form``: all traces of a question have it in common, up to words that they
    share. Servers report probabilities before the temperature is applied (vLLM, llama.cpp), so it is applied here.

    >>> from pets.answers.choice import Choice
    >>> logprobs = {" B": math.log(0.6), " C": math.log(0.3), " Both": math.log(0.1)}
    >>> soft_vote([TokenAlternatives(" B", logprobs)], "B", Choice(), temperature=1.0)
    SoftVote(token='B', shares=(('B', 0.6), ('C', 0.3), ('', 0.1)))
    """
    if temperature <= 0.0 or answer_type.merges:
        return None
    for token, logprobs in alternatives:
        finite = {word: value for word, value in logprobs.items() if math.isfinite(value)}
        if len(finite) < 2:
            continue
        top = max(finite.values())
        weights = {word: math.exp((value - top) / temperature) for word, value in finite.items()}
        total = math.fsum(weights.values())
        spelled = _spelled(answer_type, token)
        if 1.0 / total >= SURE and spelled != form:
            continue
        shares: dict[str, float] = {}
        for word, weight in weights.items():
            answer = _spelled(answer_type, word)
            shares[answer] = shares.get(answer, 0.0) + weight / total
        kept = {word: round(share, 4) for word, share in shares.items() if share > SMALLEST_SHARE or word == spelled}
        return SoftVote(spelled, tuple(sorted(kept.items(), key=lambda item: -item[1])))
    return None


@lru_cache(maxsize=1 << 16)
def _spelled(answer_type: AnswerType, token: str) -> str:
    """The answer that a token spells by itself; empty where it is none."""
    return answer_type.canonical(token) or ""


def form_of(reading: Reading | None) -> str | None:
    """The canonical form of an answer, where there is one."""
    return None if reading is None else reading.form


def read_again(answer_type: AnswerType, trace: StoredTrace) -> StoredTrace:
    """A trace that was given up before, with its answer, unless it takes too long again."""
    job = _Job("reading", lambda: answer_type.read(trace.text), answer_type.reading_seconds)
    while not job.too_long:
        with suppress(TimeoutError):
            answer, spelling = job.outcome.result(LOOK_S) or (None, None)
            spelling = None if spelling == answer else spelling  # it is the canonical form
            return replace(trace, finish="stop", answer=answer, spelling=spelling)
    job.leave()
    return trace


class _GivenUpError(Exception):
    """A reading took too long; raised in its thread, too, which ends it where it is Python code."""


class _Job(Generic[T]):
    """A piece of work in a daemon thread of its own; it may take ``most_s`` seconds of the processor's time."""

    def __init__(self, name: str, work: Callable[[], T], most_s: float | None) -> None:
        self.outcome = Future[T]()
        self._work, self._most_s = work, math.inf if most_s is None else most_s
        self._ended = threading.Event()
        self._lock = threading.Lock()  # held to look at the thread: it does not end meanwhile
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"pets-{name}", daemon=True)
        self._thread.start()

    @property
    def too_long(self) -> bool:
        """Whether the work has taken more of the processor's time than it may."""
        with self._lock:
            return not self._ended.is_set() and self._seconds() > self._most_s

    def leave(self) -> None:
        """Wait for it no longer: it goes on to its end, but not beyond its time."""
        self.outcome.cancel()
        if self._most_s < math.inf:  # an error may be raised anywhere in a thread: for work that might never end alone
            threading.Thread(target=self._watch, name="pets-watching", daemon=True).start()

    def _run(self) -> None:
        with suppress(_GivenUpError):
            with suppress(InvalidStateError):  # nobody waits for it any more
                try:
                    self.outcome.set_result(self._work())
                except BaseException as error:  # noqa: BLE001 (handed over to the thread that waits)
                    self.outcome.set_exception(error)
            with self._lock:
                self._ended.set()

    def _watch(self) -> None:
        """Raise an error in its thread once it takes too long."""
        while not self._ended.wait(LOOK_S):
            with self._lock:
                if not self._ended.is_set() and self._seconds() > self._most_s:
                    thread, error = ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(_GivenUpError)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)
                    return

    def _seconds(self) -> float:
        """Processor seconds so far."""
        if not hasattr(time, "pthread_getcpuclockid"):
            return (time.monotonic() - self._begun) / CLOCK_PER_CPU
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident or 0))


def judge_of(problems: Iterable[Problem], override: str | AnswerType | None) -> Judge | None:
    """The judge that the run names, or one of its questions."""
    for name in {problem.answer_type for problem in problems} if override is None else (override,):
        if isinstance(judge := named_type(name), Judge):
            return judge
    return None


def _with_reply(completion: Completion, reply: Completion) -> Completion:
    """A trace at what it costs with its judgement."""
    return replace(
        completion,
        tokens=(completion.tokens or 0) + (reply.tokens or 0),
        prompt_tokens=(completion.prompt_tokens or 0) + (reply.prompt_tokens or 0),
        cached_tokens=completion.cached_tokens + reply.cached_tokens,
    )
