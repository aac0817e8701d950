"""One question's record: what is in flight, what is pending."""

from pets.core.record import Record
from pets.types import Trace


def test_early_returns_are_pending_for_beliefs_but_not_in_flight():
    record = Record("q", 0, 4, keep_traces=False)
    record.launched, record.told, record.returned, record.votes = 5, 1, 1, {"A": 1}
    record.late = {2: Trace("q", 2, "B"), 3: None}
    record.taken_back = 1
    assert (record.in_flight(), record.pending, record.spent) == ([1, 4], 3, 4)


def test_answers_without_a_vote_are_merged_in_a_race_too():
    record = Record("q", 0, None, keep_traces=False, hurry=0.5)
    record.merge("B", into="A")
    record.count(Trace("q", 1, "A"))
    record.count(Trace("q", 0, "C"))
    assert list(record.votes.items()) == [("C", 1), ("A", 1)]
