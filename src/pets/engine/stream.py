"""A stream of questions through the driver: several on their way at once, each answered as soon as it stops.

Laws: every question that is taken in gets one answer; after :meth:`Stream.drain` nothing more is asked for, what is in
flight comes back, and every open question is answered with what it has. A stream by windows may never end: a question
that was answered is forgotten, all but its spend. With a store, a stream that was broken off is taken up where it
stopped: what was paid for is not asked again, and a question whose answer may not have been handed over is answered
again.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from pets._version import __version__
from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.core.cost import CostEstimator, UnitCost
from pets.core.patterns import K0
from pets.core.policy import Policy
from pets.engine.arrivals import Asking, StreamArrivals, Wiring
from pets.engine.assemble import assemble
from pets.engine.budget import Amount, TokenPrice, currency_of, total_of
from pets.engine.config import RunConfig, rebudgeted
from pets.engine.driver import Driver
from pets.engine.fetch import Fetcher
from pets.engine.judging import judge_of
from pets.engine.ledger import Ledger, RunLedger
from pets.engine.pacing import Pace
from pets.engine.question import Answer, OpenQuestion, group_by_question
from pets.engine.questions import OpenQuestions
from pets.engine.resume import adopt_run, config_to_read, kept_going, lost_traces, note_end, price_in_money
from pets.engine.run import CHOOSING_TRACES, LiveRun
from pets.engine.stops import FEWEST_TRACES, FirstTraces, StopRules
from pets.errors import InputError, RefusedError, StateError
from pets.plans.drift import Drift
from pets.questions import Problem
from pets.registry import policies
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.store import Run, RunSettings, RunView, Store
from pets.store.records import LOST
from pets.types import Trace

WINDOW_QUESTIONS = 100  # where a stream has no end and no window was named
UNKNOWN_PROMPT_TOKENS = 8192  # held for the prompt of a question that has yet to come


def stream_budget(
    mean: float,
    cap: int,
    *,
    budget: str | None = None,
    horizon: int | None = None,
    window: int | None = None,
    problems: Sequence[Problem] | None = None,
    price: TokenPrice | None = None,
    max_tokens: int | None = None,
) -> tuple[Budget, int | None]:
    """The budget and the horizon: in all for a known number of questions, by windows without an end.

    >>> stream_budget(16.0, 64, horizon=10)[0].total
    160
    >>> stream_budget(16.0, 64, budget="500", window=50)[0].window
    Window(questions=50, amount=500)
    """
    if horizon is not None and window is not None:
        raise InputError(
            "a horizon is for a known number of questions, a window for a stream without an end. Take one."
        )
    amount = Amount(mean, "mean") if budget is None else Amount.parse(budget)
    prompt = longest_prompt(problems)
    currency = currency_of(amount, price, prompt_tokens=prompt, max_tokens=max_tokens)
    horizon = horizon or (len(problems) if problems is not None and not window else None)
    if horizon is not None:
        return Budget(total_of(amount, horizon), cap, currency), horizon
    window = window or WINDOW_QUESTIONS
    return Budget.per_window(window, total_of(amount, window), cap=cap, currency=currency), None


def longest_prompt(problems: Sequence[Problem] | None) -> int:
    """The tokens of the longest prompt at most; what is held where questions have yet to come."""
    return max((problem.prompt.max_tokens for problem in problems or ()), default=UNKNOWN_PROMPT_TOKENS)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a stream is driven: a fitted policy, its budget, and what is open at once.

    ``config`` says how traces are drawn and read. ``options`` is the size of a closed answer set by answer type, for
    questions that do not say.
    """

    policy: Policy
    budget: Budget
    config: RunConfig = field(default_factory=RunConfig)
    horizon: int | None = None
    open_questions: int = 8
    model: str = ""
    endpoints: tuple[str, ...] = ()
    options: Mapping[str, int | None] = field(default_factory=dict)
    name: str = "stream"

    def __post_init__(self) -> None:
        if self.open_questions < 1:
            raise InputError(f"at least 1 question is open; got {self.open_questions}.")
        if not self.budget.currency.counts_traces and judge_of((), self.config.answer):
            raise InputError("a stream that is judged counts traces: give its budget without a unit.")

    def to_run(self) -> RunSettings:
        """What a store keeps of it."""
        names = {cls: name for name, cls in policies().items()}
        if type(self.policy) not in names:
            raise InputError(
                f"a stream in a store is resumed by another process, which cannot make {self.policy!r}. Install the "
                "policy as an entry point of pets, or stream without a store."
            )
        name = names[type(self.policy)]
        config = replace(self.config, policy=name)
        more = {
            "policy": {"name": name, "options": self.policy.to_plain()},
            "budget": self.budget.to_plain(),
            "horizon": self.horizon,
            "open_questions": self.open_questions,
            "options": dict(self.options),
        }
        return RunSettings(
            policy=name,
            total=self.budget.total,
            currency=self.budget.currency,
            budget=config.budget,
            cap=self.budget.cap,
            seed=config.seed,
            model=self.model,
            endpoints=self.endpoints,
            confidence=config.confidence_kind,
            concurrency=config.concurrency,
            name=self.name,
            version=__version__,
            more={"plan": config.to_plain(), "stream": more, "worst": self.budget.currency.hold},
        )

    @classmethod
    def from_run(cls, run: RunView, settings: RunSettings) -> Self:
        """The settings that :meth:`to_run` described, of a run; refused where answers cannot be read any more."""
        config = config_to_read(run, settings)
        try:
            more: Mapping[str, Any] = settings.more["stream"]
            policy = policies()[more["policy"]["name"]].from_plain(more["policy"]["options"])
            budget = Budget.from_plain(more["budget"])
            horizon, open_questions, options = more["horizon"], more["open_questions"], more["options"]
        except (KeyError, TypeError) as error:
            raise StateError(f"this run is not a stream, or a newer pets made it ({error!r}).") from None
        return cls(policy, budget, config, horizon, open_questions, settings.model, settings.endpoints, options)


