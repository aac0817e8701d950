"""A page: all of it is there without scripts, bars add up, and nothing that a question brought along is markup."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pets.report.page import Cell, Page, Tile, VotedQuestion, cut, cut_head

QUESTION = VotedQuestion(
    "q1", "2 + 2?", "4", (("4", 5), ("5", 1)), 0.98, ("gold: 4",), traces=(("trace 0", "It is 4."),)
)
CHART = {"data": {"values": [{"a": "</script><b>"}]}, "mark": "text", "encoding": {"text": {"field": "a"}}}


class Words(HTMLParser):
    """The text of a page outside its scripts, and its tags."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags, self._script = "", [], False
        self.feed(page)

    def handle_data(self, data):
        self.text += "" if self._script else data

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._script = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._script = False


@pytest.fixture
def page():
    made = Page("A title", "A lead.")
    made.tiles([Tile("traces", "30%", "of uniform's", headline=True)])
    made.section("Section", "Words.")
    made.questions([QUESTION])
    rows = [[Cell("q1"), Cell("98 %", 0.98)], [Cell("q2"), Cell("-", float("nan"))]]
    made.table(["question", "certificate"], rows, {"": "all", "none": "no answer"}, [[], ["none"]])
    made.bars("easy", "20 questions", [("okg", "#000000", 2.5), ("uniform", "#ffffff", 8.0)], 8.0)
    made.notes(["A note."])
    made.code("pets report last")
    return made


def test_everything_is_there_without_a_script(page):
    words = Words(page.html())
    for text in (
        "A title",
        "A lead.",
        "30%",
        "Section",
        "2 + 2?",
        "certificate 98%",
        "4 ×5, 5 ×1",
        "It is 4.",
        "A note.",
    ):
        assert text in words.text, text
    assert "pets report last" in words.text and "(20 questions)" in words.text
    assert "vegaEmbed" not in page.html().replace("vegaEmbed(place", "")  # without charts no library


def test_a_chart_is_drawn_once_for_readers_and_once_for_the_script(page):
    page.charts([CHART], "What it shows.")
    html = page.html()
    assert html.partition("</main>")[0].count("<svg") == 1 and 'aria-label="What it shows."' in html
    data = re.search(r'<script type="application/json" id="(\w+)">(.*?)</script>', html)
    assert json.loads(data[2])["data"] == CHART["data"] and f'data-chart="{data[1]}"' in html


@pytest.mark.parametrize("answers", [1, 3, 4, 5, 12])
def test_the_parts_of_a_bar_add_up_and_every_vote_is_counted(answers):
    votes = tuple((f"answer {i}", i + 1) for i in range(answers))
    question = replace(QUESTION, votes=votes)
    bar = question.bar()
    assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100, abs=0.001)
    assert sum(map(float, re.findall(r'data-votes="([\d.]+)"', bar))) == sum(number for _, number in votes)
    assert all(f"×{number:g}" in question.counts() for _, number in question.shown())


def test_a_long_answer_is_cut_with_a_mark_and_the_others_are_told():
    shown = replace(QUESTION, votes=(("x" * 100, 5), *((str(i), 1) for i in range(5)))).shown()
    assert shown[0] == ("x" * 27 + "…", 5) and shown[-1] == ("2 others", 2)


def test_of_a_long_prompt_the_end_is_shown():
    assert cut_head("example " * 99 + "What is 2 + 2?", 20).endswith("What is 2 + 2?")
    assert len(cut_head("x" * 99, 20)) == len(cut("x" * 99, 20)) == 20


def test_nothing_brings_markup_along():
    evil = "<script>alert(1)</script>"
    page = Page(evil, evil)
    page.tiles([Tile(evil, evil, evil)])
    page.section(evil, evil)
    page.subsection(evil)
    page.charts([CHART], evil)
    page.questions([VotedQuestion(evil, evil, evil, ((evil, 1),), 0.5, (evil,), True, ((evil, evil),))])
    page.table([evil], [[Cell(evil)]], {"": evil}, [[]])
    page.bars(evil, evil, [(evil, "#000000", 1.0)], 1.0)
    page.notes([evil])
    page.code(evil)
    html = page.html()
    words = Words(html)
    assert words.tags.count("script") == 3  # the chart's data, the library, the page's own
    assert words.text.count(evil) >= 12
