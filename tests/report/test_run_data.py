"""What a report reads of a run: votes in launch order, what is gold, and the traces to look at."""

import pytest

from pets.errors import InputError
from pets.report.run_data import least_certain, read_run


def test_a_run_is_read_with_its_curves_and_samples(run_store):
    run = read_run(run_store.view(1))
    assert [answer.id for answer in run.answers] == ["easy", "hard", "wrong"]
    assert run.mean_traces == pytest.approx(14 / 3) and run.zone == 0.0
    assert run.spent.traces[-1] == pytest.approx(14 / 3) and run.spent.accuracy[-1] == pytest.approx(2 / 3)
    assert run.uniform.accuracy is not None
    assert [trace.number for trace in run.samples["hard"]] == list(range(6))


def test_the_least_certain_come_first(run_store):
    answers = read_run(run_store.view(1)).answers
    assert next(answers[place].id for place in least_certain(answers)) == "hard"


def test_a_run_without_a_trace_has_nothing_to_report(run_store):
    with pytest.raises(InputError, match="no trace yet"):
        read_run(run_store.view(2))
