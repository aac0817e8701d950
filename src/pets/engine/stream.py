"""A stream of questions through the driver: several on their way at once, each answered as soon as it stops.

Laws: every question that is taken in gets one answer; after :meth:`Stream.drain` nothing more is asked for, and every
open question is answered when what is in flight is back. A stream by windows may never end: a question that was
answered is forgotten, all but its spend. A stored stream that was broken off asks for nothing again that was paid for,
and answers again a question whose answer may not have been handed over.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from pets._version import __version__
from pets.core.allocator import Allocator
from pets.core.budget import Budget, Window
from pets.core.tally import K0
from pets.engine.arrivals import PendingLaunches, StreamArrivals, Wiring
from pets.engine.assemble import assemble, costs_of
from pets.engine.budget import Amount, currency_of, total_of
from pets.engine.driver import Driver
from pets.engine.ledger import RunLedger
from pets.engine.pacing import hurry_of
from pets.engine.question import Answer, OpenQuestion, group_by_question
from pets.engine.reading import judge_of
from pets.engine.resume import OpenedRun, bounded_spec, longest_prompt, reopen_run, take_up
from pets.engine.sources import LiveRun, Servers, Sources
from pets.engine.spec import ARRIVING_HURRY, RunSpec
from pets.errors import InputError, RefusedError
from pets.plans import Drift, StreamPlan, left_by_windows
from pets.policies.price import PriceRule
from pets.questions import Problem
from pets.samplers import Completion, Prompt, Sampler, Sampling
from pets.store import RunRecord, Store
from pets.types import Trace

WINDOW_QUESTIONS = 100  # where a stream has no end and no window was named
OPEN_QUESTIONS = 8  # where nobody says
COLD_POLICY = "price:warmup=2"  # without a plan, where nobody names another


def stream_budget(spec: RunSpec, model: str = "", problems: Sequence[Problem] | None = None) -> Budget:
    """The budget: in all for a known number of questions, else by windows.

    >>> stream_budget(RunSpec.of(budget="500", budget_window=50)).window
    Window(questions=50, amount=500)
    """
    spending, amount = spec.spending, Amount.parse(spec.spending.budget)
    prompt, limit = longest_prompt(spec, problems), spec.sampling.max_tokens
    currency = currency_of(amount, spec.price_at_most(model), prompt_tokens=prompt, max_tokens=limit)
    if (horizon := _horizon(spec, problems)) is not None:
        return Budget(total_of(amount, horizon), spending.max_traces, currency)
    window = spending.budget_window or WINDOW_QUESTIONS
    return Budget.per_window(window, total_of(amount, window), cap=spending.max_traces, currency=currency)


def plan_defaults(plan: StreamPlan | None) -> dict[str, Any]:
    """The options of a stream that its user may replace: its plan's, if it has one."""
    options: dict[str, Any] = {"policy": COLD_POLICY}
    if plan is not None:
        options |= {"budget": f"{plan.mean_budget:.12g}x", "max_traces": plan.cap}
        options["answer_sizes"] = {plan.provenance.answer: plan.provenance.options}
    return options


def planned(
    spec: RunSpec, plan: StreamPlan | None, sources: Sources, problems: Sequence[Problem] | None = None
) -> RunSpec:
    """The spec with the policy of a plan, else its own, which learns from the stream; with a token limit per trace."""
    spec = bounded_spec(spec, problems, sources.samplers)
    leave = left_by_windows(stream_budget(spec, sources.model, problems))
    policy = spec.make_policy()
    if plan is not None:
        policy = plan.policy(use_up=True, leave=leave)
    elif isinstance(policy, PriceRule):
        policy = replace(policy, use_up=True, leave=leave, cold=True)
    return spec.with_options(policy=policy)


def stream_record(spec: RunSpec, budget: Budget, sources: Sources, name: str = "stream") -> RunRecord:
    """What a store keeps of a stream; refused where another process could not make its policy or answer type."""
    return RunRecord(
        budget.total,
        budget.currency,
        spec.to_plain(),
        verb="stream",
        window=None if budget.window is None else (budget.window.questions, budget.window.amount),
        model=sources.model,
        endpoints=tuple(sources.endpoints),
        name=name,
        version=__version__,
    )


def _horizon(spec: RunSpec, problems: Sequence[Problem] | None) -> int | None:
    """How many questions will come, as far as that is known."""
    known = len(problems) if problems is not None and spec.spending.budget_window is None else None
    return spec.spending.horizon or known


