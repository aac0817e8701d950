"""Every example runs and says something; notebooks run in a real kernel, whose event loop is running."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbclient.execute(nbformat.read(sys.argv[1], 4), timeout=100)
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), end="")
"""


@pytest.fixture
def run(capsys):
    """``run("batch.py")`` runs an example; what it prints."""

    def example(name):
        runpy.run_path(FOLDER / name, run_name="__main__")
        return capsys.readouterr().out

    return example


def test_a_batch_spends_its_budget_and_names_its_least_certain_answers(run):
    out = run("batch.py")
    assert "160 traces for 20 questions" in out and out.count("certificate 0.") == 3


@pytest.mark.slow
def test_a_stream_answers_every_question_within_its_budget(run):
    lines = run("stream.py").splitlines()
    assert lines[0] == "60 answers for 480 of 480 traces"
    bars = [line.split() for line in lines[2:-1]]
    assert sum(int(traces) * len(bar) for traces, bar in bars) == 480 and sum(len(bar) for _, bar in bars) == 60


@pytest.mark.slow
def test_a_replay_of_a_pool_of_ones_own_says_what_okg_saves(run):
    rows = dict(re.findall(r"^(okg|uniform) +(.*)$", run("replay.py"), re.MULTILINE))
    okg, uniform = ([float(number) for number in rows[policy].split()] for policy in ("okg", "uniform"))
    assert all(mine < theirs for mine, theirs in zip(okg, uniform, strict=True))


def test_every_example_is_tested_here():
    names = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".ipynb")}
    assert names == {"batch.py", "stream.py", "replay.py", "notebook.ipynb"}


@pytest.mark.slow
@pytest.mark.timeout(300)  # a kernel is a process of its own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path):
    done = subprocess.run([sys.executable, "-c", EXECUTE, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "160 traces for 20 questions" in out and out.count("certain") == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path):
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells and not [cell for cell in cells if cell["outputs"] or cell["execution_count"] is not None]
