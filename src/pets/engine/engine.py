"""The engine: questions in, a model behind an endpoint, a budget, answers out, each with its certificate."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pets.core.allocator import Allocator
from pets.core.certificate import expected_consistency
from pets.engine.accounts import Account
from pets.engine.answers import Answer, accounts_of, answers
from pets.engine.dispatch import MOST_CHOICES, Dispatcher
from pets.engine.endpoints import Fleet
from pets.engine.journal import Journal
from pets.engine.options import plan_with, samplers_for, topped_up
from pets.engine.outlook import Certifier, Outlook, outlook, tallies_of
from pets.engine.plan import Plan
from pets.engine.prices import price_of
from pets.engine.purse import Purse
from pets.engine.reading import Reader
from pets.engine.runs import LOST, adoptable, allocator_for, lost_traces, plan_of, settings_of
from pets.engine.snapshot import Snapshot, Solution
from pets.engine.sources import Questions, question_set_of
from pets.errors import StateError
from pets.questions import Problem
from pets.samplers import Sampler
from pets.store import Launch, Run, Store, StoredTrace

__all__ = ["Engine"]


class Engine:
    """A live run; ``async with Engine(...) as engine: await engine.run()``, then :meth:`answers`.

        async with Engine("questions.jsonl", endpoint="http://localhost:8000/v1", model="Qwen/Qwen3-8B") as engine:
            solution = await engine.run()
            for answer in engine.answers():
                print(answer.id, answer.answer, answer.certificate)

    ``questions`` is a file, a named set, or the questions themselves. Without an ``endpoint`` the local model answers;
    several endpoints share the work; ``sampler`` takes any other source of traces. With a ``store`` the run is durable
    and :meth:`resume` goes on with it. The options are those of :class:`~pets.engine.plan.Plan` and of
    :class:`~pets.samplers.Sampling` (``budget="16x"``, ``policy="okg"``, ``temperature=0.7``, ...).
    """

    def __init__(
        self,
        questions: Questions,
        *,
        endpoint: str | Sequence[str] | None = None,
        model: str | None = None,
        key: str | None = None,
        sampler: Sampler | Sequence[Sampler] | None = None,
        store: str | Path | None = None,
        plan: Plan | None = None,
        **options: Any,
    ) -> None:
        asked = question_set_of(questions)
        self.plan = plan_with(plan or Plan(sampling=asked.sampling), options)
        self.problems: Sequence[Problem] = asked.problems
        endpoints = [endpoint] if isinstance(endpoint, str) else list(endpoint or ())
        self.settings = settings_of(self.plan, self.problems, model=model or "", endpoints=endpoints, name=asked.name)
        self._samplers = samplers_for(sampler, endpoints, model, key, self.plan)
        self._setup(None if store is None else Store.open(store), None)

    @classmethod
    def resume(
        cls,
        store: str | Path,
        run: int | str = "last",
        *,
        endpoint: str | Sequence[str] | None = None,
        key: str | None = None,
        sampler: Sampler | Sequence[Sampler] | None = None,
        concurrency: int | None = None,
        top_up: str | None = None,
    ) -> Self:
        """The run of that number, or the last, taken up where it stopped; ``top_up`` gives it more budget.

        What was in flight when it was broken off is charged and casts no vote; ``lost`` says how much that is.
        """
        self = cls.__new__(cls)
        opened = Store.open(store, create=False)
        try:
            held = opened.open_run(run)
            plan = plan_of(held.settings)
            self.plan = plan if concurrency is None else replace(plan, concurrency=concurrency)
            self.problems = tuple(held.problems())
            self.settings = held.settings
            if top_up is not None:
                self.settings = topped_up(held.settings, top_up, len(self.problems))
                held.change(self.settings)
            given = [endpoint] if isinstance(endpoint, str) else list(endpoint or self.settings.endpoints)
            self._samplers = samplers_for(sampler, given, self.settings.model or None, key, self.plan)
        except BaseException:
            opened.close()
            raise
        self._setup(opened, held)
        return self

    def _setup(self, store: Store | None, run: Run | None) -> None:
        self._store, self.held = store, run
        self.allocator: Allocator | None = None
        self.lost = 0
        """Launches that were in flight when the run was broken off, over all times that it was."""
        self.faults: Counter[str] = Counter()
        """What went wrong on the way, and how often; nothing of it is lost in the counts."""
        self.on_trace: Callable[[StoredTrace], None] = lambda _: None
        """Called with every trace when it has been counted."""
        self._accounts: dict[str, Account] = {}
        self._reader = Reader(self.problems, self.plan.answer)
        self._dispatcher: Dispatcher | None = None
        self._stack = AsyncExitStack()
        self._begun = 0.0
        self._told_before = 0
        self._tokens = [0, 0]
        self._failed = 0

    async def __aenter__(self) -> Self:
        for sampler in self._samplers:
            await self._stack.enter_async_context(sampler)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self.close()

    def close(self) -> None:
        """Let go of the run and the store."""
        if self.held is not None:
            self.held.close()
        if self._store is not None:
            self._store.close()

    async def run(self) -> Solution:
        """Spend the budget; how it went. Cut short by :meth:`drain`, it can be called again."""
        allocator = self.allocator or self._begin()
        loop = asyncio.get_running_loop()
        self._begun, self._told_before = loop.time(), allocator.told
        purse = self._purse(allocator)
        try:
            async with Journal(self.held) as journal:
                fleet = Fleet(self._samplers, MOST_CHOICES)
                self._dispatcher = Dispatcher(
                    self.problems, allocator, fleet, self.plan, journal, self._reader,
                    purse=purse, counted=self._count,
                )  # fmt: skip
                await self._dispatcher.run()
        finally:
            self._reader.close()
            self._put_down(allocator)
        return self.solution()

    def drain(self) -> None:
        """Ask for nothing more; :meth:`run` returns when what is in flight has come home."""
        if self._dispatcher is not None:
            self._dispatcher.drain()

    def answers(self) -> Iterator[Answer]:
        """Every question's answer, in their order."""
        allocator = self._running()
        price = price_of(self.settings.model, self.plan.price)
        if self.held is not None:
            accounts = accounts_of(self.held.traces(), self.plan)
        else:
            accounts = ((one.id, self._accounts[one.id]) for one in self.problems if one.id in self._accounts)
        return answers(self.problems, allocator, accounts, self.plan, price)

    def snapshot(self, look: bool = True) -> Snapshot:
        """How it goes: cheap enough to ask for every second; ``look`` works out the expected self-consistency."""
        allocator = self._running()
        seconds = asyncio.get_running_loop().time() - self._begun
        budget = allocator.budget
        return Snapshot(
            questions=len(self.problems),
            traces=allocator.told,
            failed=self._failed,
            in_flight=budget.reserved // budget.currency.hold,
            spent=budget.spent,
            total=budget.total,
            unit=budget.currency.unit,
            seconds=seconds,
            rate=(allocator.told - self._told_before) / seconds if seconds > 0 else 0.0,
            expected_left=budget.expected,
            faults=dict(self.faults if self._dispatcher is None else self._dispatcher.faults),
            outlook=self._look() if look and allocator.told else None,
        )

    def solution(self) -> Solution:
        """The run as it stands, in a few numbers."""
        allocator = self._running()
        budget, ids = allocator.budget, [problem.id for problem in self.problems]
        tallies = tallies_of(allocator, ids)
        price = price_of(self.settings.model, self.plan.price)
        ended = self._dispatcher is not None and self._dispatcher.draining and not self._dispatcher.satisfied
        return Solution(
            run=None if self.held is None else self.held.id,
            questions=len(ids),
            traces=allocator.told,
            failed=self._failed,
            lost=self.lost,
            tokens=self._tokens[0],
            prompt_tokens=self._tokens[1],
            cost=None if price is None else price.dollars(prompt_tokens=self._tokens[1], tokens=self._tokens[0]),
            spent=budget.spent,
            total=budget.total,
            unit=budget.currency.unit,
            consistency=expected_consistency(tallies, Certifier(tallies).prior),
            faults=dict(self.faults),
            complete=not ended,
        )

    def _look(self) -> Outlook:
        return outlook(self._running(), [problem.id for problem in self.problems])

    def _running(self) -> Allocator:
        if self.allocator is None:
            raise StateError("the run has not begun; await engine.run() first.")
        return self.allocator

    def _begin(self) -> Allocator:
        """A new run, or the adopted past of an old one."""
        allocator = allocator_for(self.plan, self.settings, self.problems)
        if self.held is None:
            if self._store is not None:
                self.held = self._store.create(self.settings, self.problems)
        else:
            self._take_up(self.held, allocator)
        self.allocator = allocator
        return allocator

    def _take_up(self, run: Run, allocator: Allocator) -> None:
        lost = lost_traces(run.lost(), run.settings.currency)
        if lost:
            run.write([], lost)
        for trace in run.traces(texts=False):
            self.lost += trace.error == LOST
            self._sum(trace)
        self.faults.update(run.load("faults") or {})
        allocator.adopt(adoptable(run, self.problems, self.plan, self._reader))

    def _put_down(self, allocator: Allocator) -> None:
        """Whatever ended the run: note what went wrong, and what was launched for nothing."""
        if self._dispatcher is None:
            return
        self.faults.update(self._dispatcher.faults)
        self._dispatcher.faults = Counter()
        if self.held is None:
            return
        self.held.save("faults", dict(self.faults))
        if not allocator.told:  # nobody ever answered: nothing was paid for
            self.held.write([], [], cancelled=[Launch(one.question, one.number) for one in self.held.lost()])
        elif not allocator.budget.reserved and (self._dispatcher.satisfied or not self._dispatcher.draining):
            self.held.finish()

    def _purse(self, allocator: Allocator) -> Purse | None:
        budget = allocator.budget
        if budget.currency.flat:
            return None
        worst = int(self.settings.more.get("worst", budget.currency.hold))
        purse = Purse(budget, worst, int(self.plan.overshoot * budget.total))
        if self.held is not None:
            for trace in self.held.traces(texts=False):
                purse.learn(trace.question, budget.currency.cost(trace.trace()))
        return purse

    def _count(self, trace: StoredTrace) -> None:
        self._sum(trace)
        if self.held is None:
            self._accounts.setdefault(trace.question, Account()).add(trace, self.plan.kind)
        self.on_trace(trace)

    def _sum(self, trace: StoredTrace) -> None:
        self._failed += trace.error is not None
        self._tokens[0] += trace.tokens
        self._tokens[1] += trace.prompt_tokens
