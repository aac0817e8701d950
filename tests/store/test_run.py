"""A run gives back what was written, whole and in order, and refuses what does not fit."""

import threading
import tracemalloc
from dataclasses import replace

import pytest

from pets.answers.number import Number
from pets.confidence import Confidence
from pets.core.money import Currency
from pets.errors import InputError, StateError
from pets.openai.batch import BatchJob
from pets.questions import Problem
from pets.samplers import Prompt
from pets.store import Launch, LostLaunch, RunRecord, Store, StoredTrace
from pets.store.export import pooled_questions
from pets.store.records import ModelTotals

SURE = Confidence(mean=2.0, tail=3.0, lowest=1.0, bottom=1.5, tokens=7)
FULL = StoredTrace("q1", 0, "B", "It is B.", "stop", SURE, None, 1, 0.25, 2, 1, tokens=7, prompt_tokens=30)
FAILED = StoredTrace("q0", 1, error="gave up", prompt_tokens=30, tries=5)


def test_questions_come_back_as_they_went_in(run, problems):
    assert list(run.problems()) == problems
    assert run.add([Problem("q3", Prompt("more"))]) == 1
    assert [problem.id for problem in run.problems()] == ["q0", "q1", "q2", "q3"]
    assert run.summary().questions == 4


def test_traces_come_back_by_question_and_launch_whatever_the_order_of_writing(run):
    run.write([Launch("q1", 0), Launch("q0", 0), Launch("q0", 1), Launch("q1", 1)], [])
    run.write([], [FULL, FAILED])
    assert list(run.lost()) == [LostLaunch("q0", 0, 1), LostLaunch("q1", 1, 1)]
    first = StoredTrace("q0", 0, "4", "four", "stop", tokens=3, spelling="four")
    run.write([], [first])
    assert list(run.traces()) == [first, FAILED, FULL]
    assert list(run.traces(texts=False)) == [replace(trace, text="") for trace in (first, FAILED, FULL)]
    assert [trace.launch for trace in run.traces()] == [Launch("q0", 0), Launch("q0", 1), Launch("q1", 0)]


def test_a_stored_trace_is_told_with_the_confidence_that_was_chosen():
    assert FULL.trace("lowest").confidence == 1.0 and FULL.trace().confidence is None
    assert FAILED.trace("tail").confidence is None and FAILED.trace("tail").prompt_tokens == 30


@pytest.mark.parametrize(
    ("launched", "traces", "error", "said"),
    [
        ([Launch("q0", 0)], [], StateError, "came twice"),
        ([], [StoredTrace("q0", 0)], StateError, "came twice"),
        ([], [StoredTrace("q0", 1)], StateError, "without a launch"),
        ([Launch("q9", 0)], [], InputError, "no question 'q9'"),
        ([], [StoredTrace("q9", 0)], InputError, "no question 'q9'"),
    ],
)
def test_a_write_is_whole_or_not_at_all(run, launched, traces, error, said):
    run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4")])
    with pytest.raises(error, match=said):
        run.write([Launch("q2", 0), *launched], [StoredTrace("q2", 0, "x"), *traces])
    assert [trace.answer for trace in run.traces()] == ["4"] and not list(run.lost())
    run.write([Launch("q2", 0)], [])  # the run goes on


def test_what_was_never_sent_is_taken_back(run):
    run.write([Launch("q0", 0), Launch("q0", 1)], [], held=5)
    run.write([], [], dropped=[Launch("q0", 1)])
    assert list(run.lost()) == [LostLaunch("q0", 0, 5)]


def test_a_launch_that_came_back_is_not_taken_back(run):
    run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4")])
    with pytest.raises(StateError):
        run.write([], [], dropped=[Launch("q0", 0)])
    assert len(list(run.traces())) == 1


