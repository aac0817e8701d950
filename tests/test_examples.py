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
        print(output.get("text", "") or output["data"].get("text/html", ""))
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


def test_a_question_is_answered_by_a_function(run):
    assert re.fullmatch(r"391, certain \d+%, votes \{.*391.*\}\n", run("ask.py"))


def test_a_recording_holds_every_trace_and_makes_a_plan(run):
    lines = run("record.py").splitlines()
    assert lines[0] == "384 traces of 12 questions"
    assert re.fullmatch(r"at 8 traces per question a stream reaches self-consistency 0\.\d\d", lines[1])


@pytest.mark.slow
def test_a_stream_answers_every_question_within_its_budget(run):
    *answers, last = run("stream.py").splitlines()
    assert len(answers) == 60 and last == "480 traces of 480"


@pytest.mark.slow
def test_a_replay_of_a_pool_of_ones_own_says_what_okg_saves(run):
    levels = re.findall(r"^9\d%: okg ([\d.]+), uniform ([\d.]+)$", run("replay.py"), re.MULTILINE)
    assert len(levels) == 2 and all(float(okg) < float(uniform) for okg, uniform in levels)


def test_every_example_is_tested_here():
    names = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".ipynb")}
    here = {"ask.py", "batch.py", "record.py", "stream.py", "replay.py", "notebook.ipynb"}
    # Run where those are installed: tests/integrations.
    in_other_tools = {"lm_eval_maj16.py", "litellm_vote.py", "dspy_vote.py", "inspect_epochs.py"}
    assert names == here | in_other_tools


def test_a_stream_fits_on_a_screen():
    assert len((FOLDER / "stream.py").read_text("utf-8").splitlines()) <= 30


@pytest.mark.slow
@pytest.mark.timeout(300)  # a kernel is a process of its own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path):
    done = subprocess.run([sys.executable, "-c", EXECUTE, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "20 of 20 questions answered with 160 traces" in out and out.count("certain ") == 5
    assert out.count("<tr>") == 1 + 20


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path):
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells and not [cell for cell in cells if cell["outputs"] or cell["execution_count"] is not None]
