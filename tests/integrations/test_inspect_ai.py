"""Evaluations by inspect_ai itself, on its mock model: one budget, the vote and the certificates in the log."""

import asyncio
import doctest
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pets.errors import BudgetError, InputError, StateError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inspect_ai uses old options of others
PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


@pytest.fixture(scope="module")
def made():
    """Tasks and what they are made of: where no test needs them, inspect_ai is not imported."""
    return importlib.import_module(".evaluations", __package__)


def summary_of(log):
    assert log.status == "success", log.error
    return log.results.early_stopping.metadata


@pytest.fixture(scope="module")
def log(made, tmp_path_factory):
    stopping = made.TraceBudget("6x", answer="number")
    return made.evaluate(made.make_task(stopping), tmp_path_factory.mktemp("logs"), max_samples=4)


def test_the_budget_is_spent_and_never_exceeded(made, log):
    summary = summary_of(log)
    assert (
        0.95 * summary["budget"] <= summary["spent"] == len(log.samples) <= summary["budget"] == 6 * len(made.QUESTIONS)
    )
    assert len(log.results.early_stopping.early_stops) == made.EPOCHS * len(made.QUESTIONS) - summary["spent"]


def test_the_traces_go_where_the_model_disagrees_with_itself(made, log):
    traces = Counter(sample.id for sample in log.samples)
    assert min(traces.values()) >= 1 and max(traces.values()) <= made.EPOCHS
    sure, torn = ([traces[name] for name in made.QUESTIONS if kind in name] for kind in (made.SURE, made.TORN))
    assert np.mean(torn) > 2 * np.mean(sure)


def test_the_log_has_the_vote_and_the_certificate_of_every_sample(made, log):
    samples = summary_of(log)["samples"]
    assert list(samples) == made.QUESTIONS
    for name, sample in samples.items():
        answers = [trace.scores["match"].answer for trace in log.samples if trace.id == name]
        assert sample["votes"] == dict(Counter(answers)) and sample["traces"] == len(answers)
        assert 0 < sample["certificate"] <= 1
    sure, torn = (
        [samples[name]["certificate"] for name in made.QUESTIONS if kind in name] for kind in (made.SURE, made.TORN)
    )
    assert min(sure) > 0.95 and np.mean(sure) > np.mean(torn) and min(sure) > min(torn) + 0.1
    assert 0.5 < summary_of(log)["consistency"]["expected"] < 1


def test_a_sample_is_scored_by_its_vote(log):
    samples = summary_of(log)["samples"]
    right = [sample["answer"] == "17" for sample in samples.values()]
    (score,) = log.results.scores
    assert score.reducer == "vote" and score.metrics["accuracy"].value == np.mean(right)


def test_a_trace_that_fails_costs_budget_and_casts_no_vote(made, tmp_path):
    model = made.Answers(fails=(3, 20))
    log = made.evaluate(
        made.make_task(made.TraceBudget("5x", answer="number")), tmp_path, model, fail_on_error=False, max_samples=2
    )
    summary = summary_of(log)
    assert 0.9 * summary["budget"] <= model.calls == summary["spent"] <= summary["budget"]
    assert sum(sample["no_answer"] for sample in summary["samples"].values()) == 2


def test_every_epoch_may_run_at_once(made, tmp_path):
    model = made.Answers()
    stopping = made.TraceBudget(40, policy="price:cold=true", answer="number")
    summary = summary_of(made.evaluate(made.make_task(stopping), tmp_path, model, max_samples=1000))
    assert 4 * len(made.QUESTIONS) <= summary["spent"] == model.calls <= summary["budget"] == 40


def test_a_retried_evaluation_pays_for_what_is_missing_alone(made, tmp_path):
    failed = made.evaluate(made.retried(), tmp_path, max_samples=4)
    assert failed.status == "error"
    kept = {sample.uuid for sample in failed.samples if sample.error is None}
    (log,) = made.eval_retry(failed, log_dir=str(tmp_path), display="none", max_samples=4)
    summary = summary_of(log)
    assert 0.9 * summary["budget"] <= summary["spent"] <= summary["budget"] == 5 * len(made.QUESTIONS)
    assert kept < {sample.uuid for sample in log.samples}
    bought = len(log.samples) - len(kept)
    assert bought <= summary["budget"] - len(kept) / 2  # most of the log's traces are known before they are missed


def test_traces_of_an_earlier_log_are_all_paid_for_and_used_as_far_as_they_are_wanted(made):
    async def summary():
        manager = made.TraceBudget("2x")
        spec = made.EvalSpec(
            created="2026-01-01T00:00:00Z", task="t", dataset=made.EvalDataset(), model="m", config=made.EvalConfig()
        )
        await manager.start_task(spec, [made.Sample(id=id, input=id) for id in ("long", "short")], 8)
        for id, epoch in [("long", 1), ("long", 2), ("long", 3), ("short", 1)]:  # never asked about: they were kept
            score = made.SampleScore(score=made.Score(value="C", answer="yes"))
            await manager.complete_sample(id, epoch, {"match": score})
        assert await manager.schedule_sample("short", 2) is not None
        return await manager.complete_task()

    samples = asyncio.run(summary())["samples"]
    assert [samples[id]["votes"] for id in ("long", "short")] == [{"yes": 2}, {"yes": 1}]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"log_samples": False}, "leave out log_samples=False"), ({"retry_on_error": 1}, "set fail_on_error=False")],
)
def test_settings_that_would_break_the_budget_are_refused_before_the_first_trace(made, tmp_path, options, message):
    model = made.Answers()
    log = made.evaluate(made.make_task(made.TraceBudget("5x")), tmp_path, model, **options)
    assert log.status == "error" and message in log.error.message
    assert model.calls == 0


