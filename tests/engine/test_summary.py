"""What the answers of a run come to."""

from typing import get_args

import pytest
from scipy.stats import binomtest

from pets.engine.progress import (
    NO_VOTE,
    AnswerSummary,
    Doubt,
    doubt_of,
    doubt_words,
    levels_words,
    likely_merge,
    no_vote_words,
    wilson,
)
from pets.engine.question import Answer


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


@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 1), (0, 2), (3, 7), (10, 10), (5000, 10_000)])
def test_the_interval_of_a_share_is_wilsons_also_at_its_ends(right, count):
    low, high = wilson(right / count, count)
    assert (low, high) == pytest.approx(tuple(binomtest(right, count).proportion_ci(method="wilson")), abs=1e-9)
    assert low - 1e-9 <= right / count <= high + 1e-9 and high - low > 0
    summary = AnswerSummary(judged=count, right=right)
    assert summary.accuracy == (right / count, low, high)


@pytest.mark.parametrize("kind", NO_VOTE)
@pytest.mark.parametrize("limit", [None, 9000])
def test_traces_without_a_vote_are_told_by_kind_with_a_remedy(kind, limit):
    words = no_vote_words(Answer("q", traces=800, **{kind: 274}), limit)
    told = {
        "cut": "cut at the server's own limit; give the server a longer context."
        if limit is None
        else "cut at 9,000 tokens; raise --max-tokens.",
        "refused": "refused by the server's content filter; ask another model, or in other words.",
        "unreadable": "without an answer that could be read; choose how answers are read with --answer.",
        "failed": "failed; check the server.",
    }
    assert words == f"274 of 800 traces (34 %) cast no vote: {told[kind]}"
    assert AnswerSummary.of([Answer("q", traces=800, **{kind: 274})]).no_vote_share == 274 / 800


def test_several_kinds_are_counted_one_by_one_and_where_all_voted_nothing_is_said():
    words = no_vote_words(Answer("q", traces=9_000, cut=3, failed=20), 50)
    assert words == "23 of 9,000 traces (under 1 %) cast no vote: 3 cut at 50 tokens, 20 failed; check the server."
    assert no_vote_words(AnswerSummary.of([Answer("q", "A", {"A": 3}, traces=3)]), None) == ""
    assert no_vote_words(Answer("q", traces=1, cut=1), 5, limit_option="max_tokens").endswith("; raise max_tokens.")


def test_accuracy_is_counted_by_level_where_rows_have_one():
    rows = [Answer("a", "4", {"4": 1}, traces=1, right=True, level="easy"), Answer("b", right=False, level="hard")]
    summary = AnswerSummary.of([*rows, Answer("c", right=True)])
    assert summary.levels == {"easy": (1, 1), "hard": (1, 0)} and summary.judged == 3
    assert levels_words({"easy": (1, 1)}) == ""


def test_only_merges_that_could_matter_are_hinted_at():
    votes = {"Rome": 9, "Mandarin": 5, "Mandarin Chinese": 4}
    assert likely_merge(Answer("q", "Rome", votes, 0.8)) == '"Mandarin" and "Mandarin Chinese": 5 votes against 4'
    assert likely_merge(Answer("q", "Rome", votes | {"Rome": 10}, 0.8)) == ""  # joined they would be second
    assert likely_merge(Answer("q", "Rome", votes, 0.999)) == ""
    assert likely_merge(Answer("q", "Apollo 11", {"Apollo 11": 3, "Apollo": 2}, 0.5)) == ""


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