class Stream(LiveRun):
    """One stream; ``async with Stream(...) as stream: await stream.run(problems)``.

    ``on_answer`` gets each answer at once, in the order in which they come about. ``drift`` is shown the warm-up
    patterns; ``on_alarm`` is called when it first raises the alarm. ``source`` names where the questions come from, if
    that is known: the same stream of the same source is refused while another process works on it in this ``store``.
    ``past`` is a run that is taken up (:meth:`resume`).
    """

    def __init__(
        self,
        settings: StreamSettings,
        samplers: Sequence[Sampler],
        on_answer: Callable[[Answer], None],
        *,
        store: str | Path | None = None,
        source: str | None = None,
        drift: Drift | None = None,
        on_alarm: Callable[[Drift], None] = lambda drift: None,
        past: tuple[Store, Run] | None = None,
    ) -> None:
        super().__init__(samplers)
        self.settings, self.drift = settings, drift
        self.launches_lost = 0
        """Launches that were in flight when the stream was broken off: charged."""
        self._on_answer, self._on_alarm = on_answer, on_alarm
        self._known: set[str] = set()  # questions of an earlier time
        allocator = Allocator(settings.policy, settings.budget, horizon=settings.horizon, seed=settings.config.seed)
        costs = _costs(settings)  # refuses a budget that pays for no trace: then there is no run
        if past is not None:
            self._store, self.stored_run = past
        elif store is not None:
            run_settings = settings.to_run()
            self._store = Store.open(store)
            try:
                identity = None if source is None else sha256(f"{source} {run_settings.to_json()}".encode()).hexdigest()
                self.stored_run = self._store.create(
                    run_settings, (), stream=True, identity=identity, is_rival=lambda run: run.state == "running"
                )
            except BaseException:
                self._store.close()
                raise
        self._ledger = Ledger() if self.stored_run is None else RunLedger(self.stored_run)
        self.driver = self._make_driver(allocator, costs, None if past is None else past[1])

    @classmethod
    def resume(
        cls,
        store: str | Path,
        run: int | str,
        samplers: Callable[[StreamSettings], Sequence[Sampler]],
        on_answer: Callable[[Answer], None],
        *,
        answer: str | None = None,
        budget: str | None = None,
        keep_going: bool = False,
        drift: Drift | None = None,
        on_alarm: Callable[[Drift], None] = lambda drift: None,
    ) -> Self:
        """The stream of that number, or the last, taken up where it stopped.

        Questions that were not answered are asked on; those that come again are not asked again. ``budget`` adds to
        its budget (``+2000``) or says its new total (``=5000``). ``keep_going``: also where its first traces cast no
        vote. ``answer`` is the code that reads its answers, named again.
        """
        with ExitStack() as stack:
            opened = stack.enter_context(Store.open(store, create=False))
            stored = stack.enter_context(opened.open_run(run, code=answer))
            changed = stored.settings if budget is None else _with_budget(stored, budget)
            changed = kept_going(changed) if keep_going else changed
            settings = StreamSettings.from_run(stored, changed)
            past = opened, stored
            self = cls(settings, samplers(settings), on_answer, drift=drift, on_alarm=on_alarm, past=past)
            if changed is not stored.settings:
                stored.change(changed)
            stack.pop_all()  # all is well: it stays open
        return self

    async def run(self, problems: AsyncIterable[Problem]) -> None:
        """Until the questions end and all are answered, or until :meth:`drain`."""
        driver, run = self.driver, self.stored_run
        driver.check_ready()
        asked = (self.settings.config.asked(problem) async for problem in problems)
        try:
            async with self._ledger:
                await driver.run(self._new(asked))
        finally:
            if run is not None:
                note_end(run, driver)
        if run is not None and not driver.stops.drained:
            run.finish()

    def drain(self) -> None:
        """Take in no more questions and ask for no more traces."""
        self.driver.drain()

    async def _new(self, problems: AsyncIterable[Problem]) -> AsyncIterator[Problem]:
        """The questions that an earlier time has not taken in."""
        async for problem in problems:
            if problem.id not in self._known:
                yield problem

    def _make_driver(self, allocator: Allocator, costs: CostEstimator | UnitCost, run: Run | None) -> Driver:
        """A new stream, or the adopted past of an old one."""
        settings, config, budget = self.settings, self.settings.config, self.settings.budget
        fetcher = Fetcher(
            self._samplers, tries=config.tries, backoff=config.backoff, rpm=config.rpm, tpm=config.tpm, seed=config.seed
        )
        questions = OpenQuestions(
            answer=config.answer,
            options=settings.options,
            confidence=config.confidence_kind,
            price=price_in_money(config, settings.model),
        )
        first = FirstTraces.of(
            budget,
            keep_going=config.keep_going,
            fewest=CHOOSING_TRACES if config.answer is None else FEWEST_TRACES,
        )
        if run is not None:
            self._adopt(run, allocator, fetcher, questions, first, costs)
        forgets = self.stored_run is None and budget.window is not None  # an id is a key of a store

        def arrivals(wiring: Wiring) -> StreamArrivals:
            return StreamArrivals(
                wiring,
                Asking(config.drawn, config.seeds(0), config.system),
                open_questions=settings.open_questions,
                seen=None if forgets else set(self._known),
                on_answer=self._answered,
            )

        return assemble(
            allocator,
            fetcher,
            questions,
            arrivals,
            Pace(config.concurrency),
            stops=StopRules(allocator, fetcher, first_traces=first, max_tokens=config.drawn.max_tokens),
            ledger=self._ledger,
            costs=costs,
            choice=self.type_choice(first),
            judging=self.judging(fetcher, judge_of((), config.answer), settings.model),
            confidence=config.confidence_kind,
            tells_tokens=bool(config.drawn.top_logprobs),
        )

    def _answered(self, answer: Answer, question: OpenQuestion | None) -> None:
        if question is not None:
            self._watch(question)
        self._on_answer(answer)

    def _watch(self, question: OpenQuestion) -> None:
        drift, warmup = self.drift, question.warmup
        if drift is None or warmup is None:
            return
        drift.see(warmup)
        if drift.alarmed_at == drift.seen:
            self._on_alarm(drift)

    def _adopt(
        self,
        run: Run,
        allocator: Allocator,
        fetcher: Fetcher,
        questions: OpenQuestions,
        first: FirstTraces,
        costs: CostEstimator | UnitCost,
    ) -> None:
        """Everything that was paid for; answered questions are over, the others are opened again."""
        lost = lost_traces(run.lost(), run.settings.currency)
        if lost:
            run.write([], lost)
        problems, answered = list(run.problems()), run.answered()
        if problems:
            first.count_stored(run, questions.type_name(problems[0]))
        self._known = {problem.id for problem in problems}
        asked = {problem.id: questions.make(problem, position) for position, problem in enumerate(problems)}
        allocator.add(*(question.question for question in asked.values()))
        adopt_run(allocator, run, lambda id, forms: asked[id].restore(forms), self.settings.config.confidence_kind)
        for id, group in group_by_question(run.traces()):
            over = id in answered
            self.launches_lost += sum(trace.error == LOST for trace in group)
            for trace in group:
                fetcher.remember(trace)
                costs.learn(id, run.settings.currency.cost(trace))
            for trace in group[:K0] if over else group:
                asked[id].add(trace)
            if over:
                self._watch(asked[id])
        for id, question in asked.items():
            if id in answered:
                allocator.withdraw(id)
            else:
                questions.open(question)


