"""Each uncertain question has one reason, and each reason something to do about it."""

from typing import get_args

import pytest

from pets.engine.doubts import Doubt, doubt_of, doubt_words
from pets.engine.question import Answer
from pets.engine.summary import NO_VOTE


@pytest.mark.parametrize("outcome", NO_VOTE)
def test_traces_that_cast_no_vote_come_before_every_other_reason(outcome):
    answer = Answer("q", "4", {"4": 1, "5": 1}, 0.5, traces=8, no_answer=6, **{outcome: 6})
    assert doubt_of(answer, cap=8) == outcome


def test_a_question_at_its_cap_is_uncertain_because_of_it_unless_its_votes_may_be_one_answer():
    votes = {"Sao Paulo": 4, "Rio": 3}
    assert doubt_of(Answer("q", "Sao Paulo", votes, 0.6, traces=7), cap=7) == "cap"
    assert doubt_of(Answer("q", "Sao Paulo", votes, 0.6, traces=7), cap=None) == "few traces"
    alike = {"Sao Paulo": 4, "Sao Paulo, Brazil": 3}
    assert doubt_of(Answer("q", "Sao Paulo", alike, 0.6, traces=7), cap=7) == "spelling"


def test_a_clear_lead_is_no_near_tie():
    lead, tie = ({"4": 12, "5": n} for n in (4, 10))
    assert doubt_of(Answer("q", "4", lead, 0.9, traces=16), 64) == "few traces"
    assert doubt_of(Answer("q", "4", tie, 0.7, traces=22), 64) == "near tie"


def test_every_reason_has_its_words():
    outcomes, others = (get_args(part) for part in get_args(Doubt))
    doubts = [doubt for doubt in (*outcomes, *others) if doubt != "read"]
    assert len({doubt_words(doubt, 100, 8, 1) for doubt in doubts}) == len(doubts)
