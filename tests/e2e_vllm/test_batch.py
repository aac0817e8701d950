"""A wave of files through vLLM's batch runner, in the environment that ``make e2e-vllm`` sets up."""

import json
import os
import subprocess

import pytest

from .conftest import VERB_TIMEOUT_S
from .test_ray import CHILD, MODEL, PYTHON

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(PYTHON is None, reason="PETS_VLLM_PYTHON names no environment with vLLM"),
]

ENGINE = ["--served-model-name", "smollm2", "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048"]


def test_vllms_batch_runner_answers_a_wave(pets, tmp_path):
    questions, wave, replies, answers = (tmp_path / f"{name}.jsonl" for name in ("mine", "wave", "replies", "answers"))
    rows = [{"id": f"{a}+{a}", "question": f"What is {a} + {a}?", "answer_type": "number"} for a in (2, 3, 4)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    where = ["--store", tmp_path / "runs.db"]
    plan = ["--policy", "uniform", "--budget", "4x", "--max-tokens", 24]
    pets("solve", questions, "--model", "smollm2", *plan, "--batch-api", "--to", wave, *where)
    runner = [PYTHON, "-m", "vllm.entrypoints.openai.run_batch", "-i", wave, "-o", replies, "--model", MODEL, *ENGINE]
    subprocess.run(runner, env=os.environ | CHILD, check=True, timeout=VERB_TIMEOUT_S)
    pets("resume", "last", "--replies", replies, "-o", answers, *where)
    solved = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [row["traces"] for row in solved] == [4, 4, 4] and all(row["tokens"] > 0 for row in solved)
