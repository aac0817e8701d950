"""What fits is made, first come, first served; what moves, moves once: as the server computes it."""

import random
from contextlib import closing

import pytest

from pets.core.budget import Currency
from pets.errors import StateError
from pets.gateway import shared_store
from pets.gateway.shared_store import MAX_BALANCE, Entry, Operation, SharedWriter, StoreSnapshot

NAMES = ("key a", "key b", "total")


def entry(id, held, *limits):
    return Entry(id, "alice", "r", "vote", "traces", held, held, 0, 0, None, limits)


@pytest.fixture
def writer(postgres_url):
    """A replica whose thread was never started: transactions are the test's own."""
    with closing(SharedWriter(postgres_url)) as writer:
        writer.register(Currency())
        yield writer


def commit(writer, *operations):
    """What was made, and the balances, after a transaction of entries and settlements."""
    snapshot = StoreSnapshot()
    writer._commit([op if isinstance(op, Operation) else Operation(op) for op in operations], snapshot)
    return snapshot.made, snapshot.balances


def stored(writer):
    return {name: (spent, held) for name, spent, held in writer.database.all("SELECT * FROM balances")}


def test_what_comes_first_is_served_first_and_what_does_not_fit_leaves_room(writer):
    entries = [entry(1, 6, ("total", 10)), entry(2, 5, ("total", 10)), entry(3, 4, ("total", 10))]
    assert commit(writer, *entries) == ({1, 3}, {"total": (0, 10)})
    assert writer.database.all("SELECT id, held FROM ledger ORDER BY id") == [(1, 6), (3, 4)]


def test_every_limit_of_an_entry_holds(writer):
    entries = [entry(1, 3, ("key a", 5), ("total", None)), entry(2, 3, ("key a", 5), ("total", None))]
    assert commit(writer, *entries) == ({1}, {"key a": (0, 3), "total": (0, 3)})


def test_what_has_no_balance_always_fits(writer):
    assert commit(writer, entry(1, 3), entry(2, 9)) == ({1, 2}, {})


def test_a_sum_that_no_column_holds_is_not_reserved(writer):
    commit(writer, entry(1, 1, ("total", None)))
    huge = [entry(2, MAX_BALANCE, ("total", None)), entry(3, 1 << 70, ("total", None)), entry(4, 2, ("total", 1 << 70))]
    assert commit(writer, *huge) == ({4}, {"total": (0, 3)})


def test_a_settlement_moves_what_was_held_to_what_was_spent_once(writer):
    held = entry(1, 4, ("key a", None), ("total", None))
    commit(writer, held)
    settled = Operation(held, (3, 3, 0, 0, 0, 0))
    after = {"key a": (3, 0), "total": (3, 0)}
    assert commit(writer, settled) == (set(), after)
    assert commit(writer, settled, settled) == (set(), after)
    assert stored(writer) == after


def test_room_that_a_settlement_leaves_is_taken_in_the_same_transaction(writer):
    held = entry(1, 10, ("total", 10))
    commit(writer, held)
    settled = Operation(held, (6, 6, 0, 0, 0, 0))
    assert commit(writer, entry(2, 4, ("total", 10)), settled, entry(3, 1, ("total", 10))) == ({2}, {"total": (6, 4)})


def test_a_balance_that_is_gone_pays_for_nothing(writer):
    commit(writer, entry(1, 1, ("window 1 1", 9), ("total", 9)))
    writer.database.all("DELETE FROM balances WHERE name = 'window 1 1' RETURNING name")
    assert commit(writer, entry(2, 1, ("window 1 1", 9), ("total", 9))) == (set(), {"total": (0, 1)})


def test_a_replica_that_was_ended_joins_again_and_writes_then(writer):
    before = writer.replica
    writer._charge(before, beat=None)
    assert commit(writer, entry(1, 2, ("total", 9)))[0] == {1}
    assert writer.replica != before
    assert writer.database.all("SELECT replica FROM ledger") == [(writer.replica,)]


def test_a_server_that_does_not_take_the_function_is_refused_at_the_start(postgres_url, monkeypatch):
    """As one does where the role has no TEMPORARY on the database: not at the first request."""
    monkeypatch.setattr(shared_store, "WRITE", "DO $$ BEGIN RAISE insufficient_privilege; END $$")
    with closing(SharedWriter(postgres_url)) as writer, pytest.raises(StateError, match="insufficient_privilege"):
        writer.register(Currency())


def test_random_transactions_are_what_a_plain_program_makes_of_them(writer):
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
        made, _ = commit(writer, *operations)
        assert made == expected
        assert {name: both for name, both in stored(writer).items() if name in balances} == balances
    assert len(writer.database.all("SELECT id FROM ledger")) > 50
