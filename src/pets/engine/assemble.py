"""Puts a driver together from a run's spec, for solve, stream, sample and serve; the only place that makes one."""

from collections.abc import Callable, Mapping, Sequence

from pets.core.allocator import Allocator
from pets.core.budget import Budget, CostEstimator, UnitCost
from pets.engine.arrivals import Arrivals, PendingLaunches, Wiring
from pets.engine.batch import BatchFetcher
from pets.engine.driver import Driver
from pets.engine.fetch import OUTAGE_PATIENCE_S, Fetcher
from pets.engine.ledger import Ledger
from pets.engine.pacing import FirstTraces, Pace, Pacing, StopRules
from pets.engine.question import Keep, OpenQuestions
from pets.engine.reading import TraceReading
from pets.engine.settlement import Settlement
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.engine.submissions import Places, Submissions
from pets.questions import Problem
from pets.store import StoredTrace
from pets.store.cache import TraceCache

NO_LIMIT = 1 << 30  # traces: those of submissions wait for a place each

Past = Callable[[Wiring], Sequence[PendingLaunches]]
"""Has the parts of a driver take in what an earlier process has paid for; returns the launches on their way."""


def assemble(
    spec: RunSpec,
    allocator: Allocator,
    sources: Sources,
    questions: Sequence[Problem] | Callable[[Wiring], Arrivals],
    *,
    keys: Mapping[str, str] | None = None,
    cache: TraceCache | None = None,
    ledger: Ledger | None = None,
    past: Past | None = None,
    fetcher: Fetcher | None = None,
    pace: Pace | None = None,
    keep: Keep = "nothing",
    on_trace: Callable[[StoredTrace], None] = lambda trace: None,
) -> Driver:
    """The driver of ``allocator`` over ``sources`` as the spec says; ``questions`` are a batch's, or come one by one.

    Seeds follow from the ``keys`` of questions, where they have any, and their traces come from the ``cache`` first.
    ``keep`` says what is kept of each question.
    """
    problems = () if callable(questions) else questions
    fetcher, ledger, costs = fetcher or fetcher_of(spec, sources), ledger or Ledger(), costs_of(spec, allocator.budget)
    drawn, reading, kind, in_jobs = spec.drawn, spec.reading, spec.confidence_kind, spec.serving.batch_api
    price, seeds = spec.price_in_money(sources.model), spec.seeds(len(problems))
    opened = OpenQuestions(reading.answer, reading.answer_sizes, kind, price, keep=keep, problems=problems)
    # A first wave of jobs is as large as it is.
    first = FirstTraces.of(allocator.budget, keep_going=spec.keeping.keep_going, alone=not in_jobs)
    stops = StopRules(allocator, fetcher, first, opened.ids, spec.spending.target_consistency, drawn.max_tokens)
    blocks, system = seeds.blocks(keys or {}, apart=in_jobs), reading.system
    wake: Callable[[], None] = lambda: driver.wake()  # noqa: E731, PLW0108 (there is none yet)
    wiring = Wiring(allocator, fetcher, ledger, opened, stops, costs, wake, cache, drawn, seeds, blocks, system)
    awaited = () if past is None else past(wiring)
    judge = Fetcher([sources.judge]) if sources.judge else fetcher
    soft_temperature = drawn.temperature if reading.soft else None
    traces = TraceReading(wiring, judge if sources.samplers else None, soft_temperature)
    pacing = Pacing(wiring, pace or Pace(spec.pacing.in_flight), hurry_said=spec.pacing.hurry is not None)
    arrivals = questions(wiring) if callable(questions) else Arrivals(wiring, awaited)
    settlement = Settlement(wiring, arrivals, traces, kind, sources.first, on_trace)
    # A prompt is paid for with every request: where requests wait for hours, several choices share it all the same.
    several = isinstance(costs, UnitCost) or bool(drawn.top_logprobs) or fetcher.shares_prompts
    driver = Driver(wiring, arrivals, pacing, settlement, n_with_tokens=several)
    return driver


def assemble_submissions(
    allocator: Allocator, fetcher: Fetcher, places: Places, ledger: Ledger | None = None, spec: RunSpec | None = None
) -> tuple[Driver, Submissions]:
    """The driver of a gateway, and what takes in its questions."""

    def submissions(wiring: Wiring) -> Submissions:
        return Submissions(wiring, places, receiver=lambda: driver.settlement)

    spec = (spec or RunSpec()).with_options(keep_going=True)
    driver = assemble(spec, allocator, Sources(), submissions, ledger=ledger, fetcher=fetcher, pace=Pace(NO_LIMIT))
    assert isinstance(driver.arrivals, Submissions)
    return driver, driver.arrivals


def fetcher_of(
    spec: RunSpec, sources: Sources, *, leaves_jobs: bool = True, patience_s: float | None = OUTAGE_PATIENCE_S
) -> Fetcher:
    """What asks the servers, and waits ``patience_s`` for the end of an outage; for batch jobs with ``leaves_jobs``."""
    serving = spec.serving
    if serving.batch_api:
        return BatchFetcher(sources.samplers, tries=serving.tries, seed=serving.seed, leaves=leaves_jobs)
    return Fetcher(
        sources.samplers,
        tries=serving.tries,
        backoff=serving.backoff,
        patience_s=patience_s,
        max_n=serving.max_n,
        rpm=serving.rpm,
        tpm=serving.tpm,
        seed=serving.seed,
    )


def costs_of(spec: RunSpec, budget: Budget) -> CostEstimator | UnitCost:
    """What admits launches; refused where the budget pays for no trace."""
    if budget.currency.counts_traces:
        return UnitCost()
    amount = budget.total if budget.window is None else budget.total or budget.window.amount
    return CostEstimator(budget, budget.currency.hold, int(spec.spending.overshoot * amount))
