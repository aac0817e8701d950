"""A live run: questions in, a model behind an endpoint, a budget, answers out, each with its certificate."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from pets.answers.auto import ChosenType
from pets.answers.judge import Judge
from pets.arguments import checked
from pets.core.allocator import Allocator
from pets.core.cost import CostEstimator, UnitCost
from pets.engine.arrivals import Arrivals, Asking
from pets.engine.assemble import assemble
from pets.engine.batch import BatchFetcher, JobLedger, PendingLaunches, batch_samplers, batched, launches_in_jobs
from pets.engine.config import OPERATIONAL, RunConfig, rebudgeted
from pets.engine.driver import Driver
from pets.engine.fetch import Fetcher
from pets.engine.judging import Judging, judge_of
from pets.engine.ledger import Ledger, RunLedger
from pets.engine.models import Endpoints, Keys, Models, model_name, model_shares
from pets.engine.pacing import Pace
from pets.engine.progress import Snapshot, Solution, TargetMonitor, expected_of, expected_so_far
from pets.engine.question import UNREAD, Answer, answer_type_of
from pets.engine.questions import OpenQuestions
from pets.engine.reading import TypeChoice, read_again
from pets.engine.resume import (
    adopt_run,
    answers,
    bounded_config,
    config_of,
    config_to_read,
    earlier_run,
    identity_of,
    kept_going,
    lost_traces,
    new_allocator,
    note_end,
    note_top_up,
    options_of,
    price_in_money,
    run_pace,
    run_settings,
    stored_totals,
    traces_to_pace,
)
from pets.engine.sources import Samplers, source_name, sources_of
from pets.engine.spec import RunOptions
from pets.engine.stops import FEWEST_TRACES, FirstTraces, StopRules
from pets.errors import InputError, JobLeftError, SamplerError, StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem, QuestionSet, find_questions
from pets.questions.files import AUTO, problem_from
from pets.samplers import Prompt, Sampler
from pets.samplers.openai import OpenAISampler
from pets.store import Run, RunSettings, RunSummary, Store, StoredTrace
from pets.store.records import LOST
from pets.types import Launch

Questions = str | Path | QuestionSet | Iterable[str | Problem | Mapping[str, Any]]
CHOOSING_TRACES = 8  # at least, that are read before more go out where they choose how answers are read


class LiveRun:
    """What a live run or stream holds while it lasts: its samplers, and its run in a store. ``async with session:``"""

    def __init__(self, samplers: Sequence[Sampler], store: Store | None = None, run: Run | None = None) -> None:
        self.stored_run = run
        """The run in the store, once it has begun; none without a store."""
        self.chosen: ChosenType | None = None
        """How questions without an answer type of their own are read, once the first traces have told."""
        self.on_choice: Callable[[ChosenType], None] = lambda chosen: None
        self.repeatable = False
        """Whether the same call again goes on with the stored run, and neither begins another nor adds to it."""
        self._samplers, self._store, self._stack = samplers, store, AsyncExitStack()

    def type_choice(self, first: FirstTraces) -> TypeChoice:
        """Half of a run's first traces choose how answers are read, if nobody says."""

        def note(chosen: ChosenType) -> None:
            self.chosen = chosen
            self.on_choice(chosen)

        return TypeChoice(max(FEWEST_TRACES, first.size / 2), note)

    def judging(self, fetcher: Fetcher, judge: Judge | None, model: str) -> Judging:
        """Asks the run's own servers, or the one that the judge names: without a key, which is for the run's own."""
        if judge is None or judge.endpoint is None:
            return Judging(fetcher, fetcher.faults)
        sampler = OpenAISampler(judge.endpoint, judge.model or model)
        self._stack.push_async_callback(sampler.close)
        return Judging(Fetcher([sampler]), fetcher.faults)

    async def models(self) -> list[str]:
        """The models that the servers list, as far as they do."""
        names: dict[str, None] = {}
        for sampler in self._samplers:
            with suppress(SamplerError):
                names |= dict.fromkeys(str(model["id"]) for model in await sampler.models())
        return list(names)

    async def __aenter__(self) -> Self:
        for sampler in self._samplers:
            await self._stack.enter_async_context(sampler)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self.close()

    @property
    def store_name(self) -> str:
        """The store as messages call it; empty without one."""
        return "" if self._store is None else self._store.name

    def close(self) -> None:
        """Let go of the run and the store; twice does no harm."""
        if self.stored_run is not None:
            self.stored_run.close()
        if self._store is not None:
            self._store.close()


