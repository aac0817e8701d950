"""A run's report: what is read of the run, its charts, and the page: what was bought, what to look at."""

import html
import re

import numpy as np
import pytest

from pets.engine import Answer
from pets.engine.forecast import Forecast
from pets.engine.reread import reread_run
from pets.errors import InputError
from pets.prompts import Prompt
from pets.registry import make_answer_type
from pets.report.charts import Series
from pets.report.run_report import (
    agreement_classes,
    draw_accuracy,
    draw_budget,
    draw_certificates,
    draw_shares,
    draw_spending,
    least_certain,
    read_run,
    run_page,
)
from pets.report.style import colour_of, drawn_svg
from pets.store import Store

from .conftest import write_run

ANSWERS = [
    Answer("sure", "4", {"4": 4}, 1.0, traces=4, gold="4", right=True),
    Answer("unsure", "5", {"5": 3, "6": 2}, 0.55, traces=6, no_answer=1, gold="6", right=False),
    Answer("silent", traces=3, no_answer=3),
]
TRACES = np.arange(1.0, 17.0)
RISING = np.linspace(0.6, 0.95, 16)
UNIFORM = {
    "self-consistency": Series.about("", False, TRACES, RISING, RISING / 50),
    "accuracy": Series.about("", False, TRACES, RISING - 0.2, RISING / 50),
}
RUN = {"self-consistency": Series.about("", False, TRACES[:5], RISING[:5], RISING[:5] / 50)}


def test_a_run_is_read_with_its_curves_and_samples(run_store):
    run = read_run(run_store.view(1))
    assert [answer.id for answer in run.answers] == ["easy", "hard", "wrong"]
    assert run.mean_traces == pytest.approx(14 / 3) and run.zone == 0.0
    accuracy = run.spent["accuracy"]
    assert accuracy.traces[-1] == pytest.approx(14 / 3) and accuracy.mean[-1] == pytest.approx(2 / 3)
    assert set(run.uniform) == {"self-consistency", "accuracy"}
    assert [trace.number for trace in run.samples["hard"]] == list(range(6))


def test_the_least_certain_come_first(run_store):
    answers = read_run(run_store.view(1)).answers
    assert next(answers[index].id for index in least_certain(answers)) == "hard"


def test_a_run_without_a_trace_has_nothing_to_report(run_store):
    with pytest.raises(InputError, match="no trace yet"):
        read_run(run_store.view(2))


def test_the_run_is_a_line_and_a_dot_with_its_interval():
    chart = draw_budget("okg", "self-consistency", 5.0, (0.9, 0.8, 0.95), RUN, UNIFORM)
    rows = chart["data"]["values"]
    dots = [row for row in rows if row["swept"]]
    assert [(dot["label"], dot["traces"], dot["mean"], dot["low"], dot["high"]) for dot in dots] == [
        ("okg (this run)", 5.0, 0.9, 0.8, 0.95)
    ]
    assert sum(row["label"] == "okg (this run)" for row in rows) == 6
    drawing = drawn_svg(chart)
    assert "uniform (estimated)" in drawing and colour_of("okg") in drawing and colour_of("uniform") in drawing


def test_the_dot_at_the_end_is_shown_whole_with_its_whisker():
    chart = draw_budget("okg", "accuracy", 5.0, (0.5, 0.2, 0.97), {}, UNIFORM)
    encoding = chart["layer"][1]["encoding"]
    low, high = encoding["y"]["scale"]["domain"]
    assert low < 0.2 and high > 0.97 and encoding["x"]["scale"]["domain"][1] > 5.0


def test_accuracy_of_equal_shares_ends_where_the_run_does():
    chart = draw_budget("asc", "accuracy", 4.5, (0.7, 0.6, 0.8), {}, UNIFORM)
    rows = chart["data"]["values"]
    assert max(row["traces"] for row in rows if not row["swept"]) == 5.0
    assert [row["label"] for row in rows if row["swept"]] == ["asc (this run)"]


