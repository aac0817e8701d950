"""lm-eval's model `pets`, against the real lm-eval: `make integrations` installs it and runs these."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # or lm-eval's data sets ask a hub about a local file, again and again
lm_eval = pytest.importorskip("lm_eval", reason="lm-eval is not installed; `make integrations` tests it")

from pets import BudgetError, InputError, read_pool  # noqa: E402
from pets.integrations import lm_eval as integration  # noqa: E402

pytestmark = [pytest.mark.integrations, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "lm_eval_maj16.py"
LINE = re.compile(r"(\w+): (\d+) generations, exact match ([\d.]+) ± ([\d.]+)")
REPEATS, QUESTIONS = 16, 300


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The example's folder, and what its two runs cost and scored."""
    folder = tmp_path_factory.mktemp("runs")
    done = subprocess.run([sys.executable, EXAMPLE, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, {name: tuple(map(float, numbers)) for name, *numbers in LINE.findall(done.stdout)}


@pytest.fixture(scope="module")
def samples(runs):
    [path] = (runs[0] / "after").rglob("samples_maj16_*.jsonl")
    return path, [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_third_of_the_generations_score_within_the_standard_error_of_all(runs):
    (full, score, error), (paid, other, _) = runs[1]["before"], runs[1]["after"]
    assert full == REPEATS * QUESTIONS and paid <= 0.35 * full
    assert abs(score - other) <= error


def test_the_vote_is_that_of_the_sampled_generations_and_the_rest_are_marked(samples, runs):
    sampled = 0
    for row in samples[1]:
        [texts] = row["resps"]
        own = [text for text in texts if integration.NOT_SAMPLED not in text]
        answers = [re.search(r"boxed\{(.*)\}", text) for text in own]
        votes = Counter("[invalid]" if answer is None else answer[1] for answer in answers)
        assert row["filtered_resps"] == [votes.most_common(1)[0][0]]
        assert texts[: len(own)] == own and len(texts) == REPEATS
        sampled += len(own)
    assert sampled == runs[1]["after"][0]


def test_pets_reads_what_was_sampled_and_nothing_else(samples, runs):
    pool = read_pool(samples[0])
    assert sum(len(question.answers) for question in pool.questions) == runs[1]["after"][0]
    assert all(integration.NOT_SAMPLED not in str(answer) for q in pool.questions for answer in q.answers)


def test_the_results_say_what_was_sampled(runs):
    [path] = (runs[0] / "after").rglob("results*.json")
    info = json.loads(path.read_text("utf-8"))["config"]["pets"]["maj16"]
    assert info["sampled"] == runs[1]["after"][0] and info["clones"] == REPEATS * QUESTIONS
    assert 0.5 < info["expected_consistency"] < 1


VOTE, FIRST = {"function": "majority_vote"}, {"function": "take_first"}
READ = {"function": "regex", "regex_pattern": "(lol)"}


def evaluate(folder, filters, arguments="inner=dummy,budget=4x", repeats=8):
    """Evaluate two questions with lm-eval's own dummy model, in this process."""
    (folder / "two.jsonl").write_text('{"q": "one", "a": "lol"}\n{"q": "two", "a": "no"}\n', "utf-8")
    task = {
        "task": "two",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "two.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "repeats": repeats,
        "generation_kwargs": {"until": [], "do_sample": True},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    if filters is not None:
        task["filter_list"] = [{"name": f"f{i}", "filter": steps} for i, steps in enumerate(filters)]
    return lm_eval.simple_evaluate(model="pets", model_args=arguments, tasks=[task], log_samples=True)


def test_a_unanimous_model_costs_its_budget_and_scores_as_ever(tmp_path):
    results = evaluate(tmp_path, [[READ, VOTE, FIRST]])
    assert results["results"]["two"]["exact_match,f0"] == 0.5
    assert results["config"]["pets"]["two"] == {
        "sampled": 8,
        "clones": 16,
        "expected_consistency": pytest.approx(1, abs=0.1),
    }


def test_a_task_that_asks_once_is_asked_as_ever(tmp_path):
    results = evaluate(tmp_path, None, repeats=1)
    assert results["results"]["two"]["exact_match,none"] == 0.5 and results["config"]["pets"] == {}


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (None, "(take_first)"),
        ([[READ, FIRST]], "(regex -> take_first)"),
        ([[{"function": "take_first_k", "k": 2}, VOTE]], "(take_first_k -> majority_vote)"),
        ([[READ, VOTE, FIRST], [FIRST]], "(regex -> majority_vote -> take_first; take_first)"),
        ([[READ, VOTE, READ]], "(regex -> majority_vote -> regex)"),
        ([[VOTE, FIRST]], "(majority_vote -> take_first)"),
    ],
)
def test_a_filter_that_would_score_copies_is_refused_in_one_line(tmp_path, filters, words):
    with pytest.raises(InputError) as error:
        evaluate(tmp_path, filters)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_filter_that_a_mark_confuses_is_refused(tmp_path):
    whole = {"function": "regex", "regex_pattern": r"^(lol)$"}
    with pytest.raises(InputError, match="reads no answer from a text that is marked"):
        evaluate(tmp_path, [[whole, VOTE, FIRST]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("inner=dummy", "needs 'budget'"),
        ("budget=4x", "needs 'inner'"),
        ("inner=dummy,budget=2Mtok", "traces are counted"),
        ("inner=dummy,budget=4x,policy=okg", "the policy needs waves"),
        ("inner=dummy,budget=0.5x", "do not pay for one of each of 2 documents"),
    ],
)
def test_arguments_that_it_cannot_honour_are_refused_with_what_to_do(tmp_path, arguments, words):
    with pytest.raises((BudgetError, InputError), match=words):
        evaluate(tmp_path, [[READ, VOTE, FIRST]], arguments)


def test_the_command_line_says_a_mistake_in_one_line():
    command = [sys.executable, "-m", "pets.integrations.lm_eval", "run", "--model", "pets", "--tasks", "gsm8k"]
    done = subprocess.run([*command, "--model_args", "inner=dummy"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "the model pets needs 'budget'" in done.stderr.splitlines()[-1]
