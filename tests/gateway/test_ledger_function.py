"""What fits is made, first come, first served; what moves, moves once: as the server computes it."""

import random

from pets.gateway.ledger_function import MAX_BALANCE, Operation

from .transactions import commit, entry

NAMES = ("key a", "key b", "total")


def stored(writer):
    return {name: (spent, held) for name, spent, held in writer.database.all("SELECT * FROM balances")}


def test_what_comes_first_is_served_first_and_what_does_not_fit_leaves_room(replica_writer):
    entries = [entry(1, 6, ("total", 10)), entry(2, 5, ("total", 10)), entry(3, 4, ("total", 10))]
    assert commit(replica_writer, *entries) == ({1, 3}, {"total": (0, 10)})
    assert replica_writer.database.all("SELECT id, held FROM ledger ORDER BY id") == [(1, 6), (3, 4)]


def test_every_limit_of_an_entry_holds(replica_writer):
    entries = [entry(1, 3, ("key a", 5), ("total", None)), entry(2, 3, ("key a", 5), ("total", None))]
    assert commit(replica_writer, *entries) == ({1}, {"key a": (0, 3), "total": (0, 3)})


def test_what_has_no_balance_always_fits(replica_writer):
    assert commit(replica_writer, entry(1, 3), entry(2, 9)) == ({1, 2}, {})


def test_a_sum_that_no_column_holds_is_not_reserved(replica_writer):
    commit(replica_writer, entry(1, 1, ("total", None)))
    huge = [entry(2, MAX_BALANCE, ("total", None)), entry(3, 1 << 70, ("total", None)), entry(4, 2, ("total", 1 << 70))]
    assert commit(replica_writer, *huge) == ({4}, {"total": (0, 3)})


def test_a_settlement_moves_what_was_held_to_what_was_spent_once(replica_writer):
    held = entry(1, 4, ("key a", None), ("total", None))
    commit(replica_writer, held)
    settled = Operation(held, (3, 3, 0, 0, 0, 0))
    after = {"key a": (3, 0), "total": (3, 0)}
    assert commit(replica_writer, settled) == (set(), after)
    assert commit(replica_writer, settled, settled) == (set(), after)
    assert stored(replica_writer) == after


def test_room_that_a_settlement_leaves_is_taken_in_the_same_transaction(replica_writer):
    held = entry(1, 10, ("total", 10))
    commit(replica_writer, held)
    settled = Operation(held, (6, 6, 0, 0, 0, 0))
    assert commit(replica_writer, entry(2, 4, ("total", 10)), settled, entry(3, 1, ("total", 10))) == (
        {2},
        {"total": (6, 4)},
    )


def test_random_transactions_are_what_a_plain_program_makes_of_them(replica_writer):
    rng = random.Random(0)
    balances, open_entries, id = {}, {}, 0
    for _ in range(60):
        operations, expected = [], set()
        for held in rng.sample(sorted(open_entries), min(len(open_entries), rng.randrange(4))):
            closed = open_entries.pop(held)
            spent = rng.randrange(closed.held + 1)
            operations.append(Operation(closed, (spent, 0, 0, 0, 0, 0)))
            for name, _ in closed.limits:
                balances[name] = (balances[name][0] + spent, balances[name][1] - closed.held)
        for _ in range(rng.randrange(5)):
            id += 1
            names = rng.sample(NAMES, rng.randrange(4))
            new = entry(id, rng.randrange(1, 9), *((name, rng.choice([None, 20, 60])) for name in names))
            operations.append(Operation(new))
            taken = [(sum(balances.setdefault(name, (0, 0))), limit) for name, limit in new.limits]
            if all(limit is None or amount + new.held <= limit for amount, limit in taken):
                expected.add(id)
                open_entries[id] = new
                for name in names:
                    balances[name] = (balances[name][0], balances[name][1] + new.held)
        made, _ = commit(replica_writer, *operations)
        assert made == expected
        assert {name: both for name, both in stored(replica_writer).items() if name in balances} == balances
    assert len(replica_writer.database.all("SELECT id FROM ledger")) > 50
