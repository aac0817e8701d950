"""The recipe for lm-evaluation-harness: PETS reads what lm-eval 0.4.13 recorded by it, and its task is the docs'."""

import json
import re
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from pets import read_pool
from pets.cli.main import cli
from pets.lab import read_answers
from pets.mock import DistributionAnswers, MockModel, running

FOLDER = Path(__file__).parents[1] / "fixtures" / "lm_eval"
SAMPLES = FOLDER / "samples_sums.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def test_the_task_of_the_docs_is_the_one_that_was_run():
    (task,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert task == (FOLDER / "sums.yaml").read_text("utf-8")


def test_repeats_are_traces_and_the_target_is_gold():
    pool = read_answers(read_pool(SAMPLES), "number")
    answers = json.loads((FOLDER / "answers.json").read_text("utf-8"))
    assert [question.gold for question in pool.questions] == ["43", "83", "23", "123", "13", "123"]
    for question, distribution in zip(pool.questions, answers.values(), strict=True):
        assert len(question.labels) == 16 and set(question.labels) <= distribution.keys()


@pytest.mark.parametrize("reading", [(), ("--answer", "number")], ids=["its filter's answers", "its texts"])
def test_pools_and_replay_read_it(reading):
    summary = CliRunner().invoke(cli, ["pools", "show", str(SAMPLES), *reading, "--format", "jsonl"])
    assert summary.exit_code == 0, summary.output
    row = json.loads(summary.stdout)
    assert (row["questions"], row["traces"], row["unanimous"]) == (6, 96, 2 / 6)
    words = [
        "replay",
        str(SAMPLES),
        *reading,
        "--policy",
        "okg",
        "--policy",
        "uniform",
        "--repetitions",
        "2",
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output


def test_a_null_seed_gives_traces_that_differ_and_lm_evals_own_does_not():
    """What lm-eval 0.4.13 sends for one repeat, with its seed and with ``seed: null``."""
    body = {"model": "mock", "max_tokens": 512, "temperature": 0.7, "stop": [], "messages": [{"role": "user"}]}
    body["messages"][0]["content"] = "What is 17 + 26?"
    with running(MockModel(DistributionAnswers({"What is 17 + 26?": {"43": 0.5, "33": 0.5}}))) as url:
        for seed, different in ((1234, False), (None, True)):
            replies = [httpx.post(f"{url}/chat/completions", json=body | {"seed": seed}).json() for _ in range(12)]
            texts = {reply["choices"][0]["message"]["content"] for reply in replies}
            assert (len(texts) > 1) == different


def test_what_lm_evals_model_pets_did_not_sample_is_no_trace(tmp_path):
    resps = [
        ["so \\boxed{1}", "so \\boxed{2}", "[pets: not sampled]\nso \\boxed{1}", "so \\boxed{1}\n[pets: not sampled]"]
    ]
    row = {"doc_id": 0, "resps": resps, "filtered_resps": ["1"], "target": "1"}
    path = tmp_path / "samples_x.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")
    (question,) = read_answers(read_pool(path), "number").questions
    assert question.labels == ("1", "2")
