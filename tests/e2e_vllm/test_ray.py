"""``pets solve --ray`` with vLLM's engine in an actor, in the environment that ``make e2e-vllm`` sets up."""

import json
import os
import subprocess

import pytest

from .conftest import VERB_TIMEOUT_S

PYTHON, MODEL = os.environ.get("PETS_VLLM_PYTHON"), os.environ.get("PETS_VLLM_MODEL")

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(PYTHON is None, reason="PETS_VLLM_PYTHON names no environment with vLLM, pets and Ray"),
]

ENGINE = {"enforce_eager": True, "dtype": "float32"}  # on a processor compiling takes longer than the test
CHILD = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}


def pets(*arguments):
    done = subprocess.run(
        [str(PYTHON), "-m", "pets", *map(str, arguments)],
        env=os.environ | CHILD, capture_output=True, text=True, check=False, timeout=VERB_TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_actor_with_vllm_answers_with_confidences_and_the_budget_exact(tmp_path):
    store = tmp_path / "runs.db"
    rows = pets(
        "solve", "starter", "--first", 4, "--budget", 12, "--confidence", "tail", "--store", store, "--max-tokens", 48,
        "--model", MODEL, "--local", "context=512,slots=8", "--vllm-args", json.dumps(ENGINE), "--ray", "local",
    )  # fmt: skip
    assert len(rows) == 4 and sum(row["traces"] for row in rows) == 12
    assert not any(row["failed"] for row in rows) and all(row["answer"] is not None for row in rows)
    traces = pets("runs", "export", "last", "--what", "traces", "--store", store)
    assert len({(trace["question"], trace["number"]) for trace in traces}) == len(traces) == 12
    assert all(0.0 < trace["confidences"]["tail"] < 50.0 and trace["tokens"] > 0 for trace in traces)
