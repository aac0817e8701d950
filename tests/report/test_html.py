"""The page of a comparison: all of it is there, nothing of it is markup that a question brought along."""

from html.parser import HTMLParser

from pets.report.html import ComparedRun, VotedQuestion, comparison_page

RUNS = [
    ComparedRun("okg", 80, 0.95, 0.9, ((1.0, 0.6), (8.0, 0.95))),
    ComparedRun("uniform", 80, 0.9, 0.85, ((1.0, 0.6), (8.0, 0.9))),
]


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


def test_the_page_tells_runs_questions_and_notes():
    question = VotedQuestion("2 + 2?", "4", (("4", 5.0), ("5", 1.0)), 0.98, "4", "4")
    page = Words(comparison_page("Title", "Lead.", RUNS, [question], ["A note."]))
    for words in ("Title", "Lead.", "okg", "uniform", "95.0%", "2 + 2?", "certain 98%", "right is 4", "A note."):
        assert words in page.text, words
    assert "script" not in page.tags


def test_a_question_cannot_bring_markup_along():
    question = VotedQuestion("<script>alert(1)</script>", None, (("<b>", 1.0),), 0.5, None, None)
    page = Words(comparison_page("<i>", "&", RUNS, [question], ["<u>"]))
    assert not {"script", "b", "i", "u"} & set(page.tags)
    assert "no vote" in page.text and "<script>alert(1)</script>" in page.text
