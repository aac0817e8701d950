"""The latest votes with their traces: each key's own, bounded, and bars that add up to what was paid for."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.gateway.auth import ApiKey
from pets.gateway.recent_questions import SHOWN_OF_A_VOTE, RecentQuestions, last_characters, vote_parts
from pets.gateway.requests import CHAT, ApiRequest
from pets.store import StoredTrace

ADMIN = ApiKey("root", admin=True)


def add(recent, id, key="alice", texts=("The answer is A.",), error=None):
    traces = {
        number: StoredTrace(id, number, "A", text, "stop", tokens=5, error=error if number == 0 else None)
        for number, text in enumerate(texts)
    }
    question = SimpleNamespace(traces=traces, spellings=lambda: {"A": "A"})
    request = ApiRequest(
        CHAT, "m", {"messages": [{"role": "user", "content": f"What is {id}?"}]}, False, False, 1, None
    )
    vote = SimpleNamespace(
        request=request,
        outcome=SimpleNamespace(question=question),
        answer=SimpleNamespace(id=id),
        account=SimpleNamespace(key=ApiKey(key)),
    )
    counts = {"votes": {"A": len(texts)}, "no_answer": 0, "failed": 0, "traces": len(texts), "weighted": False}
    return recent.add(vote, dict.fromkeys(SHOWN_OF_A_VOTE) | counts | {"answer": "A"}, spent=0.5, now=1000.0)


def test_a_key_finds_its_own_and_an_admin_all():
    recent = RecentQuestions()
    row = add(recent, "q1", error="http://10.0.0.7:8000 cannot be reached")
    own, foreign, admin = (recent.find("q1", key) for key in (ApiKey("alice"), ApiKey("bob"), ADMIN))
    assert foreign is None and recent.find("q2", ADMIN) is None
    assert row.items() <= own.items() and (row["question"], row["spent"], row["at"]) == ("What is q1?", 0.5, 1000.0)
    assert own["message"] == admin["message"] == "What is q1?"
    assert admin["trace_list"][0]["server"] == 1 and "10.0.0.7" in admin["trace_list"][0]["error"]
    assert own["trace_list"][0]["server"] is None and own["trace_list"][0]["error"] == "failed"


def test_the_oldest_go_first_by_number_and_by_characters():
    recent = RecentQuestions(max_questions=3, max_characters=2500)
    for number in range(5):
        add(recent, f"q{number}")
    assert [number for number in range(5) if recent.find(f"q{number}", ADMIN)] == [2, 3, 4]
    add(recent, "long", texts=["x" * 900])
    assert recent.find("long", ADMIN) and not recent.find("q2", ADMIN)
    add(recent, "longer", texts=["x" * 2500])
    assert recent.find("longer", ADMIN) is None  # more than is kept of all


def test_what_traces_take_beside_their_texts_counts():
    recent = RecentQuestions(max_characters=9_000, texts=False)
    add(recent, "first", texts=[""] * 10)
    add(recent, "second", texts=[""] * 10)
    assert recent.find("first", ADMIN) is None and recent.find("second", ADMIN)
    add(recent, "broken", error="x" * 10_000)
    assert recent.find("second", ADMIN) is None


def test_without_texts_neither_message_nor_traces_are_kept():
    recent = RecentQuestions(texts=False)
    add(recent, "q1")
    detail = recent.find("q1", ADMIN)
    assert detail["message"] == detail["trace_list"][0]["text"] == "" and detail["trace_list"][0]["answer"] == "A"


FEW = st.integers(0, 9)


@given(st.dictionaries(st.text(), st.integers(1, 30), max_size=9), FEW, FEW, FEW)
def test_the_parts_of_a_bar_add_up_to_all_traces_that_were_paid_for(votes, without, failed, late):
    traces = sum(votes.values()) + without + failed + late
    fields = {"no_answer": without + failed, "failed": failed, "traces": traces, "weighted": False}
    parts = vote_parts({"votes": votes} | fields)
    assert sum(count for _, _, count in parts) == traces and all(count > 0 for _, _, count in parts)
    assert sum(count for kind, _, count in parts if kind == "no answer") == without


def test_weighted_votes_are_drawn_by_their_weights():
    parts = vote_parts({"votes": {"A": 1.5, "B": 0.5}, "no_answer": 3, "failed": 0, "traces": 9, "weighted": True})
    assert parts == [("answer", "A", 1.5), ("answer", "B", 0.5)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("short", "short"), ("Examples, then: what is 2 + 2?", "… what is 2 + 2?"), ("x" * 40, "… " + "x" * 18)],
)
def test_the_end_of_a_text_is_kept_from_a_word_on(text, shown):
    assert last_characters(text, 20) == shown