def test_one_manager_for_two_tasks_at_once_is_refused(made, tmp_path):
    shared = made.TraceBudget("5x", answer="number")
    tasks = [made.make_task(shared, name="one"), made.make_task(shared, name="two")]
    model = made.get_model("mockllm/model", custom_outputs=made.Answers())
    logs = made.inspect_ai.eval(tasks, model=model, log_dir=str(tmp_path), display="none", max_tasks=2)
    assert sorted(log.status for log in logs) == ["error", "success"]
    assert any(log.error and "give every task, and every model, one of its own" in log.error.message for log in logs)


def test_a_task_that_failed_is_evaluated_again_with_its_manager(made, tmp_path):
    again = made.make_task(made.TraceBudget("5x", answer="number"))
    failed = made.evaluate(again, tmp_path, made.Answers(fails=(9,)), max_samples=4)
    model = made.Answers()
    log = made.evaluate(again, tmp_path, model, max_samples=4)
    assert failed.status == "error"
    assert 0.9 * 5 * len(made.QUESTIONS) <= summary_of(log)["spent"] == model.calls <= 5 * len(made.QUESTIONS)


def test_a_set_of_evaluations_tries_a_failed_task_again_and_uses_what_it_has(made, tmp_path):
    in_flight = 4
    answers = made.Answers(fails=(20,))
    model = made.get_model("mockllm/model", custom_outputs=answers)
    tasks = [made.make_task(made.TraceBudget("5x", answer="number"))]
    options = {"log_dir": str(tmp_path), "display": "none", "max_samples": in_flight}
    done, (log,) = made.eval_set(tasks, model=model, retry_attempts=2, retry_wait=0.01, **options)
    assert done and log.status == "success"
    budget = log.results.early_stopping.metadata["budget"]
    assert 0.9 * budget <= answers.calls <= budget + in_flight  # what was under way at the failure is asked for again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": "2Mtok"}, "traces are counted, not tokens or money"),
        ({"budget": "8x", "policy": "okg_weighted"}, "inspect_ai gives votes"),
        ({"budget": "8x", "answer": "judge"}, "not read by 'judge'"),
        ({"budget": "lots"}, "is no budget"),
    ],
)
def test_what_it_cannot_do_is_refused_with_what_to_do(made, arguments, message):
    with pytest.raises((BudgetError, InputError), match=message):
        made.TraceBudget(**arguments)


def test_it_says_what_to_install_when_inspect_ai_is_not_there(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.dataset", None)
    monkeypatch.delitem(sys.modules, "pets.integrations.inspect_ai")
    with pytest.raises(InputError, match=r'inspect_ai is not installed. Try: pip install "pets-llm\[inspect\]"'):
        importlib.import_module("pets.integrations.inspect_ai")


def test_it_says_so_when_no_task_has_begun(made):
    with pytest.raises(StateError, match="has no task"):
        asyncio.run(made.TraceBudget("8x").schedule_sample("q", 1))


def test_a_vote_reads_answers_by_type_and_breaks_ties_by_order(made):
    scores = [
        made.Score(value=v, answer=a) for v, a in [("I", "0.50"), ("C", "2"), ("I", "1/2"), ("C", "2.0"), ("C", None)]
    ]
    assert made.vote("number")(scores).answer == "0.50"
    assert made.vote()([made.Score(value="I", answer=None)] * 2).value == "I"


@pytest.mark.slow
def test_the_run_of_the_docs_spends_its_budget_on_the_hard_questions(tmp_path):
    setup, run = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(setup, str(PAGE), "exec"), {})
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    traces = [sum(map(int, re.findall(r": (\d+)", line))) for line in lines]
    assert re.match(r"1[12]\d of 120 traces; accuracy ", first) and 110 <= sum(traces) <= 120
    assert sum(traces[10:]) / 5 > 2 * sum(traces[:10]) / 10


@pytest.mark.integrations
@pytest.mark.timeout(1800)
def test_one_budget_scores_as_fixed_epochs_do_for_less():
    example = Path(__file__).parents[2] / "examples" / "inspect_epochs.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)
    lines = re.findall(r"^(\w+): (\d+) generations, ([\d.]+) % right$", done.stdout, re.M)
    rows = {name: (int(paid), float(score)) for name, paid, score in lines}
    assert set(rows) == {"before", "after"}, done.stderr
    (full, fixed), (paid, voted) = rows["before"], rows["after"]
    standard_error = 100 * (0.25 / 300) ** 0.5
    assert full == 8 * 300 and paid <= 5 * 300 and voted > fixed - 2 * standard_error


def test_its_example_works(made):
    assert doctest.testmod(sys.modules[made.TraceBudget.__module__]).failed == 0
