"""50 questions from the shell to their answers: the same command over the mock and over a real model."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from pets.core.budget import whole_traces
from pets.mock import DistributionAnswers, MockModel, running
from pets.pools import load
from pets.questions.sets import starter
from pets.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUESTIONS, BUDGET = 50, 150


def recorded():
    """What the real model says to each question, as the text that its prompt ends in."""
    asked = {one.id: one.prompt.content.rsplit("Question: ", 1)[1].split("\n")[0] for one in starter().problems}
    said = {question.id: Counter(filter(None, question.answers)) for question in load("starter").questions}
    return {asked[id]: {answer: n / many.total() for answer, n in many.items()} for id, many in said.items()}


def pets(*args):
    code = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(params=["mock", "llama.cpp"])
def source(request):
    """How the verb is told where the model is."""
    if request.param == "mock":
        with running(MockModel(DistributionAnswers(recorded(), tokens=32), tokens_per_second=200)) as url:
            yield ["--endpoint", url, "--model", "mock"]
    else:
        request.getfixturevalue("weights")
        yield ["--local", "context=384", "--confidence-window", "8", "--hurry", "0"]  # each trace is decoded to its end


def test_fifty_questions_end_to_end(source, tmp_path):
    store = tmp_path / "runs.db"
    shown = pets(
        "solve", "starter", "--first", str(QUESTIONS), "--budget", str(BUDGET), "--max-traces", "8",
        "--confidence", "tail", "--store", str(store), *source,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(rows) == QUESTIONS
    assert all(row["answer"] is not None and 0.0 <= row["certificate"] <= 1.0 for row in rows)
    with Store.open(store) as opened:
        traces = list(opened.view("last").traces())
    assert len({trace.launch for trace in traces}) == len(traces)
    whole = [trace for trace in traces if trace.part is None]
    cancelled = [trace.part for trace in traces if trace.part is not None]
    assert len(whole) + whole_traces(sum(cancelled)) == BUDGET  # the default races, and pays for parts
    assert [sum(row[name] for row in rows) for name in ("traces", "cancelled")] == [len(whole), len(cancelled)]
    assert all(trace.confidences is not None for trace in whole if trace.error is None and trace.tokens)