def test_spend_counts_what_may_have_been_paid(store, problems):
    money = Currency.money(1.0, 2.0, prompt_tokens=10, max_tokens=10)
    with store.create(RunRecord(10**9, money), problems) as run:
        run.write([Launch("q0", 0), Launch("q0", 1)], [StoredTrace("q0", 0, "4", tokens=3, prompt_tokens=8)], held=77)
        summary = run.summary()
    assert summary.spent == 8 * 1_000_000 + 3 * 2_000_000 + 77
    assert (summary.traces, summary.answered, summary.lost, summary.tokens) == (1, 1, 1, 3)


def test_wasted_tries_are_spent_while_the_launch_is_out_and_when_its_trace_is_there(run):
    run.write([Launch("q0", 0), Launch("q0", 1)], [])
    run.write([], [], charged=[(Launch("q0", 0), 1), (Launch("q0", 1), 1), (Launch("q0", 0), 1)])
    assert list(run.lost()) == [LostLaunch("q0", 0, 3), LostLaunch("q0", 1, 2)]
    assert run.summary().spent == 5
    run.write([], [StoredTrace("q0", 0, "4", tries=4, wasted=2)])
    assert run.summary().spent == 5 and run.summary().traces == 1
    with pytest.raises(StateError, match="not there"):
        run.write([Launch("q1", 0)], [], charged=[(Launch("q0", 2), 1)])
    assert run.summary().spent == 5


def test_numbers_that_were_given_up_leave_gaps(run):
    run.write([Launch("q0", number) for number in range(4)], [])
    run.write([], [StoredTrace("q0", 3, "4")], dropped=[Launch("q0", 0), Launch("q0", 2)])
    assert [trace.number for trace in run.traces()] == [3]
    assert list(run.lost()) == [LostLaunch("q0", 1, 1)] and run.summary().spent == 2
    assert [question.answers for question in pooled_questions(run, lambda problem: Number())] == [("4",)]


def test_questions_that_were_answered_are_told_apart(run, store):
    assert run.answered() == set()
    run.mark_answered(["q2", "q0"])
    run.mark_answered([])
    assert store.view(run.id).answered() == {"q0", "q2"}
    with pytest.raises(InputError, match="no question 'q9'"):
        run.mark_answered(["q1", "q9"])
    assert run.answered() == {"q0", "q2"}


def test_state_settings_and_plain_data_are_kept(run, store, location):
    assert run.load("allocator") is None
    run.save("allocator", {"version": 1, "told": [1, 2.5, None]})
    run.save("allocator", {"version": 2})
    run.change(replace(run.settings, total=300, answer_type="number"))
    run.finish()
    assert run.summary().state == "running"
    run.close()
    with Store.open(location) as other, other.open_run("last") as again:
        assert again.load("allocator") == {"version": 2}
        assert (again.settings.total, again.settings.answer_type) == (300, "number")
    assert store.view(1).summary().state == "finished"
    with store.open_run(1) as again:
        again.write([Launch("q0", 0)], [])
    assert store.view(1).summary().state == "stopped"


def test_runs_do_not_see_each_other(run, store, problems):
    with store.create(RunRecord(5), problems[:1]) as other:
        other.write([Launch("q0", 0)], [StoredTrace("q0", 0, "5")])
        assert not list(run.traces()) and len(list(other.problems())) == 1
    assert [(row.id, row.questions, row.traces, row.state) for row in store.runs()] == [
        (1, 3, 0, "running"),
        (2, 1, 1, "stopped"),
    ]


def test_a_worker_thread_may_write(run):
    thread = threading.Thread(target=run.write, args=([Launch("q0", 0)], []))
    thread.start()
    thread.join()
    assert list(run.lost()) == [LostLaunch("q0", 0, 1)]


