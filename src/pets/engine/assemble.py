"""Puts a driver together from a run's spec, for solve, stream, sample and serve; the only place that makes one."""

from collections.abc import Callable, Mapping, Sequence

from pets.core.allocator import Allocator
from pets.core.budget import Budget, CostEstimator, UnitCost
from pets.engine.arrivals import Arrivals, Asking, Wiring
from pets.engine.batch import BatchFetcher, PendingLaunches
from pets.engine.driver import Driver
from pets.engine.fetch import OUTAGE_PATIENCE_S, Fetcher
from pets.engine.ledger import Ledger
from pets.engine.pacing import Pace, Pacing
from pets.engine.progress import ProgressMonitor
from pets.engine.questions import InFlight, OpenQuestions
from pets.engine.reading import Judging, TraceReading
from pets.engine.reuse import Reuse
from pets.engine.settlement import Settlement
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.engine.stops import FirstTraces, StopRules
from pets.engine.submissions import Places, Submissions
from pets.questions import Problem
from pets.store import StoredTrace

NO_LIMIT = 1 << 30  # traces: those of submissions wait for a place each

Costs = CostEstimator | UnitCost
Past = Callable[[Wiring, Costs], None]
"""Lets the parts of a driver take in what an earlier process has paid for."""


def assemble(
    spec: RunSpec,
    allocator: Allocator,
    sources: Sources,
    arrivals: Callable[[Wiring, Asking], Arrivals] | None = None,
    *,
    problems: Sequence[Problem] = (),
    keys: Mapping[str, str] | None = None,
    reuse: Reuse | None = None,
    awaited: Sequence[PendingLaunches] = (),
    ledger: Ledger | None = None,
    past: Past | None = None,
    costs: Costs | None = None,
    fetcher: Fetcher | None = None,
    pace: Pace | None = None,
    keep_traces: bool = False,
    keep_totals: bool = False,
    watch_first: bool = False,
    on_trace: Callable[[StoredTrace], None] = lambda trace: None,
) -> Driver:
    """The driver of ``allocator`` over ``sources``, whose questions come from ``arrivals``, as the spec says.

    Without arrivals they are ``problems``, a batch, of which some launches are ``awaited`` already. Seeds follow from
    the ``keys`` of questions, where they have any, and their traces come from ``reuse`` first. ``costs`` admits
    launches where a budget is in tokens or money. With ``watch_first`` a run whose first traces cast no vote stops.
    ``keep_traces`` keeps every trace of an open question, ``keep_totals`` what answers need of each.
    """
    fetcher, costs = fetcher or fetcher_of(spec, sources), costs or costs_of(spec, allocator.budget)
    questions = OpenQuestions(
        problems=problems,
        answer=spec.reading.answer,
        options=spec.reading.answer_sizes,
        confidence=spec.confidence_kind,
        price=spec.price_in_money(sources.model),
        keep_traces=keep_traces,
        keep_totals=keep_totals,
    )
    first = None
    if watch_first:  # a first wave of jobs is as it is
        alone = not spec.serving.batch_api
        first = FirstTraces.of(allocator.budget, keep_going=spec.keeping.keep_going, alone=alone)
    drawn = spec.drawn
    stops = StopRules(
        allocator,
        fetcher,
        first_traces=first,
        monitor=ProgressMonitor(spec.spending.target_consistency),
        ids=[problem.id for problem in problems],
        max_tokens=drawn.max_tokens,
    )
    wiring = Wiring(
        allocator,
        fetcher,
        ledger or Ledger(),
        questions,
        InFlight(),
        stops,
        wake=lambda: driver.wake(),  # noqa: PLW0108 (there is none yet)
        reuse=reuse,
    )
    if past is not None:
        past(wiring, costs)
    judge = fetcher if sources.judge is None else Fetcher([sources.judge])
    reading = TraceReading(
        wiring,
        judging=None if first is None else Judging(judge, fetcher.faults),
        soft_temperature=drawn.temperature if spec.reading.soft else None,
    )
    pacing = Pacing(pace or Pace(spec.pacing.in_flight), wiring, costs, hurry_said=spec.pacing.hurry is not None)
    seeds = spec.seeds(len(problems))
    blocks = seeds.blocks(keys or {}, apart=spec.serving.batch_api)
    asking = Asking(drawn, seeds, spec.reading.system, blocks)
    held = [(id, numbers, [costs.reserve(id) for _ in numbers]) for id, numbers in awaited]
    source = Arrivals(wiring, asking, held) if arrivals is None else arrivals(wiring, asking)
    settlement = Settlement(
        wiring,
        source,
        pacing,
        reading,
        costs=costs,
        confidence=spec.confidence_kind,
        first_endpoint=sources.first,
        on_trace=on_trace,
    )
    # A prompt is paid for with every request: where requests wait for hours, several choices share it all the same.
    several = isinstance(costs, UnitCost) or bool(drawn.top_logprobs) or fetcher.shares_prompts
    driver = Driver(allocator, fetcher, questions, source, pacing, stops, settlement, n_with_tokens=several)
    return driver


def assemble_submissions(
    allocator: Allocator, fetcher: Fetcher, places: Places, ledger: Ledger | None = None, spec: RunSpec | None = None
) -> tuple[Driver, Submissions]:
    """The driver of a gateway, and what takes in its questions."""

    def submissions(wiring: Wiring, asking: Asking) -> Submissions:
        return Submissions(wiring, places, receiver=lambda: driver.settlement)

    driver = assemble(
        spec or RunSpec(), allocator, Sources(), submissions, ledger=ledger, fetcher=fetcher, pace=Pace(NO_LIMIT)
    )
    source = driver.arrivals
    assert isinstance(source, Submissions)
    return driver, source


def fetcher_of(
    spec: RunSpec, sources: Sources, *, leaves_jobs: bool = True, patience_s: float | None = OUTAGE_PATIENCE_S
) -> Fetcher:
    """What asks the servers, and waits ``patience_s`` for the end of an outage.

    ``leaves_jobs``: a run that is told to end leaves its batch jobs where they are.
    """
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


def costs_of(spec: RunSpec, budget: Budget) -> Costs:
    """What admits launches; refused where the budget pays for no trace."""
    if budget.currency.counts_traces:
        return UnitCost()
    amount = budget.total if budget.window is None else budget.total or budget.window.amount
    return CostEstimator(budget, budget.currency.hold, int(spec.spending.overshoot * amount))
