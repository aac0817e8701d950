"""``pets demo``: the comparison on recorded traces, and one line with exit 2 for a mistake."""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pets.cli.demo import run_demo
from pets.cli.main import cli
from pets.errors import BudgetError, InputError
from pets.pools import load

STARTER = load("starter")
SMALL = replace(STARTER, questions=STARTER.questions[:16])


@pytest.fixture
def show(capfd):
    """``show(report, ...)``: what the demo on 16 recorded questions prints, words and all."""

    def run(report, questions=16, budget="6x", *, replay=True):
        run_demo(questions, budget, replay=replay, report=report, pool=SMALL)
        out, words = capfd.readouterr()
        return out, " ".join(words.split())

    return run


def test_both_policies_spend_the_whole_budget_and_the_same_traces_give_the_same_table(show, tmp_path):
    out, _ = show(tmp_path / "page.html")
    assert re.findall(r"(okg|uniform) +│ +(\d+) ", out) == [("okg", "96"), ("uniform", "96")]
    assert "least certain answers" in out and "Averages, 16 recorded questions" in out and "\x1b" not in out
    assert show(tmp_path / "other.html")[0] == out


def test_it_says_that_no_model_ran_and_where_the_page_is(show, tmp_path):
    _, words = show(tmp_path / "page.html", 4, "2x")
    assert "no model runs" in words and "page.html" in words
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "no model runs" in page and page.count("<polyline") == 2 and "http" not in page
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_where_the_model_cannot_run_recorded_traces_stand_in(show, monkeypatch, tmp_path):
    monkeypatch.setattr("pets.samplers.local.find_spec", lambda name: None)
    _, words = show(tmp_path / "page.html", 4, "2x", replay=False)
    assert "No model can run here" in words and "pip install" in words and "no model runs" in words


@pytest.mark.parametrize(
    ("budget", "report", "error", "message"),
    [
        ("lots", "page.html", BudgetError, "'lots' is no budget"),
        ("6x", "none/page.html", InputError, "there is no folder"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(monkeypatch, tmp_path, budget, report, error, message):
    def never(*args, **settings):
        pytest.fail("it ran")

    for name in ("load", "LocalSampler", "RecordedSampler", "averaged"):
        monkeypatch.setattr(f"pets.cli.demo.{name}", never)
    with pytest.raises(error, match=message):
        run_demo(4, budget, replay=True, report=tmp_path / report)
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_after_all_names_the_option(show, tmp_path):
    with pytest.raises(InputError, match=r"cannot be written .* --report"):
        show(tmp_path / ("long" * 100), 4, "2x")


@pytest.mark.parametrize(("words", "message"), [(["--questions", "0"], "--questions"), (["--report", "."], "--report")])
def test_an_option_that_makes_no_sense_is_exit_2(words, message):
    result = CliRunner().invoke(cli, ["demo", *words])
    assert result.exit_code == 2 and message in result.output


@pytest.mark.slow
def test_the_verb_takes_the_averages_over_the_whole_shipped_pool(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["demo", "--replay", "--questions", "4", "--budget", "2x"])
    assert result.exit_code == 0, result.output
    assert "Averages, 300 recorded questions" in " ".join(result.stdout.split())
    assert (tmp_path / "pets-demo.html").exists()


def test_help_teaches():
    result = CliRunner().invoke(cli, ["demo", "--help"])
    assert result.exit_code == 0 and "same traces" in result.output
