"""What an earlier process has paid for: taken in by the parts of a driver before it goes on."""

from collections.abc import Callable, Mapping, Sequence

from pets.core.allocator import Allocator
from pets.core.cost import CostEstimator, UnitCost
from pets.engine.arrivals import Wiring
from pets.engine.batch import JobLedger, PendingLaunches, batch_samplers, launches_in_jobs
from pets.engine.ledger import RunLedger
from pets.engine.question import UNREAD, answer_type_of
from pets.engine.reading import read_again
from pets.engine.resume import adopt_run, lost_traces
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.questions import Problem
from pets.store import Run, StoredTrace
from pets.types import Launch


class PastRun:
    """A stored run that goes on. Launches without a trace are charged, those in batch jobs are ``awaited``.

    ``keys`` are the questions' own, where seeds follow from them; ``first`` is the place of its first endpoint now.
    """

    def __init__(
        self, run: Run, spec: RunSpec, problems: Sequence[Problem], keys: Mapping[str, str], first: int = 0
    ) -> None:
        self.awaited: list[PendingLaunches] = []
        self._run, self._spec, self._problems, self._first = run, spec, problems, first
        self._whole_wave = False  # whether all of the last wave was sent
        if not spec.serving.batch_api:
            charge_lost(run)
            return
        seeds = spec.seeds(len(problems))
        positions = {problem.id: index for index, problem in enumerate(problems)} | seeds.blocks(keys, apart=True)
        jobs = launches_in_jobs(run.jobs(), run.lost(), positions, seeds)
        self.awaited, never_sent = jobs
        self._whole_wave = not never_sent
        if never_sent:
            run.write([], [], dropped=never_sent)

    def adopt(self, wiring: Wiring, costs: CostEstimator | UnitCost, on_trace: Callable[[StoredTrace], None]) -> None:
        """Take in all that was paid for; ``on_trace`` is called with each trace."""
        run, currency = self._run, self._run.settings.currency
        self._read_again()
        for trace in run.traces(texts=False):
            on_trace(trace)
            wiring.fetcher.remember(trace, self._first)
        if wiring.stops.first_traces is not None:
            wiring.stops.first_traces.count_stored(run, wiring.questions.type_name(self._problems[0]))
        pending = [Launch(id, number) for id, numbers in self.awaited for number in numbers]
        kind, labels = self._spec.confidence_kind, wiring.questions.labels_of
        adopt_run(wiring.allocator, run, labels, kind, pending, whole_wave=self._whole_wave)
        if isinstance(costs, CostEstimator):
            for trace in run.traces(texts=False):
                if trace.part is None:
                    costs.learn(trace.question, currency.cost(trace))

    def _read_again(self) -> None:
        """Read what took too long when it came back, where its text was kept."""
        if not any(trace.finish == UNREAD for trace in self._run.traces(texts=False)):
            return
        types = {problem.id: answer_type_of(problem, self._spec.reading.answer) for problem in self._problems}
        unread = [trace for trace in self._run.traces() if trace.finish == UNREAD and trace.text]
        self._run.set_answers(read_again(types[trace.question], trace) for trace in unread)


def charge_lost(run: Run) -> None:
    """Charge the launches that never came back at all that was held for them."""
    if lost := lost_traces(run.lost(), run.settings.currency):
        run.write([], lost)


def ledger_of(
    run: Run, spec: RunSpec, sources: Sources, allocator: Allocator, awaited: Sequence[PendingLaunches]
) -> RunLedger:
    """The ledger of a stored run; one by batch jobs writes these down as well."""
    if not spec.serving.batch_api:
        return RunLedger(run)
    samplers = batch_samplers(sources.samplers)
    for sampler in samplers:
        sampler.wave = lambda: allocator.wave
    return JobLedger(run, samplers, [Launch(id, number) for id, numbers in awaited for number in numbers])
