"""``pets demo``: the recorded comparison, the live model or why there is none, and one line for a mistake."""

import io
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from pets.cli.demo import LivePart, RecordedPart, compare_recorded, print_live
from pets.cli.main import cli
from pets.engine import Answer
from pets.errors import BudgetError, InputError
from pets.pools import Pool, PooledQuestion, load

README = Path(__file__).parents[2] / "README.md"
STARTER = load("starter")
SMALL = replace(STARTER, questions=STARTER.questions[:8])


def run_demo(report, *words, budget="2x"):
    words = ["--first", "4", "--budget", budget, "--report", str(report), *words]
    return CliRunner().invoke(cli, ["demo", *words], catch_exceptions=False)


@cache
def compared():
    return compare_recorded(SMALL)


@pytest.fixture
def show(monkeypatch):
    """``show(report, ...)``: what the demo on 8 recorded questions prints, words and all; they are compared once."""
    monkeypatch.setattr("pets.cli.demo.load", lambda name: SMALL)
    monkeypatch.setattr("pets.cli.demo.compare_recorded", lambda pool: compared())

    def run(report, *, live=False):
        result = run_demo(report, *["--no-live"] * (not live))
        return " ".join(result.stdout.split()), " ".join(result.stderr.split())

    return run


def test_it_compares_recorded_traces_and_writes_a_page_of_the_same(show, tmp_path):
    out, words = show(tmp_path / "page.html")
    assert "8 questions, 64 recorded traces drawn of each" in out
    assert "no answer has a third" in out and "\x1b" not in out
    assert "Left out: --no-live" in out and "page.html" in words
    page = (tmp_path / "page.html").read_text("utf-8")
    content = page.partition("</main>")[0]
    assert content.count("<svg") == 1 and "--no-live" in content
    assert not re.search(r"<(script|img|link|iframe)[^>]*(src|href)=", content)  # nothing from outside
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    compared.cache_clear()
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
        run_demo(tmp_path / report, budget=budget)
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_after_all_names_the_option(show, monkeypatch, tmp_path):
    monkeypatch.setattr("pets.cli.demo.demo_page", lambda *parts: (tmp_path / "page.html").mkdir() or "")
    with pytest.raises(InputError, match=r"cannot be written .* --report"):
        show(tmp_path / "page.html")


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


RECORDED = RecordedPart(
    300,
    64,
    8,
    {},
    {"okg": 12.0, "uniform": 48.0},
    {"okg": 0.9, "uniform": 0.83},
    (7.0, 1.5),
    (),
)


def crossing_at(ours, theirs):
    return replace(RECORDED, crossings={"okg": ours, "uniform": theirs})


def test_the_title_is_what_is_saved():
    assert RECORDED.title == "The same vote for 25% of the traces"
    assert crossing_at(48.0, 48.0).title == "okg and uniform on 300 recorded questions"
    assert crossing_at(None, 48.0).title == "okg and uniform on 300 recorded questions"


def test_the_sentences_say_what_is_counted_and_both_ends():
    words = " ".join(RECORDED.sentences)
    assert "the same answer as all 64?" in words
    after = "95% of the answers are the same after 12.0 traces per question with okg, after 48.0 traces per question"
    assert f"{after} with uniform." in words
    assert "With 8 traces per question: 90.0% with okg, 83.0% with uniform (+7.0 ± 1.5 points over 5 draws)." in words
    assert "never with uniform." in crossing_at(12.0, None).sentences[1]


def test_a_unanimous_pool_leaves_nothing_to_save():
    pool = Pool("toy", tuple(PooledQuestion(f"q{i}", ("A",) * 16) for i in range(6)))
    recorded = compare_recorded(pool)
    assert (recorded.questions, recorded.size, recorded.mean_budget) == (6, 16, 8)
    ours, theirs = recorded.crossings.values()
    assert ours == theirs <= 1.0 and recorded.gain == (0.0, 0.0)
    assert recorded.title == "okg and uniform on 6 recorded questions"
    assert [(group.label, group.questions) for group in recorded.classes] == [("nearly all agree (over 90 %)", 6)]


def test_the_traces_go_where_answers_differ():
    easy = [PooledQuestion(f"e{i}", ("A",) * 64) for i in range(6)]
    hard = [PooledQuestion(f"h{i}", ("A", "B") * 30 + ("A",) * 4) for i in range(6)]
    easy_class, hard_class = compare_recorded(Pool("toy", (*easy, *hard))).classes
    assert easy_class.traces["okg"] < hard_class.traces["okg"]
    assert easy_class.traces["uniform"] == hard_class.traces["uniform"] == 8.0
    shares = [group.traces["okg"] * group.questions for group in (easy_class, hard_class)]
    assert sum(shares) == pytest.approx(8 * 12)


def test_live_answers_are_told_with_all_their_votes():
    row = Answer("sum-2-3", "5", {"5": 3.0, "6": 1.0}, 0.9, 4, canonical="5")
    live = LivePart("A model.", (row,), {"sum-2-3": "5"})
    sink = io.StringIO()
    print_live(live, Console(file=sink, width=100))
    assert "What is 2 + 3? 5 (certain 90%): 5 ×3, 6 ×1" in sink.getvalue()
    assert "1 of 1 votes are those" in sink.getvalue()


def test_without_a_model_the_reason_stands_alone():
    sink = io.StringIO()
    print_live(LivePart("No model."), Console(file=sink, width=100))
    assert sink.getvalue() == "\nLive: No model.\n"