class Stream(LiveRun):
    """One stream; ``async with Stream(...) as stream: await stream.run(problems)``.

    ``on_answer`` is called with each answer as soon as it is there. ``drift`` watches the warm-up patterns. ``source``
    names where the questions come from: the same stream of the same source is refused while another process works on
    it in this ``store``. ``problems`` are the questions where all are known, as those of a file. ``budget`` is that of
    :func:`stream_budget` if not given. ``past`` is a run that is taken up (:meth:`resume`).
    """

    def __init__(
        self,
        spec: RunSpec,
        sources: Sources,
        on_answer: Callable[[Answer], None],
        *,
        problems: Sequence[Problem] | None = None,
        budget: Budget | None = None,
        name: str = "stream",
        store: str | Path | None = None,
        source: str | None = None,
        drift: Drift | None = None,
        past: OpenedRun | None = None,
    ) -> None:
        held = (None, None) if past is None else (past.store, past.run)
        super().__init__(sources.judged_by(judge_of((), spec.reading.answer)), *held)
        self.spec = spec.with_options(horizon=_horizon(spec, problems)).check("stream")
        self.drift = drift
        self._on_answer = on_answer
        self._known = set() if past is None else {problem.id for problem in past.problems}  # of an earlier time
        budget = budget or stream_budget(spec, sources.model, problems)
        try:
            self._driver = self._assembled(budget, store, name, source, past)
        except BaseException:
            self.close()
            raise

    def _assembled(
        self, budget: Budget, store: str | Path | None, name: str, source: str | None, past: OpenedRun | None
    ) -> Driver:
        """The driver; a new stream is in its store by then."""
        spec = self.spec
        if not budget.currency.counts_traces and judge_of((), spec.reading.answer) is not None:
            raise InputError("a stream that is judged counts traces: give its budget without a unit.")
        seed, horizon = spec.serving.seed, spec.spending.horizon
        allocator = Allocator(spec.make_policy(), budget, horizon=horizon, seed=seed, hurry=0.0)
        costs_of(spec, budget)  # refuses a budget that pays for no trace: then there is no run
        if past is None and store is not None:
            record = stream_record(spec, budget, self.sources, name)
            identity = None if source is None else sha256(f"{source} {record.to_json()}".encode()).hexdigest()
            self._store = Store.open(store)
            self.stored_run = self._store.create(
                record, (), stream=True, identity=identity, is_rival=lambda run: run.state == "running"
            )
        if self.stored_run is not None:
            self._ledger = RunLedger(self.stored_run)
        adopt = None if past is None else partial(self._adopt, past)
        return assemble(spec, allocator, self.sources, self._arrivals, ledger=self._ledger, past=adopt)

    @classmethod
    def resume(
        cls,
        store: str | Path,
        run: int | str,
        servers: Servers,
        on_answer: Callable[[Answer], None],
        *,
        answer: str | None = None,
        budget: str | None = None,
        keep_going: bool = False,
        concurrency: int | None = None,
        hurry: float | None = None,
        drift: Drift | None = None,
    ) -> Self:
        """The stream of that number, or the last, taken up where it stopped, as :meth:`pets.engine.run.Engine.resume`.

        Questions that were not answered are asked on; those that come again are not asked again.
        """
        changes = {"keep_going": keep_going or None, "concurrency": concurrency, "hurry": hurry}
        past = reopen_run(store, run, servers, verb="stream", answer=answer, budget=budget, changes=changes)
        record, window = past.record, None if past.record.window is None else Window(*past.record.window)
        whole = Budget(record.total, past.spec.spending.max_traces, record.currency, window)
        return cls(past.spec, past.sources, on_answer, budget=whole, drift=drift, past=past)

    async def run(self, problems: AsyncIterable[Problem]) -> None:
        """Answer questions until they end, or until :meth:`drain`."""
        driver, run = self.driver, self.stored_run
        driver.check_ready()
        driver.allocator.hurry_by(await hurry_of(self.spec.pacing.hurry, self.sources.samplers, ARRIVING_HURRY))
        asked = (self.spec.asked(problem) async for problem in problems if problem.id not in self._known)
        await self.drive(driver, asked)
        if run is not None and not driver.stops.drained:
            run.finish()

    def _arrivals(self, wiring: Wiring) -> StreamArrivals:
        forgets = self.stored_run is None and wiring.allocator.budget.window is not None  # an id is a key of a store
        return StreamArrivals(
            wiring,
            open_questions=self.spec.pacing.open_questions or OPEN_QUESTIONS,
            seen=None if forgets else set(self._known),
            on_answer=self._answered,
        )

    def _answered(self, answer: Answer, question: OpenQuestion | None) -> None:
        self._watch(question)
        self._on_answer(answer)

    def _watch(self, question: OpenQuestion | None) -> None:
        if self.drift is not None and question is not None and question.warmup is not None:
            self.drift.see(question.warmup)

    def _adopt(self, past: OpenedRun, wiring: Wiring) -> Sequence[PendingLaunches]:
        """Take in what was paid for; answered questions are over, the others are opened again."""
        run, questions, allocator = past.run, wiring.questions, wiring.allocator
        assert run is not None
        asked = {problem.id: questions.make(problem, position) for position, problem in enumerate(past.problems)}
        allocator.add(*(question.question for question in asked.values()))
        take_up(past, wiring, on_trace=self._totals.add, labels=lambda id, forms: asked[id].restore(forms))
        answered = run.answered()
        for id, group in group_by_question(run.traces()):
            for trace in group[:K0] if id in answered else group:
                asked[id].add(trace)
        for id, question in asked.items():
            if id in answered:
                self._watch(question)
                allocator.withdraw(id)
            else:
                questions.open(question)
        return ()


class RecordedStream(Sampler):
    """A question's recorded traces by launch number, which is ``seed % cap``; past the last one they begin again."""

    def __init__(self, traces: Mapping[str, Sequence[Trace]], cap: int) -> None:
        self._traces, self._cap = traces, cap

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`~pets.samplers.Sampler.sample`; a question that was never recorded is refused."""
        traces = self._traces.get(str(prompt.content))
        if not traces:
            raise RefusedError(f"nothing was recorded for question {prompt.content!r}; ask what the pool holds.")
        await asyncio.sleep(0)  # as a model would, it lets others go on
        first = seed % self._cap
        return [
            Completion(trace.answer or "", "stop" if trace.answer else "length", trace.tokens, trace.prompt_tokens)
            for trace in (traces[number % len(traces)] for number in range(first, first + n))
        ]
