"""One question's record: what is in flight, what is pending, plain data and back."""

from pets.core.record import Record
from pets.types import Trace


def test_early_returns_are_pending_for_beliefs_but_not_in_flight():
    record = Record("q", 0, 4, keep_traces=False)
    record.launched, record.told, record.returned, record.votes = 5, 1, 1, {"A": 1}
    record.late = {2: Trace("q", 2, "B"), 3: None}
    record.cancelled = 1
    assert (record.in_flight(), record.pending, record.spent) == ([1, 4], 3, 4)


def test_plain_data_round_trips():
    record = Record("q", 3, None, keep_traces=True)
    record.launched, record.told, record.nulls, record.votes = 4, 2, 1, {"A": 1}
    record.returned, record.tokens = 2, 18
    record.traces = [Trace("q", 0, "A", 2.5, 9, 1), Trace("q", 1)]
    record.late = {3: Trace("q", 3, "B")}
    again = Record.from_plain(record.to_plain())
    assert again.to_plain() == record.to_plain()
    assert again.tally() == record.tally()
