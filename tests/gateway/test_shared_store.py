"""What fits is made, first come, first served; what moves, moves once."""

from pets.gateway.shared_store import Entry, Operation, _fitting, _moves


def entry(id, held, *limits):
    return Entry(id, "alice", "r", "vote", "traces", held, held, 0, 0, None, limits)


def test_what_comes_first_is_served_first_and_what_does_not_fit_leaves_room():
    entries = [entry(1, 6, ("total", 10)), entry(2, 5, ("total", 10)), entry(3, 4, ("total", 10))]
    assert [entry.id for entry in _fitting(entries, {"total": 0})] == [1, 3]


def test_every_limit_of_an_entry_holds():
    entries = [entry(1, 3, ("key a", 5), ("total", None)), entry(2, 3, ("key a", 5), ("total", None))]
    assert [entry.id for entry in _fitting(entries, {"key a": 0, "total": 10**18})] == [1]


def test_a_sum_that_no_column_holds_is_not_reserved():
    assert _fitting([entry(1, 2**62, ("total", None))], {"total": 1}) == []


def test_a_settlement_moves_what_was_held_to_what_was_spent():
    one = entry(1, 4, ("key a", None), ("total", None))
    moves = _moves([Operation(one, (3, 3, 0, 0, 0, 0))])
    assert moves == {"key a": (3, -4), "total": (3, -4)}
    assert _moves([Operation(one)], moves) == {"key a": (3, 0), "total": (3, 0)}
