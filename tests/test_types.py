"""The shared nouns: a launch sorts by question and number, and agreement is a share of the votes cast."""

import pytest

from pets.types import Launch, Question, Trace, Verdict


def test_launches_sort_by_question_and_number():
    assert sorted([Launch("b", 0), Launch("a", 1), Launch("a", 0)]) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_question_is_open_and_a_trace_has_no_vote_where_nothing_is_said():
    assert Question("q").options is None
    assert (Trace("q", 0).answer, Trace("q", 0).confidence, Trace("q", 0).tokens) == (None, None, 0)


@pytest.mark.parametrize(
    ("votes", "agreement"),
    [((), None), ((("a", 0.0),), None), ((("a", 3.0), ("b", 1.0)), 0.75), ((("a", 1.0), ("b", 1.0)), 0.5)],
)
def test_agreement_is_the_leaders_share_of_the_votes_cast(votes, agreement):
    assert Verdict("q", "a", votes, traces=9, no_answer=5).agreement == agreement