def _costs(settings: StreamSettings) -> CostEstimator | UnitCost:
    budget = settings.budget
    if budget.currency.counts_traces:
        return UnitCost()
    share = settings.config.overshoot * (budget.total or (budget.window.amount if budget.window else 0))
    return CostEstimator(budget, budget.currency.hold, int(share))


class RecordedStream(Sampler):
    """A question's traces in the order of a draw, by launch number; past the last one they begin again.

    ``cap`` is that of the seeds that the stream is driven with: it tells the launch from the seed.
    """

    def __init__(self, traces: Mapping[str, Sequence[Trace]], cap: int) -> None:
        self._traces, self._cap = traces, cap

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`~pets.samplers.Sampler.sample`; a question that was never recorded is refused."""
        traces = self._traces.get(str(prompt.content))
        if not traces:
            raise RefusedError(f"nothing was recorded for question {prompt.content!r}; ask what the pool holds.")
        await asyncio.sleep(0)  # as a model would, it lets others go on
        first = seed % self._cap
        path = [traces[number % len(traces)] for number in range(first, first + n)]
        return [
            Completion(trace.answer or "", "stop" if trace.answer else "length", trace.tokens, trace.prompt_tokens)
            for trace in path
        ]


def _with_budget(run: RunView, text: str) -> RunSettings:
    """The settings of a stream with ``+2000`` more for its questions, or ``=5000`` in all."""
    stream: Mapping[str, Any] = run.settings.more.get("stream", {})
    budget, horizon = stream.get("budget", {}), stream.get("horizon")
    if horizon is None:
        raise InputError(f"run {run.id} is a stream without an end: it has a budget per window and no total.")
    changed = rebudgeted(run.settings, text, horizon, run.summary().spent)
    stream = {**stream, "budget": {**budget, "total": changed.total}}
    return replace(changed, more={**changed.more, "stream": stream})
