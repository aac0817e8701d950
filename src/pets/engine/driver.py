"""The one live driver: what the allocator asks for is fetched, read and told back, under every verb.

``run`` takes a list of questions (a batch: all are there, and the run ends with the budget) or an async iterator (a
stream: each question is answered as soon as it stops); ``submit`` takes one question and returns its answer (a
gateway). Laws: budget is reserved before a launch is sent, a launch is in the ledger before it is sent and a trace
before it is counted; whatever fails, a launch is told, cancelled or given up exactly once.
"""

import asyncio
import math
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pets.answers.base import AnswerType
from pets.confidence import Kind
from pets.core.allocator import Allocator
from pets.core.budget import Currency
from pets.core.certificate import Decision
from pets.core.cost import MIN_SAMPLES, CostEstimator
from pets.core.patterns import K0
from pets.engine.fetch import FATAL_STATUSES, Batch, Fetcher, most_unknown_traces
from pets.engine.first_traces import FirstTraces
from pets.engine.judging import Judging
from pets.engine.ledger import Ledger
from pets.engine.pacing import Pace, WaveClock
from pets.engine.places import Places
from pets.engine.progress import TargetMonitor, policy_certificate
from pets.engine.question import Answer, OpenQuestion, QuestionTotals, TraceReader, answer_type_of, prompt_of
from pets.engine.reading import ReadingThreads
from pets.engine.soft import soft_vote
from pets.errors import BudgetError, BusyError, InputError, RefusedError, SamplerError, StateError, first_error
from pets.questions import Problem
from pets.registry import spec_of
from pets.samplers import Completion, Prompt, Sampling, Seeds
from pets.store import StoredTrace
from pets.types import Launch, Trace

__all__ = ["Driver", "DriverConfig", "Stop", "Submission"]

REFUSALS_BEFORE_END = 3  # of different questions before anything came back: the request itself is wrong
NO_LIMIT = 1 << 30  # traces

Stop = Literal["policy", "max_traces", "rounds", "deadline", "budget", "failed", "cut", "single"]


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """How questions are asked and read, the same for every question of a driver.

    ``concurrency`` traces are in flight at most. ``confidence`` is the kind that votes are weighted by; ``soft`` reads
    what traces might have said. ``answer`` and
    ``system`` replace what questions say; ``options`` is the size of a closed answer set, by answer type, for questions
    that do not say. ``price`` is what traces cost in money, for answers. ``keep_traces`` keeps every trace of an open
    question, ``keep_totals`` what answers need of each.
    """

    sampling: Sampling
    seeds: Seeds
    concurrency: int = 64
    confidence: Kind | None = None
    soft: bool = False
    answer: str | AnswerType | None = None
    system: str | None = None
    options: Mapping[str, int | None] = field(default_factory=dict)
    price: Currency | None = None
    keep_traces: bool = False
    keep_totals: bool = False

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise InputError(f"at least 1 trace is in flight; got {self.concurrency}.")


