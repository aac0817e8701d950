"""``pets demo``: the comparison on recorded traces, and one line with exit 2 for a mistake."""

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pets.cli.main import cli


def pets(*args, cwd=None):
    code = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return pets("demo", "--replay", "--questions", "16", "--budget", "6x", cwd=folder), folder


def test_both_policies_spend_the_whole_budget_and_no_more(run):
    shown, _ = run
    assert shown.returncode == 0, shown.stderr
    spent = re.findall(r"(okg|uniform) +│ +(\d+) ", shown.stdout)
    assert spent == [("okg", "96"), ("uniform", "96")]
    assert "least certain answers" in shown.stdout and "\x1b" not in shown.stdout


def test_it_says_that_no_model_ran_and_where_the_page_is(run):
    shown, folder = run
    said = " ".join(shown.stderr.split())
    assert "no model runs" in said and "pets-demo.html" in said
    page = (folder / "pets-demo.html").read_text("utf-8")
    assert "no model runs" in page and page.count("<polyline") == 2 and "http" not in page
    assert [path.name for path in folder.iterdir()] == ["pets-demo.html"]


def test_the_same_traces_give_the_same_table(run):
    shown, folder = run
    again = pets("demo", "--replay", "--questions", "16", "--budget", "6x", "--report", "other.html", cwd=folder)
    assert again.stdout == shown.stdout
    (folder / "other.html").unlink()


def test_where_the_model_cannot_run_recorded_traces_stand_in(monkeypatch, tmp_path):
    monkeypatch.setattr("pets.samplers.local.find_spec", lambda name: None)
    page = str(tmp_path / "page.html")
    shown = CliRunner().invoke(cli, ["demo", "--questions", "4", "--budget", "2x", "--report", page])
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.output.split())
    assert "No model can run here" in said and "pip install" in said and "no model runs" in said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("demo", "--replay", "--budget", "lots"), "'lots' is no budget"),
        (("demo", "--replay", "--questions", "4", "--report", "none/page.html"), "cannot be written"),
        (("demo", "--questions", "0"), "--questions"),
        (("nope",), "No such command"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(args, message, tmp_path):
    shown = pets(*args, cwd=tmp_path)
    assert shown.returncode == 2 and message in shown.stderr and "Traceback" not in shown.stderr


def test_help_teaches():
    shown = CliRunner().invoke(cli, ["demo", "--help"])
    assert shown.exit_code == 0 and "same traces" in shown.output
