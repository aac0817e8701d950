"""What an earlier process has paid for is charged once and counted once."""

from pets.core.allocator import Allocator
from pets.core.budget import Budget
from pets.engine.assemble import assemble
from pets.engine.past import PastRun, charge_lost
from pets.engine.sources import Sources
from pets.engine.spec import RunSpec
from pets.policies.uniform import Uniform
from pets.store import Launch, RunRecord, Store, StoredTrace
from pets.store.records import LOST
from pets.types import Question

from .conftest import Scripted, asked

SPEC = RunSpec.of(policy="uniform", budget="4x")


def broken_off(store, problems):
    run = store.create(RunRecord(8, spec=SPEC.to_plain()), problems)
    run.write([Launch("a", 0), Launch("a", 1), Launch("b", 0)], [])
    run.write([], [StoredTrace("a", 0, "A", "The answer is A.", "stop", tokens=3)])
    return run


def test_a_launch_that_never_came_back_is_charged_once(tmp_path):
    with Store.open(tmp_path / "runs.db") as store, broken_off(store, asked("ab")) as run:
        for _ in range(2):
            charge_lost(run)
            assert [(trace.launch, trace.error) for trace in run.traces() if trace.error] == [
                (Launch("a", 1), LOST),
                (Launch("b", 0), LOST),
            ]
        assert run.summary().spent == 3


def test_a_driver_takes_in_all_that_was_paid_for(tmp_path):
    problems, counted = asked("ab"), []
    allocator = Allocator(Uniform(), Budget(8), [Question(problem.id, options=4) for problem in problems])
    with Store.open(tmp_path / "runs.db") as store, broken_off(store, problems) as run:
        past = PastRun(run, SPEC, problems, {})
        driver = assemble(
            SPEC,
            allocator,
            Sources([Scripted()]),
            problems=problems,
            past=lambda wiring, costs: past.adopt(wiring, costs, counted.append),
        )
    assert driver.allocator.told == len(counted) == 3 and allocator.budget.spent == 3
    assert allocator.tally("a").counts == (1,) and not past.awaited