@dataclass(slots=True, eq=False)
class Submission:
    """One question of :meth:`Driver.submit` while it is voted on, and what became of it.

    ``deadline`` is the event loop's time. ``weighted`` votes count by confidence. ``single`` takes one trace without
    the policy. ``reader`` reads answers that are no texts, such as tool calls. ``context`` is whoever submits's own:
    its ledger finds it with the batch. ``payer`` is for whom it is: payers share the places in flight, and take turns
    in reading and comparing.
    """

    problem: Problem
    sampling: Sampling
    seed: int
    max_traces: int
    deadline: float
    rounds: int | None = None
    weighted: bool = False
    single: bool = False
    context: object = None
    payer: str = ""
    stopped: Stop = "policy"
    launched: int = 0
    rounds_used: int = 0
    retries: int = 0
    mean_left: float | None = None
    log_price: float | None = None
    error: SamplerError | BudgetError | None = None
    question: OpenQuestion | None = None
    reader: TraceReader | None = None
    group: asyncio.TaskGroup | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Driver:
    """Drives one allocator over one fetcher; :meth:`drain` ends it early, without losing anything.

    ``positions`` gives questions of a stream their place among all, which decides their seeds; without it that is
    the order of arrival. A batch keeps to its ``pace``. With ``first_traces`` no more go out until these were read; a
    run that they speak against ends with a ``FirstTracesError``. ``judging`` asks another model than the fetcher's
    which answers are the same. The traces of submissions wait for ``places``. ``on_trace`` is called with every trace
    that was counted, ``on_close`` with every question of a stream that is over, ``on_answer`` with its answer.
    """

    def __init__(
        self,
        allocator: Allocator,
        fetcher: Fetcher,
        config: DriverConfig,
        ledger: Ledger | None = None,
        *,
        pace: Pace | None = None,
        monitor: TargetMonitor | None = None,
        first_traces: FirstTraces | None = None,
        judging: Judging | None = None,
        places: Places | None = None,
        positions: Mapping[str, int] | None = None,
        on_trace: Callable[[StoredTrace], None] = lambda trace: None,
        on_answer: Callable[[Answer], None] = lambda answer: None,
        on_close: Callable[[OpenQuestion], None] = lambda question: None,
    ) -> None:
        self.allocator, self.fetcher, self.config = allocator, fetcher, config
        self.ledger = ledger or Ledger()
        self.draining = False  # told to end
        self.abandoned = 0
        """Traces that were in flight, or not read yet, when the run was broken off: charged."""
        self.satisfied = False  # the target is met
        self.in_flight = 0  # traces; of submissions also those that wait for their place
        self.places = places or Places(config.concurrency)
        self.arrived = 0  # questions of a stream, those that were not asked among them
        self.not_asked = 0
        self.taken_in: set[str] | None = None
        """Ids of a stream's questions, none of which may come again; ``None`` where it forgets what it has answered."""
        self.totals: dict[str, QuestionTotals] = {}
        """What answers need of each question, where they are kept."""
        self.failures: dict[str, SamplerError] = {}
        """The last error of questions that were given up, or of which a trace was."""
        self.submissions: dict[str, Submission] = {}
        self.resumed: list[tuple[str, range, Sequence[int]]] = []
        """Launches of an earlier process that are on their way: a question, their numbers, what is held for each."""
        self.estimator: CostEstimator | None = None
        self.pace = pace or Pace(config.concurrency)
        self.clock = WaveClock()
        self.first_traces = first_traces
        self.judging = judging or Judging(fetcher, fetcher.faults)
        self.chosen: AnswerType | None = None
        """How the questions are read whose answer type was chosen from the first traces, once it is."""
        self._monitor = monitor
        self._wave: tuple[int, int] | None = None  # the one under way, and how many are left
        self._used_up = False  # what the last wave left was spent, too
        self._end_of_wait: asyncio.TimerHandle | None = None
        self._on_trace, self._on_answer, self._on_close = on_trace, on_answer, on_close
        self._open: dict[str, OpenQuestion] = {}
        self._idle: set[str] = set()  # open questions of a stream with nothing in flight
        self._problems: Sequence[Problem] = ()  # of a batch
        self._positions = dict(positions or {})
        self._ids: list[str] = []
        self._wakeup = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._intake: asyncio.Task[None] | None = None
        self._intake_over = False
        self._admitting = False  # a question was taken from the source and will be open
        self._room: asyncio.Semaphore | None = None
        self._open_limit = 0
        self._reading = ReadingThreads()
        self._refused: set[str] = set()
        self._turned_away = False  # a run that never had a trace ends with a refusal: what is out is refused, too
        self._delivered = 0  # traces that came back
        self._lost_too_much: SamplerError | None = None  # why the run ends: failures of unknown cost
        self._held: list[tuple[OpenQuestion, Completion]] = []  # traces that wait for an answer type to be chosen
        self._choice = asyncio.Event()

    # -- a batch, a stream ----------------------------------------------------------------------------------------

    async def run(self, problems: Sequence[Problem] | AsyncIterable[Problem], open_questions: int = 8) -> None:
        """Until the budget is used up, the policy has had enough, the target is met, or :meth:`drain`.

        The questions of a batch are in the allocator already. Those of a stream are taken in when there is room:
        ``open_questions`` are on their way at a time.
        """
        self.check_ready()
        self.fetcher.drain(on=False)
        self._lost_too_much, self.fetcher.unknown_traces = None, 0
        self._delivered = self._delivered or self.allocator.told  # of earlier runs
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                if isinstance(problems, Sequence):
                    self._problems = problems
                    self._positions = {problem.id: place for place, problem in enumerate(problems)}
                    self._ids = list(self._positions)
                    self._resume()
                else:
                    self._open_limit = open_questions
                    self._room = asyncio.Semaphore(max(0, open_questions - len(self._open)))
                    self._intake = group.create_task(self._take_in(problems))
                    self._intake.add_done_callback(lambda intake: self._wakeup.set())
                    if self.draining:
                        self._intake.cancel()
                await self._loop()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            self._group = None
            if self._end_of_wait is not None:
                self._end_of_wait.cancel()
            self.close()

    def _resume(self) -> None:
        """Await the launches of an earlier process."""
        self.clock.begin(asyncio.get_running_loop().time(), 0)
        while self.resumed:
            id, numbers, holds = self.resumed.pop()
            self._start(self._question(id), numbers, holds)
        self.clock.launched(self.in_flight)

    def check_ready(self) -> None:
        """Refuse a run beside another, and one after a run that was broken off with traces in flight."""
        if self._group is not None:
            raise StateError("this run is under way already; wait for its end.")
        if self.in_flight:
            raise StateError(
                f"this run was broken off with {self.in_flight} traces in flight. Take it up from its store, or begin "
                "another."
            )

    def drain(self) -> None:
        """Take in no more questions and ask for no more traces; what is in flight comes home, and no try follows."""
        self.draining = True
        self._reading.end_soon()
        self.fetcher.drain()
        self.stop_intake()
        self._wakeup.set()

    def stop_intake(self) -> None:
        """Take in no more questions; those that are open are asked to their end."""
        self._intake_over = True
        if self._intake is not None and not self._admitting:
            self._intake.cancel()

    def close(self) -> None:
        """Give back the threads that read and compare; twice does no harm."""
        self._reading.close()

    def reopen(self, question: OpenQuestion) -> None:
        """A stream's question of an earlier run that was not answered: it goes on with what it has."""
        self._open[question.id] = question
        self._idle.add(question.id)

    async def _loop(self) -> None:
        while True:
            self._pump()
            arriving = self._intake is not None and not self._intake.done()
            if self._begins_badly and not self.in_flight:
                assert self.first_traces is not None
                raise self.first_traces.error(self.config.sampling.max_tokens)
            if self._lost_too_much is not None and not self.in_flight:
                raise self._lost_too_much
            if not self.in_flight and not arriving and (self._room is None or not self._open):
                return
            if (error := self.fetcher.not_coming(draining=self.draining)) is not None:
                raise error
            self._wakeup.clear()
            await self._wakeup.wait()

    async def _take_in(self, problems: AsyncIterable[Problem]) -> None:
        """A question is fetched only when there is room for it: none is taken from the source and then left."""
        room = self._room
        assert room is not None
        arrivals = aiter(problems)
        while not self._intake_over:
            await room.acquire()
            problem = await anext(arrivals, None)
            if problem is None:
                return
            self._admitting = True
            await self._admit(problem)
            self._admitting = False
            self._wakeup.set()

    async def _admit(self, problem: Problem) -> None:
        """Open a question, or say why it is not asked."""
        position = self._positions.get(problem.id, self.arrived)
        self.arrived += 1
        try:
            if self.taken_in is not None and problem.id in self.taken_in:
                raise InputError(f"a question {problem.id!r} came before; give each an id of its own.")
            question = self.open_question(problem, position)
            self.allocator.check(question.question)
            await self.ledger.admit(problem)
            if self.taken_in is not None:
                self.taken_in.add(problem.id)
            self.allocator.add(question.question)
        except (BudgetError, InputError) as error:
            self._refuse(problem.id, str(error))
            return
        self._open[problem.id] = question
        self._idle.add(problem.id)

    def _refuse(self, id: str, reason: str) -> None:
        """A question that was not asked at all."""
        self.not_asked += 1
        self._room_again()
        self._on_answer(Answer(id, error=reason))

    def _room_again(self) -> None:
        if self._room is not None and len(self._open) < self._open_limit:
            self._room.release()

    # -- one question ---------------------------------------------------------------------------------------------

    async def submit(self, submission: Submission) -> Answer:
        """The answer to one question, voted on until the policy, the deadline or a limit of its own ends it.

        Raises what went wrong where nothing came back. Cancelled, it charges what is out and gives back the rest.
        """
        question = self.open_question(submission.problem, submission.seed, submission)
        submission.question = question
        self.submissions[question.id] = submission
        try:
            async with asyncio.timeout_at(submission.deadline):
                await (self._fetch_one(submission, question) if submission.single else self._vote(submission, question))
        except TimeoutError:
            submission.stopped = "deadline"
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        finally:
            del self.submissions[question.id]
        if not any(trace.error is None for trace in (question.traces or {}).values()):
            raise submission.error or self.fetcher.outage or BusyError("no trace came back in time.")
        return self._submitted_answer(submission, question)

    async def _vote(self, submission: Submission, question: OpenQuestion) -> None:
        """Let the policy decide until it has enough; the question's tasks are a group of its own."""
        id = question.id
        self.allocator.add(question.question)
        self._open[id] = question
        self._idle.add(id)
        try:
            async with asyncio.TaskGroup() as group:
                submission.group = group
                self._pump()
                await submission.done.wait()
        finally:
            self._leave(submission, question)

    async def _fetch_one(self, submission: Submission, question: OpenQuestion) -> None:
        """One trace, no vote."""
        submission.stopped, submission.launched = "single", 1
        await self._fetch_in_place(submission, self._batch(question, 0, (1,)))

    async def _fetch_in_place(self, submission: Submission, batch: Batch) -> None:
        """Fetch a batch once there is a place for it; where there are fewer places than traces, a part of it."""
        size = await self.places.acquire(submission.payer, batch.size, rank=batch.first)
        try:
            if size < batch.size:
                assert submission.group is not None
                rest = batch.part(size, batch.size - size)
                submission.group.create_task(self._fetch_in_place(submission, rest))
                batch = batch.part(0, size)
            await self.fetcher.fetch(batch, self)
        finally:
            self.places.give_back(submission.payer, size)

    def _leave(self, submission: Submission, question: OpenQuestion) -> None:
        """Withdraw a question: what was not sent is free again, and what was out has been charged by its task."""
        id = question.id
        if submission.stopped == "policy" and not self.allocator.complete(id):
            submission.stopped = "budget" if submission.error is None else "failed"
        view = self.allocator.view(id)
        submission.mean_left, submission.log_price = view.mean_left, self.allocator.policy.log_price(view)
        del self._open[id]
        self._idle.discard(id)
        pending = self.allocator.pending(id)
        self.allocator.withdraw(id)
        for launch in pending:
            self.allocator.cancel(launch)
        self.in_flight -= question.in_flight
        question.in_flight = 0
        self._pump()

    def _submitted_answer(self, submission: Submission, question: OpenQuestion) -> Answer:
        """The vote over the launch-order prefix of what came back."""
        return question.answer(
            question.verdict(weighted=submission.weighted),
            self._certify,
            complete=submission.stopped == "policy",
            zone=self.allocator.policy.zone,
        )

    # -- launches -------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Something came back: look at what to launch next, at once or, for all that came in this turn, soon."""
        if self._group is None:
            self._pump()
        else:
            self._wakeup.set()

    def _pump(self) -> None:
        """Launch and answer what is to be; a run that began badly, or lost too much, does neither."""
        if not self._begins_badly and self._lost_too_much is None:
            self._launch()
        if self._held and len(self._held) >= self.in_flight:
            self._choose(last=True)

    def _launch(self) -> None:
        """Launch what the policy wants, as far as there is room; answer the questions that want nothing more."""
        if self._monitor is not None and not self.satisfied:
            self.satisfied = self._monitor.met(self.allocator, self._ids)
        ending = self.draining or self.satisfied
        full = True
        while not ending and (room := self._limit() - self.in_flight) > 0:
            launches = self._ask(room)
            full = len(launches) == room
            declined = sum([self._start(*row) for row in self._by_question(launches)])
            if not declined and (full or not self._next_wave()):
                break  # else there is room, or a wave, again
        if self._idle and (ending or not full):
            stuck = not self.in_flight  # nothing will ever wake these questions: the budget has no trace for them
            for id in list(self._idle):
                if ending or stuck or self.allocator.stopped(id):
                    self._finish(self._open[id])

    @property
    def _begins_badly(self) -> bool:
        """Whether the first traces speak against the rest of the budget; where none is left, the run is over."""
        return self.first_traces is not None and self.first_traces.failed and self.allocator.budget.affordable > 0

    def _limit(self) -> int:
        """How many traces may be in flight; those of submissions wait for a place each."""
        if self._group is None:
            return NO_LIMIT
        first = self.first_traces
        # Traces that are held tell the policy nothing: it would be asked as blindly one by one.
        limit = self.config.concurrency if self._held else self._limit_by_pace()
        return limit if first is None or first.passed else min(limit, self.in_flight + first.room(self.in_flight))

    def _limit_by_pace(self) -> int:
        budget = self.allocator.budget
        if self.estimator is not None and budget.settled < MIN_SAMPLES:
            return self.config.concurrency
        return self.pace.limit(budget.expected + self.in_flight)

    def _next_wave(self) -> bool:
        """Begin the next wave without the last traces of this one, once it does not pay to wait for them.

        What is left after the last wave is spent in one more.
        """
        allocator, blocked = self.allocator, self.estimator is not None and not self.estimator.can_launch()
        if not self.pace.waves or blocked or not allocator.budget.expected:
            return False
        if self.in_flight and not self._held:
            return allocator.waves_left > 0 and self._leave_stragglers()
        if allocator.waves_left:  # traces that are held tell the policy nothing, and wait for more
            return allocator.next_wave()
        if self.in_flight or self._used_up:
            return False
        self._used_up = True
        return allocator.next_wave(extra=True)

    def _leave_stragglers(self) -> bool:
        loop, until = asyncio.get_running_loop(), self.clock.waits_until(self.in_flight)
        if loop.time() >= until:
            return self.allocator.next_wave()
        if self._end_of_wait is not None:
            self._end_of_wait.cancel()
        self._end_of_wait = None if until == math.inf else loop.call_at(until, self._wakeup.set)
        return False

    def _ask(self, room: int) -> list[tuple[Launch, int]]:
        """Launches and what is held for each."""
        launches: list[tuple[Launch, int]] = []
        if self.estimator is None:
            launches = [(launch, 1) for launch in self.allocator.ask(room)]
        else:
            while len(launches) < room and self.estimator.can_launch() and (launched := self.allocator.ask()):
                launches.append((launched[0], self.estimator.reserve(launched[0].question)))
        if self.pace.waves:
            self._note_wave(len(launches))
        return launches

    def _note_wave(self, launches: int) -> None:
        """Keep time of the wave under way, and in the ledger which one that is."""
        wave = (self.allocator.wave, self.allocator.waves_left)
        if launches and wave != self._wave:
            self._wave = wave
            self.clock.begin(asyncio.get_running_loop().time(), self.in_flight)
            self.ledger.begin_wave(self.allocator.wave)
        self.clock.launched(launches)

    def _by_question(self, launches: Iterable[tuple[Launch, int]]) -> Iterator[tuple[OpenQuestion, range, list[int]]]:
        """Launches of each question, which are numbered in a row."""
        first: dict[str, int] = {}
        holds: dict[str, list[int]] = {}
        for launch, hold in launches:
            first.setdefault(launch.question, launch.number)
            holds.setdefault(launch.question, []).append(hold)
        for id, start in first.items():
            yield self._question(id), range(start, start + len(holds[id])), holds[id]

    def _start(self, question: OpenQuestion, numbers: range, holds: Sequence[int]) -> int:
        """Send launches of one question, as many to a request as servers take; how many its request does not allow."""
        submission = question.submission
        allowed = len(numbers) if submission is None else self._allowed(submission, question, len(numbers))
        for number in numbers[allowed:]:
            self.allocator.give_up(Launch(question.id, number))
        if not allowed:
            return len(numbers)
        self._idle.discard(question.id)
        question.in_flight += allowed
        self.in_flight += allowed
        group = self._group if submission is None else submission.group
        assert group is not None
        batch = self._batch(question, numbers.start, tuple(holds[:allowed]))
        for part in self.fetcher.requests(batch, self._max_n(batch.prompt)):
            work = self.fetcher.fetch(part, self) if submission is None else self._fetch_in_place(submission, part)
            try:
                group.create_task(work)
            except RuntimeError:  # its tasks are being cancelled: the submission is about to take all this back
                work.close()
                if submission is None:
                    raise
        return len(numbers) - allowed

    def _allowed(self, submission: Submission, question: OpenQuestion, launches: int) -> int:
        """How many of the traces that the policy wants next the request itself allows."""
        now = asyncio.get_running_loop().time()
        submission.rounds_used += bool(submission.launched) and not question.in_flight
        allowed = min(launches, submission.max_traces - submission.launched)
        if question.totals.cut == len(question.traces or ()) >= K0:  # the next would be cut as well
            submission.stopped, allowed = "cut", 0
        elif submission.rounds is not None and submission.rounds_used > submission.rounds:
            submission.stopped, allowed = "rounds", 0
        elif submission.launched and now + self._latency_s(submission) > submission.deadline:
            submission.stopped, allowed = "deadline", 0
        elif allowed < launches:
            submission.stopped = "max_traces"
        submission.launched += allowed
        return allowed

    def _latency_s(self, submission: Submission) -> float:
        return self.fetcher.pool_for(submission.problem.prompt).latency_s

    def _max_n(self, prompt: Prompt) -> int:
        """Choices in one request: one where tokens are money and the reply would not tell whose they are.

        A prompt is paid for with every request: where requests wait for hours, several choices share it all the same.
        """
        whose = self.estimator is None or self.config.sampling.top_logprobs or self.fetcher.shares_prompts
        now = asyncio.get_running_loop().time()
        return self.fetcher.pool_for(prompt).max_n_for(prompt.sender, now) if whose else 1

    def _batch(self, question: OpenQuestion, first: int, holds: tuple[int, ...]) -> Batch:
        submission, config = question.submission, self.config
        if submission is not None:
            prompt, seed, sampling = question.problem.prompt, submission.seed + first, submission.sampling
        else:
            prompt = prompt_of(question.problem, config.system)
            place = question.position % config.seeds.questions
            seed, sampling = config.seeds.at(place, first % config.seeds.cap), config.sampling
        position = question.position
        return Batch(question.id, first, len(holds), prompt, seed, sampling, holds, owner=question, position=position)

    # -- questions ------------------------------------------------------------------------------------------------

    def open_question(self, problem: Problem, position: int, submission: Submission | None = None) -> OpenQuestion:
        """A question as this driver reads it; the caller says when it is served."""
        config = self.config
        kind = answer_type_of(problem, None if submission else config.answer)
        if kind.chosen_from_traces and self.chosen is not None:
            kind = self.chosen
        spec = config.answer if isinstance(config.answer, str) else problem.answer_type
        return OpenQuestion(
            problem,
            kind,
            position=position,
            options=config.options.get(spec),
            kind=config.confidence,
            price=config.price,
            totals=self.totals.get(problem.id),
            keep_traces=config.keep_traces or submission is not None,
            submission=submission,
        )

    def _question(self, id: str) -> OpenQuestion:
        """An open question; one of a batch is opened when it is first launched, and again."""
        question = self._open.get(id)
        if question is None:
            place = self._positions[id]
            question = self._open[id] = self.open_question(self._problems[place], place)
            if self.config.keep_totals:
                self.totals[id] = question.totals
        return question

    def labels_of(self, problems: Sequence[Problem]) -> Callable[[str, list[str]], dict[str, str]]:
        """Names the classes of a batch's answers of an earlier run; those of the traces to come will join them."""
        places = {problem.id: place for place, problem in enumerate(problems)}

        def labels(id: str, forms: list[str]) -> dict[str, str]:
            question = self.open_question(problems[places[id]], places[id])
            if question.answer_type.merges:
                self._open[id] = question
            return question.restore(forms)

        return labels

    def _back(self, question: OpenQuestion) -> None:
        """A launch is over, one way or another."""
        self.in_flight -= 1
        question.in_flight -= 1
        if self.pace.waves:
            self.clock.back(asyncio.get_running_loop().time(), self.in_flight)
        if question.in_flight:
            return
        if self._room is not None or question.submission is not None:
            self._idle.add(question.id)
        elif not question.answer_type.merges:
            del self._open[question.id]  # opened again when it is next launched

    def _finish(self, question: OpenQuestion) -> None:
        """A question wants nothing more: hand out its answer, or let its submitter go on."""
        self._idle.discard(question.id)
        if question.submission is not None:
            question.submission.done.set()
            return
        id, failure = question.id, self.failures.get(question.id)
        error = None if failure is None or self.allocator.verdict(id).votes else str(failure)
        del self._open[id]
        begun = self.allocator.tally(id).launched > 0 or error is not None
        if begun or self.draining:
            answer = question.answer(
                self.allocator.verdict(id),
                self._certify,
                complete=self.allocator.complete(id),
                error=error,
                zone=self.allocator.policy.zone,
            )
            self._on_close(question)
            self._room_again()
            self._on_answer(answer)
        else:
            self._refuse(id, _used_up(self.allocator))
        self.ledger.answered(id)
        self.allocator.withdraw(id)
        self.failures.pop(id, None)  # a stream may never end
        if self.estimator is not None:
            self.estimator.forget(id)

    def _certify(self, decision: Decision) -> float:
        """P(the answer is the vote over infinitely many traces), as the policy in force believes."""
        return policy_certificate(self.allocator.policy, decision)

    # -- what comes of a batch: pets.engine.fetch.Receiver ----------------------------------------------------------

    async def open(self, batch: Batch) -> bool:
        """As :meth:`~pets.engine.fetch.Receiver.open`."""
        try:
            await self.ledger.open(batch)
        except BudgetError as error:
            submission = batch.owner.submission
            if submission is not None:
                submission.stopped, submission.error = "budget", error
            return False
        return True

    async def receive(self, batch: Batch, completions: Sequence[Completion], endpoint: int, seconds: float) -> None:
        """As :meth:`~pets.engine.fetch.Receiver.receive`: read, written down, then told."""
        question: OpenQuestion = batch.owner
        completions = paid = list(completions)  # judgements add to their cost
        try:
            if question.answer_type.chosen_from_traces and self.first_traces is not None:
                await self._answer_type_chosen(question, completions)
            forms = await self._reading.read(question, completions)
            if question.answer_type.asks_model and question.submission is None:
                forms = await self.judging.join(question, paid, forms)
        except BaseException:  # paid for, and no vote
            self.abandoned += len(completions)
            self.ledger.abandon(batch, self._stored(batch, completions, [None] * len(completions), endpoint, seconds))
            self._charge_abandoned(batch)
            raise
        traces = self._stored(batch, completions, forms, endpoint, seconds)
        if self.config.soft:
            traces = [self._with_soft_vote(question, *row) for row in zip(traces, completions, strict=True)]
        await self.ledger.close(batch, traces)
        if question.submission is not None:
            question.raw.update(
                (batch.first + place, c.raw) for place, c in enumerate(completions) if c.raw is not None
            )
        for trace, hold in zip(traces, batch.holds, strict=False):
            self._tell(question, trace, hold, self._lost_before(batch))
        self._charge_surplus(batch)
        self._delivered += len(traces)
        if self.config.confidence is not None and completions[0].confidence is None:
            self.fetcher.faults["no log-probabilities"] += 1
        self._wake()

    def _charge_surplus(self, batch: Batch) -> None:
        """Charge choices that nobody asked for, whether the budget has room for them or not; tokens are charged with
        the trace that they came with."""
        budget, surplus = self.allocator.budget, [Trace(batch.question, batch.first)] * batch.surplus
        if budget.window is not None:
            self.allocator.charge(surplus)
        elif budget.currency.flat:
            for trace in surplus:
                budget.charge(trace)

    def _stored(
        self,
        batch: Batch,
        completions: Sequence[Completion],
        forms: Sequence[str | None],
        endpoint: int,
        seconds: float,
    ) -> list[StoredTrace]:
        """Traces as they are written down; tokens that were lost with earlier attempts are among theirs."""
        lost = self._lost_before(batch)
        return [
            StoredTrace(
                batch.question,
                number,
                form,
                completion.text,
                completion.finish,
                (completion.tokens or 0) + lost.tokens,
                (completion.prompt_tokens or 0) + lost.prompt_tokens,
                completion.confidence,
                endpoint=endpoint,
                seconds=seconds,
                tries=batch.tries + 1,
                wasted=batch.lost + (batch.surplus if number == batch.first else 0),
                model=completion.model,
                cached_tokens=completion.cached_tokens,
                cost=_own_cost(completion, lost),
            )
            for number, (completion, form) in enumerate(zip(completions, forms, strict=True), batch.first)
        ]

    def _with_soft_vote(self, question: OpenQuestion, trace: StoredTrace, completion: Completion) -> StoredTrace:
        """The trace with what it might have said, where it has an answer and its log-probabilities tell."""
        if trace.answer is None:
            return trace
        temperature = self.config.sampling.temperature
        return replace(trace, soft=soft_vote(completion.alternatives, trace.answer, question.answer_type, temperature))

    async def release(self, batch: Batch, error: SamplerError) -> None:
        """As :meth:`~pets.engine.fetch.Receiver.release`."""
        self._note(batch, error)
        if error.status in FATAL_STATUSES and batch.owner.submission is None:
            self._turned_away = not self.fetcher.served and not self.allocator.told
        await self.ledger.close(batch)

    async def lose(self, batch: Batch, error: SamplerError) -> bool:
        """As :meth:`~pets.engine.fetch.Receiver.lose`."""
        self._note(batch, error)
        lost = self._lost(batch)
        if batch.question in self._open and not self.allocator.charge(lost):
            return False
        currency = self.allocator.budget.currency
        batch.lost_cost += currency.cost(lost[0]) - currency.per_trace
        await self.ledger.close(batch, charged=[currency.cost(trace) for trace in lost])
        return True

    async def fail(self, batch: Batch, error: SamplerError | None, *, charged: bool) -> None:
        """As :meth:`~pets.engine.fetch.Receiver.fail`: what was charged casts no vote, what was not is given back."""
        question: OpenQuestion = batch.owner
        self._note(batch, error)
        if charged or not self._ending:  # else a run that goes on asks again
            self.fetcher.faults["trace given up after its last try"] += batch.size
        lost, attempt = self._lost_before(batch), self._lost(batch)
        if charged or batch.lost:
            traces = [
                StoredTrace(
                    batch.question,
                    own.number,
                    tokens=lost.tokens + charged * own.tokens,
                    prompt_tokens=lost.prompt_tokens + charged * own.prompt_tokens,
                    error=str(error),
                    tries=max(1, batch.tries),
                    wasted=batch.lost if charged else batch.lost - 1,
                    model=0 if error is None else error.model,
                )
                for own in attempt
            ]
            cost = self.allocator.budget.currency.cost
            await self.ledger.close(batch, traces, list(map(cost, attempt)) if charged else ())
        else:
            traces = []
            await self.ledger.close(batch)
            await self.ledger.drop(batch.launches)
        if charged:
            for trace, hold in zip(traces, batch.holds, strict=True):
                self._tell(question, trace, hold, lost)
        else:
            self._give_up(question, batch, error, traces)
        self._wake()

    def abandon(self, batch: Batch) -> None:
        """As :meth:`~pets.engine.fetch.Receiver.abandon`."""
        if not self._turned_away:
            self.abandoned += batch.size
            self.ledger.abandon(batch)
            self._charge_abandoned(batch)

    def _charge_abandoned(self, batch: Batch) -> None:
        submission = batch.owner.submission
        if submission is not None and not submission.single:
            self.allocator.charge(self._lost(batch))

    def _give_up(
        self, question: OpenQuestion, batch: Batch, error: SamplerError | None, traces: Sequence[StoredTrace]
    ) -> None:
        """Launches that will not be paid for, but for attempts before (``traces``); their question is asked no more,
        unless the run was only told to end."""
        for trace in traces:
            question.add(trace)
            self._on_trace(trace)
        if question.id in self._open:
            for launch, hold in zip(batch.launches, batch.holds, strict=True):
                self.allocator.give_up(launch, paid=bool(traces), for_good=not self._ending)
                if self.estimator is not None:
                    self.estimator.release(hold)
                self._back(question)
        if isinstance(error, RefusedError) and not self._delivered and question.submission is None:
            self._refused.add(question.id)
            if len(self._refused) >= min(REFUSALS_BEFORE_END, len(self._problems) or REFUSALS_BEFORE_END):
                self._turned_away = not self.fetcher.served and not self.allocator.told
                raise error

    def _note(self, batch: Batch, error: SamplerError | None) -> None:
        """Remember why traces of a question did not come."""
        submission = batch.owner.submission
        if error is None:
            return
        if submission is not None:
            submission.error = error
            submission.retries += 1
        else:
            self.failures[batch.question] = error
            self._check_losses(error)

    @property
    def _ending(self) -> bool:
        """Whether the run ends before its budget does, and may be resumed."""
        return self.draining or self._lost_too_much is not None

    def _check_losses(self, error: SamplerError) -> None:
        """End a run whose failures may have cost too much: what is in flight comes home, and nothing follows."""
        lost = self.fetcher.unknown_traces
        if self._lost_too_much is None and lost >= most_unknown_traces(self.allocator.budget):
            self._lost_too_much = BusyError(
                f"{lost} traces came to nothing, and the server may have sampled and billed them. The last error: "
                f"{str(error).rstrip('.')}. Nothing more is asked, so that no more is lost. Look at the server, and at "
                "the time limit of a proxy before it; then go on with the run."
            )
            self.fetcher.drain()

    def _lost(self, batch: Batch) -> list[Trace]:
        """What an attempt that came to nothing may have cost, for each of its launches."""
        expected = 0 if self.estimator is None else self.estimator.expected(batch.question)
        tokens, prompt_tokens = self.allocator.budget.currency.tokens_worth(expected)
        return [Trace(*launch, tokens=tokens, prompt_tokens=prompt_tokens) for launch in batch.launches]

    def _lost_before(self, batch: Batch) -> Trace:
        """What earlier attempts were charged for each launch: their cost in money, as many tokens as cost the same."""
        currency = self.allocator.budget.currency
        tokens, prompt_tokens = currency.tokens_worth(batch.lost_cost)
        cost = batch.lost_cost if currency.unit == "picodollars" else None
        return Trace(batch.question, batch.first, tokens=tokens, prompt_tokens=prompt_tokens, cost=cost)

    def _tell(self, question: OpenQuestion, trace: StoredTrace, hold: int, lost: Trace) -> None:
        """Count a trace without the attempts that were ``lost`` before it: those are charged already."""
        question.add(trace)
        if question.id not in self._open:
            return
        for absorbed, into in question.pop_merges():
            self.allocator.merge(question.id, absorbed, into)
        label = None if trace.answer is None else question.label(trace.answer)
        core_trace = trace.trace(self.config.confidence)
        if label != core_trace.answer or lost.tokens or lost.prompt_tokens or lost.cost:
            core_trace = replace(
                core_trace,
                answer=label,
                tokens=core_trace.tokens - lost.tokens,
                prompt_tokens=core_trace.prompt_tokens - lost.prompt_tokens,
                cost=None if core_trace.cost is None else core_trace.cost - (lost.cost or 0),
            )
        if self.estimator is not None:
            self.estimator.settle(question.id, hold, self.allocator.budget.currency.cost(core_trace))
        self.allocator.tell(core_trace)
        self._back(question)
        if self.first_traces is not None:
            self.first_traces.count(trace, self.answer_name(question.problem))
        self._on_trace(trace)

    def answer_name(self, problem: Problem) -> str:
        """How the question's answers are read, as users name it."""
        spec = self.config.answer or problem.answer_type
        if self.chosen is not None and answer_type_of(problem, self.config.answer).chosen_from_traces:
            spec = spec_of(self.chosen) or spec
        return spec if isinstance(spec, str) else type(spec).__name__

    async def _answer_type_chosen(self, question: OpenQuestion, completions: Sequence[Completion]) -> None:
        """Hold traces of a question that has no answer type yet until one is chosen: none of them is counted before."""
        if not self._choice.is_set():
            self._held += [(question, completion) for completion in completions]
            self._choose(last=False)
            self._wake()  # the last ones that can come decide
            await self._choice.wait()
        if self.chosen is not None:
            await self.ledger.choose(spec_of(self.chosen) or "")

    def _choose(self, *, last: bool) -> None:
        """Have an answer type chosen by the traces held; at the ``last`` without a choice questions keep their own."""
        assert self.first_traces is not None
        choose = self.first_traces.choose
        self.chosen = None if choose is None else choose(self._held, last)
        if self.chosen is None and not last:
            return
        if self.chosen is not None:
            for question in [*self._open.values(), *(question for question, _ in self._held)]:
                if question.answer_type.chosen_from_traces:
                    question.read_as(self.chosen)
        self._held = []
        self._choice.set()


def _own_cost(completion: Completion, lost: Trace) -> int | None:
    """What a trace cost, with the attempts that were ``lost`` before it, where its model has a price of its own."""
    if completion.currency is None:
        return None
    tokens, prompt_tokens = completion.tokens or 0, completion.prompt_tokens or 0
    own = Trace("", 0, tokens=tokens, prompt_tokens=prompt_tokens, cached_tokens=completion.cached_tokens)
    return completion.currency.cost(own) + completion.currency.cost(lost)


def _used_up(allocator: Allocator) -> str:
    budget = allocator.budget
    return (
        f"the budget has no trace left for this question: {budget.spent + budget.reserved} of {budget.total} are "
        "spent or on their way. Raise the budget, or declare a horizon that counts every question."
    )