def test_pages_join_without_a_seam(store):
    many = [Problem(f"q{n}", Prompt(f"{n} =")) for n in range(4_001)]
    with store.create(RunRecord(10**6), many) as run:
        assert list(run.problems()) == many
        launches = [Launch(f"q{n % 7}", n // 7) for n in range(1_501)]
        run.write(launches, [StoredTrace(*launch, "a", "text") for launch in launches])
        assert [trace.launch for trace in run.traces()] == sorted(launches)


def test_questions_stream_in_and_out_with_flat_memory(store):
    many = 15_000
    tracemalloc.start()
    with store.create(RunRecord(1), (Problem(f"q{n}", Prompt("x" * 1000)) for n in range(many))) as run:
        assert sum(1 for _ in run.problems()) == many
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 9_000_000  # of 15 MB of prompts, two pages


@pytest.mark.parametrize(("unit", "spent"), [("picodollars", 7 * 10 + 2 + 35), ("tokens", 10 * (7 + 3 + 1) + 2 * 4)])
def test_a_trace_knows_its_model_and_may_say_what_it_cost_in_money(store, problems, unit, spent):
    currency = Currency(unit, hold=90, per_trace=0, per_token=10, per_prompt_token=2)
    with store.create(RunRecord(1000, currency), problems) as run:
        run.write([Launch("q0", 0), Launch("q0", 1), Launch("q1", 0)], [])
        traces = [
            StoredTrace("q0", 0, "4", tokens=7),
            StoredTrace("q0", 1, "5", tokens=3, prompt_tokens=4, model=1, cached_tokens=3, cost=35),
            StoredTrace("q1", 0, tokens=1, error="broken", model=1, cost=2),
        ]
        run.write([], traces)
        assert list(run.traces()) == traces
        assert run.by_model() == [ModelTotals(0, 1, 1, 7, 0), ModelTotals(1, 1, 1, 4, 4)]
        assert run.summary().spent == spent == sum(currency.cost(trace) for trace in traces)


def test_batch_jobs_are_kept_in_their_order_changed_and_forgotten(run, store):
    first, second = (
        BatchJob(key, "/v1/chat/completions", ((2**40, 4), (7, 1)), 12.5, wave) for wave, key in enumerate("ba")
    )
    run.write_jobs([first])
    run.write_jobs([second])
    run.write_jobs([replace(first, file="file-1", id="batch_1")])
    assert store.view(run.id).jobs() == [replace(first, file="file-1", id="batch_1"), second]
    run.write_jobs([], dropped=[first])
    assert run.jobs() == [second]
    run.close()
    store.delete(run.id)
    assert store.runs() == []


def test_cached_prompt_tokens_are_kept_and_cost_less(store, problems):
    money = Currency.money(2.0, 4.0, 0.5, prompt_tokens=10, max_tokens=10)
    with store.create(RunRecord(10**12, money), problems) as run:
        run.write([Launch("q0", 0)], [StoredTrace("q0", 0, "4", tokens=3, prompt_tokens=10, cached_tokens=8)])
        (trace,) = run.traces()
        paid = 2_000_000 * 2 + 500_000 * 8 + 4_000_000 * 3
        assert (trace.cached_tokens, money.cost(trace), run.summary().spent) == (8, paid, paid)


def test_a_question_that_a_database_cannot_hold_is_refused_by_what_is_wrong_with_it(run):
    problems = [Problem("nul", Prompt("a\0b")), Problem("nul\0", Prompt("a")), Problem("nul", Prompt("a"), gold="\0")]
    for problem in problems:
        with pytest.raises(InputError, match="holds a NUL character"):
            run.check(problem)
        with pytest.raises(InputError, match="holds a NUL character"):
            run.add([problem])


def test_cancelled_traces_are_kept_at_their_part_and_are_no_traces_of_the_run(run):
    run.write([Launch("q0", number) for number in range(4)], [StoredTrace("q0", 0, "4", tokens=10)])
    run.write([], [StoredTrace("q0", n, finish="cancelled", tokens=4, prompt_tokens=7, part=350) for n in (1, 2)])
    assert [trace.part for trace in run.traces()] == [None, 350, 350]
    summary = run.summary()
    assert (summary.traces, summary.cancelled, summary.cancelled_parts, summary.lost) == (1, 2, 700, 1)
    assert (summary.spent, summary.tokens) == (1 + 1 + 1, 18)  # the trace, 0.7 of one begun, one lost
