"""A live run: questions, a model and a budget in, answers out, each with its certificate."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Self, Unpack

from pets.arguments import checked
from pets.engine.assemble import assemble, costs_of, fetcher_of
from pets.engine.batch import JobLedger, batch_samplers
from pets.engine.budget import Models
from pets.engine.driver import Driver
from pets.engine.ledger import RunLedger
from pets.engine.pacing import hurry_of
from pets.engine.progress import Snapshot, Solution, expected_of, expected_so_far
from pets.engine.question import UNCOUNTED, Answer, QuestionTotals
from pets.engine.resume import (
    OpenedRun,
    Questions,
    answers,
    new_allocator,
    open_run,
    options_of,
    reopen_run,
    run_pace,
    stored_totals,
    take_up,
)
from pets.engine.sources import Endpoints, Keys, LiveRun, Samplers, Servers
from pets.engine.spec import BATCH_HURRY, RunOptions, RunSpec
from pets.errors import JobLeftError
from pets.store import StoredTrace


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
    ``store`` the run is durable: the same questions, model and options go on with it (``origin`` says so), unless
    ``new``, or the sampler is an object and no ``model`` names it; :meth:`resume` goes on by its number. ``on_trace``
    is called with every trace that was counted. The options are the fields of :class:`~pets.engine.spec.RunSpec`
    (``budget="16x"``, ``policy="okg"``, ``temperature=0.7``, ...).
    """

    @checked
    def __init__(
        self,
        questions: Questions | OpenedRun,
        *,
        endpoint: Endpoints | None = None,
        model: Models | None = None,
        key: Keys = None,
        headers: Mapping[str, str] | None = None,
        sampler: Samplers | Mapping[str, Samplers] | None = None,
        store: str | Path | None = None,
        new: bool = False,
        spec: RunSpec | None = None,
        on_trace: Callable[[StoredTrace], None] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        opened = questions
        if not isinstance(opened, OpenedRun):
            servers = Servers(endpoint, model, key, headers, sampler)
            opened = open_run(opened, servers, store=store, new=new, spec=spec, options=options)
        price = opened.spec.price_in_money(opened.record.model)
        super().__init__(opened.sources, opened.store, opened.run, opened.cache, price, repeatable=opened.repeatable)
        self.spec, self.problems, self.record = opened.spec, opened.problems, opened.record
        self.origin, self.pace = opened.origin, run_pace(opened.spec, opened.record, len(opened.problems), opened.run)
        self.jobs_left_note = ""
        """What stays with a batch provider, or in a file, where the run ended with jobs that have not."""
        self._opened, self._on_trace = opened, on_trace
        self._begun = 0.0, 0  # when, and after how many traces

    async def __aenter__(self) -> Self:
        return self if self.origin == "finished" else await super().__aenter__()

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
        hurry: float | None = None,
        answer: str | None = None,
        budget: str | None = None,
        max_traces: int | None = None,
        keep_going: bool = False,
        on_trace: Callable[[StoredTrace], None] | None = None,
    ) -> Self:
        """The run of that number, or the last, taken up where it stopped.

        ``budget`` adds to its budget (``+2000``) or says its new total (``=5000``); ``max_traces`` raises the number of
        traces that a question may get. ``keep_going``: also where its first traces cast no vote. ``answer`` names the
        code that reads its answers again (``python:...``): a store alone names none. What was in flight when it was
        broken off is charged and casts no vote; ``lost`` says how much that is.
        """
        servers = Servers(endpoint, None, key, headers, sampler)
        said = keep_going or None
        changes = {"concurrency": concurrency, "hurry": hurry, "max_traces": max_traces, "keep_going": said}
        opened = reopen_run(store, run, servers, answer=answer, budget=budget, changes=changes)
        return cls(opened, on_trace=on_trace)

    async def run(self, *, drain: bool = False) -> Solution:
        """Spend the budget, and say how it went; after :meth:`drain` it can be called again.

        With ``drain`` the run waits for requests in flight, batch jobs too, and asks nothing more.
        """
        hurry = None
        if not (self._driver or self.spec.serving.batch_api or self.origin == "finished"):  # jobs are not raced
            hurry = await hurry_of(self.spec.pacing.hurry, self.sources.samplers, BATCH_HURRY)
        # Nothing is awaited in between: of two calls at once the second finds the driver of the first.
        driver = self._driver = self._driver or self._start(hurry, leaves_jobs=not drain)
        driver.check_ready()
        driver.stops.drain(on=drain)
        if self.origin == "finished":
            return self.solution()
        self._begun = asyncio.get_running_loop().time(), driver.allocator.told
        try:
            await self.drive(driver)
            if self.stored_run is not None and self._over(driver) and driver.allocator.told:
                self.stored_run.finish()
        except JobLeftError as error:
            driver.stops.drain()
            self.jobs_left_note = str(error)
        finally:  # whatever ended the run
            driver.allocator.learn_worth()  # from all traces, as readers of the store do
        return self.solution()

    def answers(self) -> Iterator[Answer]:
        """Every question's answer, in their order."""
        driver = self.driver
        totals: Iterable[QuestionTotals]
        if self.stored_run is not None:
            totals = stored_totals(self.stored_run, self.spec, self.problems)
        else:
            totals = [driver.questions.totals.get(problem.id, UNCOUNTED) for problem in self.problems]
        problems, failures, over = driver.questions.problems, driver.stops.failures, self._over(driver)
        return answers(problems, driver.allocator, totals, self.spec, self.record.model, failures, over=over)

    @property
    def points_given_up(self) -> float:
        """Points of expected self-consistency that the pace costs."""
        return self.pace.points_given_up(options_of(self.problems[0], self.spec))

    def snapshot(self, look: bool = True) -> Snapshot:
        """How it goes: cheap enough to ask for every second; ``look`` works out the expected self-consistency."""
        driver, (begun_at, told_before) = self.driver, self._begun
        allocator, budget = driver.allocator, driver.allocator.budget
        (spent, unit), (total, _) = budget.currency.shown(budget.spent), budget.currency.shown(budget.total)
        now = asyncio.get_running_loop().time()
        seconds = now - begun_at
        return Snapshot(
            questions=len(self.problems),
            traces=allocator.told,
            failed=self._totals.failed,
            in_flight=driver.questions.in_flight,
            spent=spent,
            total=total,
            unit=unit,
            seconds=seconds,
            rate=(allocator.told - told_before) / seconds if seconds > 0 else 0.0,
            expected_left=budget.expected,
            wave=allocator.wave + 1 if self.pace.waves else 0,
            waves=max(self.pace.waves, allocator.wave + 1) if self.pace.waves else 0,
            points_given_up=self.points_given_up,
            faults=dict(self.faults + driver.fetcher.faults),
            outage=self.outage(),
            expected=expected_so_far(allocator, driver.questions.ids) if look and allocator.told else None,
        )

    def solution(self) -> Solution:
        """The run as it stands, in a few numbers."""
        driver, counted = self.driver, self._totals
        allocator, budget = driver.allocator, driver.allocator.budget
        (spent, unit), (total, _) = budget.currency.shown(budget.spent), budget.currency.shown(budget.total)
        return Solution(
            run=None if self.stored_run is None else self.stored_run.id,
            questions=len(self.problems),
            answered=sum(bool(allocator.tally(id).counts) for id in driver.questions.ids),
            traces=allocator.told,
            failed=counted.failed,
            lost=counted.lost,
            tokens=counted.tokens,
            prompt_tokens=counted.prompt_tokens,
            cost=counted.cost,
            spent=spent,
            total=total,
            unit=unit,
            consistency=expected_of(allocator, driver.questions.ids),
            zone=allocator.policy.zone,
            faults=dict(self.faults),
            complete=self._over(driver),
            models={share.name: counted.given[index] for index, share in enumerate(self.spec.serving.models)},
            reused=dict(counted.reused),
            settled=driver.stops.enough == "settled",
            cancelled=counted.cancelled,
        )

    def _over(self, driver: Driver) -> bool:
        """Whether the run has come to its end, and was not stopped before."""
        return self.origin == "finished" or driver.stops.enough is not None or not driver.stops.drained

    def _start(self, hurry: float | None, *, leaves_jobs: bool) -> Driver:
        """The driver of a new run, or of an old one with all that it has paid for."""
        opened, spec = self._opened, self.spec
        allocator = new_allocator(spec, self.record, self.problems, self.pace.waves, hurry)
        costs_of(spec, allocator.budget)  # refuses a budget that pays for no trace: then there is no run
        past = None if opened.run is None else partial(take_up, opened, on_trace=self._totals.add)
        if self.stored_run is None and opened.store is not None:
            self.stored_run = opened.store.create(
                self.record,
                self.problems,
                identity=opened.identity,
                keys=opened.keys,  # a rival is what the same call would have gone on with, had it been there
                is_rival=lambda run: self.repeatable and run.settings.budget == self.record.budget,
            )
        if self.stored_run is not None:
            self._ledger = RunLedger(self.stored_run)
            if spec.serving.batch_api:
                self._ledger = JobLedger(self.stored_run, batch_samplers(self.sources.samplers), lambda: allocator.wave)
        return assemble(
            spec,
            allocator,
            self.sources,
            self.problems,
            keys=opened.keys,
            cache=self.cache,
            ledger=self._ledger,
            past=past,
            fetcher=fetcher_of(spec, self.sources, leaves_jobs=leaves_jobs),
            pace=self.pace,
            keep="totals" if opened.store is None else "nothing",
            on_trace=self._counted,
        )

    def _counted(self, trace: StoredTrace) -> None:
        self._totals.add(trace)
        if self._on_trace is not None:
            self._on_trace(trace)
