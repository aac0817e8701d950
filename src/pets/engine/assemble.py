"""Puts a driver together from its parts; the only place that makes one."""

from collections.abc import Callable

from pets.core.allocator import Allocator
from pets.core.cost import CostEstimator, UnitCost
from pets.engine.arrivals import Arrivals, Wiring
from pets.engine.driver import Driver
from pets.engine.fetch import Fetcher
from pets.engine.judging import Judging
from pets.engine.ledger import Ledger
from pets.engine.pacing import Pace, Pacing
from pets.engine.places import Places
from pets.engine.questions import InFlight, OpenQuestions
from pets.engine.reading import TraceReading, TypeChoice
from pets.engine.settlement import Settlement
from pets.engine.stops import StopRules
from pets.engine.submissions import Submissions
from pets.store import StoredTrace

NO_LIMIT = 1 << 30  # traces: those of submissions wait for a place each


def assemble(
    allocator: Allocator,
    fetcher: Fetcher,
    questions: OpenQuestions,
    arrivals: Callable[[Wiring], Arrivals],
    pace: Pace,
    *,
    stops: StopRules | None = None,
    ledger: Ledger | None = None,
    costs: CostEstimator | UnitCost | None = None,
    choice: TypeChoice | None = None,
    judging: Judging | None = None,
    confidence: str | None = None,
    soft_temperature: float | None = None,
    tells_tokens: bool = False,
    on_trace: Callable[[StoredTrace], None] = lambda trace: None,
) -> Driver:
    """The driver of ``allocator`` over ``fetcher``, whose questions come from ``arrivals``, at a ``pace``.

    ``costs`` admits launches where a budget is in tokens or money. ``choice`` is that of a type for questions that name
    none, ``judging`` asks which answers are the same. ``tells_tokens``: a reply tells the tokens of each of its traces.
    """
    costs = costs or UnitCost()
    wiring = Wiring(
        allocator,
        fetcher,
        ledger or Ledger(),
        questions,
        InFlight(),
        stops or StopRules(allocator, fetcher),
        wake=lambda: driver.wake(),  # noqa: PLW0108 (there is none yet)
    )
    reading = TraceReading(wiring, choice=choice, judging=judging, soft_temperature=soft_temperature)
    pacing = Pacing(pace, wiring, costs, reading)
    source = arrivals(wiring)
    settlement = Settlement(wiring, source, pacing, reading, costs=costs, confidence=confidence, on_trace=on_trace)
    # A prompt is paid for with every request: where requests wait for hours, several choices share it all the same.
    several = isinstance(costs, UnitCost) or tells_tokens or fetcher.shares_prompts
    driver = Driver(allocator, fetcher, questions, source, pacing, wiring.stops, settlement, n_with_tokens=several)
    return driver


def assemble_submissions(
    allocator: Allocator, fetcher: Fetcher, places: Places, ledger: Ledger | None = None
) -> tuple[Driver, Submissions]:
    """The driver of a gateway, and what takes in its questions."""

    def submissions(wiring: Wiring) -> Submissions:
        return Submissions(wiring, places, receiver=lambda: driver.settlement)

    driver = assemble(allocator, fetcher, OpenQuestions(), submissions, Pace(NO_LIMIT), ledger=ledger)
    source = driver.arrivals
    assert isinstance(source, Submissions)
    return driver, source