class Engine(LiveRun):
    """A live run; ``async with Engine(...) as engine: await engine.run()``, then :meth:`answers`.

        async with Engine("questions.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B") as engine:
            solution = await engine.run()
            for answer in engine.answers():
                print(answer.id, answer.answer, answer.certificate)

    ``questions`` is a file, a named set, a DataFrame of pandas or polars, or the questions themselves: texts, or
    records with the fields of a file. Without an ``endpoint`` the local model answers; several endpoints share the
    work, with one ``key`` or one for each; ``headers`` go with every request; ``sampler`` takes any other source of
    traces. Several models vote together: ``model=["a", "b"]``, or ``{"a": 2, "b": 1}`` with weights; then
    ``endpoint``, ``key``, ``price`` and ``sampler`` are every model's, or mappings from model to its own. With a
    ``store`` the run is durable: the same questions, model and options again go on with it (``origin``
    says so), unless ``new``, or the sampler is an object and no ``model`` names what it asks; :meth:`resume` goes on by
    its number alone. ``on_trace`` is called with every trace when it has been counted. The options are those of
    :class:`~pets.engine.config.RunConfig` and of :class:`~pets.samplers.Sampling` (``budget="16x"``,
    ``policy="okg"``, ``temperature=0.7``, ...).
    """

    origin: Literal["new", "unfinished", "finished"]
    """Whether the run is new, goes on with an unfinished one, or was over already: then nothing is asked."""
    leaves_jobs = True
    """Whether :meth:`drain` leaves batch jobs where they are; else it waits for them and hands in nothing again."""
    pace: Pace
    """How the run is spread over time."""
    _identity: str | None = None

    @checked
    def __init__(
        self,
        questions: Questions,
        *,
        endpoint: Endpoints | None = None,
        model: Models | None = None,
        key: Keys = None,
        headers: Mapping[str, str] | None = None,
        sampler: Samplers | Mapping[str, Samplers] | None = None,
        store: str | Path | None = None,
        new: bool = False,
        config: RunConfig | None = None,
        on_trace: Callable[[StoredTrace], None] = lambda trace: None,
        **options: Unpack[RunOptions],
    ) -> None:
        question_set = question_set_of(questions)
        config = config or RunConfig(sampling=question_set.sampling)
        config = replace(config, models=config.models or model_shares(model)).with_options(options)
        config = batched(config, model_name(model) or "")
        if config.batch_api and store is None:
            raise InputError("batch jobs outlive the process that hands them in: they need a store.")
        problems = tuple(map(config.asked, question_set.problems))
        config = replace(config, headers=tuple(sorted(headers or config.headers)))
        name = ", ".join(map(str, config.models)) or model_name(model)
        self.endpoints, samplers = sources_of(sampler, endpoint, name, key, headers, config)
        """The servers that are asked now, whichever a stored run began with; ``MODEL=URL`` of several models."""
        if store is not None:  # what cannot be kept is refused before there is a file
            source = source_name(name, sampler, samplers)
            identity = identity_of(config, problems, source or "")
            self._identity = None if source is None else identity
        with ExitStack() as stack:
            opened = None if store is None else stack.enter_context(Store.open(store))
            if opened is not None and self._identity is not None:
                earlier = None if new else earlier_run(opened, self._identity, config.budget)
                if earlier is not None:
                    run = stack.enter_context(opened.open_run(earlier.id, code=config.to_plain()["answer"]))
                    self._take_up(config, problems, run, opened, samplers, on_trace)
                    if config.keep_going and earlier.state != "finished":
                        run.change(kept_going(run.settings))
                    stack.pop_all()  # all is well: it stays open
                    self.origin = "finished" if earlier.state == "finished" else "unfinished"
                    self.repeatable = True
                    return
            config = bounded_config(config, problems, samplers)
            settings = run_settings(
                config,
                problems,
                model=name or "",
                endpoints=self.endpoints,
                name=question_set.name,
                stored=store is not None,
            )
            self._begin(config, problems, settings, samplers, opened, on_trace)
            stack.pop_all()  # all is well: it stays open
        self.repeatable = self._identity is not None and not new

    async def __aenter__(self) -> Self:
        return self if self.origin == "finished" else await super().__aenter__()

    def _take_up(
        self,
        config: RunConfig,
        problems: Sequence[Problem],
        run: Run,
        store: Store,
        samplers: Sequence[Sampler],
        on_trace: Callable[[StoredTrace], None],
    ) -> None:
        """Go on with a run of the store, its servers asked as ``config`` says."""
        operational = {name: getattr(config, name) for name in OPERATIONAL}
        config = replace(config_of(run.settings, run.code), **operational)
        self._begin(config, problems, run.settings, samplers, store, on_trace, run)

    @classmethod
    @checked
    def resume(
        cls,
        store: str | Path,
        run: int | str = "last",
        *,
        endpoint: Endpoints | None = None,
        key: Keys = None,
        headers: Mapping[str, str] | None = None,
        sampler: Samplers | Mapping[str, Samplers] | None = None,
        concurrency: int | None = None,
        waves: int | None = None,
        patience: float | None = None,
        answer: str | None = None,
        budget: str | None = None,
        keep_going: bool = False,
        on_trace: Callable[[StoredTrace], None] = lambda trace: None,
    ) -> Self:
        """The run of that number, or the last, taken up where it stopped; ``budget`` adds to its
        budget (``+2000``) or says its new total (``=5000``).

        ``keep_going``: also where its first traces cast no vote. ``answer`` is the code that reads its answers, named
        again (``python:...``): a store alone names none.
        What was in flight when it was broken off is charged and casts no vote; ``lost`` says how much that is.
        """
        self = cls.__new__(cls)
        with ExitStack() as stack:
            opened = stack.enter_context(Store.open(store, create=False))
            stored = stack.enter_context(opened.open_run(run, code=answer))
            if "stream" in stored.settings.more:
                raise StateError(f"run {stored.id} is a stream; `pets resume` goes on with it.")
            config = config_to_read(stored, stored.settings)
            config = replace(config, keep_going=config.keep_going or keep_going)
            settings = kept_going(stored.settings) if keep_going else stored.settings
            if concurrency is not None:
                config = replace(config, concurrency=concurrency)
            if waves is not None or patience is not None:
                config = replace(config, waves=waves, patience=patience)
            problems = tuple(stored.problems())
            servers = endpoint or settings.endpoints
            self.endpoints, samplers = sources_of(sampler, servers, settings.model or None, key, headers, config)
            if budget is not None:
                settings = rebudgeted(settings, budget, len(problems), stored.summary().spent)
            self._begin(config, problems, settings, samplers, opened, on_trace, stored)  # or refuses: nothing changes
            if keep_going or budget is not None:
                stored.change(settings)
            if budget is not None:
                note_top_up(stored)
                self._set_pace()  # of what is left to spend from here on
            stack.pop_all()  # all is well: it stays open
        self.repeatable = budget is None
        return self

    def _begin(
        self,
        config: RunConfig,
        problems: Sequence[Problem],
        settings: RunSettings,
        samplers: Sequence[Sampler],
        store: Store | None,
        on_trace: Callable[[StoredTrace], None],
        run: Run | None = None,
    ) -> None:
        super().__init__(samplers, store, run)
        self.config, self.problems, self.settings = config, problems, settings
        self.origin = "new" if run is None else "unfinished"
        self.jobs_left_note = ""
        """What stays with a batch provider, or in a file, where the run ended with jobs that have not."""
        self.launches_lost = 0
        """Launches that were in flight when the run was broken off, over all times that it was."""
        self.faults: Counter[str] = Counter()
        """What went wrong on the way, and how often; nothing of it is lost in the counts."""
        self._on_trace = on_trace
        self._price = price_in_money(config, settings.model)
        self._confidence_kind = config.confidence_kind
        self._driver: Driver | None = None
        self._ledger = Ledger()
        self._set_pace()
        self._begun_at = 0.0
        self._told_before = 0
        self._tokens = self._prompt_tokens = self._failed = 0
        self._cost = 0  # picodollars, where a price is known
        self._given: Counter[int] = Counter()  # traces that came back, by model

    @property
    def allocator(self) -> Allocator:
        """What decides, once the run has begun."""
        return self._running().allocator

    @property
    def begun(self) -> bool:
        """Whether there is anything to look at yet."""
        return self._driver is not None

    async def run(self, *, drain: bool = False) -> Solution:
        """Spend the budget; how it went. Cut short by :meth:`drain`, it can be called again.

        With ``drain`` the run waits for requests in flight and asks nothing more.
        """
        driver = self._driver or self._start()
        driver.check_ready()
        driver.stops.drain(on=drain)
        if self.origin == "finished":
            return self.solution()
        self._begun_at, self._told_before = asyncio.get_running_loop().time(), driver.allocator.told
        over = False
        try:
            async with self._ledger:
                await driver.run()
            over = self._over(driver)
        except JobLeftError as error:
            driver.stops.drain()
            self.jobs_left_note = str(error)
        finally:
            self._finalize(driver, over)
        return self.solution()

    def drain(self) -> None:
        """Ask for nothing more; :meth:`run` returns when requests in flight are back."""
        if self._driver is not None:
            self._driver.drain()

    @property
    def traces_abandoned(self) -> int:
        """Traces that were in flight when the run was broken off: charged."""
        return 0 if self._driver is None else self._driver.settlement.traces_abandoned

    def watch_jobs(self, on_job: Callable[[BatchJob], None]) -> None:
        """Hear of every batch job that is handed in."""
        for sampler in batch_samplers(self._samplers) if self.config.batch_api else ():
            sampler.on_job = on_job

    def answers(self) -> Iterator[Answer]:
        """Every question's answer, in their order."""
        driver = self._running()
        if self.stored_run is not None:
            totals = stored_totals(self.stored_run.traces(), self._confidence_kind, self._price)
        else:
            kept = driver.questions.totals
            totals = ((p.id, kept[p.id]) for p in self.problems if p.id in kept)
        config = self.config if self.chosen is None else self.config.settled(self.chosen.name)
        return answers(
            self.problems, driver.allocator, totals, config, self._price, driver.stops.failures, over=self._over(driver)
        )

    @property
    def points_given_up(self) -> float:
        """Points of expected self-consistency that the pace costs."""
        return self.pace.points_given_up(options_of(self.problems[0], self.config))

    def snapshot(self, look: bool = True) -> Snapshot:
        """How it goes: cheap enough to ask for every second; ``look`` works out the expected self-consistency."""
        driver = self._running()
        allocator, budget = driver.allocator, driver.allocator.budget
        (spent, unit), (total, _) = budget.currency.shown(budget.spent), budget.currency.shown(budget.total)
        now = asyncio.get_running_loop().time()
        seconds = now - self._begun_at
        return Snapshot(
            questions=len(self.problems),
            traces=allocator.told,
            failed=self._failed,
            in_flight=driver.pacing.in_flight.total,
            spent=spent,
            total=total,
            unit=unit,
            seconds=seconds,
            rate=(allocator.told - self._told_before) / seconds if seconds > 0 else 0.0,
            expected_left=budget.expected,
            wave=allocator.wave + 1 if self.pace.waves else 0,
            waves=max(self.pace.waves, allocator.wave + 1) if self.pace.waves else 0,
            points_given_up=self.points_given_up,
            wave_seconds_left=driver.pacing.clock.seconds_left(now, allocator.waves_left),
            faults=dict(self.faults + driver.fetcher.faults),
            outage=driver.fetcher.outage_state,
            expected=expected_so_far(allocator, self._ids) if look and allocator.told else None,
        )

    def solution(self) -> Solution:
        """The run as it stands, in a few numbers."""
        driver = self._running()
        allocator, budget = driver.allocator, driver.allocator.budget
        (spent, unit), (total, _) = budget.currency.shown(budget.spent), budget.currency.shown(budget.total)
        return Solution(
            run=None if self.stored_run is None else self.stored_run.id,
            questions=len(self.problems),
            answered=sum(bool(allocator.tally(problem.id).counts) for problem in self.problems),
            traces=allocator.told,
            failed=self._failed,
            lost=self.launches_lost,
            tokens=self._tokens,
            prompt_tokens=self._prompt_tokens,
            cost=None if self._price is None else self._cost / 1e12,
            spent=spent,
            total=total,
            unit=unit,
            consistency=expected_of(allocator, self._ids),
            zone=allocator.policy.zone,
            faults=dict(self.faults),
            complete=self._over(driver),
            models={share.name: self._given[place] for place, share in enumerate(self.config.models)},
        )

    def _over(self, driver: Driver) -> bool:
        """Whether the run has come to its end, and was not stopped before."""
        return self.origin == "finished" or driver.stops.target_met or not driver.stops.drained

    @property
    def _ids(self) -> list[str]:
        return [problem.id for problem in self.problems]

    def _running(self) -> Driver:
        if self._driver is None:
            raise StateError("the run has not begun; await engine.run() first.")
        return self._driver

    def _set_pace(self) -> None:
        config, questions = self.config, len(self.problems)
        traces = traces_to_pace(self.settings, questions, self.stored_run)
        self.pace = run_pace(config, self.settings.currency, traces, questions)

    def _start(self) -> Driver:
        """A new run, or the adopted past of an old one."""
        config = self.config
        allocator, fetcher = new_allocator(config, self.settings, self.problems, self.pace.waves), self._fetcher()
        questions = OpenQuestions(
            problems=self.problems,
            answer=config.answer,
            confidence=self._confidence_kind,
            price=self._price,
            keep_totals=self._store is None,
        )
        choosing = any(answer_type_of(problem, config.answer).chosen_from_traces for problem in self.problems)
        first = FirstTraces.of(
            allocator.budget,
            keep_going=config.keep_going,
            fewest=CHOOSING_TRACES if choosing else FEWEST_TRACES,
            alone=not config.batch_api,
        )
        awaited: list[tuple[str, range]] = []
        if self.stored_run is not None:
            awaited = self._adopt(self.stored_run, allocator, fetcher, questions, first)
        costs = self._costs(allocator)  # refuses a budget that pays for no trace: then there is no run
        if self.stored_run is None and self._store is not None:
            self.stored_run = self._store.create(
                self.settings, self.problems, identity=self._identity, is_rival=self._is_rival
            )
        if self.stored_run is not None:
            self._ledger = self._run_ledger(self.stored_run, allocator, awaited)
        target = config.target_consistency
        asking = Asking(config.drawn, config.seeds(len(self.problems)), config.system)
        held = [(id, numbers, [costs.reserve(id) for _ in numbers]) for id, numbers in awaited]
        driver = assemble(
            allocator,
            fetcher,
            questions,
            lambda wiring: Arrivals(wiring, asking, held),
            self.pace,
            stops=StopRules(
                allocator,
                fetcher,
                first_traces=first,
                monitor=None if target is None else TargetMonitor(target),
                ids=self._ids,
                max_tokens=config.drawn.max_tokens,
            ),
            ledger=self._ledger,
            costs=costs,
            choice=self.type_choice(first),
            judging=self.judging(fetcher, judge_of(self.problems, config.answer), self.settings.model),
            confidence=self._confidence_kind,
            soft_temperature=config.drawn.temperature if config.soft else None,
            tells_tokens=bool(config.drawn.top_logprobs),
            on_trace=self._count,
        )
        self._driver = driver
        return driver

    def _is_rival(self, run: RunSummary) -> bool:
        """Whether this is the run with which the same call would have gone on, had it been there before."""
        return self.repeatable and run.settings.budget == self.settings.budget

    def _fetcher(self) -> Fetcher:
        config, seed = self.config, self.config.seed
        if config.batch_api:
            return BatchFetcher(self._samplers, tries=config.tries, seed=seed, leaves=self.leaves_jobs)
        return Fetcher(
            self._samplers, tries=config.tries, backoff=config.backoff, rpm=config.rpm, tpm=config.tpm, seed=seed
        )

    def _run_ledger(self, run: Run, allocator: Allocator, awaited: Sequence[PendingLaunches]) -> RunLedger:
        if not self.config.batch_api:
            return RunLedger(run)
        samplers = batch_samplers(self._samplers)
        for sampler in samplers:
            sampler.wave = lambda: allocator.wave
        return JobLedger(run, samplers, [Launch(id, number) for id, numbers in awaited for number in numbers])

    def _settle_lost(self, run: Run) -> tuple[list[PendingLaunches], bool]:
        """Launches without a trace: those in jobs are awaited, others cost nothing if they were never sent.

        Which ones are awaited, and whether all of the last wave was sent.
        """
        if not self.config.batch_api:
            if lost := lost_traces(run.lost(), run.settings.currency):
                run.write([], lost)
            return [], False
        positions = {id: place for place, id in enumerate(self._ids)}
        seeds = self.config.seeds(len(self.problems))
        requests, never_sent = launches_in_jobs(run.jobs(), run.lost(), positions, seeds)
        if never_sent:
            run.write([], [], cancelled=never_sent)
        return requests, not never_sent

    def _adopt(
        self, run: Run, allocator: Allocator, fetcher: Fetcher, questions: OpenQuestions, first: FirstTraces
    ) -> list[PendingLaunches]:
        """Take in all that was paid for; the launches that are awaited."""
        awaited, whole_wave = self._settle_lost(run)
        self._read_again(run)
        for trace in run.traces(texts=False):
            self.launches_lost += trace.error == LOST
            self._sum(trace)
            fetcher.remember(trace)
        first.count_stored(run, questions.type_name(self.problems[0]))
        self.faults.update(run.load("faults") or {})
        pending = [Launch(id, number) for id, numbers in awaited for number in numbers]
        adopt_run(allocator, run, questions.labels_of, self._confidence_kind, pending, whole_wave=whole_wave)
        return awaited

    def _read_again(self, run: Run) -> None:
        """Read what took too long when it came back, where its text was kept."""
        if not any(trace.finish == UNREAD for trace in run.traces(texts=False)):
            return
        types = {problem.id: answer_type_of(problem, self.config.answer) for problem in self.problems}
        unread = [trace for trace in run.traces() if trace.finish == UNREAD and trace.text]
        forms = [read_again(types[trace.question], trace.text) for trace in unread]
        pairs = [(trace, form) for trace, form in zip(unread, forms, strict=True) if form != UNREAD]
        run.set_answers(replace(trace, answer=form, finish="stop") for trace, form in pairs)

    def _finalize(self, driver: Driver, over: bool) -> None:
        """Whatever ended the run: note how it went, and whether it is over."""
        driver.allocator.learn_worth()  # from all traces, as readers of the store do
        run = self.stored_run
        if run is not None:
            note_end(run, driver)
            if over and driver.allocator.told:
                run.finish()
        self.faults.update(driver.fetcher.faults)
        driver.fetcher.faults.clear()

    def _costs(self, allocator: Allocator) -> CostEstimator | UnitCost:
        budget = allocator.budget
        if budget.currency.counts_traces:
            return UnitCost()
        worst = int(self.settings.more.get("worst", budget.currency.hold))
        estimator = CostEstimator(budget, worst, int(self.config.overshoot * budget.total))
        if self.stored_run is not None:
            for trace in self.stored_run.traces(texts=False):
                estimator.learn(trace.question, budget.currency.cost(trace))
        return estimator

    def _count(self, trace: StoredTrace) -> None:
        self._sum(trace)
        self._on_trace(trace)

    def _sum(self, trace: StoredTrace) -> None:
        self._failed += trace.error is not None
        self._given[trace.model] += trace.error is None
        self._tokens += trace.tokens
        self._prompt_tokens += trace.prompt_tokens
        self._cost += 0 if self._price is None else self._price.cost(trace)


