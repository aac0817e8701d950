"""A run's page: what was bought, what to look at, how to make it again."""

import html
import re

import pytest

from pets.prompts import Prompt
from pets.registry import make_answer_type
from pets.report.run_data import read_run
from pets.report.run_report import run_page
from pets.store import Store

from .conftest import write_run


def words_of(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.S)


def test_the_page_tells_what_was_bought_and_what_to_look_at(run_store):
    page = run_page(run_store.view(1))
    text = words_of(page)
    for words in (
        "Run 1: set",
        "66.7%",
        "2 right of 3",
        "expected self-consistency",
        "gold: A",
        "trace 0: A, 7 tokens",
    ):
        assert words in text, words
    assert "pets solve QUESTIONS --budget 6x --policy okg" in text and "the file of the questions (set)" in text
    assert "It is A &lt;/script&gt;" in text
    assert "&lt;b&gt;hard&lt;/b&gt;?" in text and "<b>hard" not in text
    assert text.index("&lt;b&gt;hard") < text.index("&lt;b&gt;easy")  # the least certain first


def test_bars_and_counts_of_the_table_agree(run_store):
    page = run_page(run_store.view(1))
    rows = [row for row in re.findall(r"<tr data-kinds.*?</tr>", page) if "data-votes" in row]
    assert len(rows) == 3
    for row in rows:
        counts = sum(map(int, re.findall(r"×(\d+)", re.search(r"<td>([^<]*×[^<]*)<div", row)[1])))
        assert counts == sum(map(int, re.findall(r'data-votes="(\d+)"', row)))


@pytest.mark.parametrize("prompt", ["What is {}?", "A story.\n\nWhat is {}?"])
def test_the_instruction_that_all_questions_share_stands_in_none_of_them(tmp_path, prompt):
    instruction = Prompt.question("x").instructed(make_answer_type("choice").instruction).content[-1].content[1:]
    assert instruction.strip()
    with Store.open(tmp_path / "runs.db") as store:
        run = write_run(store, {"a": "AAB"}, prompt=prompt + instruction)
        text = words_of(run_page(store.view(run)))
    shown = " ".join(prompt.format("a").split())
    assert f"<p>{shown}</p>" in text and instruction.strip() not in html.unescape(text)


def test_the_bar_of_a_wrong_answer_does_not_look_right(tmp_path):
    with Store.open(tmp_path / "runs.db") as store:
        page = run_page(store.view(write_run(store, {"a": "AAB", "b": "CCC"}, gold="A")))
    assert re.search(r"<td>C</td><td>A</td>[^\n]*?C ×3<div class=\"bar wrong\"", page)
    assert re.search(r"<td>A</td><td>A</td>[^\n]*?A ×2, B ×1<div class=\"bar\"", page)


def test_without_gold_nothing_is_said_of_accuracy(tmp_path):
    with Store.open(tmp_path / "runs.db") as store:
        page = run_page(store.view(write_run(store, {"a": "AAB", "b": "CCC"}, gold=None)))
    assert "accuracy" not in words_of(page).lower() and page.partition("</main>")[0].count("<svg") == 4


def test_a_run_that_is_not_at_its_end_says_so(run_store):
    text = words_of(run_page(run_store.view(1)))
    assert "This run was stopped before its end: 14 traces of 18 traces are spent." in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": "okg:zone=0.1"}, "no other answer is ahead by more than 10 points"),
        ({"policy": "asc"}, "The dot is this run."),
        ({"policy": "uniform"}, "The solid line is this run"),
        ({"soft": True}, "The dot is this run."),
    ],
)
def test_every_kind_of_vote_is_told_in_its_own_words(tmp_path, options, words):
    with Store.open(tmp_path / "runs.db") as store:
        assert words in words_of(run_page(store.view(write_run(store, {"a": "AAB", "b": "CACA"}, **options))))


@pytest.mark.parametrize("votes", [{"a": "ABBAC"}, {"a": "AABA", "b": "CACB", "c": "AAAAB"}])
def test_a_run_that_gave_every_question_the_same_claims_no_saving(tmp_path, votes):
    with Store.open(tmp_path / "runs.db") as store:
        text = words_of(run_page(store.view(write_run(store, votes, policy="uniform"))))
    assert "no fewer traces" in text and "the same for each" in text and "equal shares would need" not in text


def test_a_run_is_compared_with_equal_shares_on_the_same_draws(run_store):
    run = read_run(run_store.view(1))
    on_the_same, on_others = (
        f"{run.uniform.budget_for(x):.1f}" for x in (run.spent.consistency[-1], run.consistency[0])
    )
    assert on_the_same != on_others
    assert f"equal shares would need about {on_the_same} " in words_of(run_page(run_store.view(1)))


@pytest.mark.parametrize("path", ["runs.db", "my runs.db"])
def test_the_commands_name_the_store_where_it_is_not_the_usual_one(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with Store.open(path) as store:
        page = html.unescape(run_page(store.view(write_run(store, {"q": "AA"}, gold=None))))
    place = "" if path == "runs.db" else f" --store '{path}'"
    assert f"--seed 0 --new{place}\npets solve --resume --run 1{place}\npets report 1{place}<" in page
