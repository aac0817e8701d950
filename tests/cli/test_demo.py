"""``pets demo``: the recorded comparison, the live model or why there is none, and one line for a mistake."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pets.cli.demo import DemoOptions, run_demo
from pets.cli.main import cli
from pets.errors import BudgetError, InputError
from pets.pools import load

README = Path(__file__).parents[2] / "README.md"
STARTER = load("starter")
SMALL = replace(STARTER, questions=STARTER.questions[:16])


@pytest.fixture
def show(capfd):
    """``show(report, ...)``: what the demo on 16 recorded questions prints, words and all."""

    def run(report, *, live=False):
        run_demo(DemoOptions(4, "2x", live, report), SMALL)
        out, words = capfd.readouterr()
        return " ".join(out.split()), " ".join(words.split())

    return run


def test_it_compares_recorded_traces_and_writes_a_page_of_the_same(show, tmp_path):
    out, words = show(tmp_path / "page.html")
    assert "16 questions, 64 recorded traces drawn of each" in out
    assert "no answer has a third" in out and "\x1b" not in out
    assert "Left out: --no-live" in out and "page.html" in words
    page = (tmp_path / "page.html").read_text("utf-8")
    content = page.partition("</main>")[0]
    assert content.count("<svg") == 1 and "--no-live" in content
    assert not re.search(r"<(script|img|link|iframe)[^>]*(src|href)=", content)  # nothing from outside
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert show(tmp_path / "other.html")[0] == out  # the same draws


def test_where_the_model_cannot_run_the_recorded_part_stands_alone(show, monkeypatch, tmp_path):
    monkeypatch.setattr("pets.samplers.local.find_spec", lambda name: None)
    out, _ = show(tmp_path / "page.html", live=True)
    assert "No model can run here" in out and "pip install" in out
    assert "No model can run here" in (tmp_path / "page.html").read_text("utf-8")


def test_without_what_draws_pages_all_is_shown_and_none_written(show, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    out, words = show(tmp_path / "page.html")
    assert "no answer has a third" in out
    assert 'No page was written: vl_convert is not installed. Try: pip install "pets-llm[plots]"' in words
    assert not list(tmp_path.iterdir())


def test_the_live_model_answers_the_first_questions(show, weights, tmp_path):
    out, _ = show(tmp_path / "page.html", live=True)
    assert "the first 4 questions of the set, 8 traces as okg decides" in out
    assert "of 4 votes are those of the traces that were recorded earlier" in out


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

    for name in ("load", "LocalSampler", "compare_recorded"):
        monkeypatch.setattr(f"pets.cli.demo.{name}", never)
    with pytest.raises(error, match=message):
        run_demo(DemoOptions(4, budget, True, tmp_path / report))
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_after_all_names_the_option(show, tmp_path):
    with pytest.raises(InputError, match=r"cannot be written .* --report"):
        show(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--first", "0"], "--first"),
        (["--report", "."], "--report"),
        (["--questions", "4"], "--questions is now --first."),
        (["--replay"], "--replay is now --no-live."),
    ],
)
def test_an_option_that_makes_no_sense_is_exit_2(words, message):
    result = CliRunner().invoke(cli, ["demo", *words])
    assert result.exit_code == 2 and message in result.output


@pytest.mark.slow
def test_the_verb_shows_the_whole_shipped_pool(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["demo", "--no-live"])
    assert result.exit_code == 0, result.output
    out, page = (" ".join(text.split()) for text in (result.stdout, README.read_text("utf-8")))
    assert "300 questions, 64 recorded traces drawn of each" in out
    share = re.search(r"The same vote for (\d+)% of the traces", out)
    each = "([\\d.]+) traces per question"
    traces = re.search(f"after {each} with okg, after {each} with uniform", out)
    headline = f"The same vote for {share[1]} % of the traces: {traces[1]} per question instead of {traces[2]}"
    assert headline in page, "README.md quotes other figures than the demo prints"
    assert Path("pets-demo.html").exists()


def test_help_teaches():
    result = CliRunner().invoke(cli, ["demo", "--help"])
    assert result.exit_code == 0 and "300 recorded questions" in result.output