def solve(
    questions: Questions,
    *,
    endpoint: Endpoints | None = None,
    model: Models | None = None,
    key: Keys = None,
    headers: Mapping[str, str] | None = None,
    sampler: Samplers | Mapping[str, Samplers] | None = None,
    store: str | Path | None = None,
    new: bool = False,
    config: RunConfig | None = None,
    **options: Unpack[RunOptions],
) -> Solution:
    """Answer questions by self-consistency under a budget; takes what :class:`Engine` takes.

        solution = pets.solve("mine.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B", budget="16x")
        for answer in solution.answers:
            print(answer.id, answer.answer, answer.certificate)

    Several models vote together with ``model=["a", "b"]``, or ``model={"a": 2, "b": 1}`` with weights.
    Works inside a notebook too, whose event loop waits meanwhile.
    """

    async def run() -> Solution:
        engine = Engine(
            questions,
            endpoint=endpoint,
            model=model,
            key=key,
            headers=headers,
            sampler=sampler,
            store=store,
            new=new,
            config=config,
            **options,
        )
        async with engine:
            solution = await engine.run()
            return replace(solution, answers=tuple(engine.answers()))

    return _run_to_end(run())


def _run_to_end(work: Coroutine[Any, Any, Solution]) -> Solution:
    """The result of a coroutine, in this thread or, where a loop is running in it, in another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: Future[Solution] = Future()
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def noted() -> Solution:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        return await work

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(noted()))
        except BaseException as error:  # noqa: BLE001 (handed over to the thread that waits)
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="pets-solve")
    thread.start()
    try:
        return outcome.result()
    except KeyboardInterrupt:  # a notebook's Stop: nothing more is asked, and a store is left whole
        loop, task = running.result()
        with suppress(RuntimeError):  # it has ended meanwhile
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()


def question_set_of(questions: Questions) -> QuestionSet:
    """A set's name, a file, a set, a DataFrame, or questions one by one: texts, records as in a file, or problems.

    >>> question_set_of(["What is 2 + 2?", {"question": "2 + 3?", "gold": 5}]).problems[1].gold
    '5'
    """
    if isinstance(questions, QuestionSet):
        return questions
    if isinstance(questions, str | Path):
        return find_questions(questions)
    problems = tuple(_problem(number, question) for number, question in enumerate(_rows(questions), 1))
    if not problems:
        raise InputError("there are no questions; give at least one.")
    return QuestionSet("questions", problems)


def _rows(questions: Iterable[str | Problem | Mapping[str, Any]]) -> Iterable[str | Problem | Mapping[str, Any]]:
    """The rows of a DataFrame of pandas or polars, which only they import; whatever else is given as it is."""
    if hasattr(questions, "to_dicts"):
        rows: list[dict[str, Any]] = questions.to_dicts()
    elif hasattr(questions, "to_dict") and hasattr(questions, "columns"):
        rows = questions.to_dict("records")
    else:
        return questions
    return [{name: value for name, value in row.items() if not _is_missing(value)} for row in rows]


def _is_missing(value: object) -> bool:
    """Whether pandas says that nothing is there: NaN, NA or NaT."""
    return value != value if isinstance(value, float) else type(value).__name__ in ("NAType", "NaTType")


def _problem(number: int, question: str | Problem | Mapping[str, Any]) -> Problem:
    if isinstance(question, Problem):
        return question
    if isinstance(question, str):
        return Problem(f"q{number}", Prompt.question(question), AUTO)
    if not isinstance(question, Mapping):
        raise InputError(f"question {number} is {question!r}; expected a text, a Problem, or a record as in a file.")
    try:
        return problem_from(dict(question), number)
    except InputError as error:
        raise InputError(f"question {number}: {error}") from None