def test_a_dot_stands_for_all_questions_with_its_share_and_traces():
    twice = [*ANSWERS, Answer("sure too", "4", {"4": 4}, 1.0, traces=4)]
    chart = draw_spending("okg", twice, 17 / 4)
    dots = {(dot["share"], dot["traces"]): dot for dot in chart["layer"][0]["data"]["values"]}
    assert {place: dot["questions"] for place, dot in dots.items()} == {(1.0, 4): 2, (0.6, 6): 1}
    assert dots[1.0, 4]["ids"] == "sure, sure too" and "the mean" in drawn_svg(chart)


def test_every_question_and_every_trace_is_in_one_class():
    classes = agreement_classes(ANSWERS)
    assert classes == [("over 90 % agree", 1, 4), ("60 to 90 %", 1, 6), ("no vote", 1, 3)]
    rows = draw_shares("okg", ANSWERS)["data"]["values"]
    for of, total in (("of the questions", 3), ("of the traces", 13)):
        own = [row for row in rows if row["of"] == of]
        assert sum(row["count"] for row in own) == total
        assert [row["share"] for row in own] == [row["count"] / total for row in own]


def test_every_certificate_is_in_one_bin():
    rows = draw_certificates("okg", ANSWERS)["layer"][0]["data"]["values"]
    assert [row["questions"] for row in rows] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_accuracy_is_of_the_judged_alone():
    rows = draw_accuracy(ANSWERS)["data"]["values"]
    assert [(row["right"], row["questions"]) for row in rows] == [(0.0, 1), (1.0, 1)]


def test_a_bin_of_few_answers_is_faint():
    few = drawn_svg(draw_accuracy(ANSWERS))
    many = drawn_svg(draw_accuracy([ANSWERS[0]] * 30))
    assert 'opacity="0.3"' in few and 'opacity="0.3"' not in many


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


def test_traces_that_another_run_paid_for_are_told_with_what_they_had_cost(run_store):
    assert "reused from" not in run_page(run_store.view(1))
    page = run_page(reread_run(run_store, 1, "choice"))
    traces = list(run_store.view(1).traces())
    tokens = sum(trace.tokens + trace.prompt_tokens for trace in traces)
    words = f"{len(traces)} traces reused from run 1 ({len(traces)}), which had cost {tokens} tokens; 0 paid for by"
    assert words in words_of(page)


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


def test_a_run_is_compared_with_equal_shares_on_the_same_draws(tmp_path):
    with Store.open(tmp_path / "runs.db") as store:
        view = store.view(write_run(store, {"a": "AA", "b": "ABAAABAAA", "c": "AACAAA"}))
        run, text = read_run(view), words_of(run_page(view))
    uniform, spent = run.uniform["self-consistency"], run.spent["self-consistency"]
    needed = Forecast(uniform.traces, uniform.mean).budget_for
    on_the_same, on_others = map(needed, (spent.mean[-1], run.consistency[0]))
    assert abs(on_others - on_the_same) > 2  # or the line below could not tell them apart
    assert f"equal shares would need about {on_the_same:.1f} " in text


@pytest.mark.parametrize("path", ["runs.db", "my runs.db"])
def test_the_commands_name_the_store_where_it_is_not_the_usual_one(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with Store.open(path) as store:
        page = html.unescape(run_page(store.view(write_run(store, {"q": "AA"}, gold=None))))
    place = "" if path == "runs.db" else f" --store '{path}'"
    assert f"--seed 0 --new{place}\npets resume 1{place}\npets report 1{place}<" in page


def test_votes_that_may_be_split_by_spelling_come_with_the_command_that_joins_them(tmp_path):
    with Store.open(tmp_path / "runs.db") as store:
        votes = {"a": ["mandarin", "mandarin chinese", "mandarin"], "b": ["rome"] * 3}
        text = html.unescape(run_page(store.view(write_run(store, votes, gold=None, answer="text"))))
    assert 'a: "mandarin" and "mandarin chinese": 2 votes against 1' in text
    assert "--answer judge" in text and "--store" in text


def test_a_budget_in_traces_has_no_tile_of_its_own_even_of_a_single_trace(tmp_path):
    with Store.open(tmp_path / "runs.db") as store:
        page = run_page(store.view(write_run(store, {"a": "A"}, budget="1x")))
    assert "<dt>spent</dt>" not in page and "1.0 per question; of 1 trace<" in page
