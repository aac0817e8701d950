"""The demo's page: all of it is there, nothing of it is markup that a question brought along."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pets.report.html import BandedCurve, DemoPage, DifficultyClass, VotedQuestion, demo_page
from pets.report.style import colour_of

PAGE = DemoPage(
    "Title",
    "Lead.",
    (
        BandedCurve("okg", ((1.0, 0.6, 0.02), (8.0, 0.95, 0.01), (16.0, 1.0, 0.0)), 8.0),
        BandedCurve("uniform", ((1.0, 0.6, 0.02), (8.0, 0.8, 0.01), (16.0, 0.9, 0.02)), None),
    ),
    0.95,
    "Given.",
    (DifficultyClass("easy", 20, (("okg", 2.5), ("uniform", 8.0))), DifficultyClass("hard", 5, (("okg", 20.0),))),
    "Live.",
    (VotedQuestion("2 + 2?", "4", (("4", 5), ("5", 1)), 0.98, "4", "4"),),
    ("A note.",),
)


class Words(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags = "", []
        self.feed(page)

    def handle_data(self, data):
        self.text += data

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_the_page_tells_curves_classes_questions_and_notes():
    page = Words(demo_page(PAGE))
    for words in ("Title", "Lead.", "okg 8.0", "(20 questions)", "2.5", "2 + 2?", "certain 98%", "right: 4", "A note."):
        assert words in page.text, words
    assert "script" not in page.tags
    assert page.tags.count("polyline") == page.tags.count("polygon") == 2
    assert page.tags.count("circle") == 1  # uniform never gets there


def test_policies_have_the_colours_of_the_plots():
    page = demo_page(PAGE)
    assert f'stroke="{colour_of("okg")}"' in page and f"background:{colour_of('uniform')}" in page


@pytest.mark.parametrize("answers", [1, 3, 4, 5, 12])
def test_the_parts_of_a_bar_add_up_and_every_vote_is_counted(answers):
    votes = tuple((f"answer {i}", i + 1) for i in range(answers))
    question = replace(PAGE.questions[0], votes=votes)
    page = demo_page(replace(PAGE, questions=(question,)))
    bar = re.search(r'<div class="bar votes">(.*?)</div>', page)[1]
    assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100, abs=0.05)
    assert sum(number for _, number in question.shown()) == sum(number for _, number in votes)
    assert all(f"×{number}" in page for _, number in question.shown())


def test_a_long_answer_is_cut_with_a_mark_and_the_others_are_told():
    shown = replace(PAGE.questions[0], votes=(("x" * 100, 5), *((str(i), 1) for i in range(5)))).shown()
    assert shown[0] == ("x" * 27 + "…", 5) and shown[-1] == ("2 others", 2)


def test_a_question_cannot_bring_markup_along():
    question = VotedQuestion("<script>alert(1)</script>", None, (("<b>", 1),), 0.5, None, None)
    group = DifficultyClass("<s>", 1, (("<em>", 1.0),))
    curves = tuple(replace(curve, name="<q>") for curve in PAGE.curves)
    page = replace(PAGE, title="<i>", lead="&", curves=curves, classes=(group,), questions=(question,), notes=("<u>",))
    words = Words(demo_page(page))
    assert not {"script", "s", "em", "q", "u"} & set(words.tags)
    assert "no answer" in words.text and "<script>alert(1)</script>" in words.text
