"""What the answers of a run come to."""

from pets.engine.question import Answer
from pets.engine.summary import AnswerSummary


def test_votes_disagree_when_nearly_each_is_for_an_answer_of_its_own():
    alone = Answer("q", "1", {str(i): 1 for i in range(6)}, traces=6)
    agreed = Answer("q", "1", {"1": 6}, traces=6)
    assert AnswerSummary.of([alone, alone]).disagrees
    assert not AnswerSummary.of([alone, agreed]).disagrees
    assert not AnswerSummary.of([alone]).disagrees  # too few to say
    assert not AnswerSummary.of([Answer("q", "1", {"1": 1, "2": 1}, traces=2)] * 20).disagrees


def test_answers_traces_and_reasons_are_counted():
    summary = AnswerSummary.of([Answer("a", "1", {"1": 1}, traces=2, no_answer=1, cut=1), Answer("b", error="gone")])
    assert (summary.questions, summary.asked, summary.answered, summary.traces, summary.cut) == (2, 1, 1, 2, 1)
    assert summary.error == "gone"


def test_right_answers_are_counted_where_gold_can_be_read():
    summary = AnswerSummary.of([Answer("a", "1", right=True), Answer("b", None, right=False), Answer("c", "2")])
    assert (summary.right, summary.judged) == (1, 2)
